#![no_main]
//! The body is in `fuzz/bodies.rs`.

#[path = "../bodies.rs"]
#[allow(dead_code)]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::task(bytes));
