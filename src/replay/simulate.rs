//! A search replayed on a recording with a virtual clock: what was recorded answers and says what it cost.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use thiserror::Error;

use super::recording::{Recording, Row};
use crate::search::registry::{self, StrategyOptions, UnknownStrategy};
use crate::search::strategy::{Outcome, Proposal};

/// Proposals of one search, in the order in which they were answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedRun {
    /// Row numbers.
    pub evaluations: Vec<u32>,
    /// The strategy's own time before each of them, milliseconds; empty when it is not counted.
    pub overhead_ms: Vec<f64>,
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct SimulationOptions {
    pub strategy: StrategyOptions,
    /// Proposals in flight: so many are asked for before the oldest is told.
    pub batch: usize,
    /// Whether the strategy's own time is measured and passes on the clock.
    pub overhead: bool,
    /// The run ends when the clock has passed this, milliseconds.
    pub until_ms: f64,
}

/// Why a run cannot go on.
#[derive(Debug, Error)]
pub enum SimulationError {
    #[error(transparent)]
    Strategy(#[from] UnknownStrategy),
    /// The strategy's mistake.
    #[error("the strategy `{strategy}` proposes `{configuration}`, which `{recording}` does not hold")]
    Outside { strategy: String, configuration: String, recording: String },
}

/// Runs the strategy of that name until the clock has passed the limit or it has nothing left.
pub fn run(
    recording: &Recording,
    strategy: &str,
    options: SimulationOptions,
) -> Result<SimulatedRun, SimulationError> {
    let mut clock = Clock { options, seen: HashSet::new(), now_ms: 0.0, own_ms: 0.0 };
    let mut search = clock.time(|| registry::create(strategy, &recording.space, options.strategy))?;
    let (mut run, mut flight) = (SimulatedRun::default(), VecDeque::<Proposal>::new());
    // Asking for known failures costs nothing; a strategy that does nothing else would never end.
    let most = recording.rows().len().saturating_mul(2);
    while clock.now_ms <= options.until_ms && run.evaluations.len() < most {
        let room = options.batch.max(1) - flight.len();
        flight.extend(clock.time(|| search.ask(room)));
        let Some(Proposal { genome, .. }) = flight.pop_front() else { break };
        let row = recording.row(&genome).ok_or_else(|| SimulationError::Outside {
            strategy: strategy.to_string(),
            configuration: recording.space.configuration(&genome).to_string(),
            recording: recording.name.clone(),
        })?;
        clock.evaluate(row, &mut run);
        let outcome = Outcome { genome, class: row.class, objective_ns: row.objective_ns };
        clock.time(|| search.tell(&outcome));
    }
    Ok(run)
}

struct Clock {
    options: SimulationOptions,
    seen: HashSet<usize>,
    now_ms: f64,
    /// The strategy's own time since the last evaluation.
    own_ms: f64,
}

impl Clock {
    /// Does something of the strategy's.
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        if !self.options.overhead {
            return work();
        }
        let start = Instant::now();
        let result = work();
        self.own_ms += start.elapsed().as_secs_f64() * 1e3;
        result
    }

    fn evaluate(&mut self, row: &Row, run: &mut SimulatedRun) {
        let fresh = self.seen.insert(row.number);
        self.now_ms += if fresh { row.cost.total_ms() } else { row.cost.runs_ms };
        run.evaluations.push(row.number as u32);
        if self.options.overhead {
            // Tenths of a microsecond are enough for a trace.
            let own_ms = (self.own_ms * 1e4).round() / 1e4;
            self.now_ms += own_ms;
            run.overhead_ms.push(own_ms);
            self.own_ms = 0.0;
        }
    }
}
