//! `evo-lab bench-search`: strategies on spaces with a known optimum, many seeds each.
//!
//! Runs are simulated on a virtual clock (`runs`) and scored beside the traces of other tools (`data`); `results` holds
//! and prints the scores.

mod data;
mod results;
mod runs;

use std::io::{self, ErrorKind, Write};

use rayon::prelude::*;

use self::data::ScoredSpace;
use self::results::{OwnTime, PerRun, SpaceResult, StrategyResult};
use self::runs::Runs;
use crate::args::BenchSearchArgs;
use crate::error::LabError;
use crate::score::{self, RunProgress};
use crate::simulate::SimulatedRun;
use crate::traces::{TraceError, TraceFile, TracedRun};

pub fn run(arguments: &BenchSearchArgs) -> Result<(), LabError> {
    let spaces = data::open(&arguments.data)?;
    let earlier = if arguments.prior.is_empty() { Vec::new() } else { data::open(&arguments.prior)? };
    let names = arguments.known_strategies()?;
    // A trace that cannot be written is noticed before the runs, not after.
    let trace = arguments.trace.as_deref().map(TraceFile::create).transpose().map_err(bad_trace)?;
    let tools = data::judged(&arguments.judge, &spaces, &names, !arguments.no_overhead)?;
    let all = Runs::simulate(arguments, &names, &spaces, &earlier)?;
    if let Some(trace) = trace {
        let places =
            names.iter().enumerate().flat_map(|name| spaces.iter().enumerate().map(move |at| (name, at)));
        let traced = places.flat_map(|((strategy, name), (at, space))| {
            let runs = all.of(strategy, at).iter().enumerate();
            runs.map(|(run, simulated)| TracedRun::of(name, &space.recording.name, run, simulated))
        });
        trace.write(traced).map_err(bad_trace)?;
    }
    let ours = names.iter().enumerate();
    let ours = ours.map(|(number, name)| judge(name, &spaces, |at| (all.of(number, at), 0)));
    let theirs = tools
        .iter()
        .map(|tool| judge(&tool.name, &spaces, |at| (tool.runs[at].as_slice(), tool.illegal[at])));
    let results: Vec<StrategyResult> = ours.chain(theirs).collect();
    print(&if arguments.json {
        format!("{}\n", results::object(arguments, &results, &spaces))
    } else {
        results::text(&results)
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

fn bad_trace(error: TraceError) -> LabError {
    LabError::bad_input(&error, error.hint())
}

/// Scores a strategy. For each space, `runs` gives its runs and how many evaluations were illegal.
fn judge<'a>(
    name: &'a str,
    spaces: &'a [ScoredSpace],
    runs: impl Fn(usize) -> (&'a [SimulatedRun], usize) + Sync,
) -> StrategyResult<'a> {
    let on_space = |(at, space): (usize, &'a ScoredSpace)| {
        let (runs, illegal) = runs(at);
        let progress =
            |run: &SimulatedRun| RunProgress::of(&space.yardstick, &run.evaluations, &run.overhead_ms);
        let progress: Vec<RunProgress> = runs.iter().map(progress).collect();
        let score = score::score(&space.yardstick, &progress);
        let per_run = PerRun::of(&progress, illegal);
        (!runs.is_empty()).then(|| SpaceResult { space, score, time: own_time(runs), per_run })
    };
    let on_spaces: Vec<SpaceResult> = spaces.par_iter().enumerate().filter_map(on_space).collect();
    StrategyResult {
        strategy: name,
        aggregate: score::aggregate(on_spaces.iter().map(|on| on.score.curve.as_slice())),
        time: own_time((0..spaces.len()).flat_map(|at| runs(at).0)),
        spaces: on_spaces,
    }
}

fn own_time<'a>(runs: impl IntoIterator<Item = &'a SimulatedRun>) -> Option<OwnTime> {
    OwnTime::of(runs.into_iter().flat_map(|run| run.overhead_ms.iter().copied()))
}
