//! Constraints of the fuzzer's choices, compiled, compared with their trees at every point of a small
//! space: the two evaluators of the language must not differ.
#![no_main]

#[path = "../spec.rs"]
mod spec;

libfuzzer_sys::fuzz_target!(|data: &[u8]| spec::hold(data, spec::check::check_compiled));
