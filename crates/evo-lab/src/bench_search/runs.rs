//! All runs of all strategies on all spaces, several at a time, each on one core, with their progress on stderr.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use evo_engine::replay::Recording;
use evo_search::registry;
use evo_search::strategy::PriorStudy;
use indicatif::{ProgressBar, ProgressStyle};

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
        let work = |number: usize| {
            // The space changes fastest, so that long and short runs are mixed until the end and no thread is
            // left alone with the longest ones.
            let (space, strategy) = (number % spaces.len(), number / spaces.len() % names.len());
            let run = number / spaces.len() / names.len();
            let place = (strategy * spaces.len() + space) * runs + run;
            one(arguments, names[strategy], &spaces[space], earlier, run).map(|simulated| (place, simulated))
        };
        let mut all = each(names.len() * spaces.len() * runs, arguments.jobs, work)?;
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

/// Does `work` for each number below `count`, with as many threads as `jobs` says (by default one per core). Gives
/// the results in any order, or an error.
fn each<T: Send>(
    count: usize,
    jobs: Option<usize>,
    work: impl Fn(usize) -> Result<T, SimulationError> + Sync,
) -> Result<Vec<T>, LabError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {elapsed} of about {duration}")
        .expect("a valid template");
    // Hidden where stderr is not a terminal.
    let bar = ProgressBar::new(count as u64).with_style(style);
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Ok(Vec::with_capacity(count))));
    let worker = || {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < count
        {
            let result = work(number);
            let mut results = results.lock().expect("no holder panics");
            match result {
                Ok(result) => {
                    if let Ok(results) = &mut *results {
                        results.push(result);
                    }
                }
                Err(error) => {
                    // No thread begins another piece of work.
                    next.store(count, Ordering::Relaxed);
                    *results = Err(error);
                }
            }
            bar.inc(1);
        }
    };
    thread::scope(|scope| -> Result<(), LabError> {
        for _ in 0..jobs.unwrap_or(cores).min(count) {
            // A pool of one thread: a strategy that uses rayon must stay on the core of its run, or its own time,
            // which is part of the score, would depend on what runs beside it.
            let core = rayon::ThreadPoolBuilder::new().num_threads(1).build();
            let core = core.map_err(LabError::internal)?;
            let worker = &worker;
            scope.spawn(move || core.install(worker));
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    results.into_inner().expect("no holder panics").map_err(LabError::internal)
}
