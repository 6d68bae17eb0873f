//! What newcomers must beat, and which results of another study, or of before an edit, hold beside that: decisions that
//! `take_over` acts on. The keys of both are equal already, so only chance and the incumbent can make a difference.
//!
//! Where problems are searched apart (`evo sweep --per-problem`), newcomers must beat the best of one of them.

use std::cmp::Reverse;
use std::collections::HashMap;

use evo_journal::record::StudyHeader;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::{RankingMode, StopRule};
use evo_protocol::verdict::{Verdict, VerdictClass, VerdictKind};
use evo_report::study::EarlierResult;
use evo_search::strategy::ProblemTime;
use evo_space::genome::ContentHash;
use evo_supervise::job::{Contest, Standing};

use crate::ports::Identity;
use crate::variant::code_and_plan;

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
fn is_lasting(verdict: &Verdict) -> bool {
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

pub(super) fn holds_beside(one: &Evaluation, standing: &Standing, header: &StudyHeader) -> bool {
    match header.per_problem {
        _ if one.verdict.kind != VerdictKind::TooSlow => true,
        true => is_behind_everywhere(one, standing, header.ranking),
        false => is_still_too_slow(one, standing),
    }
}

/// `too_slow` was said relative to the incumbent of then. It holds against every incumbent that is at least as fast,
/// over all problems and on the problem that the verdict names. Against a slower one the variant may be a contender,
/// so it is measured; its old time would do as a lower bound only, and it has not met the other gates.
fn is_still_too_slow(slow: &Evaluation, standing: &Standing) -> bool {
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

/// By as much as its verdict asks for. Where the variant was not timed on one of them, nobody knows.
fn is_behind_everywhere(slow: &Evaluation, standing: &Standing, ranking: RankingMode) -> bool {
    let evidence = &slow.verdict.evidence;
    let was_everywhere = evidence.get(Verdict::EVERYWHERE).is_some_and(|own| *own == true);
    let ratio = evidence.get("ratio").and_then(|own| own.as_f64()).filter(|ratio| *ratio > 1.0);
    let Some(ratio) = ratio.filter(|_| was_everywhere && !standing.problems.is_empty()) else { return false };
    let names: Vec<String> = standing.problems.keys().cloned().collect();
    let own = problem_times(slow, &names, ranking);
    own.into_iter().zip(standing.problems.values()).all(|(own, best)| {
        // One part in a million for the divisions.
        own.is_some_and(|own| own.time_ns >= best * ratio * (1.0 - 1e-6))
    })
}

/// What newcomers are measured against once there is this evaluation as well; whether it is the fastest.
pub(super) fn improve(standing: &mut Standing, evaluation: &Evaluation, header: &StudyHeader) -> bool {
    let Some(objective) = evaluation.objective_ns.filter(|_| evaluation.verdict.is_pass()) else {
        return false;
    };
    let is_best = standing.objective_ns.is_none_or(|best| objective < best);
    match header.per_problem {
        true => improve_each(standing, evaluation, header.ranking),
        // The times of one real variant, not the best of each problem, which no variant may reach together.
        false if is_best => {
            let ranked = evaluation.measurements.iter().filter(|own| own.mode == header.ranking.timing());
            let times = ranked.map(|own| (own.problem.clone(), own.p50_ns)).collect();
            *standing = Standing::new(times, objective);
        }
        false => {}
    }
    is_best
}

/// The time of each problem: of a series that ended early its fastest sample, which no median is below.
pub(super) fn problem_times(
    one: &Evaluation,
    problems: &[String],
    ranking: RankingMode,
) -> Vec<Option<ProblemTime>> {
    let time = |problem: &String| {
        let mut own = one.measurements.iter().filter(|own| own.mode == ranking.timing());
        own.find(|own| own.problem == *problem).map(|own| {
            let is_bound = own.stop == StopRule::Abandoned;
            ProblemTime { time_ns: if is_bound { own.min_ns } else { own.p50_ns }, is_bound }
        })
    };
    problems.iter().map(time).collect()
}

fn improve_each(standing: &mut Standing, one: &Evaluation, ranking: RankingMode) {
    standing.contest = Contest::EachProblem;
    for own in one.measurements.iter().filter(|own| own.mode == ranking.timing()) {
        let best = standing.problems.entry(own.problem.clone()).or_insert(f64::INFINITY);
        *best = best.min(own.p50_ns);
    }
    if let Some(objective) = one.objective_ns {
        standing.objective_ns = Some(standing.objective_ns.map_or(objective, |best| best.min(objective)));
    }
}

/// The order of results with one key; the first is taken. A refusal stands against any number of passes, because other
/// inputs may simply not show the fault. Among equals the newest, and the study's own rather than a copy.
fn preference(one: &EarlierResult) -> impl Ord + use<> {
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
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;

    use evo_journal::example::evaluation;
    use evo_protocol::measurement::TimingMode;
    use evo_search::registry::create;
    use evo_search::strategy::Strategy;
    use evo_search::{PerProblem, ProblemSearch};
    use evo_space::genome::Configuration;
    use evo_supervise::job::example::measurement;

    use super::*;
    use crate::fake::{FakeJob, Script, ScriptedStrategy, TestStudy, passed};

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

    fn timed(verdict: Verdict, times: &[(&str, f64, StopRule)]) -> Evaluation {
        let mut one = evaluation(0, Configuration::new(Vec::new()), "random", verdict);
        let own = times.iter().map(|(name, time, stop)| measurement(name, TimingMode::Hot, *time, *stop));
        one.measurements = own.collect();
        one.objective_ns = Some(times.iter().map(|(_, time, _)| time).product::<f64>().sqrt());
        one
    }

    #[test]
    fn each_problem_keeps_its_own_best() {
        let mut standing = Standing::default();
        let pass =
            |p, q| timed(Verdict::pass(), &[("p", p, StopRule::Interval), ("q", q, StopRule::Interval)]);
        improve_each(&mut standing, &pass(100.0, 400.0), RankingMode::Hot);
        improve_each(&mut standing, &pass(90.0, 900.0), RankingMode::Hot);
        assert_eq!(standing.problems, [("p".to_string(), 90.0), ("q".to_string(), 400.0)].into());
        assert_eq!((standing.objective_ns, standing.contest), (Some(200.0), Contest::EachProblem));
    }

    #[test]
    fn too_slow_holds_only_behind_the_best_of_each() {
        let slow = Verdict::new(VerdictKind::TooSlow, "").with("ratio", 1.2);
        let everywhere = slow.clone().with(Verdict::EVERYWHERE, true);
        let times = [("p", 120.0, StopRule::Screen), ("q", 700.0, StopRule::Abandoned)];
        let standing = |p: f64, q: f64| Standing {
            problems: [("p".to_string(), p), ("q".to_string(), q)].into(),
            objective_ns: Some(1.0),
            contest: Contest::EachProblem,
        };
        let one = timed(everywhere.clone(), &times);
        assert!(is_behind_everywhere(&one, &standing(100.0, 400.0), RankingMode::Hot));
        assert!(is_behind_everywhere(&one, &standing(80.0, 300.0), RankingMode::Hot));
        assert!(!is_behind_everywhere(&one, &standing(101.0, 400.0), RankingMode::Hot));
        assert!(!is_behind_everywhere(&timed(slow, &times), &standing(100.0, 400.0), RankingMode::Hot));
        let part = timed(everywhere, &times[..1]);
        assert!(!is_behind_everywhere(&part, &standing(100.0, 400.0), RankingMode::Hot), "not timed on `q`");
        assert!(!is_behind_everywhere(&one, &Standing::default(), RankingMode::Hot));
    }

    /// 4,096 points. `A` and `B` make the source; 6 to 9 have other meanings there.
    const SPACE: &str = "[parameters]\nA = [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35]\n\
                         B = [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35]\n\
                         GRID = [20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35]\n";

    /// Times on `p` and `q`: their optima are far apart, and the mean is least between them.
    fn times_of(label: &str) -> [f64; 2] {
        let value = |name: &str| {
            let pair = label.split(' ').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            pair.and_then(|text| text.parse::<f64>().ok()).unwrap()
        };
        let point = [value("A"), value("B"), value("GRID")];
        let time = |least: f64, best: [f64; 3]| {
            let distance: f64 = point.iter().zip(best).map(|(own, best)| (own - best).powi(2)).sum();
            least * (0.01 * distance).exp()
        };
        [time(1000.0, [21.0, 34.0, 22.0]), time(8000.0, [34.0, 21.0, 33.0])]
    }

    fn two_problems() -> Script {
        Arc::new(|job: &FakeJob| {
            let mut judged = passed(job);
            let own = times_of(&job.label);
            let timed = ["p", "q"].into_iter().zip(own);
            judged.measurements = timed
                .map(|(name, time)| measurement(name, TimingMode::Hot, time, StopRule::Interval))
                .collect();
            judged.objective_ns = Some((own[0] * own[1]).sqrt());
            judged
        })
    }

    fn study(evaluations: u64, per_problem: bool) -> TestStudy {
        let mut bench = TestStudy::new(SPACE);
        bench.two_problems = Some(per_problem);
        bench.options.budget.evaluations = Some(evaluations);
        bench
    }

    fn strategy(bench: &TestStudy, seed: u64, per_problem: bool) -> Box<dyn Strategy + '_> {
        let plain = || create("evolve", &bench.space, seed).unwrap();
        if !per_problem {
            return plain();
        }
        let search = |bound| ProblemSearch::new(plain(), Some(bound));
        Box::new(PerProblem::new(vec![search(500.0), search(4000.0)], seed).unwrap())
    }

    fn found(evaluations: &[Evaluation]) -> [f64; 2] {
        let own = |problem: usize| {
            evaluations.iter().map(move |one| times_of(&one.configuration.to_string())[problem])
        };
        [own(0).fold(f64::INFINITY, f64::min) / 1000.0, own(1).fold(f64::INFINITY, f64::min) / 8000.0]
    }

    /// That a search for the mean finds neither is shown where nothing depends on a clock, in the tests of
    /// `PerProblem`.
    #[test]
    fn each_problem_finds_its_best_which_is_confirmed_and_the_journal_says_what_was_aimed_at() {
        let mut bench = study(160, true);
        bench.options.finalists = 1;
        let ran = bench.run_strategy(strategy(&bench, 1, true), |_| two_problems()).unwrap();
        let own = bench.history().evaluations;
        let best = found(&own);
        assert!(best.iter().all(|factor| *factor < 1.07), "{best:?}");
        for problem in ["p", "q"] {
            let aimed = own.iter().filter(|one| one.aimed_at.as_deref() == Some(problem)).count();
            assert!(aimed > 25, "{aimed} for `{problem}`");
        }
        assert!(own.iter().find(|one| one.is_default()).unwrap().aimed_at.is_none());
        let confirmed: Vec<[f64; 2]> = bench.confirmed().iter().map(|name| times_of(name)).collect();
        for (problem, least) in [(0, 1000.0), (1, 8000.0)] {
            let own = confirmed.iter().map(|own| own[problem] / least).fold(f64::INFINITY, f64::min);
            // Within 2 % of the fastest is served.
            assert!(own <= best[problem] * 1.021, "{problem}: {own} where {} was found", best[problem]);
        }
        assert!((3..=4).contains(&ran.summary.confirmed), "{}", ran.summary.confirmed);

        let bench = study(20, false);
        bench.run_strategy(strategy(&bench, 1, false), |_| two_problems()).unwrap();
        assert!(bench.history().evaluations.iter().all(|one| one.aimed_at.is_none()));
    }

    #[test]
    fn a_resumed_run_tells_times_and_targets_again() {
        let run = |bench: &TestStudy| {
            let told = Rc::new(RefCell::new(Vec::new()));
            let mut recorder = ScriptedStrategy::new(strategy(bench, 1, true));
            let outcomes = Rc::clone(&told);
            recorder.tell = Box::new(move |outcome| outcomes.borrow_mut().push(outcome.clone()));
            bench.run_strategy(Box::new(recorder), |_| two_problems()).unwrap();
            told.take()
        };
        let mut bench = study(24, true);
        let first = run(&bench);
        assert_eq!(first.len(), 24);
        assert!(first.iter().all(|one| one.times.iter().flatten().count() == 2));
        assert!(
            first.iter().any(|one| one.target == Some(0)) && first.iter().any(|one| one.target == Some(1))
        );
        bench.options.budget.evaluations = Some(30);
        let again = run(&bench);
        assert_eq!(again.len(), 30);
        assert_eq!(again[..24], first);
    }
}
