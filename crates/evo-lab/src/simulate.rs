//! A search replayed on a recording with a virtual clock: each evaluation gives the recorded result and takes the
//! recorded time.

use std::collections::HashSet;
use std::time::Instant;

use evo_engine::replay::{Recording, Row};
use evo_search::registry;
use evo_search::strategy::{Outcome, PriorStudy, Proposal};
use evo_space::genome::Genome;

use crate::error::LabError;

/// The evaluations of one search, as rows of the recording, in the order in which it was told of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    pub evaluations: Vec<u32>,
    /// The strategy's own time before each of them, milliseconds; empty if it is not counted.
    pub overhead_ms: Vec<f64>,
    /// How many more it asked for that the space does not allow.
    pub illegal: usize,
}

/// How many proposals are in flight, and in which order their outcomes come, and when a run ends. The clock that ends a
/// run and that scores it adds up all costs in either order, so runs are compared at the same evaluations.
#[derive(Clone, Copy, Debug)]
pub struct SimulationOptions {
    pub seed: u64,
    pub in_flight: usize,
    /// Fewer than `in_flight` while the strategy cannot use more: each compiles by itself for its recorded time, and
    /// one device runs them in the order in which they are compiled. Else the strategy is told of the oldest first.
    pub is_pipeline: bool,
    /// Whether the strategy's own time is measured and passes on the clock.
    pub overhead: bool,
    pub until_ms: f64,
}

/// Runs the strategy of that name until the clock has passed the limit or it has nothing left. It may start
/// from earlier studies.
pub fn run(
    recording: &Recording,
    strategy: &str,
    prior: &[PriorStudy],
    options: SimulationOptions,
) -> Result<Run, LabError> {
    let mut clock = Clock { overhead: options.overhead, seen: HashSet::new(), now_ms: 0.0, own_ms: 0.0 };
    // Making a strategy may count a pool or build models, which is time of its own as well.
    let search = clock.time(|| registry::create(strategy, &recording.space, options.seed));
    let mut search = search.map_err(LabError::internal)?;
    if !prior.is_empty() {
        clock.time(|| search.inherit(prior));
    }
    let (mut run, mut pipeline) = (Run::default(), Pipeline::default());
    // Asking again for a failure costs no time, so a strategy that did only that would never reach the limit.
    let most = recording.rows().len().saturating_mul(2);
    while clock.now_ms <= options.until_ms && run.evaluations.len() < most {
        // While the device has what it needs, the next proposal can wait for one more outcome.
        let is_compiled =
            |(ready_ms, ..): &(f64, _, _)| (f64::MIN_POSITIVE..=pipeline.free_ms).contains(ready_ms);
        if !pipeline.flying.iter().any(is_compiled) {
            let useful = if options.is_pipeline { search.useful_in_flight(1) } else { usize::MAX };
            let room = options.in_flight.min(useful).max(1).saturating_sub(pipeline.flying.len());
            for Proposal { genome, .. } in clock.time(|| search.ask(room)) {
                // A point that was not recorded is the strategy's mistake.
                let row = recording.row(&genome).ok_or_else(|| {
                    let (configuration, name) = (recording.space.configuration(&genome), &recording.name);
                    LabError::internal(format!(
                        "the strategy `{strategy}` proposes `{configuration}`, which `{name}` does not hold"
                    ))
                })?;
                let ready_ms = if options.is_pipeline { pipeline.free_ms + row.cost.compile_ms } else { 0.0 };
                pipeline.flying.push((ready_ms, genome, row));
            }
        }
        let Some((genome, row)) = pipeline.next() else { break };
        clock.evaluate(row, &mut run);
        let outcome = Outcome::new(genome, row.class, row.objective_ns);
        clock.time(|| search.tell(&outcome));
    }
    Ok(run)
}

#[derive(Default)]
struct Pipeline<'r> {
    /// When each is compiled, milliseconds; oldest first.
    flying: Vec<(f64, Genome, &'r Row)>,
    /// When the device is free, which is also the present: proposals come right after outcomes.
    free_ms: f64,
}

impl<'r> Pipeline<'r> {
    /// The next one that the device is done with: the first compiled, of equals the oldest. A variant that does
    /// not compile waits for its turn and takes no time.
    fn next(&mut self) -> Option<(Genome, &'r Row)> {
        let first = (0..self.flying.len()).min_by(|a, b| self.flying[*a].0.total_cmp(&self.flying[*b].0))?;
        let (ready_ms, genome, row) = self.flying.remove(first);
        self.free_ms = self.free_ms.max(ready_ms) + row.cost.validate_ms + row.cost.runs_ms;
        Some((genome, row))
    }
}

struct Clock {
    overhead: bool,
    seen: HashSet<usize>,
    now_ms: f64,
    /// The strategy's own time since the last evaluation.
    own_ms: f64,
}

impl Clock {
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.own_ms += start.elapsed().as_secs_f64() * 1e3;
        result
    }

    fn evaluate(&mut self, row: &Row, run: &mut Run) {
        let fresh = self.seen.insert(row.number);
        self.now_ms += if fresh { row.cost.total_ms() } else { row.cost.runs_ms };
        run.evaluations.push(row.number as u32);
        if self.overhead {
            // Traces keep tenths of a microsecond; the clock uses the same rounded time, so that a scored trace
            // and a scored run agree.
            let own_ms = (self.own_ms * 1e4).round() / 1e4;
            self.now_ms += own_ms;
            run.overhead_ms.push(own_ms);
            self.own_ms = 0.0;
        }
    }
}

#[cfg(test)]
pub(crate) fn invented() -> Recording {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/stencil__invented.json");
    Recording::open(std::path::Path::new(path)).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(until_ms: f64, in_flight: usize) -> SimulationOptions {
        SimulationOptions { seed: 3, in_flight, is_pipeline: false, overhead: false, until_ms }
    }

    fn check(strategy: &str, options: SimulationOptions) -> Run {
        run(&invented(), strategy, &[], options).unwrap()
    }

    #[test]
    fn a_run_ends_with_the_evaluation_that_passes_the_limit_or_when_nothing_is_left() {
        let recording = invented();
        let run = check("evolve", options(50_000.0, 1));
        let cost = |rows: &[u32]| -> f64 {
            rows.iter().map(|row| recording.rows()[*row as usize].cost.total_ms()).sum()
        };
        let (_, before) = run.evaluations.split_last().unwrap();
        assert!(cost(before) <= 50_000.0 && cost(&run.evaluations) > 50_000.0);
        assert!(run.overhead_ms.is_empty());
        assert_eq!(check("evolve", options(50_000.0, 1)), run);
        assert_eq!(check("evolve", options(0.0, 1)).evaluations.len(), 1);
        let all = check("exhaustive", options(f64::INFINITY, 5)).evaluations;
        assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (672, 672));
    }

    #[test]
    fn what_is_in_flight_changes_when_a_strategy_learns_not_what_is_answered() {
        for (strategy, is_same) in [("random", true), ("evolve", false)] {
            let [one, four] = [1, 4].map(|batch| check(strategy, options(50_000.0, batch)));
            assert_eq!(one == four, is_same, "{strategy}");
        }
    }

    #[test]
    fn in_a_pipeline_what_compiles_quickly_overtakes() {
        let recording = invented();
        let until = |most| SimulationOptions { is_pipeline: true, ..options(50_000.0, most) };
        // `random` does not learn, so only the order of outcomes differs.
        let [one, four] = [1, 4].map(|most| check("random", until(most)).evaluations);
        let proposed = check("random", options(80_000.0, 1)).evaluations;
        assert_eq!(one, proposed[..one.len()]);
        assert_ne!(four, one);
        assert_eq!(check("random", until(4)).evaluations, four);
        // The first outcome is the first compiled of the first four.
        let compile_ms = |row: &u32| recording.rows()[*row as usize].cost.compile_ms;
        let quickest = proposed[..4].iter().min_by(|a, b| compile_ms(a).total_cmp(&compile_ms(b)));
        assert_eq!(Some(&four[0]), quickest);
        // The default strategy holds back at first, so 16 in flight are no more than 5 there.
        let [five, sixteen] = [5, 16].map(|most| check("evolve", until(most)).evaluations);
        assert_eq!(five[..8], sixteen[..8]);
    }

    #[test]
    fn the_own_time_of_a_strategy_passes_on_the_clock() {
        let run = check("evolve", SimulationOptions { overhead: true, ..options(20_000.0, 1) });
        assert_eq!(run.overhead_ms.len(), run.evaluations.len());
        assert!(run.overhead_ms.iter().all(|time| *time >= 0.0) && run.overhead_ms.iter().sum::<f64>() > 0.0);
    }
}
