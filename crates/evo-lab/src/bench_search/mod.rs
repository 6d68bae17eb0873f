//! `evo-lab bench-search`: strategies on spaces with a known optimum, many seeds each.
//!
//! Runs are simulated on a virtual clock and scored beside the traces of other tools (`data`); `results` holds and
//! prints the scores.

mod data;
mod results;

use std::io::{self, ErrorKind, Write};

use evo_engine::replay::Recording;
use evo_search::registry;
use evo_search::strategy::PriorStudy;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use self::data::{ScoredSpace, Tool};
use self::results::StrategyResult;
use crate::args::BenchSearchArgs;
use crate::error::LabError;
use crate::simulate::{self, Run, SimulationOptions};
use crate::traces;

pub fn run(arguments: &BenchSearchArgs) -> Result<(), LabError> {
    let spaces = data::open(&arguments.data)?;
    let earlier = if arguments.prior.is_empty() { Vec::new() } else { data::open(&arguments.prior)? };
    let names = arguments.known_strategies()?;
    // A trace that cannot be written is noticed before the runs, not after.
    let trace = arguments.trace.as_deref().map(traces::create).transpose()?;
    let theirs = data::judged(&arguments.judge, &spaces, &names, !arguments.no_overhead)?;
    let ours = simulated(arguments, &names, &spaces, &earlier)?;
    if let Some(trace) = trace {
        traces::write(trace, ours.iter().flat_map(|tool| tool.traced(&spaces)))?;
    }
    let results: Vec<StrategyResult> =
        ours.iter().chain(&theirs).map(|tool| StrategyResult::of(tool, &spaces)).collect();
    print(&match arguments.json {
        true => format!("{}\n", results::object(arguments, &results, &spaces)),
        false => results::text(&results),
    })
}

/// Writes to stdout. A reader that has left (`| head`) is not an error.
fn print(text: &str) -> Result<(), LabError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(LabError::usage(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// All runs of all strategies on all spaces, several at a time, each on one core, with their progress on stderr. The
/// result does not depend on the order in which they end.
fn simulated(
    arguments: &BenchSearchArgs,
    names: &[&str],
    spaces: &[ScoredSpace],
    earlier: &[ScoredSpace],
) -> Result<Vec<Tool>, LabError> {
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
    let all: Vec<Run> = threads
        .map_err(LabError::internal)?
        .install(|| (0..count).into_par_iter().with_max_len(1).map(simulated).collect::<Result<_, _>>())?;
    bar.finish_and_clear();
    let mut all = all.into_iter();
    let mut of_space = |_| all.by_ref().take(runs).collect();
    let tool =
        |name: &&str| Tool { name: name.to_string(), runs: spaces.iter().map(&mut of_space).collect() };
    Ok(names.iter().map(tool).collect())
}

fn one(
    arguments: &BenchSearchArgs,
    name: &str,
    space: &ScoredSpace,
    earlier: &[ScoredSpace],
    run: usize,
) -> Result<Run, LabError> {
    let options = SimulationOptions {
        seed: arguments.seed.wrapping_add(run as u64),
        in_flight: arguments.in_flight.unwrap_or(arguments.batch),
        is_pipeline: arguments.in_flight.is_some(),
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
) -> Result<PriorStudy, LabError> {
    let options =
        // The earlier search is not what is measured, so its own time does not count.
        SimulationOptions { overhead: false, until_ms: earlier.yardstick.run_until_ms(), ..options };
    let run = simulate::run(&earlier.recording, registry::FULL, &[], options)?;
    let rows = run.evaluations.iter().map(|row| *row as usize);
    Ok(earlier.recording.study(rows, &today.space))
}
