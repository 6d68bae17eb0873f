//! Values keep the kind their author wrote (`4` is not `4.0`), because the text that reaches the compiler is made from
//! them; comparison follows Python and calls `4 == 4.0` true. Arithmetic is checked and has Python's meaning: the one
//! place that knows it, used by expressions as people write them and by the compiled form that counts spaces.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
// Readers try the variants in this order, so an integer is never read as a float.
#[serde(untagged)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
}

impl Value {
    pub fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Text(text.into())
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Bool(value) => Some(i64::from(*value)),
            Value::Float(_) | Value::Text(_) => None,
        }
    }

    pub fn as_float(&self) -> Option<f64> {
        self.as_number().map(Number::as_float)
    }

    pub fn as_number(&self) -> Option<Number> {
        match self {
            Value::Float(value) => Some(Number::Float(*value)),
            other => other.as_int().map(Number::Int),
        }
    }

    pub fn is_true(&self) -> bool {
        match self {
            Value::Text(text) => !text.is_empty(),
            other => other.as_number().is_some_and(Number::is_true),
        }
    }

    /// Order between two numbers or two texts; `None` between a number and a text.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (Value::Text(_), _) | (_, Value::Text(_)) => None,
            (a, b) => Some(a.as_number()?.compare(b.as_number()?)),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "text",
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.compare(other) == Some(Ordering::Equal)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::text(value)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        match number {
            Number::Int(value) => Value::Int(value),
            Number::Float(value) => Value::Float(value),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            // `Debug` writes `4.0` where `Display` would write `4` and lose the kind.
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A 64-bit integer; a boolean is 0 or 1.
    Int(i64),
    /// A 64-bit float; operations make finite ones only.
    Float(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    /// `/`: a float, also of two integers
    Divide,
    /// `//`: rounded down
    FloorDivide,
    /// `%`: with the divisor's sign
    Remainder,
    Power,
}

impl Operator {
    pub fn as_str(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::FloorDivide => "//",
            Operator::Remainder => "%",
            Operator::Power => "**",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// An integer beyond 64 bits, or a float beyond the finite ones.
    #[error("the result does not fit 64 bits")]
    Overflow,
    #[error("division by zero")]
    DivisionByZero,
    #[error("cannot raise a negative number to a fractional power")]
    NotReal,
}

impl Number {
    /// The number as a float; rounds integers beyond 2^53.
    pub fn as_float(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    #[inline]
    pub fn is_true(self) -> bool {
        match self {
            Number::Int(value) => value != 0,
            Number::Float(value) => value != 0.0,
        }
    }

    /// Exact order, also between an integer and a float. NaN, which no checked operation makes,
    /// counts as equal to everything.
    #[inline]
    pub fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Number::Int(a), Number::Float(b)) => compare_mixed(a, b),
            (Number::Float(a), Number::Int(b)) => compare_mixed(b, a).reverse(),
        }
    }

    pub fn negate(self) -> Result<Number, NumberError> {
        match self {
            Number::Int(value) => value.checked_neg().map(Number::Int).ok_or(NumberError::Overflow),
            Number::Float(value) => Ok(Number::Float(-value)),
        }
    }

    pub fn absolute(self) -> Result<Number, NumberError> {
        let negative = self.compare(Number::Int(0)) == Ordering::Less;
        if negative { self.negate() } else { Ok(self) }
    }

    #[inline]
    pub fn apply(operator: Operator, a: Number, b: Number) -> Result<Number, NumberError> {
        match (a, b) {
            (Number::Int(a), Number::Int(b)) => apply_int(operator, a, b),
            (a, b) => apply_float(operator, a.as_float(), b.as_float()),
        }
    }

    pub fn ceil_div(a: Number, b: Number) -> Result<Number, NumberError> {
        // Before the negation, which may overflow.
        if !b.is_true() {
            return Err(NumberError::DivisionByZero);
        }
        // Rounding the negative down rounds up, for floats as for integers.
        let floor = Number::apply(Operator::FloorDivide, a.negate()?, b)?;
        floor.negate()
    }
}

/// Below this an `i64` always is; above its negative likewise.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

fn compare_mixed(a: i64, b: f64) -> Ordering {
    // A float would round the integer beyond 2^53.
    if b >= TWO_63 {
        return Ordering::Less;
    }
    if b < -TWO_63 {
        return Ordering::Greater;
    }
    // Between the bounds the cast below is exact. Equal whole parts leave the decision to the fraction.
    let floor = b.floor();
    a.cmp(&(floor as i64)).then(if b > floor { Ordering::Less } else { Ordering::Equal })
}

#[inline]
fn apply_int(operator: Operator, a: i64, b: i64) -> Result<Number, NumberError> {
    let divides = matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Remainder);
    if divides && b == 0 {
        return Err(NumberError::DivisionByZero);
    }
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => return finite(divide_exactly(a, b)),
        // Rust rounds toward zero, Python rounds down: they differ by one where the signs differ and a rest
        // remains.
        Operator::FloorDivide => a.checked_div(b).map(|q| q - i64::from(a % b != 0 && (a < 0) != (b < 0))),
        Operator::Remainder => {
            // The plain `%` would panic for `i64::MIN % -1`, whose remainder is 0.
            let rest = a.wrapping_rem(b);
            Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
        }
        Operator::Power => return power_int(a, b),
    };
    result.map(Number::Int).ok_or(NumberError::Overflow)
}

fn power_int(a: i64, b: i64) -> Result<Number, NumberError> {
    if b < 0 {
        // As in Python, where a negative exponent makes the result a float.
        return apply_float(Operator::Power, a as f64, b as f64);
    }
    let result = match a {
        // Powers of 0, 1 and -1 never overflow, so the exponent need not fit 32 bits.
        0 | 1 => Some(if b == 0 { 1 } else { a }),
        -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
        _ => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
    };
    result.map(Number::Int).ok_or(NumberError::Overflow)
}

fn apply_float(operator: Operator, a: f64, b: f64) -> Result<Number, NumberError> {
    let divides = matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Remainder);
    if b == 0.0 && divides || operator == Operator::Power && a == 0.0 && b < 0.0 {
        return Err(NumberError::DivisionByZero);
    }
    match operator {
        Operator::Add => finite(a + b),
        Operator::Subtract => finite(a - b),
        Operator::Multiply => finite(a * b),
        Operator::Divide => finite(a / b),
        Operator::FloorDivide => finite(floor_divide_float(a, b)),
        Operator::Remainder => finite(remainder_float(a, b)),
        Operator::Power if a < 0.0 && b.fract() != 0.0 => Err(NumberError::NotReal),
        Operator::Power => finite(a.powf(b)),
    }
}

fn remainder_float(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// Python's way: dividing what is left after the remainder, then to the nearest integer below.
fn floor_divide_float(a: f64, b: f64) -> f64 {
    let rest = a % b;
    let step = if rest != 0.0 && (rest < 0.0) != (b < 0.0) { 1.0 } else { 0.0 };
    // Nearly a whole number. Rounding may leave it just below, hence the correction after `floor`.
    let quotient = (a - rest) / b - step;
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

/// The float nearest to the quotient, also of integers that no float holds; `b` is not zero.
fn divide_exactly(a: i64, b: i64) -> f64 {
    const EXACT: u64 = 1 << 53;
    let (up, down) = (a.unsigned_abs(), b.unsigned_abs());
    if up <= EXACT && down <= EXACT {
        return a as f64 / b as f64;
    }
    // A quotient of 64 bits or 65, whose last bit is set if something follows, rounds like all of it.
    let shift = if up == 0 { 0 } else { 64 + up.leading_zeros() - down.leading_zeros() };
    let (up, down) = (u128::from(up) << shift, u128::from(down));
    let quotient = (up / down) | u128::from(up % down > 0);
    let size = quotient as f64 / 2f64.powi(shift as i32);
    if (a < 0) != (b < 0) { -size } else { size }
}

fn finite(value: f64) -> Result<Number, NumberError> {
    // No operation gives infinity or NaN, so that comparisons can rely on numbers that have an order.
    if value.is_finite() { Ok(Number::Float(value)) } else { Err(NumberError::Overflow) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_comparison_is_exact() {
        let check = |a: i64, b: f64, expected| assert_eq!(compare_mixed(a, b), expected, "{a} {b}");
        check((1 << 53) + 1, 9_007_199_254_740_992.0, Ordering::Greater);
        check(i64::MAX, TWO_63, Ordering::Less);
        check(i64::MIN, -TWO_63, Ordering::Equal);
        check(-1, -0.5, Ordering::Less);
        check(4, 4.0, Ordering::Equal);
        check(0, -0.0, Ordering::Equal);
    }

    #[test]
    fn extremes_are_errors_and_not_panics() {
        let check = |operator, a, b, expected| {
            let found = Number::apply(operator, Number::Int(a), Number::Int(b));
            assert_eq!(found, expected, "{operator:?} {a} {b}");
        };
        check(Operator::FloorDivide, i64::MIN, -1, Err(NumberError::Overflow));
        check(Operator::Remainder, i64::MIN, -1, Ok(Number::Int(0)));
        check(Operator::Multiply, i64::MAX, 2, Err(NumberError::Overflow));
        check(Operator::Power, 2, 63, Err(NumberError::Overflow));
        check(Operator::Power, -1, i64::MAX, Ok(Number::Int(-1)));
        check(Operator::Power, 0, 0, Ok(Number::Int(1)));
        check(Operator::Power, 0, -1, Err(NumberError::DivisionByZero));
        check(Operator::Power, 3, i64::MAX, Err(NumberError::Overflow));
        check(Operator::Divide, 9_007_199_254_740_993, -3, Ok(Number::Float(-3_002_399_751_580_331.0)));
        check(Operator::Divide, i64::MIN, 9_007_199_254_740_993, Ok(Number::Float(-1_023.999_999_999_999_9)));
        check(Operator::Divide, 0, i64::MAX, Ok(Number::Float(0.0)));
        assert_eq!(Number::Int(i64::MIN).negate(), Err(NumberError::Overflow));
        let by_zero = Err(NumberError::DivisionByZero);
        let rows = [(7, 2, Ok(Number::Int(4))), (-7, 2, Ok(Number::Int(-3))), (i64::MIN, 0, by_zero)];
        for (a, b, expected) in rows {
            assert_eq!(Number::ceil_div(Number::Int(a), Number::Int(b)), expected, "{a} {b}");
        }
    }
}
