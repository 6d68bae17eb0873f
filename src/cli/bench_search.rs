//! `evo bench-search`: strategies on recorded spaces, many seeds each, on a virtual clock; their scores beside
//! those of other tools' traces, and the traces for other scorers. Or on synthetic spaces, whose optimum is
//! known.

mod data;
mod json;
mod judged;
mod parallel;
mod runs;
mod synthetic;
mod table;

use evo_search::registry;
use rayon::prelude::*;

use self::data::Space;
use self::runs::Runs;
use super::args::BenchSearchArgs;
use super::exit_code::{ExitCode, UsageError};
use crate::replay::score::{self, Aggregate, Progress, SpaceScore};
use crate::replay::simulate::SimulatedRun;
use crate::replay::trace::{TraceLine, TraceWriter};
use crate::timing::stats::{quantile, sorted};

/// How one strategy did, ours or another tool.
struct Result<'a> {
    strategy: &'a str,
    /// Those that it has runs on.
    spaces: Vec<OnSpace<'a>>,
    aggregate: Option<Aggregate>,
    /// Over all proposals on all spaces.
    time: Option<OwnTime>,
}

/// How it did on one space.
struct OnSpace<'a> {
    space: &'a Space,
    score: SpaceScore,
    time: Option<OwnTime>,
    per_run: PerRun,
}

/// What a run did on the average.
#[derive(Clone, Copy, Debug)]
struct PerRun {
    distinct: f64,
    /// Distinct evaluations that failed.
    failures: f64,
    /// Evaluations of what the run knew already.
    repeats: f64,
    /// Evaluations that the space does not allow.
    illegal: f64,
}

impl PerRun {
    fn of(runs: &[Progress], illegal: usize) -> PerRun {
        let mean = |count: &dyn Fn(&Progress) -> usize| {
            runs.iter().map(count).sum::<usize>() as f64 / runs.len().max(1) as f64
        };
        PerRun {
            distinct: mean(&|run| run.distinct),
            failures: mean(&|run| run.failures),
            repeats: mean(&|run| run.times.len() - run.distinct),
            illegal: illegal as f64 / runs.len().max(1) as f64,
        }
    }
}

/// A strategy's own time per proposal, milliseconds.
struct OwnTime {
    median: f64,
    p95: f64,
}

impl OwnTime {
    fn of<'a>(runs: impl Iterator<Item = &'a SimulatedRun>) -> Option<OwnTime> {
        OwnTime::of_times(runs.flat_map(|run| run.overhead_ms.iter().copied()))
    }

    fn of_times(times: impl Iterator<Item = f64>) -> Option<OwnTime> {
        let times = sorted(&times.collect::<Vec<_>>());
        let time = || OwnTime { median: quantile(&times, 0.5), p95: quantile(&times, 0.95) };
        (!times.is_empty()).then(time)
    }
}

/// Runs the command.
pub fn run(arguments: &BenchSearchArgs) -> anyhow::Result<ExitCode> {
    if let Some(names) = &arguments.synthetic {
        return synthetic::run(arguments, names);
    }
    let spaces = data::open(&arguments.data)?;
    let earlier = if arguments.prior.is_empty() { Vec::new() } else { data::open(&arguments.prior)? };
    let names = strategies(&arguments.strategies)?;
    let usage = |error: &dyn std::error::Error| UsageError::of(error);
    let trace = arguments.trace.as_deref().map(TraceWriter::create).transpose();
    let trace = trace.map_err(|error| usage(&error))?;
    let tools = judged::read(&arguments.judge, &spaces, &names, !arguments.no_overhead)?;
    let all = Runs::simulate(arguments, &names, &spaces, &earlier)?;
    if let Some(trace) = trace {
        write(trace, &all, &names, &spaces).map_err(|error| usage(&error))?;
    }
    let ours = names.iter().enumerate();
    let ours = ours.map(|(number, name)| judge(name, &spaces, |at| (all.of(number, at), 0)));
    let theirs = tools
        .iter()
        .map(|tool| judge(&tool.name, &spaces, |at| (tool.runs[at].as_slice(), tool.illegal[at])));
    let results: Vec<Result> = ours.chain(theirs).collect();
    let text = if arguments.json {
        format!("{}\n", json::object(arguments, &results, &spaces))
    } else {
        table::text(&results)
    };
    super::stdout(&text)?;
    Ok(ExitCode::Done)
}

/// The names without repetitions, all known.
fn strategies(names: &[String]) -> std::result::Result<Vec<&str>, UsageError> {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        registry::check(name).map_err(|error| UsageError::of(&error))?;
        if !known.contains(&name.as_str()) {
            known.push(name);
        }
    }
    Ok(known)
}

fn write(
    mut trace: TraceWriter,
    all: &Runs,
    names: &[&str],
    spaces: &[Space],
) -> std::result::Result<(), crate::replay::trace::TraceError> {
    for (strategy, name) in names.iter().enumerate() {
        for (at, space) in spaces.iter().enumerate() {
            for (run, simulated) in all.of(strategy, at).iter().enumerate() {
                let SimulatedRun { evaluations, overhead_ms } = simulated;
                trace.write(&TraceLine {
                    tool: name.to_string(),
                    dataset: space.recording.name.clone(),
                    run: run as u64,
                    evals: evaluations.clone(),
                    overhead_ms: overhead_ms.clone(),
                })?;
            }
        }
    }
    trace.finish()
}

/// Scores what `runs` gives for each space: runs, and evaluations that were illegal.
fn judge<'a>(
    name: &'a str,
    spaces: &'a [Space],
    runs: impl Fn(usize) -> (&'a [SimulatedRun], usize) + Sync,
) -> Result<'a> {
    let on_space = |(at, space): (usize, &'a Space)| {
        let (runs, illegal) = runs(at);
        let progress =
            |run: &SimulatedRun| Progress::of(&space.yardstick, &run.evaluations, &run.overhead_ms);
        let progress: Vec<Progress> = runs.iter().map(progress).collect();
        let score = score::score(&space.yardstick, &progress);
        let per_run = PerRun::of(&progress, illegal);
        (!runs.is_empty()).then(|| OnSpace { space, score, time: OwnTime::of(runs.iter()), per_run })
    };
    let on_spaces: Vec<OnSpace> = spaces.par_iter().enumerate().filter_map(on_space).collect();
    Result {
        strategy: name,
        aggregate: score::aggregate(on_spaces.iter().map(|on| on.score.curve.as_slice())),
        time: OwnTime::of((0..spaces.len()).flat_map(|at| runs(at).0)),
        spaces: on_spaces,
    }
}
