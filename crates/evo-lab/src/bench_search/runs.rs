//! All runs of all strategies on all spaces, several at a time.

use evo_engine::replay::Recording;
use evo_search::registry;
use evo_search::strategy::PriorStudy;

use super::data::ScoredSpace;
use super::parallel;
use crate::args::BenchSearchArgs;
use crate::error::LabError;
use crate::simulate::{self, PlayedFlight, SimulatedRun, SimulationError, SimulationOptions};

/// The evaluations of every run of ours.
pub struct Runs {
    spaces: usize,
    runs: usize,
    /// By strategy, then space, then run.
    all: Vec<SimulatedRun>,
}

impl Runs {
    /// Simulates them all. The result does not depend on the order in which they end.
    pub fn simulate(
        arguments: &BenchSearchArgs,
        names: &[&str],
        spaces: &[ScoredSpace],
        earlier: &[ScoredSpace],
    ) -> Result<Runs, LabError> {
        let runs = arguments.runs as usize;
        let work = |number: usize| {
            // The space changes fastest, so that long and short runs are mixed until the end and no thread is
            // left alone with the longest ones.
            let (space, strategy) = (number % spaces.len(), number / spaces.len() % names.len());
            let run = number / spaces.len() / names.len();
            let place = (strategy * spaces.len() + space) * runs + run;
            one(arguments, names[strategy], &spaces[space], earlier, run).map(|simulated| (place, simulated))
        };
        let mut all = parallel::each(names.len() * spaces.len() * runs, arguments.jobs, work)?;
        all.sort_by_key(|(place, _)| *place);
        let all = all.into_iter().map(|(_, simulated)| simulated).collect();
        Ok(Runs { spaces: spaces.len(), runs, all })
    }

    pub fn of(&self, strategy: usize, space: usize) -> &[SimulatedRun] {
        &self.all[(strategy * self.spaces + space) * self.runs..][..self.runs]
    }
}

fn one(
    arguments: &BenchSearchArgs,
    name: &str,
    space: &ScoredSpace,
    earlier: &[ScoredSpace],
    run: usize,
) -> Result<SimulatedRun, SimulationError> {
    let seed = arguments.seed.wrapping_add(run as u64);
    let options = SimulationOptions {
        seed,
        flight: match (arguments.lanes, arguments.in_flight) {
            (Some(lanes), _) => PlayedFlight::Lanes(lanes),
            (None, Some(most)) => PlayedFlight::Pipeline(most),
            (None, None) => PlayedFlight::Batch(arguments.batch),
        },
        overhead: !arguments.no_overhead,
        pace: f64::from(arguments.pace),
        until_ms: space.yardstick.run_until_ms(),
    };
    // A recording is not a prior for itself: it would give the optimum away.
    let prior = earlier.iter().filter(|other| {
        other.recording.kernel == space.recording.kernel && other.recording.name != space.recording.name
    });
    let prior = prior.map(|other| earlier_study(other, &space.recording, options));
    simulate::run(&space.recording, name, &prior.collect::<Result<Vec<_>, _>>()?, options)
}

/// What the default strategy measures on an earlier recording within the budget there.
fn earlier_study(
    earlier: &ScoredSpace,
    today: &Recording,
    options: SimulationOptions,
) -> Result<PriorStudy, SimulationError> {
    let options =
        // The earlier search is not what is measured, so its own time does not count.
        SimulationOptions { overhead: false, until_ms: earlier.yardstick.run_until_ms(), ..options };
    let run = simulate::run(&earlier.recording, registry::FULL, &[], options)?;
    let rows = run.evaluations.iter().map(|row| *row as usize);
    Ok(earlier.recording.study(rows, &today.space))
}
