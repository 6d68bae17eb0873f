//! A strategy on a synthetic space: every evaluation costs the same, and the result is how near the best point so
//! far is to the optimum.

use std::collections::VecDeque;
use std::time::Instant;

use evo_search::registry::UnknownStrategy;
use evo_search::strategy::Proposal;

use super::space::{OPTIMUM_NS, Synthetic};
use crate::strategies;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticOptions {
    pub seed: u64,
    /// Proposals in flight: this many are asked for before the strategy is told of the oldest.
    pub batch: usize,
    /// The budget; failed evaluations count.
    pub evaluations: usize,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyntheticRun {
    /// The best time so far over the optimum, after each evaluation; infinite while every evaluation has failed.
    pub best: Vec<f64>,
    /// The strategy's own time before each of them, milliseconds.
    pub own_ms: Vec<f64>,
}

impl SyntheticRun {
    /// The best time over the optimum after this many evaluations, or after the last if there are fewer.
    pub fn best_after(&self, evaluations: usize) -> f64 {
        let last = self.best.len().min(evaluations);
        last.checked_sub(1).map_or(f64::INFINITY, |last| self.best[last])
    }
}

/// Runs the strategy of that name to the end of the budget, or until it has no proposals left.
pub fn run(
    synthetic: &Synthetic,
    strategy: &str,
    options: SyntheticOptions,
) -> Result<SyntheticRun, UnknownStrategy> {
    // Creating the strategy counts as its own time before the first proposal.
    let mut own = Instant::now();
    let mut search = strategies::create(strategy, &synthetic.space, options.seed)?;
    let (mut run, mut flight) = (SyntheticRun::default(), VecDeque::<Proposal>::new());
    let mut best = f64::INFINITY;
    while run.best.len() < options.evaluations {
        // Never more in flight than evaluations are left: a strategy must not plan for results that never come.
        let left = options.evaluations - run.best.len();
        flight.extend(search.ask(options.batch.clamp(1, left) - flight.len()));
        let Some(Proposal { genome, .. }) = flight.pop_front() else { break };
        run.own_ms.push(own.elapsed().as_secs_f64() * 1e3);
        let outcome = synthetic.evaluate(&genome);
        best = outcome.objective_ns.map_or(best, |time| best.min(time / OPTIMUM_NS));
        run.best.push(best);
        own = Instant::now();
        search.tell(&outcome);
    }
    Ok(run)
}
