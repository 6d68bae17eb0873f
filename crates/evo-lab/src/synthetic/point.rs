//! A point as the formulas see it, and the terms that losses are made of. A term is never negative, and 0 where
//! its condition is met.

use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use evo_space::space::Parameter;
use evo_space::value::Value;

/// What a point loses against the optimum, one number of at least 0 for each cause; or how it fails.
pub(super) type Losses = Result<Vec<f64>, VerdictClass>;

pub(super) struct Definition {
    pub name: &'static str,
    /// What is hard about it, in half a sentence.
    pub about: &'static str,
    pub text: fn() -> String,
    /// The values of the planted point in declared order, separated by spaces.
    pub planted: fn() -> String,
    pub losses: fn(&Point) -> Losses,
}

pub(super) struct Point<'a> {
    parameters: &'a [Parameter],
    positions: &'a [u16],
}

impl<'a> Point<'a> {
    pub fn new(parameters: &'a [Parameter], genome: &'a Genome) -> Point<'a> {
        Point { parameters, positions: genome.positions() }
    }

    pub fn number(&self, name: &str) -> f64 {
        self.value(name).as_float().expect("formulas calculate with numbers only")
    }

    pub fn numbers<const N: usize>(&self, names: [&str; N]) -> [f64; N] {
        names.map(|name| self.number(name))
    }

    pub fn is(&self, name: &str, value: &str) -> bool {
        matches!(self.value(name), Value::Text(text) if **text == *value)
    }

    /// Position of a parameter's value, by the parameter's number.
    pub fn position(&self, slot: usize) -> f64 {
        f64::from(self.positions[slot])
    }

    fn value(&self, name: &str) -> &Value {
        let slot = self.parameters.iter().position(|parameter| *parameter.name == *name);
        let slot = slot.expect("formulas read parameters of their space");
        &self.parameters[slot].values[usize::from(self.positions[slot])]
    }
}

/// How often `actual` must be doubled or halved to become `wanted`; both are above 0.
pub(super) fn octaves(actual: f64, wanted: f64) -> f64 {
    (actual / wanted).log2().abs()
}

pub(super) fn shortage(actual: f64, wanted: f64) -> f64 {
    (wanted - actual).max(0.0)
}

pub(super) fn excess(actual: f64, limit: f64) -> f64 {
    (actual - limit).max(0.0)
}

/// A fixed price for a condition that is not met.
pub(super) fn unless(fulfilled: bool, price: f64) -> f64 {
    if fulfilled { 0.0 } else { price }
}

/// A number from 0 to 1 without a pattern, always the same for the same key (the finalizer of SplitMix64).
pub(super) fn scatter(key: u64) -> f64 {
    let mut bits = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// `first, …` up to and including `last`, as a list in a space file.
pub(super) fn list(first: i64, last: i64, step: usize) -> String {
    let values: Vec<String> = (first..=last).step_by(step).map(|value| value.to_string()).collect();
    format!("[{}]", values.join(", "))
}
