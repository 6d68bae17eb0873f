//! How strategies did on recorded spaces: a table for each strategy and one that compares them, or one object.

use std::fmt::Write as _;

use evo_timing::stats::{quantile, sorted};
use serde::Serialize;
use serde_json::{Value, json};

use super::data::ScoredSpace;
use crate::args::BenchSearchArgs;
use crate::score::{Aggregate, RunProgress, SpaceScore, TargetReached};

/// How one strategy did, one of ours or another tool.
pub struct StrategyResult<'a> {
    pub strategy: &'a str,
    pub spaces: Vec<SpaceResult<'a>>,
    pub aggregate: Option<Aggregate>,
    /// Over all proposals on all spaces.
    pub time: Option<OwnTime>,
}

pub struct SpaceResult<'a> {
    pub space: &'a ScoredSpace,
    pub score: SpaceScore,
    pub time: Option<OwnTime>,
    pub per_run: PerRun,
}

/// What a run did, as means over the runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PerRun {
    pub distinct: f64,
    pub failures: f64,
    /// Evaluations of configurations that the run had evaluated before.
    pub repeats: f64,
    /// Evaluations that the space does not allow.
    pub illegal: f64,
}

impl PerRun {
    pub fn of(runs: &[RunProgress], illegal: usize) -> PerRun {
        let mean = |count: &dyn Fn(&RunProgress) -> usize| {
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

#[derive(Serialize)]
pub struct OwnTime {
    pub median_ms: f64,
    pub p95_ms: f64,
}

impl OwnTime {
    pub fn of(times: impl Iterator<Item = f64>) -> Option<OwnTime> {
        let times = sorted(&times.collect::<Vec<_>>());
        let time = || OwnTime { median_ms: quantile(&times, 0.5), p95_ms: quantile(&times, 0.95) };
        (!times.is_empty()).then(time)
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

fn strategy(result: &StrategyResult) -> String {
    let width = result.spaces.iter().map(|on| on.space.recording.name.len()).max().unwrap_or(0).max(5);
    let mut text = format!(
        "{:width$}  {:>7}  {:>9}  {:>5}  {:>9}  {:>5}  {:>20}\n",
        result.strategy, "score", "evals 5 %", "stuck", "evals 1 %", "stuck", "own time median, p95"
    );
    for SpaceResult { space, score, time, .. } in &result.spaces {
        let name = &space.recording.name;
        let reached = score.reached.map(|reached| reached_text(reached, score.runs)).join("  ");
        let _ = writeln!(
            text,
            "{name:width$}  {:>7}  {reached}  {:>20}",
            number(score.score),
            own_time_text(time)
        );
    }
    let all = result.aggregate.map_or("-".to_string(), |all| format!("{:.3} ± {:.3}", all.score, all.spread));
    let _ = writeln!(text, "{:width$}  {all:>7}\n", "all");
    text
}

/// One line per strategy, best first.
fn comparison(results: &[StrategyResult]) -> String {
    let mut ranked: Vec<&StrategyResult> = results.iter().collect();
    let score = |result: &StrategyResult| result.aggregate.map_or(f64::NEG_INFINITY, |all| all.score);
    ranked.sort_by(|one, other| score(other).total_cmp(&score(one)));
    let width = results.iter().map(|result| result.strategy.len()).max().unwrap_or(0).max(8);
    let mut text = format!(
        "{:width$}  {:>7}  {:>7}  {:>9}  {:>9}  {:>20}  worst space\n",
        "strategy", "score", "spread", "stuck 5 %", "stuck 1 %", "own time median, p95"
    );
    for result in ranked {
        let (score, spread) = result.aggregate.map(|all| (all.score, all.spread)).unzip();
        let runs: usize = result.spaces.iter().map(|on| on.score.runs).sum();
        let stuck = [0, 1].map(|at| {
            let stuck: usize = result.spaces.iter().map(|on| on.score.reached[at].stuck).sum();
            share(stuck, runs)
        });
        let worst = result.spaces.iter().filter_map(|on| Some((on.score.score?, &on.space.recording.name)));
        let worst = worst.min_by(|one, other| one.0.total_cmp(&other.0));
        let worst = worst.map_or("-".to_string(), |(score, name)| format!("{score:.3} {name}"));
        let _ = writeln!(
            text,
            "{:width$}  {:>7}  {:>7}  {:>9}  {:>9}  {:>20}  {worst}",
            result.strategy,
            number(score),
            number(spread),
            stuck[0],
            stuck[1],
            own_time_text(&result.time)
        );
    }
    text + "\n"
}

fn reached_text(reached: TargetReached, runs: usize) -> String {
    let evaluations = reached.evaluations.map_or("-".to_string(), |count| format!("{count:.0}"));
    format!("{evaluations:>9}  {:>5}", share(reached.stuck, runs))
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
            "configurations": yardstick.prices.len(),
            "optimum_ns": yardstick.optimum(),
            "start_ms": yardstick.grid[0],
            "end_ms": yardstick.end_ms(),
            "run_until_ms": yardstick.run_until_ms(),
            "random_evaluations": yardstick.evaluations,
        });
        (space.recording.name.clone(), budget)
    });
    let strategies = results.iter().map(|result| (result.strategy.to_string(), strategy_object(result)));
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

fn strategy_object(result: &StrategyResult) -> Value {
    let spaces = result.spaces.iter().map(|on| (on.space.recording.name.clone(), on_space(on)));
    json!({
        "score": result.aggregate.map(|all| all.score),
        "spread": result.aggregate.map(|all| all.spread),
        "own_time": result.time,
        "spaces": spaces.collect::<serde_json::Map<_, _>>(),
    })
}

fn on_space(on: &SpaceResult) -> Value {
    let [within_5, within_1] = on.score.reached;
    json!({
        "score": on.score.score,
        "final": on.score.curve.last(),
        "runs": on.score.runs,
        "within_5_percent": within_5,
        "within_1_percent": within_1,
        "own_time": on.time,
        "per_run": on.per_run,
    })
}
