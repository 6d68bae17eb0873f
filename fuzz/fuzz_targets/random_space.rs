//! Spaces made of the fuzzer's choices, compared with brute force: the same generator and the same
//! comparison as the property tests, but steered towards code that no space has reached yet.
#![no_main]

// Compiled expressions have a target of their own; shrinking and writing files are for the tests.
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
    if let Err(wrong) = check::check(&spec) {
        panic!("{wrong}\n{spec}");
    }
});
