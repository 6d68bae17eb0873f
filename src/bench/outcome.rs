//! What a benchmark amounts to. Nothing that is missing passes: a shape that did not run, a peer that died, a problem
//! without a right peer where peers were asked for.

use std::collections::BTreeSet;

use evo_protocol::bench::{BenchRow, Implementation, ImplementationKind, MeanRatio, RowStatus};
use evo_protocol::envelope::EnvelopeStatus;

#[derive(Clone, Debug, PartialEq)]
pub struct BenchOutcome {
    /// `pass`, `fail` or `not_run`.
    pub status: EnvelopeStatus,
    /// Why it is not `pass`, row by row; empty where it is.
    pub why: Vec<String>,
    /// Names that were allowed not to run, and did not.
    pub allowed: Vec<String>,
}

/// Judges all rows. `allowed` has names of problems, of implementations, and of peers as their command is called; what
/// one of them has may be missing.
pub fn outcome(
    rows: &[BenchRow],
    implementations: &[Implementation],
    wants_peers: bool,
    allowed: &[String],
) -> BenchOutcome {
    let is_own = |row: &BenchRow| is_own(row, implementations);
    let mut used = BTreeSet::new();
    let mut pardon = |row: &BenchRow| {
        let peer = row.implementation.split('/').next().unwrap_or_default();
        let named = allowed
            .iter()
            .find(|name| **name == row.problem || **name == row.implementation || **name == peer);
        named.map(|name| used.insert(name.clone())).is_some()
    };
    let (mut failed, mut missing) = (Vec::new(), Vec::new());
    for row in rows {
        let what = || {
            let why = row.reason.as_deref().unwrap_or("it did not run");
            format!("`{}` on `{}`: {why}", row.implementation, row.problem)
        };
        match (is_own(row), row.status) {
            (_, RowStatus::Pass) => {}
            (true, RowStatus::Fail) => failed.push(what()),
            // A peer that is wrong is shown; whether another one is right is asked below.
            (false, RowStatus::Fail | RowStatus::Skipped) => {}
            (_, RowStatus::Skipped | RowStatus::NotRun) => {
                if !pardon(row) {
                    missing.push(what());
                }
            }
        }
    }
    for row in rows.iter().filter(|row| wants_peers && is_own(row) && row.status == RowStatus::Pass) {
        let beside = rows.iter().filter(|other| other.problem == row.problem && !is_own(other));
        let peers: Vec<&BenchRow> = beside.collect();
        let text = format!("no peer is right on `{}`: nothing was compared", row.problem);
        if peers.iter().any(|other| other.status == RowStatus::Pass) || missing.contains(&text) {
            continue;
        }
        // Where every peer may be missing, so may the comparison.
        let may_miss = !peers.is_empty() && peers.into_iter().all(&mut pardon);
        if !may_miss && !pardon(row) {
            missing.push(text);
        }
    }
    if rows.is_empty() {
        missing.push("nothing ran".to_string());
    }
    let status = match (failed.is_empty(), missing.is_empty()) {
        (false, _) => EnvelopeStatus::Fail,
        (true, false) => EnvelopeStatus::NotRun,
        (true, true) => EnvelopeStatus::Pass,
    };
    failed.extend(missing);
    BenchOutcome { status, why: failed, allowed: used.into_iter().collect() }
}

pub(super) fn is_own(row: &BenchRow, implementations: &[Implementation]) -> bool {
    let is_its = |own: &Implementation| own.name == row.implementation && own.kind == ImplementationKind::Own;
    implementations.iter().any(is_its)
}

/// What all problems say together: each candidate's time over the best right peer's as a geometric mean, and with several
/// candidates the same for the fastest of each problem, which is what a portfolio reaches. Problems count alike. The fastest
/// of each problem is chosen by the times that are then reported, so with many candidates of nearly one speed it flatters by
/// about their noise.
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

pub fn sentence(mean: &MeanRatio) -> String {
    let what = match &mean.implementation {
        Some(name) => format!("{name}:"),
        None => "the fastest of each problem:".to_string(),
    };
    let problems = match mean.problems == mean.of {
        true => format!("{} problems", mean.of),
        false => format!("{} of {} problems", mean.problems, mean.of),
    };
    format!(
        "{what} {:.3} of the best peer's time over {problems} (geometric mean), at worst {:.3} on {}",
        mean.ratio, mean.worst_ratio, mean.worst_problem
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: &[(&str, RowStatus)], peers: bool, allowed: &[&str], expected: EnvelopeStatus) {
        let rows: Vec<BenchRow> =
            rows.iter().map(|(name, status)| BenchRow::unmeasured(name, "p", *status)).collect();
        let peers_of = ["a/x", "a/y", "b"].map(|name| implementation(name, ImplementationKind::Peer));
        let implementations = [&[implementation("own", ImplementationKind::Own)], &peers_of[..]].concat();
        let allowed: Vec<String> = allowed.iter().map(|name| name.to_string()).collect();
        let seen = outcome(&rows, &implementations, peers, &allowed);
        assert_eq!(seen.status, expected, "{seen:?}");
        assert_eq!(seen.why.is_empty(), expected == EnvelopeStatus::Pass, "{seen:?}");
    }

    #[test]
    fn nothing_that_is_missing_passes() {
        use EnvelopeStatus::{Fail, NotRun as Missing, Pass as Passed};
        use RowStatus::{Fail as Wrong, NotRun, Pass, Skipped};
        check(&[("own", Pass)], false, &[], Passed);
        check(&[("own", Pass)], true, &[], Missing);
        check(&[("own", Pass), ("b", Pass)], true, &[], Passed);
        check(&[("own", Pass), ("a/x", Skipped), ("a/y", Pass)], true, &[], Passed);
        check(&[("own", Pass), ("a/x", Wrong), ("a/y", Pass)], true, &[], Passed);
        check(&[("own", Pass), ("a/x", Wrong)], true, &[], Missing);
        check(&[("own", Pass), ("a/x", Skipped)], true, &[], Missing);
        check(&[("own", Pass), ("a/x", NotRun), ("b", Pass)], true, &[], Missing);
        check(&[("own", Pass), ("a/x", NotRun), ("b", Pass)], true, &["a"], Passed);
        check(&[("own", Pass), ("a/x", NotRun), ("b", Pass)], true, &["a/x"], Passed);
        check(&[("own", Pass), ("a/x", NotRun), ("b", Pass)], true, &["b"], Missing);
        check(&[("own", Pass), ("a/x", NotRun)], true, &["a"], Passed);
        check(&[("own", Pass), ("a/x", NotRun), ("b", Wrong)], true, &["a"], Missing);
        check(&[("own", Skipped), ("b", Pass)], true, &[], Missing);
        check(&[("own", Skipped), ("b", Pass)], true, &["p"], Passed);
        check(&[("own", Wrong), ("b", Pass)], true, &["p"], Fail);
        check(&[], false, &[], Missing);
    }

    fn implementation(name: &str, kind: ImplementationKind) -> Implementation {
        Implementation { name: name.into(), kind, version: None }
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
        let own = ["a", "b"].map(|name| implementation(name, ImplementationKind::Own));
        let all = [&own[..], &[implementation("p/x", ImplementationKind::Peer)]].concat();
        let seen = summary(&rows, &all);
        let shown: Vec<String> = seen.iter().map(sentence).collect();
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
        assert_eq!(summary(&rows, &all)[2].worst_ratio, 2.0);
        assert!(summary(&rows[5..6], &all).is_empty());
    }
}
