//! All runs of all strategies on all spaces, some of them side by side.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::data::Space;
use crate::cli::args::BenchSearchArgs;
use crate::replay::simulate::{self, SimulatedRun, SimulationError, SimulationOptions};
use crate::search::registry::StrategyOptions;

/// Plain lines of progress come at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// What every run of ours asked for.
pub struct Runs {
    spaces: usize,
    runs: usize,
    /// By strategy, then space, then run.
    all: Vec<SimulatedRun>,
}

impl Runs {
    /// Simulates them all. Each has one core to itself; the order in which they end does not matter.
    pub fn simulate(arguments: &BenchSearchArgs, names: &[&str], spaces: &[Space]) -> anyhow::Result<Runs> {
        let runs = arguments.runs as usize;
        let count = names.len() * spaces.len() * runs;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let jobs = arguments.jobs.unwrap_or(cores).min(count);
        let talk = Talk::new(count);
        let results = Mutex::new(vec![None; count]);
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None::<SimulationError>));
        let work = || {
            while let number = next.fetch_add(1, Ordering::Relaxed)
                && number < count
            {
                // Spaces change fastest, so that long and short runs mix to the end.
                let (space, strategy) = (number % spaces.len(), number / spaces.len() % names.len());
                let run = number / spaces.len() / names.len();
                match one(arguments, names[strategy], &spaces[space], run) {
                    Ok(result) => {
                        let place = (strategy * spaces.len() + space) * runs + run;
                        results.lock().expect("no holder panics")[place] = Some(result);
                    }
                    Err(error) => {
                        next.store(count, Ordering::Relaxed);
                        failure.lock().expect("no holder panics").get_or_insert(error);
                    }
                }
                talk.step();
            }
        };
        thread::scope(|scope| -> anyhow::Result<()> {
            for _ in 0..jobs {
                // What a strategy does in parallel stays on the core of its run.
                let core = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
                scope.spawn(move || core.install(work));
            }
            Ok(())
        })?;
        talk.finish();
        if let Some(error) = failure.into_inner().expect("no holder panics") {
            return Err(error.into());
        }
        let all = results.into_inner().expect("no holder panics").into_iter().flatten().collect();
        Ok(Runs { spaces: spaces.len(), runs, all })
    }

    /// The runs of a strategy on a space.
    pub fn of(&self, strategy: usize, space: usize) -> &[SimulatedRun] {
        &self.all[(strategy * self.spaces + space) * self.runs..][..self.runs]
    }
}

fn one(
    arguments: &BenchSearchArgs,
    name: &str,
    space: &Space,
    run: usize,
) -> Result<SimulatedRun, SimulationError> {
    let seed = arguments.seed.wrapping_add(run as u64);
    let options = SimulationOptions {
        strategy: StrategyOptions { seed, population: arguments.population as usize },
        batch: arguments.batch,
        overhead: !arguments.no_overhead,
        until_ms: space.yardstick.run_until_ms(),
    };
    simulate::run(&space.recording, name, options)
}

/// Progress on stderr: a bar where somebody watches, a line now and then elsewhere.
struct Talk {
    bar: Option<ProgressBar>,
    count: usize,
    start: Instant,
    /// Runs done, and when that was last said.
    state: Mutex<(usize, Instant)>,
}

impl Talk {
    fn new(count: usize) -> Talk {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {elapsed} of about {duration}")
            .expect("a valid template");
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(count as u64).with_style(style));
        Talk { bar, count, start: Instant::now(), state: Mutex::new((0, Instant::now())) }
    }

    fn step(&self) {
        let mut state = self.state.lock().expect("no holder panics");
        state.0 += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(state.0 as u64);
        } else if state.1.elapsed() >= PLAIN_EVERY {
            state.1 = Instant::now();
            eprintln!("{}/{} runs, {:.0} s", state.0, self.count, self.start.elapsed().as_secs_f64());
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
