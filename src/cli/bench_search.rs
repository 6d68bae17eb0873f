//! `evo bench-search`: strategies on recorded spaces, many seeds each, on a virtual clock; their scores, and
//! the traces for other scorers.

mod data;
mod json;
mod runs;
mod table;

use rayon::prelude::*;

use self::data::Space;
use self::runs::Runs;
use super::args::BenchSearchArgs;
use super::exit_code::{ExitCode, UsageError};
use crate::replay::score::{self, Aggregate, Progress, SpaceScore};
use crate::replay::simulate::SimulatedRun;
use crate::replay::trace::{TraceLine, TraceWriter};
use crate::search::registry::{self, StrategyOptions};
use crate::timing::stats::{quantile, sorted};

/// How one strategy did.
struct Result<'a> {
    strategy: &'a str,
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
}

/// A strategy's own time per proposal, milliseconds.
struct OwnTime {
    median: f64,
    p95: f64,
}

impl OwnTime {
    fn of<'a>(runs: impl Iterator<Item = &'a SimulatedRun>) -> Option<OwnTime> {
        let times: Vec<f64> = runs.flat_map(|run| run.overhead_ms.iter().copied()).collect();
        let times = sorted(&times);
        let time = || OwnTime { median: quantile(&times, 0.5), p95: quantile(&times, 0.95) };
        (!times.is_empty()).then(time)
    }
}

/// Runs the command.
pub fn run(arguments: &BenchSearchArgs) -> anyhow::Result<ExitCode> {
    let spaces = data::open(&arguments.data)?;
    let names = strategies(&arguments.strategies, &spaces[0])?;
    let usage = |error: &dyn std::error::Error| UsageError::of(error);
    let trace = arguments.trace.as_deref().map(TraceWriter::create).transpose();
    let trace = trace.map_err(|error| usage(&error))?;
    let all = Runs::simulate(arguments, &names, &spaces)?;
    if let Some(trace) = trace {
        write(trace, &all, &names, &spaces).map_err(|error| usage(&error))?;
    }
    let results: Vec<Result> =
        names.iter().enumerate().map(|(number, name)| judge(&all, number, name, &spaces)).collect();
    let text = if arguments.json {
        format!("{}\n", json::object(arguments, &results, &spaces))
    } else {
        table::text(&results)
    };
    super::stdout(&text)?;
    Ok(ExitCode::Done)
}

/// The names without repetitions, all known.
fn strategies(names: &[String], some: &Space) -> std::result::Result<Vec<&'static str>, UsageError> {
    let mut known = Vec::new();
    for name in names {
        match registry::names().find(|own| own == name) {
            Some(own) if known.contains(&own) => {}
            Some(own) => known.push(own),
            None => {
                let options = StrategyOptions { seed: 0, population: 1 };
                let refused = registry::create(name, &some.recording.space, options).err();
                let error = refused.expect("the registry makes only what it names");
                return Err(UsageError::of(&error));
            }
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

fn judge<'a>(all: &Runs, strategy: usize, name: &'a str, spaces: &'a [Space]) -> Result<'a> {
    let on_space = |(at, space): (usize, &'a Space)| {
        let runs = all.of(strategy, at);
        let progress =
            |run: &SimulatedRun| Progress::of(&space.yardstick, &run.evaluations, &run.overhead_ms);
        let progress: Vec<Progress> = runs.iter().map(progress).collect();
        let score = score::score(&space.yardstick, &progress);
        OnSpace { space, score, time: OwnTime::of(runs.iter()) }
    };
    let on_spaces: Vec<OnSpace> = spaces.par_iter().enumerate().map(on_space).collect();
    Result {
        strategy: name,
        aggregate: score::aggregate(on_spaces.iter().map(|on| on.score.curve.as_slice())),
        time: OwnTime::of((0..spaces.len()).flat_map(|at| all.of(strategy, at))),
        spaces: on_spaces,
    }
}
