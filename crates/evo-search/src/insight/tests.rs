//! Insights into studies with known answers.

use evo_protocol::evaluation::{Evaluation, Expectation};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;

use super::*;
use crate::conformance::space_of;
use crate::insight::thinned;

/// `A * B` decides, `C` a little, `D` not at all; `E = 1` always fails.
const SPACE: &str = "constraints = ['A * B <= 512']\n[parameters]\nA = [1, 2, 4, 8, 16, 32]\nB = [1, 2, 4, 8, 16, 32]\n\
                     C = [1, 2, 3, 4]\nD = [10, 20, 30, 40]\nE = [0, 1]\n";

fn value(configuration: &evo_space::genome::Configuration, name: &str) -> f64 {
    configuration.get(name).and_then(|value| value.as_float()).unwrap()
}

fn rule(configuration: &evo_space::genome::Configuration) -> Option<f64> {
    let [a, b, c, e] = ["A", "B", "C", "E"].map(|name| value(configuration, name));
    let off = ((a * b).log2() - 6.0).abs();
    (e == 0.0).then_some(1000.0 * (1.0 + off) * (1.0 + 0.03 * c))
}

fn evaluation(space: &SearchSpace, number: u64, genome: &Genome, origin: &str) -> Evaluation {
    let configuration = space.configuration(genome);
    let time = rule(&configuration);
    let kind = if time.is_some() { VerdictKind::Pass } else { VerdictKind::LaunchFail };
    Evaluation {
        objective_ns: time,
        compile_ms: 3.0,
        device_ms: 1.0,
        ..Evaluation::new(number, configuration, origin, Verdict::new(kind, ""))
    }
}

fn study(space: &SearchSpace, genomes: &[Genome], origin: &str) -> Vec<Evaluation> {
    let numbered = genomes.iter().enumerate();
    numbered.map(|(at, genome)| evaluation(space, at as u64, genome, origin)).collect()
}

#[test]
fn what_decides_is_found_and_what_does_not_is_not() {
    let space = space_of(SPACE);
    let evaluations = study(&space, &space.sample_distinct(300, &mut seeded(2)), "step");
    let insight = Insight::of(&space, &evaluations, 1);
    let importance = insight.importance.unwrap();
    assert!(importance.explained > 0.8, "{importance:?}");
    let share = |name: &str| importance.parameters.iter().find(|one| one.name == name).unwrap().share;
    assert!(share("A") > 0.3 && share("B") > 0.3, "{importance:?}");
    // `E` decides whether a point works, but among points that work it never varies.
    assert!(share("D") < 0.03 && share("E") == 0.0, "{importance:?}");
    let sum: f64 = importance.parameters.iter().map(|one| one.share).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    assert!(importance.parameters.is_sorted_by(|a, b| a.share >= b.share));
    assert_eq!(insight.never_passed, [Values { parameter: "E".into(), values: vec![1.into()] }]);
    assert!(insight.untried.is_empty());
}

#[test]
fn noise_explains_nothing_and_few_points_say_nothing() {
    let space = space_of(SPACE);
    let mut evaluations = study(&space, &space.sample_distinct(200, &mut seeded(2)), "step");
    let mut rng = seeded(7);
    for one in &mut evaluations {
        one.objective_ns = one.objective_ns.map(|_| rng.random_range(1000.0..2000.0));
    }
    let insight = Insight::of(&space, &evaluations, 1);
    assert!(insight.importance.unwrap().explained < 0.1);
    let few = Insight::of(&space, &evaluations[..15], 1);
    assert!(few.importance.is_none() && few.random.is_none() && few.best.is_some());
    // Equal times everywhere leave no variance to explain.
    evaluations.iter_mut().for_each(|one| one.objective_ns = one.objective_ns.map(|_| 5.0));
    let flat = Insight::of(&space, &evaluations, 1);
    assert!(flat.importance.is_none());
    let median = flat.random.unwrap().median_ns.unwrap();
    assert!((median / 5.0 - 1.0).abs() < 1e-6, "{median}");
}

#[test]
fn an_empty_study_and_one_of_failures_have_a_record() {
    let space = space_of(SPACE);
    let none = Insight::of(&space, &[], 1);
    assert_eq!((none.evaluations, none.best.is_none(), none.random.is_none()), (0, true, true));
    assert_eq!(none.untried.len(), 5, "nothing was tried of any parameter");
    let failing: Vec<Genome> = space.iter().filter(|genome| genome.positions()[4] == 1).collect();
    let all = Insight::of(&space, &study(&space, &failing, "step"), 1);
    assert!(all.best.is_none() && all.importance.is_none() && all.random.is_none());
    assert_eq!(all.untried, [Values { parameter: "E".into(), values: vec![0.into()] }]);
}

#[test]
fn the_best_is_told_with_its_place_cost_and_operator() {
    let space = space_of(SPACE);
    let mut genomes = space.sample_distinct(30, &mut seeded(3));
    genomes.sort_by(|a, b| {
        let time = |genome: &Genome| rule(&space.configuration(genome)).unwrap_or(f64::INFINITY);
        time(b).total_cmp(&time(a))
    });
    // Slowest first, so the best comes last. It trades places with the tenth.
    genomes.swap(29, 9);
    let mut evaluations = study(&space, &genomes, "random");
    evaluations[9].origin = "crossover".into();
    evaluations[9].device_ms = 17.0;
    let insight = Insight::of(&space, &evaluations, 1);
    let best = insight.best.unwrap();
    assert_eq!((best.number, best.after_evaluations, best.origin.as_str()), (9, 10, "crossover"));
    // Four milliseconds each and 20 for the tenth: 56 of 136 by then.
    assert!((best.after_cost_share.unwrap() - 56.0 / 136.0).abs() < 1e-12, "{best:?}");
    let crossover = insight.operators["crossover"];
    assert_eq!(crossover, OperatorCounts { evaluations: 1, passing: 1, improvements: 1 });
}

fn truth(space: &SearchSpace, draws: usize) -> f64 {
    let mut times: Vec<f64> =
        space.iter().map(|genome| rule(&space.configuration(&genome)).unwrap_or(f64::INFINITY)).collect();
    times.sort_by(f64::total_cmp);
    let mut none = 1.0;
    for (rank, time) in times.iter().enumerate() {
        // The chance that all draws miss this one too, given that they missed the better ones.
        none *= 1.0 - draws as f64 / (times.len() - rank) as f64;
        if none <= 0.5 {
            return *time;
        }
    }
    f64::INFINITY
}

#[test]
fn random_search_is_estimated_near_the_truth() {
    let space = space_of(SPACE);
    let mut genomes = space.sample_distinct(60, &mut seeded(4));
    // A search: it then goes on where it is fast.
    let mut by_time: Vec<Genome> = space.iter().collect();
    by_time.sort_by_key(|genome| rule(&space.configuration(genome)).map_or(u64::MAX, f64::to_bits));
    genomes
        .extend(by_time[..40].iter().filter(|genome| !genomes.contains(genome)).cloned().collect::<Vec<_>>());
    let check = |origin: &str, count: usize, basis: Basis| {
        let random = Insight::of(&space, &study(&space, &genomes[..count], origin), 1).random.unwrap();
        assert_eq!((random.basis, random.evaluations), (basis, count));
        let (told, exact) = (random.median_ns.unwrap(), truth(&space, count));
        assert!((told / exact).ln().abs() < 0.15, "{origin}: {told} is far from {exact}");
        assert!(random.quarter_ns.unwrap() <= told && told <= random.three_quarters_ns.unwrap());
        // The course ends where the estimate is, up to a step of its grid, and never gets slower on the way.
        let last = random.course.last().unwrap();
        assert_eq!(last.evaluations, count);
        assert!((last.median_ns.unwrap() / told).ln().abs() < 0.05, "{origin}: {last:?} and {told}");
        let medians: Vec<f64> = random.course.iter().filter_map(|step| step.median_ns).collect();
        assert!(medians.len() > 5 && medians.is_sorted_by(|a, b| a >= b), "{medians:?}");
        random
    };
    check("random", 60, Basis::OwnDraws);
    let searched = check("step", genomes.len(), Basis::Model);
    assert!((0.0..=1.0).contains(&searched.chance_as_good));
}

#[test]
fn a_space_that_was_evaluated_whole_tells_how_long_random_search_takes() {
    let space = space_of("[parameters]\nA = [1, 2, 4, 8, 16]\nB = [1, 2, 4, 8]\nC = [1]\nE = [0]\n");
    let all: Vec<Genome> = space.iter().collect();
    let random = Insight::of(&space, &study(&space, &all, "exhaustive"), 1).random.unwrap();
    assert_eq!((random.basis, random.chance_as_good), (Basis::WholeSpace, 1.0));
    // The product 64 occurs twice among 20 points: 18/20 · 17/19 · … falls to a half at the sixth draw.
    assert_eq!(random.median_to_match, Some(6));
}

#[test]
fn calibration_counts_what_came_inside() {
    let space = space_of(SPACE);
    let mut evaluations = study(&space, &space.sample_distinct(40, &mut seeded(5)), "model");
    for (at, one) in evaluations.iter_mut().enumerate() {
        let time = one.objective_ns.unwrap_or(1000.0);
        // Every other one is missed by a factor of two.
        let objective_ns = if at % 2 == 0 { time } else { 2.0 * time };
        let (low_ns, high_ns) = (0.9 * objective_ns, 1.1 * objective_ns);
        one.expected = Some(Expectation { objective_ns, low_ns, high_ns, risk: 0.25 });
    }
    let insight = Insight::of(&space, &evaluations, 1);
    let calibration = insight.calibration.unwrap();
    let measured = evaluations.iter().filter(|one| one.objective_ns.is_some()).count();
    let inside = evaluations.iter().step_by(2).filter(|one| one.objective_ns.is_some()).count();
    assert_eq!((calibration.expected, calibration.measured), (40, measured));
    assert_eq!(calibration.inside, Some(inside as f64 / measured as f64));
    assert_eq!(calibration.risk_expected, 0.25);
    assert_eq!(calibration.risk_came, (40 - measured) as f64 / 40.0);
    let factor = calibration.typical_factor.unwrap();
    assert!((factor - 1.0).abs() < 1e-9 || (factor - 2.0).abs() < 1e-9, "{factor}");
}

#[test]
fn our_own_trouble_and_what_was_not_run_say_nothing_about_the_kernel() {
    let space = space_of(SPACE);
    let mut evaluations = study(&space, &space.sample_distinct(4, &mut seeded(6)), "step");
    evaluations[1].verdict = Verdict::new(VerdictKind::HarnessError, "");
    evaluations[2].verdict = Verdict::new(VerdictKind::PassedOver, "");
    assert_eq!(Insight::of(&space, &evaluations, 1).evaluations, 2);
}

#[test]
fn thinning_keeps_the_number_and_the_order() {
    for (count, most) in [(10, 20), (10, 10), (1000, 7), (11, 10)] {
        let kept = thinned((0..count).collect::<Vec<usize>>(), most);
        assert_eq!(kept.len(), count.min(most));
        assert!(kept.is_sorted());
    }
}

#[test]
fn parameters_without_effect_are_named() {
    let space = space_of("[parameters]\nA = [1, 2]\nB = [1]\nC = [1, 2, 4]\nD = [1, 2]\nE = [0]\n");
    let genomes: Vec<Genome> = (0..12).map(|index| space.genome_at(index).unwrap()).collect();
    let code = |text: String| Some(evo_space::genome::ContentHash::of(text.as_bytes()));
    let mut all = study(&space, &genomes, "random");
    let mut first = std::collections::HashMap::new();
    for one in &mut all {
        let [a, launch] = ["A", "D"].map(|name| value(&one.configuration, name));
        // D decides the launches alone: the code is the same, and yet no twin is found.
        one.code_hash = code(format!("{a}"));
        let ran = *first.entry((a as i64, launch as i64)).or_insert(one.number);
        one.duplicate_of = (ran != one.number).then_some(ran);
    }
    let dead = |all: &[Evaluation]| Insight::of(&space, all, 1).dead;
    // 4 groups of 3 values.
    assert_eq!(dead(&all), [DeadParameter { parameter: "C".into(), pairs: 12 }]);
    let few: Vec<Evaluation> =
        all.iter().filter(|one| value(&one.configuration, "C") < 4.0).cloned().collect();
    assert_eq!(dead(&few[..2]), [], "two variants are too few");
    let mut other = all.clone();
    other[11].code_hash = code("other".into());
    other[11].duplicate_of = None;
    assert_eq!(dead(&other), [], "one pair that differs is enough");
    other.iter_mut().for_each(|one| one.code_hash = None);
    assert_eq!(dead(&other), [], "without code nothing is known");
}

/// Of points that were never tried, the fast ones come first, with times near those by rule.
#[test]
fn untried_points_have_expected_times() {
    let space = space_of(SPACE);
    let tried = space.sample_distinct(300, &mut seeded(2));
    let evaluations = study(&space, &tried, "step");
    let expected = expected_points(&space, &evaluations, 1, 10);
    assert_eq!(expected.len(), 10);
    assert!(expected.is_sorted_by(|a, b| a.objective_ns <= b.objective_ns));
    let all: Vec<f64> = space.iter().filter_map(|own| rule(&space.configuration(&own))).collect();
    let median = {
        let mut all = all;
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    for own in &expected {
        assert!(!tried.contains(&space.genome(&own.configuration).unwrap()), "{own:?}");
        assert!(own.low_ns <= own.objective_ns && own.objective_ns <= own.high_ns, "{own:?}");
        // `E = 1` fails: the model of times knows nothing of that, and the rule none of the time.
        if let Some(time) = rule(&space.configuration(&space.genome(&own.configuration).unwrap())) {
            assert!(time < median && (own.objective_ns / time).ln().abs() < 0.5, "{own:?}: {time}");
        }
    }
    assert_eq!(expected_points(&space, &evaluations, 1, 10), expected, "the same study gives the same list");
    assert!(expected_points(&space, &evaluations[..10], 1, 10).is_empty(), "too little to learn from");
}
