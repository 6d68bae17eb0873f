//! What a profiler sees of one candidate on one problem, the bottleneck that it names, and what there is to gain. A
//! number that is not there is missing, with a reason, and never 0.

mod collect;
mod diagnosis;
mod known;
mod metrics;
mod raw_page;

pub use collect::{Collected, Collection, MissingMetric, ProfiledLaunch, collect, named_failure};
pub use diagnosis::{
    Bottleneck, Diagnosis, MainMetrics, MetricMovement, ProfileFinding, diagnose, findings, movement,
};
pub use known::{Known, KnownFacts, KnownSources, main_launch};
pub use metrics::{
    CounterMetric, METRICS, MetricSet, MetricTarget, MetricUnit, UnknownMetric, WantedMetric, check_names,
    counters, metric_of, named, wanted,
};
pub use raw_page::RawPage;

use crate::tool::ToolFailure;

/// All that is said of one candidate on one problem, with counters or without.
#[derive(Debug)]
pub struct Profile {
    pub problem: String,
    pub known: KnownFacts,
    /// The profiler's version; absent where it did not come to say one.
    pub version: Option<String>,
    pub counters: Result<Collected, NoCounters>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NoCounters {
    HostDevice,
    Failed(ToolFailure),
}

impl Profile {
    pub fn diagnosis(&self) -> Diagnosis {
        diagnose(&self.known, self.main_metrics())
    }

    pub fn findings(&self) -> Vec<ProfileFinding> {
        findings(&self.known, self.main_metrics())
    }

    pub fn launches(&self) -> &[ProfiledLaunch] {
        self.counters.as_ref().map_or(&[], |collected| &collected.launches)
    }

    fn main_metrics(&self) -> MainMetrics<'_> {
        self.launches().get(self.known.launch).map(|launch| &launch.metrics)
    }
}
