//! Problems searched apart (`evo sweep --per-problem`): what an evaluation says of each of them, and what newcomers are
//! measured against.

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

/// The time of an evaluation on each of the timed problems.
pub(super) fn times(one: &Evaluation, problems: &[String], ranking: RankingMode) -> Vec<Option<ProblemTime>> {
    let time = |problem: &String| {
        let mut own = one.measurements.iter().filter(|own| own.mode == ranking.timing());
        own.find(|own| own.problem == *problem).map(time_of)
    };
    problems.iter().map(time).collect()
}

/// Takes the times of a variant that passed for problems on which nothing was faster.
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

/// Whether a variant that was too slow is behind the best of each problem by as much as its verdict asks for. Where it
/// was not timed on one of them, nobody knows.
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
    use evo_journal::example::evaluation;
    use evo_protocol::measurement::TimingMode;
    use evo_protocol::verdict::VerdictKind;
    use evo_space::genome::Configuration;
    use evo_supervise::job::example::measurement;

    use super::*;

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
}
