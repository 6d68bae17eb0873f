//! `faster_than` of `evo gate --goals`: the candidate beside a peer on the gate's problems, block by block in turn as
//! `evo bench` times them.

use std::collections::BTreeMap;

use evo_protocol::leaderboard::PairedDecision;

use super::device_lane;
use super::error::CliError;
use super::gate_args::GateArgs;
use super::trial::AskedCandidate;
use super::{bench as bench_command, peers, trial};
use crate::bench::{self, BenchOrder, BenchRow, RowStatus};
use crate::kernel::spec::FasterGoal;
use crate::report::gate::{GoalState, percent};

/// The candidate in rows. No peer can have this name.
const OWN: &str = "@candidate";

/// What became of a goal, and why.
pub type PeerFinding = (GoalState, String);

/// The rows of a run with one peer, or why there are none.
type PeerRows = Result<Vec<BenchRow>, String>;

/// Judges goals of a candidate that passed its gates. Each peer has a run of its own, so that the best right
/// implementation of a row is that peer's.
///
/// # Errors
/// The device is lost, or evo or the machine failed. What a peer does not do is in the findings.
pub fn judge(
    arguments: &GateArgs,
    asked: &AskedCandidate,
    goals: &[FasterGoal],
) -> Result<Vec<PeerFinding>, CliError> {
    let mut seen: BTreeMap<&str, PeerRows> = BTreeMap::new();
    for goal in goals {
        if !seen.contains_key(goal.peer.as_str()) {
            seen.insert(&goal.peer, beside(arguments, asked, &goal.peer)?);
        }
    }
    let one = |goal: &FasterGoal| match seen.get(goal.peer.as_str()) {
        Some(Ok(rows)) => decide(goal, rows),
        Some(Err(why)) => (GoalState::NotRun, why.clone()),
        None => (GoalState::NotRun, "nothing was compared".to_string()),
    };
    Ok(goals.iter().map(one).collect())
}

/// Runs the candidate beside a peer.
fn beside(arguments: &GateArgs, asked: &AskedCandidate, name: &str) -> Result<PeerRows, CliError> {
    let kernel = asked.kernel()?;
    let Some(spec) = peers::named(name, &kernel.peers) else {
        return Ok(Err(format!("there is no peer `{name}`")));
    };
    let setup = &asked.setup;
    let seats = match peers::start(&[spec], &setup.choice.spec, false) {
        Ok(seats) => seats,
        Err(error) => return Ok(Err(error.to_string().lines().next().unwrap_or_default().to_string())),
    };
    let mut lane = device_lane::lane(setup, arguments.run.worker_command.as_deref(), Some(kernel))?;
    let mut shapes = bench::of_problems(kernel, setup.choice.kind);
    shapes.retain(|shape| !shape.problem.on_request);
    let problems: Vec<_> = shapes.iter().map(|shape| &shape.problem).collect();
    let own = bench_command::own_candidate(OWN, &asked.candidate, &problems, setup, &lane, asked.seed)?;
    let ranking = kernel.objective.ranking.timing();
    let order = BenchOrder {
        lane: &mut lane,
        kernel,
        own: vec![own],
        peers: seats,
        shapes: &shapes,
        modes: &[ranking],
        ranking,
        rounds: bench_command::ROUNDS,
        // The gate has just looked at the candidate for as long as at a finalist.
        deep: false,
        until: None,
        seed: asked.seed,
        cache: setup.farm.cache.clone(),
    };
    let done = bench::run(order, &mut |prepared| trial::compile(setup, prepared), &mut |_, _| Ok(()));
    done.map(|(rows, _)| Ok(rows)).map_err(bench_command::ended)
}

/// The candidate beside the peer on one problem.
enum Beside {
    /// By the share at least: the whole interval says so.
    Faster(String),
    NotFaster(String),
    Unknown(String),
}

/// Three values: problems of which nothing is known may decide either way.
fn decide(goal: &FasterGoal, rows: &[BenchRow]) -> PeerFinding {
    let own = rows.iter().filter(|row| row.implementation == OWN);
    let (mut faster, mut others, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for row in own {
        match on_problem(goal, row, rows) {
            Beside::Faster(text) => faster.push(text),
            Beside::NotFaster(text) => others.push(text),
            Beside::Unknown(text) => open.push(text),
        }
    }
    let count = faster.len() + others.len() + open.len();
    if faster.len() >= goal.problems {
        return (GoalState::Met, faster.join(", "));
    }
    if count < goal.problems {
        let why = format!("it asks for {} problems, and this device times {count}", goal.problems);
        return (GoalState::NotRun, why);
    }
    if faster.len() + open.len() >= goal.problems {
        return (GoalState::NotRun, open.join("; "));
    }
    others.extend(open);
    (
        GoalState::Unmet,
        format!("faster by {} on {} of {count}: {}", percent(goal.by), faster.len(), others.join(", ")),
    )
}

fn on_problem(goal: &FasterGoal, own: &BenchRow, rows: &[BenchRow]) -> Beside {
    let problem = &own.problem;
    if own.status != RowStatus::Pass {
        let why = own.reason.as_deref().unwrap_or("it was not timed");
        return Beside::Unknown(format!("the candidate on `{problem}`: {why}"));
    }
    let peers = || rows.iter().filter(|row| row.problem == *problem && row.implementation != OWN);
    let told = |row: &BenchRow| {
        let why = row.reason.as_deref().unwrap_or("it did not run");
        format!("`{}` on `{problem}`: {why}", row.implementation)
    };
    // The one that did not run may be the fastest of them.
    if let Some(row) = peers().find(|row| row.status == RowStatus::NotRun) {
        return Beside::Unknown(told(row));
    }
    if !peers().any(|row| row.status == RowStatus::Pass) {
        let why: Vec<String> = peers().map(told).collect();
        let none = || format!("`{}` has no answer on `{problem}`", goal.peer);
        return Beside::Unknown(if why.is_empty() { none() } else { why.join("; ") });
    }
    let (Some(ratio), Some(high), Some(decision)) = (own.ratio_to_best_peer, own.ratio_high, own.decision)
    else {
        return Beside::Unknown(format!("the noise floor of `{problem}` is not known"));
    };
    // The speed-up is the inverse of the ratio of times, and so its lower end that of the ratio's upper one.
    let text = format!("`{problem}` {:.3}× (at least {:.3}×)", 1.0 / ratio, 1.0 / high);
    match decision == PairedDecision::Faster && 1.0 / high >= 1.0 + goal.by {
        true => Beside::Faster(text),
        false => Beside::NotFaster(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(implementation: &str, problem: &str, status: RowStatus) -> BenchRow {
        let reason = (status != RowStatus::Pass).then(|| format!("why {implementation}"));
        BenchRow { reason, ..BenchRow::unmeasured(implementation, problem, status) }
    }

    /// The candidate beside a right peer, with the upper end of its ratio of times.
    fn pair(problem: &str, high: f64, decision: PairedDecision) -> Vec<BenchRow> {
        let own = BenchRow {
            ratio_to_best_peer: Some(high * 0.9),
            ratio_low: Some(high * 0.8),
            ratio_high: Some(high),
            decision: Some(decision),
            ..row(OWN, problem, RowStatus::Pass)
        };
        vec![own, row("a/x", problem, RowStatus::Pass)]
    }

    #[track_caller]
    fn check(rows: &[BenchRow], problems: usize, expected: GoalState, told: &str) {
        let goal = FasterGoal { peer: "a".into(), by: 0.1, problems };
        let (state, why) = decide(&goal, rows);
        assert_eq!(state, expected, "{why}");
        assert!(why.contains(told), "{why}");
    }

    #[test]
    fn the_lower_end_of_the_interval_decides_and_what_is_not_known_is_never_met() {
        use GoalState::{Met, NotRun, Unmet};
        use PairedDecision::{Ambiguous, Faster};
        let faster = pair("p", 1.0 / 1.101, Faster);
        check(&faster, 1, Met, "`p`");
        check(&pair("p", 1.0 / 1.099, Faster), 1, Unmet, "on 0 of 1");
        check(&pair("p", 0.5, Ambiguous), 1, Unmet, "on 0 of 1");
        check(&faster, 2, NotRun, "asks for 2");
        let more = |rows: Vec<BenchRow>| [faster.clone(), rows].concat();
        let dead = vec![row(OWN, "q", RowStatus::Pass), row("a", "q", RowStatus::NotRun)];
        check(&more(dead.clone()), 1, Met, "`p`");
        check(&more(dead.clone()), 2, NotRun, "why a");
        check(&[pair("p", 1.0, Faster), dead].concat(), 2, Unmet, "on 0 of 2");
        // A problem with a right implementation and one that died, one without a right one, one without any.
        let mut half = pair("p", 0.5, Faster);
        half.push(row("a/y", "p", RowStatus::NotRun));
        check(&half, 1, NotRun, "a/y");
        let mut other = pair("p", 0.5, Faster);
        other.push(row("a/y", "p", RowStatus::Fail));
        check(&other, 1, Met, "`p`");
        other.remove(1);
        check(&other, 1, NotRun, "why a/y");
        check(&other[..1], 1, NotRun, "has no answer");
        // A comparison without a noise floor, and a candidate that was not timed.
        let mut open = pair("p", 0.5, Faster);
        open[0].decision = None;
        check(&open, 1, NotRun, "noise floor");
        open[0] = row(OWN, "p", RowStatus::Fail);
        check(&open, 1, NotRun, "the candidate on");
        check(&[], 1, NotRun, "asks for 1");
    }
}
