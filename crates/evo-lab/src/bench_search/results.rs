//! How strategies did on recorded spaces: a table for each strategy and one that compares them, or one object.

use evo_timing::stats::{quantile, sorted};
use rayon::prelude::*;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::data::{ScoredSpace, Tool};
use crate::args::BenchSearchArgs;
use crate::score::{self, RunProgress, SpaceScore};
use crate::simulate::Run;

/// How one strategy did, one of ours or another tool.
#[derive(Serialize)]
pub struct StrategyResult<'a> {
    #[serde(skip)]
    strategy: &'a str,
    score: Option<f64>,
    spread: Option<f64>,
    /// Over all proposals on all spaces.
    own_time: Option<OwnTime>,
    #[serde(serialize_with = "by_name")]
    spaces: Vec<SpaceResult<'a>>,
}

#[derive(Serialize)]
struct SpaceResult<'a> {
    #[serde(skip)]
    name: &'a str,
    #[serde(flatten)]
    score: SpaceScore,
    own_time: Option<OwnTime>,
    /// What a run did, as means over the runs.
    per_run: Value,
}

fn by_name<S: Serializer>(spaces: &[SpaceResult], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(spaces.iter().map(|on| (on.name, on)))
}

#[derive(Serialize)]
struct OwnTime {
    median_ms: f64,
    p95_ms: f64,
}

fn own_time<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Option<OwnTime> {
    let times: Vec<f64> = runs.into_iter().flat_map(|run| run.overhead_ms.iter().copied()).collect();
    let times = sorted(&times);
    let time = || OwnTime { median_ms: quantile(&times, 0.5), p95_ms: quantile(&times, 0.95) };
    (!times.is_empty()).then(time)
}

impl<'a> StrategyResult<'a> {
    pub fn of(tool: &'a Tool, spaces: &'a [ScoredSpace]) -> StrategyResult<'a> {
        let on_space = |(runs, space): (&Vec<Run>, &'a ScoredSpace)| {
            let progress = runs.iter().map(|run| RunProgress::of(&space.yardstick, run));
            let progress: Vec<RunProgress> = progress.collect();
            let mean = |counts: &dyn Fn(&RunProgress) -> usize| {
                progress.iter().map(counts).sum::<usize>() as f64 / runs.len() as f64
            };
            (!runs.is_empty()).then(|| SpaceResult {
                name: &space.recording.name,
                score: score::score(&space.yardstick, &progress),
                own_time: own_time(runs),
                per_run: json!({
                    "distinct": mean(&|run| run.distinct),
                    "failures": mean(&|run| run.failures),
                    // Evaluations of configurations that the run had evaluated before.
                    "repeats": mean(&|run| run.times.len() - run.distinct),
                    // Evaluations that the space does not allow.
                    "illegal": runs.iter().map(|run| run.illegal).sum::<usize>() as f64 / runs.len() as f64,
                }),
            })
        };
        let spaces: Vec<SpaceResult> = tool.runs.par_iter().zip(spaces).filter_map(on_space).collect();
        let (score, spread) = score::aggregate(spaces.iter().map(|on| on.score.curve.as_slice())).unzip();
        let own_time = own_time(tool.runs.iter().flatten());
        StrategyResult { strategy: &tool.name, score, spread, own_time, spaces }
    }
}

fn own_time_text(time: &Option<OwnTime>) -> String {
    match time {
        Some(OwnTime { median_ms, p95_ms }) => format!("{median_ms:.3} ms, {p95_ms:.3} ms"),
        None => "not counted".to_string(),
    }
}

pub fn text(results: &[StrategyResult]) -> String {
    let mut text: String = results.iter().map(strategy).collect();
    if results.len() > 1 {
        text += &comparison(results);
    }
    text += "score: 0 is random search, 1 the optimum from the first moment; evals: median of the evaluations until \
             the best is\nwithin 5 % and 1 % of the optimum, and runs that do not get there in time; own time: the \
             strategy's, per proposal\n";
    text
}

/// Columns as wide as they need; names on the left of theirs, numbers on the right.
fn table(rows: &[Vec<String>]) -> String {
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let cell = |(at, cell): (usize, &String)| match (at, width(at).unwrap_or(0)) {
        (0, width) => format!("{cell:width$}"),
        (_, width) => format!("  {cell:>width$}"),
    };
    let line = |row: &Vec<String>| row.iter().enumerate().map(cell).collect::<String>() + "\n";
    rows.iter().map(line).collect::<String>() + "\n"
}

fn strategy(result: &StrategyResult) -> String {
    let head = [result.strategy, "score", "evals 5 %", "stuck", "evals 1 %", "stuck", "own time median, p95"];
    let on_space = |SpaceResult { name, score, own_time, .. }: &SpaceResult| {
        let reached = score.reached().map(|reached| {
            let evaluations = reached.evaluations.map_or("-".to_string(), |count| format!("{count:.0}"));
            [evaluations, share(reached.stuck, score.runs)]
        });
        let named = [name.to_string(), number(score.score)];
        named
            .into_iter()
            .chain(reached.into_iter().flatten())
            .chain([own_time_text(own_time)])
            .collect::<Vec<_>>()
    };
    let all = result.score.zip(result.spread);
    let all = all.map_or("-".to_string(), |(score, spread)| format!("{score:.3} ± {spread:.3}"));
    let mut rows: Vec<Vec<String>> = vec![head.map(String::from).to_vec()];
    rows.extend(result.spaces.iter().map(on_space));
    rows.push(vec!["all".to_string(), all]);
    table(&rows)
}

/// One line per strategy, best first.
fn comparison(results: &[StrategyResult]) -> String {
    let mut ranked: Vec<&StrategyResult> = results.iter().collect();
    let score = |result: &StrategyResult| result.score.unwrap_or(f64::NEG_INFINITY);
    ranked.sort_by(|one, other| score(other).total_cmp(&score(one)));
    let head =
        ["strategy", "score", "spread", "stuck 5 %", "stuck 1 %", "own time median, p95", "worst space"];
    let row = |result: &StrategyResult| {
        let runs: usize = result.spaces.iter().map(|on| on.score.runs).sum();
        let [within_5, within_1] = [0, 1].map(|at| {
            let stuck: usize = result.spaces.iter().map(|on| on.score.reached()[at].stuck).sum();
            share(stuck, runs)
        });
        let worst = result.spaces.iter().filter_map(|on| Some((on.score.score?, on.name)));
        let worst = worst.min_by(|one, other| one.0.total_cmp(&other.0));
        let worst = worst.map_or("-".to_string(), |(score, name)| format!("{score:.3} {name}"));
        let (score, spread) = (number(result.score), number(result.spread));
        let own_time = own_time_text(&result.own_time);
        vec![result.strategy.to_string(), score, spread, within_5, within_1, own_time, worst]
    };
    let head = head.map(String::from).to_vec();
    table(&std::iter::once(head).chain(ranked.into_iter().map(row)).collect::<Vec<_>>())
}

/// A part of all in percent; `-` if there is nothing.
fn share(part: usize, all: usize) -> String {
    if all == 0 { "-".to_string() } else { format!("{:.0} %", part as f64 / all as f64 * 100.0) }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |value| format!("{value:.3}"))
}

pub fn object(arguments: &BenchSearchArgs, results: &[StrategyResult], spaces: &[ScoredSpace]) -> Value {
    let budgets = spaces.iter().map(|space| {
        let yardstick = &space.yardstick;
        let budget = json!({
            "configurations": yardstick.rows.len(),
            "optimum_ns": yardstick.optimum(),
            "start_ms": yardstick.grid[0],
            "end_ms": yardstick.end_ms(),
            "run_until_ms": yardstick.run_until_ms(),
            "random_evaluations": yardstick.evaluations,
        });
        (space.recording.name.clone(), budget)
    });
    let strategies = results.iter().map(|result| (result.strategy.to_string(), json!(result)));
    json!({
        "runs": arguments.runs,
        "seed": arguments.seed,
        "batch": arguments.batch,
        "in_flight": arguments.in_flight,
        "overhead": !arguments.no_overhead,
        "spaces": budgets.collect::<serde_json::Map<_, _>>(),
        "strategies": strategies.collect::<serde_json::Map<_, _>>(),
    })
}
