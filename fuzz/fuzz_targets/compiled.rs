//! Expressions of the grammar's making, compiled, compared with their trees at every point of a small
//! space: the two evaluators of the language must not differ.
#![no_main]

// Judging whole spaces, shrinking and writing files are for the other target and the tests.
#[allow(dead_code)]
#[path = "../../tests/it/space_properties/generator.rs"]
mod generator;
#[path = "../../tests/it/space_properties/grammar.rs"]
mod grammar;

use arbitrary::Unstructured;
use evo_space::expr::Expr;
use evo_space::program::Scratch;
use evo_space::value::Value;
use generator::{Choices, Spec};
use libfuzzer_sys::fuzz_target;

struct Bytes<'a>(Unstructured<'a>);

impl Choices for Bytes<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.0.int_in_range(0..=n - 1).unwrap_or(0)
    }
}

fuzz_target!(|data: &[u8]| {
    let spec = Spec::random(&mut Bytes(Unstructured::new(data)));
    let points = spec.points();
    for text in &spec.constraints {
        let expr = Expr::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        check(&spec, &points, &expr);
    }
});

fn check(spec: &Spec, points: &[Vec<u16>], expr: &Expr) {
    let slot = |name: &str| spec.parameters.iter().position(|(own, _)| own == name);
    let slots: Vec<usize> = expr.distinct_names().iter().filter_map(|name| slot(name)).collect();
    let domains: Vec<Vec<Value>> = slots.iter().map(|slot| spec.parameters[*slot].1.clone()).collect();
    let compiled = expr.compile(&domains);
    let mut scratch = Scratch::default();
    for point in points {
        let value = |slot: usize| &spec.parameters[slot].1[usize::from(point[slot])];
        let scope = |name: &str| slot(name).map(|slot| value(slot).clone());
        let expected = expr.evaluate(&scope).ok();
        let found = compiled.evaluate(|name| value(slots[name]), &mut scratch);
        assert_eq!(found, expected, "{} at {point:?} of\n{spec}", expr.text());
    }
}
