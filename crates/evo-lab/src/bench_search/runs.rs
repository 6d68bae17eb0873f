//! All runs of all strategies on all spaces, several at a time, each on one core, with their progress on stderr.

use evo_engine::replay::Recording;
use evo_search::registry;
use evo_search::strategy::PriorStudy;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use super::data::ScoredSpace;
use crate::args::BenchSearchArgs;
use crate::error::LabError;
use crate::simulate::{self, PlayedFlight, SimulatedRun, SimulationError, SimulationOptions};

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
        let count = names.len() * spaces.len() * runs;
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {elapsed} of about {duration}")
            .expect("a valid template");
        // Hidden where stderr is not a terminal.
        let bar = ProgressBar::new(count as u64).with_style(style);
        let simulated = |number: usize| {
            let (place, run) = (number / runs, number % runs);
            let (name, space) = (names[place / spaces.len()], &spaces[place % spaces.len()]);
            let simulated = one(arguments, name, space, earlier, run);
            bar.inc(1);
            simulated
        };
        // 0 stands for a thread a core. One run at a time is taken, because some take a hundred times as long as others.
        let threads = rayon::ThreadPoolBuilder::new().num_threads(arguments.jobs.unwrap_or(0)).build();
        let all = threads.map_err(LabError::internal)?.install(|| {
            let numbers = (0..count).into_par_iter().with_max_len(1);
            numbers.map(simulated).collect::<Result<_, SimulationError>>().map_err(LabError::internal)
        })?;
        bar.finish_and_clear();
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
        flight: match arguments.in_flight {
            Some(most) => PlayedFlight::Pipeline(most),
            None => PlayedFlight::Batch(arguments.batch),
        },
        overhead: !arguments.no_overhead,
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
