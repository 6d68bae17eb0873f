//! Constraints of the fuzzer's choices, compiled, compared with their trees at every point of a small
//! space: the two evaluators of the language must not differ.
#![no_main]

// Judging whole spaces, shrinking and writing files are for the other target and for the tests.
#[allow(dead_code)]
#[path = "../../tests/it/space_properties/check.rs"]
mod check;
#[allow(dead_code)]
#[path = "../../tests/it/space_properties/generator.rs"]
mod generator;
#[path = "../../tests/it/space_properties/grammar.rs"]
mod grammar;

use arbitrary::Unstructured;
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
    if let Err(wrong) = check::check_compiled(&spec) {
        panic!("{wrong}\n{spec}");
    }
});
