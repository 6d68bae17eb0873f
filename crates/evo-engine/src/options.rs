//! The limits of a run, and its report at the end.

use std::num::NonZeroU32;

use evo_search::insight::Insight;

use super::doubt::RunTrouble;
use evo_journal::budget::{Budget, StopReason};
use evo_journal::clock::CommandClock;
use evo_journal::record::RunEnd;

/// Which variants a sanitizer looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SanitizePlan {
    /// The baseline and the finalists.
    pub finalists: bool,
    /// The best of every so many generations.
    pub every: Option<NonZeroU32>,
    /// Without an answer a finalist is not confirmed.
    pub demanded: bool,
}

/// Limits and sizes of a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub budget: Budget,
    /// Began with the command; the wall budget counts from there.
    pub clock: CommandClock,
    /// Evaluations in a generation, a slice of bookkeeping. It is a divisor, so it cannot be 0.
    pub population: NonZeroU32,
    /// How many of the best are confirmed in fresh processes; 0 skips confirmation.
    pub finalists: usize,
    /// Valid points, for the study's total.
    pub valid: u128,
    /// Runs whatever compiles: the strategy is not asked again.
    pub run_all: bool,
    /// Takes nothing over: neither from other studies nor from before an edit of this one.
    pub remeasure: bool,
    pub sanitize: SanitizePlan,
}

impl Options {
    /// The largest number of evaluations that the study may hold, and which limit says so.
    pub fn evaluations_max(&self) -> Option<(u64, StopReason)> {
        let by_count = self.budget.evaluations.map(|count| (count, StopReason::Evaluations));
        let by_generation = self.budget.generations.map(|generations| {
            (u64::from(generations) * u64::from(self.population.get()), StopReason::Generations)
        });
        by_count.into_iter().chain(by_generation).min_by_key(|(count, _)| *count)
    }

    /// Evaluations that a full run makes, if that is known; `taken_over` are known without one.
    pub fn total(&self, taken_over: u64) -> Option<u64> {
        let valid = u64::try_from(self.valid).ok().map(|valid| valid.saturating_sub(taken_over));
        let limit = self.evaluations_max().map(|(count, _)| count);
        match (valid, limit) {
            (Some(valid), Some(limit)) => Some(valid.min(limit)),
            (one, other) => one.or(other),
        }
    }
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// What the journal says of it.
    pub end: RunEnd,
    /// Finalists that were confirmed in this run.
    pub confirmed: usize,
    /// Finalists that were not confirmed because the wall time was used up.
    pub left_out: usize,
    /// What the study says beyond its winner; none where the user did not want to wait.
    pub insight: Option<Insight>,
    /// What is wrong with the machine, where that ended the run.
    pub trouble: Option<RunTrouble>,
}
