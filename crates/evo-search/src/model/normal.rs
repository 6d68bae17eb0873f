//! The standard normal distribution, accurate in its far tails.
//!
//! `erf` by its power series near 0 and `erfc` by Legendre's continued fraction beyond (Abramowitz and
//! Stegun, 7.1.6 and 7.1.14), each with a relative error of about 1e-14, also where the value is tiny.

use std::f64::consts::{PI, SQRT_2};

/// From here on the continued fraction is used; it converges fast for large arguments, the series for small
/// ones.
const SWITCH: f64 = 2.0;

/// Logarithm of √(2π).
pub(crate) const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// The density at `z`.
pub(crate) fn density(z: f64) -> f64 {
    (-0.5 * z * z - LN_SQRT_2PI).exp()
}

/// The probability of a value below `z`: the distribution function.
pub(crate) fn below(z: f64) -> f64 {
    0.5 * erfc(-z / SQRT_2)
}

/// Complementary error function.
pub(crate) fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        2.0 - erfc(-x)
    } else if x < SWITCH {
        1.0 - erf_series(x)
    } else {
        (-x * x).exp() * erfcx(x)
    }
}

/// `exp(x²) erfc(x)`, which neither overflows nor vanishes for large `x`.
pub(crate) fn erfcx(x: f64) -> f64 {
    if x < SWITCH {
        return (x * x).exp() * erfc(x);
    }
    // Evaluated from the back; at `SWITCH` eighty levels give full precision.
    let tail = (1..=80).rev().fold(x, |tail, level| x + 0.5 * f64::from(level) / tail);
    1.0 / (tail * PI.sqrt())
}

fn erf_series(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
        // Far below the last digit of the sum.
        if term < sum * 1e-17 {
            break;
        }
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-13 * b.abs(), "{a:e} is not {b:e}");
    }

    #[test]
    fn tabulated_values() {
        near(below(0.0), 0.5);
        near(below(1.0), 0.841_344_746_068_542_9);
        near(below(-3.0), 1.349_898_031_630_094_6e-3);
        near(below(-10.0), 7.619_853_024_160_527e-24);
        near(below(8.0), 1.0);
        near(erfc(0.5), 0.479_500_122_186_953_5);
        near(erfc(2.0), 4.677_734_981_047_266e-3);
        near(erfcx(10.0), 5.614_099_274_382_259e-2);
        near(density(0.0), 0.398_942_280_401_432_7);
    }

    #[test]
    fn both_formulas_agree_where_they_meet() {
        near(1.0 - erf_series(SWITCH), erfc(SWITCH));
        assert!(erfcx(1e6) > 0.0 && below(-37.0) > 0.0 && below(40.0) == 1.0);
    }
}
