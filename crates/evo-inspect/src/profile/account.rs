//! All that is said of one candidate on one problem, with counters or without.

use super::collect::{Collected, ProfiledLaunch};
use super::diagnosis::{Diagnosis, MainMetrics, ProfileFinding, diagnose, findings};
use super::known::KnownFacts;
use crate::tool::ToolFailure;

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
