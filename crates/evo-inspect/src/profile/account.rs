//! All that is said of one candidate on one problem, with counters or without.

use super::collect::{Collected, ProfiledLaunch};
use super::diagnosis::{Diagnosis, MainMetrics, ProfileFinding, diagnose, findings};
use super::known::KnownFacts;
use crate::tool::ToolFailure;

/// A candidate's profile on a problem.
#[derive(Debug)]
pub struct Profile {
    pub problem: String,
    /// There whatever became of the profiler.
    pub known: KnownFacts,
    /// The profiler's version; absent where it did not come to say one.
    pub version: Option<String>,
    /// What it read, or why there is nothing.
    pub counters: Result<Collected, NoCounters>,
}

/// Why there are no counters.
#[derive(Clone, Debug, PartialEq)]
pub enum NoCounters {
    /// The device has none.
    HostDevice,
    Failed(ToolFailure),
}

impl Profile {
    /// What the candidate's time goes into.
    pub fn diagnosis(&self) -> Diagnosis {
        diagnose(&self.known, self.main_metrics())
    }

    /// What there is most to gain from.
    pub fn findings(&self) -> Vec<ProfileFinding> {
        findings(&self.known, self.main_metrics())
    }

    /// Launches with their metrics; none without counters.
    pub fn launches(&self) -> &[ProfiledLaunch] {
        self.counters.as_ref().map_or(&[], |collected| &collected.launches)
    }

    fn main_metrics(&self) -> MainMetrics<'_> {
        self.launches().get(self.known.launch).map(|launch| &launch.metrics)
    }
}
