//! Problems searched apart (`evo sweep --per-problem`): what an evaluation says of each, and what newcomers must beat.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::{Measurement, RankingMode, StopRule};
use evo_protocol::verdict::Verdict;
use evo_search::strategy::ProblemTime;
use evo_supervise::job::{Contest, Standing};

/// The time of a measurement: of a series that ended early its fastest sample, which no median is below.
fn time_of(one: &Measurement) -> ProblemTime {
    let is_bound = one.stop == StopRule::Abandoned;
    ProblemTime { time_ns: if is_bound { one.min_ns } else { one.p50_ns }, is_bound }
}

pub(super) fn times(one: &Evaluation, problems: &[String], ranking: RankingMode) -> Vec<Option<ProblemTime>> {
    let time = |problem: &String| {
        let mut own = one.measurements.iter().filter(|own| own.mode == ranking.timing());
        own.find(|own| own.problem == *problem).map(time_of)
    };
    problems.iter().map(time).collect()
}

pub(super) fn improve(standing: &mut Standing, one: &Evaluation, ranking: RankingMode) {
    standing.contest = Contest::EachProblem;
    for own in one.measurements.iter().filter(|own| own.mode == ranking.timing()) {
        let best = standing.problems.entry(own.problem.clone()).or_insert(f64::INFINITY);
        *best = best.min(own.p50_ns);
    }
    if let Some(objective) = one.objective_ns {
        standing.objective_ns = Some(standing.objective_ns.map_or(objective, |best| best.min(objective)));
    }
}

/// By as much as its verdict asks for. Where the variant was not timed on one of them, nobody knows.
pub(super) fn is_behind_everywhere(slow: &Evaluation, standing: &Standing, ranking: RankingMode) -> bool {
    let evidence = &slow.verdict.evidence;
    let was_everywhere = evidence.get(Verdict::EVERYWHERE).is_some_and(|own| *own == true);
    let ratio = evidence.get("ratio").and_then(|own| own.as_f64()).filter(|ratio| *ratio > 1.0);
    let Some(ratio) = ratio.filter(|_| was_everywhere && !standing.problems.is_empty()) else { return false };
    let names: Vec<String> = standing.problems.keys().cloned().collect();
    let own = times(slow, &names, ranking);
    own.into_iter().zip(standing.problems.values()).all(|(own, best)| {
        // One part in a million for the divisions.
        own.is_some_and(|own| own.time_ns >= best * ratio * (1.0 - 1e-6))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;

    use evo_journal::example::evaluation;
    use evo_protocol::measurement::TimingMode;
    use evo_protocol::verdict::VerdictKind;
    use evo_search::registry::create;
    use evo_search::strategy::Strategy;
    use evo_search::{PerProblem, ProblemSearch};
    use evo_space::genome::Configuration;
    use evo_supervise::job::example::measurement;

    use super::*;
    use crate::fake::{FakeJob, Script, ScriptedStrategy, TestStudy, passed};

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
        improve(&mut standing, &pass(100.0, 400.0), RankingMode::Hot);
        improve(&mut standing, &pass(90.0, 900.0), RankingMode::Hot);
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
    fn times(label: &str) -> [f64; 2] {
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
            let own = times(&job.label);
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
            evaluations.iter().map(move |one| times(&one.configuration.to_string())[problem])
        };
        [own(0).fold(f64::INFINITY, f64::min) / 1000.0, own(1).fold(f64::INFINITY, f64::min) / 8000.0]
    }

    /// That a search for the mean finds neither is shown where nothing depends on a clock, in the tests of `PerProblem`.
    #[test]
    fn each_problem_finds_its_best_and_the_journal_says_what_was_aimed_at() {
        let bench = study(160, true);
        bench.run_strategy(strategy(&bench, 1, true), |_| two_problems()).unwrap();
        let own = bench.history().evaluations;
        let best = found(&own);
        assert!(best.iter().all(|factor| *factor < 1.07), "{best:?}");
        for problem in ["p", "q"] {
            let aimed = own.iter().filter(|one| one.aimed_at.as_deref() == Some(problem)).count();
            assert!(aimed > 25, "{aimed} for `{problem}`");
        }
        assert!(own.iter().find(|one| one.is_default()).unwrap().aimed_at.is_none());

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

    #[test]
    fn the_best_of_each_problem_is_confirmed() {
        let mut bench = study(120, true);
        bench.options.finalists = 1;
        let ran = bench.run_strategy(strategy(&bench, 1, true), |_| two_problems()).unwrap();
        let confirmed: Vec<[f64; 2]> = bench.confirmed().iter().map(|name| times(name)).collect();
        let best = found(&bench.history().evaluations);
        for (problem, least) in [(0, 1000.0), (1, 8000.0)] {
            let own = confirmed.iter().map(|own| own[problem] / least).fold(f64::INFINITY, f64::min);
            // Within 2 % of the fastest is served.
            assert!(own <= best[problem] * 1.021, "{problem}: {own} where {} was found", best[problem]);
        }
        assert!((3..=4).contains(&ran.summary.confirmed), "{}", ran.summary.confirmed);
    }
}
