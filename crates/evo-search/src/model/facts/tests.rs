//! The model of compiled facts on a made-up kernel whose registers explain a cliff.

use std::collections::HashSet;

use evo_space::space::SearchSpace;

use super::*;
use crate::conformance::space_of;

fn space() -> SearchSpace {
    let values = (0..16).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    space_of(&format!("[parameters]\nA = [{values}]\nB = [{values}]\nC = [{values}]\n"))
}

/// Registers that no product of parameters explains, as those of a real compiler.
fn registers(genome: &Genome) -> f64 {
    let [a, b, c] = [0, 1, 2].map(|slot| u64::from(genome.positions()[slot]));
    16.0 + ((a * 131 + b * 71 + c * 37) * 2_654_435_761 / 1024 % 200) as f64
}

fn facts(genome: &Genome) -> Facts {
    let registers = registers(genome);
    Facts { registers: Some(registers), binary_bytes: Some(4096.0 + 16.0 * registers), ..Facts::default() }
}

/// Smooth in two parameters, four times as long where `slow` says so.
fn time(genome: &Genome, slow: bool) -> f64 {
    let [a, b] = [0, 1].map(|slot| f64::from(genome.positions()[slot]));
    let smooth = 1000.0 * (1.0 + 0.02 * (a - 5.0).abs() + 0.02 * (b - 9.0).abs());
    if slow { 4.0 * smooth } else { smooth }
}

fn is_beyond_the_cliff(genome: &Genome) -> bool {
    registers(genome) > 128.0
}

/// A model of `count` measured points, and the best of them.
fn trained(space: &SearchSpace, count: usize, facts: fn(&Genome) -> Facts) -> (FactsModel, f64) {
    let mut model = FactsModel::new(Features::new(space));
    let mut best = f64::INFINITY;
    for genome in space.sample_distinct(count, &mut seeded(4)) {
        let objective = time(&genome, is_beyond_the_cliff(&genome));
        best = best.min(objective);
        model.learn(&genome, &facts(&genome), objective, best);
    }
    (model, best)
}

/// Points passed over, of those beyond the cliff and of the fastest twentieth; and audits.
fn passed_over(
    space: &SearchSpace,
    model: &mut FactsModel,
    best: f64,
    facts: fn(&Genome) -> Facts,
) -> [f64; 3] {
    let mut all: Vec<Genome> = space.iter().collect();
    let objective = |genome: &Genome| time(genome, is_beyond_the_cliff(genome));
    all.sort_by(|a, b| objective(a).total_cmp(&objective(b)));
    let fastest: HashSet<&Genome> = all.iter().take(all.len() / 20).collect();
    let (mut rng, mut counts, mut slow) = (seeded(5), [0.0; 3], 0.0);
    for genome in &all {
        let judgment = model.judge(genome, &facts(genome), best, &mut rng);
        let passed = f64::from(u8::from(!judgment.runs()));
        let is_slow = f64::from(u8::from(is_beyond_the_cliff(genome)));
        slow += is_slow;
        counts[0] += passed * is_slow;
        counts[1] += if fastest.contains(genome) { passed } else { 0.0 };
        counts[2] += f64::from(u8::from(judgment == Judgment::Audit));
    }
    [counts[0] / slow, counts[1], counts[2] / (counts[2] + counts[0]).max(1.0)]
}

#[test]
fn a_cliff_of_registers_is_seen_before_running_and_the_best_are_run() {
    let space = space();
    let (mut model, best) = trained(&space, 120, facts);
    let [bad, good, audited] = passed_over(&space, &mut model, best, facts);
    assert!(bad > 0.6, "only {bad} of the slow ones are passed over");
    assert_eq!(good, 0.0, "points of the best twentieth are passed over");
    assert!((0.03..0.1).contains(&audited), "{audited} of those that seem slow are audited");
    let importance = model.importance();
    assert!(importance[0] + importance[5] > 0.5, "{importance:?}");
}

#[test]
fn without_the_fact_that_explains_nearly_everything_is_run() {
    let space = space();
    let blind = |_: &Genome| Facts { stack_bytes: Some(0.0), ..Facts::default() };
    let (mut model, best) = trained(&space, 120, blind);
    let [bad, good, _] = passed_over(&space, &mut model, best, blind);
    assert!(bad < 0.05 && good == 0.0, "{bad} {good}");
}

#[test]
fn it_says_nothing_of_what_it_has_not_seen() {
    let space = space();
    let (mut model, best) = trained(&space, OBSERVATIONS_MIN - 1, facts);
    let all = |model: &mut FactsModel, facts: fn(&Genome) -> Facts| {
        let mut rng = seeded(6);
        space
            .iter()
            .filter(|genome| model.judge(genome, &facts(genome), best, &mut rng) != Judgment::Run)
            .count()
    };
    assert_eq!(all(&mut model, facts), 0, "too few observations");
    let (mut model, _) = trained(&space, 120, facts);
    assert_eq!(all(&mut model, |_| Facts::default()), 0, "no facts");
    let before = model.observations();
    for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        model.learn(&space.default_genome(), &Facts::default(), bad, best);
    }
    assert_eq!(model.observations(), before);
    let mut rng = seeded(7);
    for best in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let genome = space.default_genome();
        assert_eq!(model.judge(&genome, &facts(&genome), best, &mut rng), Judgment::Run, "best {best}");
    }
}

/// A model that learned the cliff from a world that is gone: the audits tell it, and it stops.
#[test]
fn audits_teach_a_model_that_is_wrong() {
    let space = space();
    let (mut model, best) = trained(&space, 120, facts);
    let mut rng = seeded(8);
    let mut passed = [0; 4];
    let unseen = space.sample_distinct(2000, &mut seeded(9));
    for (step, genome) in unseen.iter().enumerate() {
        let judgment = model.judge(genome, &facts(genome), best, &mut rng);
        if judgment.runs() {
            model.learn(genome, &facts(genome), time(genome, false), best);
        } else {
            passed[step / 500] += 1;
        }
    }
    assert!(passed[0] > 20, "{passed:?}");
    assert!(passed[3] < passed[0] / 4, "{passed:?}");
    assert!(model.audits().0 > 0);
}

#[test]
fn the_rule_needs_the_margin_and_the_spreads() {
    let check = |times: f64, spread: f64, expected: bool| {
        let prediction = Prediction { mean: (100.0 * times).ln(), spread };
        assert_eq!(would_run(prediction, 100.0, 1.5, 2.0), expected, "{times} {spread}");
    };
    check(1.4, 0.0, true);
    check(1.6, 0.0, false);
    check(1.6, 0.1, true);
    check(2.0, 0.1, false);
    check(2.0, 0.2, true);
    check(f64::NAN, 0.1, true);
}
