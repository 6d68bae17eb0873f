//! The set keeps its promises: sizes, planted optima that nothing beats, failures, every strategy copes.

use std::collections::HashSet;
use std::sync::LazyLock;

use evo_protocol::verdict::VerdictClass;
use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use num_bigint::BigUint;

use super::*;

/// The set, opened once for all tests.
static ALL: LazyLock<Vec<Synthetic>> =
    LazyLock::new(|| names().map(|name| Synthetic::open(name).unwrap()).collect());

fn each(check: impl Fn(&Synthetic)) {
    ALL.iter().for_each(check);
}

fn options(seed: u64, evaluations: usize) -> SyntheticOptions {
    SyntheticOptions { seed, batch: 4, evaluations }
}

#[test]
fn sizes_are_those_that_are_documented() {
    let about = |synthetic: &Synthetic| {
        let space = &synthetic.space;
        let exact = if space.is_exact() { "" } else { "at most " };
        let valid: f64 = space.valid().to_string().parse().unwrap();
        format!("{} {} {exact}{valid:.1e}", synthetic.name(), space.parameters().len())
    };
    let lines: Vec<String> = ALL.iter().map(about).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    matrix_tiles 12 1.2e9
    hidden_limits 12 8.3e10
    switches 30 4.7e11
    long_lists 8 6.3e18
    deceptive 15 6.2e18
    pairwise 20 5.7e17
    mostly_irrelevant 30 8.6e31
    entangled 10 at most 5.1e17
    ");
    each(|synthetic| {
        let space = &synthetic.space;
        assert!((8..=30).contains(&space.parameters().len()), "{}", synthetic.name());
        assert!(*space.valid() >= BigUint::from(1_000_000_000u64), "{}", synthetic.name());
        assert!(space.contains(&space.default_genome()), "{}: default", synthetic.name());
    });
}

/// No loss is negative (asserted wherever one is calculated), so a point without any is an optimum.
#[test]
fn the_planted_point_is_valid_and_loses_nothing() {
    each(|synthetic| {
        let name = synthetic.name();
        assert!(synthetic.space.contains(synthetic.optimum()), "{name}");
        let losses =
            (synthetic.definition.losses)(&Point::new(synthetic.space.parameters(), synthetic.optimum()));
        assert!(losses.unwrap().iter().all(|loss| *loss == 0.0), "{name}");
        let outcome = synthetic.evaluate(synthetic.optimum());
        assert_eq!((outcome.class, outcome.objective_ns), (VerdictClass::Ok, Some(OPTIMUM_NS)), "{name}");
    });
}

#[test]
fn samples_do_not_beat_the_planted_point_nor_come_near() {
    each(|synthetic| {
        let mut rng = seeded(5);
        let (mut best, mut worst, mut failed) = (f64::INFINITY, 1.0f64, 0);
        for _ in 0..10_000 {
            let genome = synthetic.space.sample(&mut rng).expect("it has points");
            match synthetic.ratio(&genome) {
                Ok(ratio) => (best, worst) = (best.min(ratio), worst.max(ratio)),
                Err(_) => failed += 1,
            }
        }
        let name = synthetic.name();
        assert!(best > 1.1, "{name}: ten thousand samples come to {best} of the optimum");
        assert!(worst > 2.0 * best && worst < 1e6, "{name}: from {best} to {worst}");
        let fails = name == "hidden_limits";
        assert!(if fails { (3_000..8_000).contains(&failed) } else { failed == 0 }, "{name}: {failed} fail");
    });
}

#[test]
fn hill_climbing_ends_at_the_planted_point_or_above() {
    each(|synthetic| {
        let climb = |start: Genome| {
            let mut at = (synthetic.ratio(&start).unwrap_or(f64::INFINITY), start);
            loop {
                let near = synthetic.space.neighbors(&at.1, Neighborhood::Hamming);
                let near =
                    near.into_iter().filter_map(|genome| Some((synthetic.ratio(&genome).ok()?, genome)));
                match near.min_by(|one, other| one.0.total_cmp(&other.0)) {
                    Some(next) if next.0 < at.0 => at = next,
                    _ => return at,
                }
            }
        };
        assert_eq!(climb(synthetic.optimum().clone()).0, 1.0, "{}", synthetic.name());
        let mut rng = seeded(9);
        for start in (0..3).filter_map(|_| synthetic.space.sample(&mut rng)) {
            assert!(climb(start).0 >= 1.0, "{}", synthetic.name());
        }
    });
}

#[test]
fn every_strategy_searches_them_to_the_end_of_the_budget() {
    each(|synthetic| {
        for name in registry::names() {
            let what = format!("{name} on {}", synthetic.name());
            let mut strategy = registry::create(name, &synthetic.space, 3).unwrap();
            let mut seen = HashSet::new();
            while seen.len() < 24 {
                let batch = strategy.ask(4);
                assert_eq!(batch.len(), 4, "{what} ends early");
                for proposal in batch {
                    assert!(synthetic.space.contains(&proposal.genome), "{what} leaves the space");
                    strategy.tell(&synthetic.evaluate(&proposal.genome));
                    assert!(seen.insert(proposal.genome), "{what} repeats itself");
                }
            }
        }
    });
}

#[test]
fn a_run_remembers_the_best_so_far_and_ends_with_the_budget() {
    let synthetic = Synthetic::open("hidden_limits").unwrap();
    let once = run(&synthetic, "random", options(2, 50)).unwrap();
    assert_eq!((once.best.len(), once.own_ms.len()), (50, 50));
    assert!(once.best.is_sorted_by(|one, next| one >= next) && once.best[49] >= 1.0);
    assert_eq!(once.best_after(50), once.best[49]);
    assert_eq!(once.best_after(500), once.best[49]);
    assert_eq!(SyntheticRun::default().best_after(3), f64::INFINITY);
    assert_eq!(run(&synthetic, "random", options(2, 50)).unwrap().best, once.best);
    assert_ne!(run(&synthetic, "random", options(3, 50)).unwrap().best, once.best);
}

/// The regression test of search quality beyond enumeration.
#[test]
fn the_default_strategy_beats_random_search() {
    let sum = |strategy: &str| -> f64 {
        ALL.iter().map(|space| run(space, strategy, options(1, 40)).unwrap().best_after(40).ln()).sum()
    };
    let [evolve, random] = [registry::FULL, "random"].map(sum);
    assert!(evolve < random - 2.0, "{evolve} is not below random's {random}");
}

#[test]
fn unknown_names_are_refused_with_the_list() {
    let error = Synthetic::open("pairwize").err().expect("refused");
    assert_eq!(error.to_string(), "unknown synthetic space `pairwize`");
    insta::assert_snapshot!(error.hint(), @"did you mean `pairwise`? there are `matrix_tiles`, `hidden_limits`, `switches`, `long_lists`, `deceptive`, `pairwise`, `mostly_irrelevant`, `entangled`");
}
