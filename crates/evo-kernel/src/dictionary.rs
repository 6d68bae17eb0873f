//! Numbers that the texts of a kernel and of its reference name: a modulus, the marker of an empty place, a bound. What
//! happens at such a value only is found by no draw from a range; fuzzers call the list a dictionary.

use evo_compile::{CudaTokenKind, tokenize};
use evo_protocol::plan::Dictionary;

use crate::spec::{KernelSpec, ReferenceSpec};

/// So many numbers of either kind at most, the largest ones: small numbers are drawn anyway.
const NUMBERS_MAX: usize = 48;
/// Larger floats stand for the ends of a type, and what they do to a sum says nothing about the number.
const FLOATS: std::ops::RangeInclusive<f64> = 1e-8..=1e4;

pub fn dictionary(kernel: &KernelSpec) -> Dictionary {
    let reference = match &kernel.check.reference {
        ReferenceSpec::Kernel { source, .. } => source.text.as_str(),
        _ => "",
    };
    of_texts(&[&kernel.source.text, reference])
}

fn of_texts(texts: &[&str]) -> Dictionary {
    let mut found = Dictionary::default();
    for text in texts {
        let mut end = 0;
        for token in tokenize(text).into_iter().filter(|token| token.kind == CudaTokenKind::Number) {
            if token.start < end {
                continue;
            }
            end = number_end(text, token.end);
            match number(&text[token.start..end]) {
                Some(Number::Integer(value)) if value > 2 => found.integers.push(value),
                Some(Number::Float(value)) if FLOATS.contains(&value) => found.floats.push(value),
                _ => {}
            }
        }
    }
    found.integers.sort_unstable_by(|left, right| right.cmp(left));
    found.floats.sort_unstable_by(|left, right| right.total_cmp(left));
    found.integers.dedup();
    found.floats.dedup();
    found.integers.truncate(NUMBERS_MAX);
    found.floats.truncate(NUMBERS_MAX);
    found
}

enum Number {
    Integer(u64),
    Float(f64),
}

/// With the exponent, which is a token of its own where it has a sign.
fn number_end(text: &str, end: usize) -> usize {
    let exponent = text[end..].strip_prefix(['+', '-']).filter(|_| text[..end].ends_with(['e', 'E']));
    let digits = |rest: &str| rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    exponent.map_or(end, |rest| end + 1 + digits(rest))
}

/// A number as C++ writes it: `0xDEAD'BEEFu`, `017`, `0b11`, `1e-5f`.
fn number(text: &str) -> Option<Number> {
    let text = text.replace('\'', "").to_ascii_lowercase();
    let digits = text.trim_end_matches(['u', 'l', 'z']);
    let radix = |start: &str, radix| u64::from_str_radix(digits.strip_prefix(start)?, radix).ok();
    let integer = match digits.as_bytes() {
        [b'0', b'x', ..] => radix("0x", 16),
        [b'0', b'b', ..] => radix("0b", 2),
        [b'0', _, ..] => radix("0", 8),
        _ => digits.parse().ok(),
    };
    let float = || text.trim_end_matches(['f', 'l']).parse().ok().map(Number::Float);
    integer.map(Number::Integer).or_else(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_texts_are_found_in_code_and_in_macros() {
        let source = "#define EMPTY 0xdead'BEEFu\nif (key == EMPTY || key % 12289ul == 1) // not 77\n x += 1e-5f * 2.5;";
        let found = of_texts(&[source, "y = a[i] % 12289 + 0b101 + 0777 + 18446744073709551615ull;"]);
        assert_eq!(found.integers, [u64::MAX, 0xdead_beef, 12289, 0o777, 5]);
        assert_eq!(found.floats, [2.5, 1e-5]);
    }

    #[test]
    fn many_numbers_are_cut_to_the_largest() {
        let text: String = (3..1000).map(|number| format!("{number} ")).collect();
        let found = of_texts(&[&text]);
        assert_eq!((found.integers.len(), found.integers[0]), (NUMBERS_MAX, 999));
    }
}
