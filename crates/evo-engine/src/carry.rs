//! Which results of another study, or of before an edit, hold for a run: decisions that `take_over` acts on.
//!
//! The keys of both are equal already, so only chance and the incumbent can make a difference.

use std::cmp::Reverse;
use std::collections::HashMap;

use evo_journal::record::StudyHeader;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::RankingMode;
use evo_protocol::verdict::{Verdict, VerdictClass, VerdictKind};
use evo_space::genome::ContentHash;

use super::apart;
use super::ports::Identity;
use super::variant::code_and_plan;
use evo_report::study::EarlierResult;
use evo_supervise::job::Standing;

#[derive(Debug, Default)]
pub(super) struct Inheritance {
    results: Vec<EarlierResult>,
    by_source: HashMap<ContentHash, usize>,
    by_code: HashMap<ContentHash, usize>,
}

impl Inheritance {
    pub(super) fn new(mut results: Vec<EarlierResult>) -> Inheritance {
        results.retain(|one| is_lasting(&one.evaluation.verdict));
        results.sort_by_cached_key(preference);
        let (mut by_source, mut by_code) = (HashMap::new(), HashMap::new());
        for (position, result) in results.iter().enumerate() {
            let Some(key) = &result.evaluation.key else { continue };
            by_source.entry(code_and_plan(&key.source, &key.plan)).or_insert(position);
            if let Some(code) = &result.evaluation.code_hash {
                by_code.entry(code_and_plan(code, &key.plan)).or_insert(position);
            }
        }
        Inheritance { results, by_source, by_code }
    }

    pub(super) fn of_source(&self, identity: &Identity) -> Option<&EarlierResult> {
        let position = self.by_source.get(&code_and_plan(&identity.source, &identity.plan))?;
        self.results.get(*position)
    }

    pub(super) fn of_code(&self, code: &ContentHash) -> Option<&EarlierResult> {
        self.results.get(*self.by_code.get(code)?)
    }
}

/// Whether another measurement is expected to come to the same verdict.
///
/// - A pass and a time hold: the inputs are drawn anew by the same recipe, and finalists are measured again anyway.
/// - A wrong answer, a write out of bounds and a crash of device code are seen once and prove something.
/// - What a deadline, a clock, free memory, the load of the machine or a process decides may come out differently:
///   hangs, noisy or forged times, lost workers, refused loads. So may what was seen only in doubt, or on a device in trouble.
/// - Refusals before the device cost nothing to find again; compilers' answers are in the compile cache.
pub(super) fn is_lasting(verdict: &Verdict) -> bool {
    use VerdictKind::{CrashOther, LaunchFail, WorkerDied};
    if verdict.is_in_doubt() {
        return false;
    }
    match verdict.kind.class() {
        VerdictClass::Ok | VerdictClass::Slow | VerdictClass::Wrong => true,
        // The rest of the sticky family may be the device's own trouble, and a process dies of many things.
        VerdictClass::Crash => !matches!(verdict.kind, CrashOther | WorkerDied),
        VerdictClass::Launch => verdict.kind == LaunchFail,
        VerdictClass::Reject
        | VerdictClass::Compile
        | VerdictClass::PassedOver
        | VerdictClass::Hang
        // A machine under load may delay what clocks are compared with, and clocks may jump.
        | VerdictClass::Timing
        | VerdictClass::Noisy
        | VerdictClass::Harness => false,
    }
}

/// `too_slow` was said relative to the incumbent of then. It holds against every incumbent that is at least as fast,
/// over all problems and on the problem that the verdict names. Against a slower one the variant may be a contender,
/// so it is measured; its old time would do as a lower bound only, and it has not met the other gates.
pub(super) fn is_still_too_slow(slow: &Evaluation, standing: &Standing) -> bool {
    let evidence = |name: &str| slow.verdict.evidence.get(name).and_then(|value| value.as_f64());
    let (Some(time), Some(ratio), Some(best)) =
        (slow.objective_ns, evidence("ratio").filter(|ratio| *ratio > 0.0), standing.objective_ns)
    else {
        return false;
    };
    // One part in a million for the division; times themselves are copied, not computed again.
    let within = |best: f64, then: f64| best <= then * (1.0 + 1e-6);
    let problem = slow.verdict.evidence.get("problem").and_then(|value| value.as_str());
    let on_problem = problem.is_none_or(|name| {
        let best = standing.problems.get(name);
        best.zip(evidence("incumbent_ns")).is_some_and(|(best, then)| within(*best, then))
    });
    on_problem && within(best, time / ratio)
}

/// What newcomers are measured against once there is this evaluation as well; whether it is the fastest.
pub(super) fn improve(standing: &mut Standing, evaluation: &Evaluation, header: &StudyHeader) -> bool {
    let Some(objective) = evaluation.objective_ns.filter(|_| evaluation.verdict.is_pass()) else {
        return false;
    };
    let is_best = standing.objective_ns.is_none_or(|best| objective < best);
    match header.per_problem {
        true => apart::improve(standing, evaluation, header.ranking),
        false if is_best => *standing = standing_of(evaluation, objective, header.ranking),
        false => {}
    }
    is_best
}

/// The times of one real variant, not the best of each problem, which no variant may reach together.
fn standing_of(one: &Evaluation, objective: f64, ranking: RankingMode) -> Standing {
    let ranked = one.measurements.iter().filter(|own| own.mode == ranking.timing());
    Standing::new(ranked.map(|own| (own.problem.clone(), own.p50_ns)).collect(), objective)
}

/// The order of results with one key; the first is taken. A refusal stands against any number of passes, because other
/// inputs may simply not show the fault. Among equals the newest, and the study's own rather than a copy.
pub(super) fn preference(one: &EarlierResult) -> impl Ord + use<> {
    let evaluation = &one.evaluation;
    let class = match evaluation.verdict.kind.class() {
        VerdictClass::Ok => 1,
        VerdictClass::Slow if evaluation.is_raced() => 2,
        VerdictClass::Slow => 3,
        _ => 0,
    };
    let is_copy = evaluation.taken_over_from.is_some();
    (class, Reverse(one.at.clone()), is_copy, one.study.clone(), evaluation.number)
}

#[cfg(test)]
mod tests {
    use evo_space::genome::Configuration;

    use super::*;
    use evo_journal::example::evaluation;

    fn judged(verdict: Verdict, objective: f64) -> Evaluation {
        let mut one = evaluation(0, Configuration::new(Vec::new()), "random", verdict);
        one.objective_ns = Some(objective);
        one
    }

    #[test]
    fn what_chance_decides_is_measured_again() {
        let lasting: Vec<&str> = VerdictKind::ALL
            .iter()
            .filter(|kind| is_lasting(&Verdict::new(**kind, "")))
            .map(|kind| kind.as_str())
            .collect();
        insta::assert_snapshot!(lasting.join(" "), @"pass launch_fail too_slow crash_illegal_address crash_misaligned crash_illegal_instruction crash_trap crash_assert crash_stack divergent_barrier wrong_answer oob_write oob_read input_mutated nondeterministic stateful sanitizer output_flood");
        assert!(!is_lasting(&Verdict::new(VerdictKind::CrashTrap, "").in_doubt()));
    }

    #[test]
    fn too_slow_holds_against_incumbents_that_are_as_fast() {
        let standing = |objective: f64, p: f64| Standing::new([("p".to_string(), p)].into(), objective);
        // Raced: 120 against 100.
        let raced = Verdict::new(VerdictKind::TooSlow, "").with("ratio", 1.2).with(Verdict::RACED, true);
        let raced = judged(raced, 120.0);
        assert!(is_still_too_slow(&raced, &standing(100.0, 100.0)));
        assert!(is_still_too_slow(&raced, &standing(90.0, 90.0)));
        assert!(!is_still_too_slow(&raced, &standing(101.0, 101.0)));
        assert!(!is_still_too_slow(&raced, &Standing::default()), "nothing to be behind");
        // Screened on `p`: 300 against 150, where the incumbent takes 100 over all.
        let screened = Verdict::new(VerdictKind::TooSlow, "").with("ratio", 2.0);
        let screened = judged(screened.with("problem", "p").with("incumbent_ns", 150.0), 200.0);
        assert!(is_still_too_slow(&screened, &standing(100.0, 150.0)));
        assert!(!is_still_too_slow(&screened, &standing(99.0, 160.0)), "slower on the problem that decided");
        assert!(!is_still_too_slow(&screened, &standing(101.0, 140.0)), "slower over all");
        let bare = judged(Verdict::new(VerdictKind::TooSlow, ""), 200.0);
        assert!(!is_still_too_slow(&bare, &standing(1.0, 1.0)), "nobody knows what it lost to");
    }

    #[test]
    fn a_refusal_comes_before_a_pass_and_the_newest_before_older_ones() {
        let make = |kind, at: &str| EarlierResult {
            study: "s".into(),
            at: at.into(),
            evaluation: judged(Verdict::new(kind, ""), 1.0),
        };
        let mut all = [
            make(VerdictKind::TooSlow, "2026-01-04T00:00:00Z"),
            make(VerdictKind::Pass, "2026-01-01T00:00:00Z"),
            make(VerdictKind::Pass, "2026-01-03T00:00:00Z"),
            make(VerdictKind::WrongAnswer, "2026-01-02T00:00:00Z"),
        ];
        all.sort_by_key(preference);
        let order: Vec<(VerdictKind, &str)> =
            all.iter().map(|one| (one.evaluation.verdict.kind, &one.at[8..10])).collect();
        use VerdictKind::{Pass, TooSlow, WrongAnswer};
        assert_eq!(order, [(WrongAnswer, "02"), (Pass, "03"), (Pass, "01"), (TooSlow, "04")]);
    }
}
