//! Results on synthetic spaces for people: a table for each space, and one over all of them.

use std::fmt::Write as _;

use super::super::own_time;
use super::super::table::share;
use super::compare::{Quartiles, SyntheticComparison, SyntheticResult};
use crate::synthetic::Synthetic;

/// The whole answer.
pub fn text(comparison: &SyntheticComparison) -> String {
    let names = comparison.results.iter().map(|result| result.strategy.len());
    let width = names.max().unwrap_or(0).max(8);
    let mut text = String::new();
    for (number, space) in comparison.spaces.iter().enumerate() {
        let _ = writeln!(text, "{}", title(space));
        text += &header("strategy", width, comparison);
        text.push('\n');
        for SyntheticResult { strategy, spaces, .. } in &comparison.results {
            let on = &spaces[number];
            let stages = on.stages.map(|quartiles| format!("{:>25}", range(quartiles))).concat();
            let ahead = share(on.ahead, on.runs);
            let _ =
                writeln!(text, "{strategy:width$}{stages}  {ahead:>11}  {:>20}", own_time::text(&on.time));
        }
        text.push('\n');
    }
    if comparison.spaces.len() > 1 {
        text += &overall(comparison, width);
    }
    text += "the best found over the optimum, which is known: the middle run, and the range of the middle half of all \
             runs\n(-: nothing that worked yet); ahead: runs that end below the median of `random`; own time: the \
             strategy's, per proposal\n";
    text
}

fn title(space: &Synthetic) -> String {
    let valid: f64 = space.space.valid().to_string().parse().unwrap_or(f64::INFINITY);
    let about = if space.space.is_exact() { "" } else { "at most " };
    let parameters = space.space.parameters().len();
    format!("{}: {}; {parameters} parameters, {about}{valid:.1e} points", space.name(), space.about())
}

fn header(first: &str, width: usize, comparison: &SyntheticComparison) -> String {
    let stages = comparison.stages.map(|stage| format!("{:>25}", format!("after {stage}"))).concat();
    format!("{first:width$}{stages}  {:>11}  {:>20}", "ahead", "own time median, p95")
}

/// One line per strategy, best first.
fn overall(comparison: &SyntheticComparison, width: usize) -> String {
    let mut ranked: Vec<&SyntheticResult> = comparison.results.iter().collect();
    ranked.sort_by(|one, other| one.mean(2).total_cmp(&other.mean(2)));
    let mut text =
        format!("all spaces: geometric mean of the medians\n{}", header("strategy", width, comparison));
    text += "  worst space\n";
    for result in ranked {
        let stages = [0, 1, 2].map(|stage| format!("{:>25}", number(result.mean(stage)))).concat();
        let (ahead, runs) = result.ahead();
        let finals = result.spaces.iter().map(|on| on.stages[2].median).zip(&comparison.spaces);
        let worst = finals.max_by(|one, other| one.0.total_cmp(&other.0));
        let worst =
            worst.map_or("-".to_string(), |(ratio, space)| format!("{} {}", number(ratio), space.name()));
        let strategy = &result.strategy;
        let (ahead, time) = (share(ahead, runs), own_time::text(&result.time));
        let _ = writeln!(text, "{strategy:width$}{stages}  {ahead:>11}  {time:>20}  {worst}");
    }
    text + "\n"
}

fn range(Quartiles { low, median, high }: Quartiles) -> String {
    format!("{} ({} to {})", number(median), number(low), number(high))
}

fn number(ratio: f64) -> String {
    if ratio.is_finite() { format!("{ratio:.3}") } else { "-".to_string() }
}
