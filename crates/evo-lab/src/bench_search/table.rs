//! Scores for people: a table for each strategy, and one that compares them.

use std::fmt::Write as _;

use super::results::{SpaceResult, StrategyResult, own_time_text};
use crate::score::TargetReached;

/// The whole answer.
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
    for on in &result.spaces {
        let means = (on.on_lanes(|played| played.busy), on.on_lanes(|played| played.simulated_ms / 1e3));
        let own = on.on_lanes(|played| played.own_ms / 1e3);
        if let ((Some(busy), Some(simulated)), Some(own)) = (means, own) {
            let name = &on.space.recording.name;
            let _ = writeln!(
                text,
                "{name:width$}  lanes busy for {:.1} % of {simulated:.0} s, the strategy for {own:.2} s",
                busy * 100.0
            );
        }
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
pub fn share(part: usize, all: usize) -> String {
    if all == 0 { "-".to_string() } else { format!("{:.0} %", part as f64 / all as f64 * 100.0) }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |value| format!("{value:.3}"))
}
