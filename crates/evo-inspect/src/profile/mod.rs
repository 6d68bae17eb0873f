//! What a profiler sees of one candidate on one problem: a few counters of each launch, the bottleneck that they name,
//! and what there is to gain.
//!
//! `metrics` lists the counters, `collect` runs Nsight Compute around a worker and reads its report (`raw_page`),
//! `outcome` knows what its messages mean, `known` has what is known without it, `diagnosis` draws the conclusions, and
//! `account` holds it all. `movement` says how a metric of a
//! changed kernel compares with the kernel before.
//! A number that is not there is missing, with a reason, and never 0.

mod account;
mod collect;
mod diagnosis;
mod known;
mod metrics;
mod movement;
mod outcome;
mod raw_page;

pub use account::{NoCounters, Profile};
pub use collect::{Collected, Collection, MissingMetric, ProfiledLaunch, collect};
pub use diagnosis::{Bottleneck, Diagnosis, MainMetrics, ProfileFinding, diagnose, findings};
pub use known::{Known, KnownFacts, KnownSources, main_launch};
pub use metrics::{
    CounterMetric, METRICS, MetricSet, MetricTarget, MetricUnit, UnknownMetric, WantedMetric, check_names,
    counters, metric_of, named, wanted,
};
pub use movement::{MetricMovement, movement};
pub use outcome::named_failure;
pub use raw_page::{RawPage, RawPageError};
