//! Spaces made of the fuzzer's choices, compared with brute force: the same generator and the same
//! comparison as the property tests.
#![no_main]

#[path = "../spec.rs"]
mod spec;

libfuzzer_sys::fuzz_target!(|data: &[u8]| spec::hold(data, spec::check::check));
