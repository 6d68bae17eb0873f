//! Random small spaces from seeds, and what is still wrong with the smallest of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::cases::starved;
use super::check::{check, check_compiled, check_operations, valid_points};
use super::generator::{Choices, Spec};

/// Another first seed can be given in `EVO_SEED`.
pub const FIRST_SEED: u64 = 1;

/// Spaces a run; another number can be given in `EVO_CASES`.
pub const CASES: u64 = 3000;

/// Choices from a seed.
pub struct Random(pub ChaCha8Rng);

impl Choices for Random {
    fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n)
    }
}

/// A number from the environment.
pub fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A random expression over parameters called A to F.
pub fn any_expression(seed: u64) -> String {
    let mut random = Random(seeded(seed));
    loop {
        let constraints = Spec::random(&mut random).constraints;
        if let Some(text) = constraints.into_iter().next() {
            return text;
        }
    }
}

/// One space in so many is asked for everything: whole, and with a budget that is too small for it.
const THOROUGH: u64 = 10;

/// Points of the spaces that are asked for everything.
const FEW_POINTS: u32 = 400;

fn check_without_panic(spec: &Spec, seed: u64) -> Result<usize, String> {
    let check = || {
        let count = check(spec)?;
        let space = spec.build()?;
        if seed.is_multiple_of(THOROUGH) && space.cartesian() <= FEW_POINTS.into() {
            check_operations(&space)?;
            check_operations(&starved(&space, 1 + seed / THOROUGH % 60))?;
        }
        Ok(count)
    };
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| Err("panics".to_string()))
}

/// The smallest space found that is still wrong, and what is wrong with it.
fn shrink(mut spec: Spec, mut wrong: String, seed: u64) -> (Spec, String) {
    loop {
        let failing = |smaller: &Spec| check_without_panic(smaller, seed).err();
        let next = spec.smaller().into_iter().find_map(|smaller| failing(&smaller).map(|e| (smaller, e)));
        let Some((smaller, error)) = next else { return (spec, wrong) };
        (spec, wrong) = (smaller, error);
    }
}

#[test]
fn random_spaces_agree_with_brute_force() {
    let first = from_environment("EVO_SEED", FIRST_SEED);
    let cases = from_environment("EVO_CASES", CASES);
    let (mut empty, mut full) = (0, 0);
    for seed in first..first + cases {
        let spec = Spec::random(&mut Random(seeded(seed)));
        match check_without_panic(&spec, seed) {
            Ok(0) => empty += 1,
            Ok(count) => full += u64::from(spec.build().unwrap().cartesian() == count.into()),
            Err(wrong) => {
                let (small, wrong) = shrink(spec, wrong, seed);
                panic!("EVO_SEED={seed}: {wrong}\n{small}");
            }
        }
    }
    eprintln!("{cases} spaces from seed {first}: {empty} empty, {full} full");
    // A generator whose constraints never bite would find nothing.
    assert!(cases < 1000 || empty * 2 < cases && full * 2 < cases);
}

#[test]
fn files_of_random_spaces_are_read_as_they_are_meant() {
    let first = from_environment("EVO_SEED", FIRST_SEED) + 1_000_000;
    for seed in first..first + from_environment("EVO_CASES", CASES) / 8 {
        let spec = Spec::random(&mut Random(seeded(seed)));
        let text = spec.to_json();
        let valid = valid_points(&spec.build().unwrap()).len() as u128;
        match SearchSpace::parse(&text) {
            Ok(space) => assert_eq!(space.count(), valid, "seed {seed}: {text}"),
            Err(diagnostics) => {
                let rendered = diagnostics.render("random.json", &text);
                // Only a mistake of kinds may refuse what has points: `A == 'x'` with numbers in A.
                let is_of_kinds = rendered.contains(" a text") || rendered.contains(" among ");
                assert!(valid == 0 && !rendered.is_empty() || is_of_kinds, "seed {seed}: {rendered}");
            }
        }
    }
}

#[test]
fn compiled_constraints_have_the_values_of_their_trees() {
    let first = from_environment("EVO_SEED", FIRST_SEED) + 3_000_000;
    for seed in first..first + from_environment("EVO_CASES", CASES) / 4 {
        let spec = Spec::random(&mut Random(seeded(seed)));
        check_compiled(&spec).unwrap_or_else(|wrong| panic!("EVO_SEED={seed}: {wrong}\n{spec}"));
    }
}
