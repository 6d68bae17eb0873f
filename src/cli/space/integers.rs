//! Integers of any size, for people and for programs.

use num_bigint::BigUint;
use serde_json::value::RawValue;

pub fn grouped(number: &BigUint) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|chunk| std::str::from_utf8(chunk).ok()).collect();
    groups.join(",")
}

/// As a JSON number with all its digits.
pub fn raw(number: &BigUint) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(number.to_string())
}
