//! Spaces and constraints of the fuzzer's choices: the generator of the property tests in `tests/it/space_properties`,
//! steered towards code that no space has reached yet.

// A target uses a part of it: shrinking and writing files are for the tests.
#[allow(dead_code)]
#[path = "../tests/it/space_properties/check.rs"]
pub mod check;
#[allow(dead_code)]
#[path = "../tests/it/space_properties/generator.rs"]
mod generator;
#[path = "../tests/it/space_properties/grammar.rs"]
mod grammar;

use arbitrary::Unstructured;
use generator::{Choices, Spec};

struct Bytes<'a>(Unstructured<'a>);

impl Choices for Bytes<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.0.int_in_range(0..=n - 1).unwrap_or(0)
    }
}

/// Holds a space of the bytes' choices against `check`, which says what is wrong.
pub fn hold<T>(data: &[u8], check: impl Fn(&Spec) -> Result<T, String>) {
    let spec = Spec::random(&mut Bytes(Unstructured::new(data)));
    if let Err(wrong) = check(&spec) {
        panic!("{wrong}\n{spec}");
    }
}
