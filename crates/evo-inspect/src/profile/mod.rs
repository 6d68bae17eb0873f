//! What a profiler sees of one candidate on one problem, the bottleneck that it names, and what there is to gain. A
//! number that is not there is missing, with a reason, and never 0.

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
