//! What all problems say together: each candidate's time over the best right peer's as a geometric mean, and the same for
//! the fastest candidate of each problem, which is what a portfolio reaches.
//!
//! Problems count alike. The fastest of each problem is chosen by the times that are then reported, so with many candidates
//! of nearly one speed it flatters by about their noise.

use serde::Serialize;

use super::cells::{Implementation, ImplementationKind};
use super::row::{BenchRow, RowStatus};

/// A geometric mean over problems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeanRatio {
    /// The candidate; null for the fastest of each problem.
    pub implementation: Option<String>,
    /// Problems that it was compared on, of those of the run.
    pub problems: usize,
    /// Problems of the run.
    pub of: usize,
    /// Its time over the best right peer's: below 1 it is faster.
    pub ratio: f64,
    /// The largest of these ratios, and its problem.
    pub worst_ratio: f64,
    pub worst_problem: String,
}

/// One mean a candidate that was compared at all, in the order of the run; with several candidates, that of the fastest of
/// each problem behind them.
pub fn summary(rows: &[BenchRow], implementations: &[Implementation]) -> Vec<MeanRatio> {
    let mut problems: Vec<&str> = Vec::new();
    for row in rows {
        if !problems.contains(&row.problem.as_str()) {
            problems.push(&row.problem);
        }
    }
    let own = implementations.iter().filter(|own| own.kind == ImplementationKind::Own);
    let names: Vec<&str> = own.map(|own| own.name.as_str()).collect();
    let ratio = |problem: &str, wanted: &dyn Fn(&str) -> bool| {
        let compared = rows.iter().filter(|row| row.problem == problem && row.status == RowStatus::Pass);
        let compared = compared.filter(|row| wanted(&row.implementation));
        compared.filter_map(|row| row.ratio_to_best_peer).min_by(f64::total_cmp)
    };
    let mean = |implementation: Option<&str>, wanted: &dyn Fn(&str) -> bool| {
        let compared: Vec<(f64, &str)> =
            problems.iter().filter_map(|name| Some((ratio(name, wanted)?, *name))).collect();
        let worst = compared.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let sum: f64 = compared.iter().map(|(ratio, _)| ratio.ln()).sum();
        Some(MeanRatio {
            implementation: implementation.map(String::from),
            problems: compared.len(),
            of: problems.len(),
            ratio: (sum / compared.len() as f64).exp(),
            worst_ratio: worst.0,
            worst_problem: worst.1.to_string(),
        })
    };
    let each = names.iter().filter_map(|name| mean(Some(name), &|own| own == *name));
    let best = (names.len() > 1).then(|| mean(None, &|own| names.contains(&own))).flatten();
    each.chain(best).collect()
}

impl MeanRatio {
    /// In words, for a page and a terminal.
    pub fn sentence(&self) -> String {
        let what = match &self.implementation {
            Some(name) => format!("{name}:"),
            None => "the fastest of each problem:".to_string(),
        };
        let problems = match self.problems == self.of {
            true => format!("{} problems", self.of),
            false => format!("{} of {} problems", self.problems, self.of),
        };
        format!(
            "{what} {:.3} of the best peer's time over {problems} (geometric mean), at worst {:.3} on {}",
            self.ratio, self.worst_ratio, self.worst_problem
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn implementations() -> Vec<Implementation> {
        let kinds = [
            ("a", ImplementationKind::Own),
            ("b", ImplementationKind::Own),
            ("p/x", ImplementationKind::Peer),
        ];
        let all =
            kinds.into_iter().map(|(name, kind)| Implementation { name: name.into(), kind, version: None });
        all.collect()
    }

    fn row(implementation: &str, problem: &str, ratio: Option<f64>) -> BenchRow {
        let ratio_to_best_peer = ratio;
        BenchRow { ratio_to_best_peer, ..BenchRow::unmeasured(implementation, problem, RowStatus::Pass) }
    }

    #[test]
    fn means_are_geometric_and_say_what_they_cover() {
        let mut rows = vec![
            row("a", "s", Some(0.5)),
            row("b", "s", Some(2.0)),
            row("p/x", "s", Some(0.1)),
            row("a", "l", Some(2.0)),
            row("b", "l", Some(0.5)),
            row("a", "o", None),
            row("b", "o", Some(1.0)),
        ];
        let seen = summary(&rows, &implementations());
        let shown: Vec<String> = seen.iter().map(MeanRatio::sentence).collect();
        assert_eq!(
            shown,
            [
                "a: 1.000 of the best peer's time over 2 of 3 problems (geometric mean), at worst 2.000 on l",
                "b: 1.000 of the best peer's time over 3 problems (geometric mean), at worst 2.000 on s",
                "the fastest of each problem: 0.630 of the best peer's time over 3 problems (geometric mean), at \
                 worst 1.000 on o",
            ]
        );
        // A wrong answer has no ratio that counts.
        rows[4].status = RowStatus::Fail;
        assert_eq!(summary(&rows, &implementations())[2].worst_ratio, 2.0);
        assert!(summary(&rows[5..6], &implementations()).is_empty());
    }
}
