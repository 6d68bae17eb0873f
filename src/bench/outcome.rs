//! What a benchmark amounts to. Nothing that is missing passes: a shape that did not run, a peer that died, a problem
//! without a right peer where peers were asked for.

use std::collections::BTreeSet;

use evo_protocol::envelope::EnvelopeStatus;

use super::cells::{Implementation, ImplementationKind};
use super::row::{BenchRow, RowStatus};

/// The end of a run.
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
    let kind = |row: &BenchRow| {
        let own = implementations.iter().find(|own| own.name == row.implementation);
        own.map_or(ImplementationKind::Peer, |own| own.kind)
    };
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
        match (kind(row), row.status) {
            (_, RowStatus::Pass) => {}
            (ImplementationKind::Own, RowStatus::Fail) => failed.push(what()),
            // A peer that is wrong is shown; whether another one is right is asked below.
            (ImplementationKind::Peer, RowStatus::Fail | RowStatus::Skipped) => {}
            (_, RowStatus::Skipped | RowStatus::NotRun) => {
                if !pardon(row) {
                    missing.push(what());
                }
            }
        }
    }
    let own = rows.iter().filter(|row| kind(row) == ImplementationKind::Own);
    for row in own.filter(|row| wants_peers && row.status == RowStatus::Pass) {
        let is_peer =
            |other: &&BenchRow| other.problem == row.problem && kind(other) == ImplementationKind::Peer;
        let peers: Vec<&BenchRow> = rows.iter().filter(is_peer).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: &[(&str, RowStatus)], peers: bool, allowed: &[&str], expected: EnvelopeStatus) {
        let rows: Vec<BenchRow> =
            rows.iter().map(|(name, status)| BenchRow::unmeasured(name, "p", *status)).collect();
        let implementations: Vec<Implementation> = [("own", ImplementationKind::Own)]
            .into_iter()
            .chain(["a/x", "a/y", "b"].map(|name| (name, ImplementationKind::Peer)))
            .map(|(name, kind)| Implementation { name: name.into(), kind, version: None })
            .collect();
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
}
