//! Matérn covariances: how similar the targets of two points are expected to be, from their distance
//! (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equation 4.17).

/// Largest exponent that is computed: `exp(-200)` is 0 in single precision.
const FAR: f32 = 200.0;

/// How smooth the target is assumed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Once differentiable: `(1 + √3 r) exp(-√3 r)`. The default, since run times have kinks and cliffs
    /// over tile sizes.
    Matern32,
    /// Twice differentiable: `(1 + √5 r + 5 r²/3) exp(-√5 r)`.
    Matern52,
}

impl Kernel {
    fn root(self) -> f64 {
        match self {
            Kernel::Matern32 => 3f64.sqrt(),
            Kernel::Matern52 => 5f64.sqrt(),
        }
    }

    /// The correlation at the squared distance `r²`, in units of the length scale.
    pub fn correlation(self, square: f64) -> f64 {
        let far = self.root() * square.sqrt();
        match self {
            Kernel::Matern32 => (1.0 + far) * (-far).exp(),
            Kernel::Matern52 => (1.0 + far + far * far / 3.0) * (-far).exp(),
        }
    }

    /// Minus twice the derivative of the correlation by the squared distance, which is finite at 0, unlike
    /// the derivative by the distance. Multiplied by the square of a feature's scaled difference, it is the
    /// derivative of the correlation by the logarithm of that feature's length scale.
    pub fn slope(self, square: f64) -> f64 {
        let far = self.root() * square.sqrt();
        match self {
            Kernel::Matern32 => 3.0 * (-far).exp(),
            Kernel::Matern52 => 5.0 / 3.0 * (1.0 + far) * (-far).exp(),
        }
    }

    /// Replaces squared distances by correlations, many at once in single precision.
    pub fn correlations(self, squares: &mut [f32]) {
        let root = self.root() as f32;
        match self {
            Kernel::Matern32 => squares.iter_mut().for_each(|square| {
                let far = (root * square.sqrt()).min(FAR);
                *square = (1.0 + far) * decay(far);
            }),
            Kernel::Matern52 => squares.iter_mut().for_each(|square| {
                let far = (root * square.sqrt()).min(FAR);
                *square = (1.0 + far + far * far * (1.0 / 3.0)) * decay(far);
            }),
        }
    }
}

/// `exp(-x)` for `x ≥ 0` with a relative error of about 1e-7, in a form that compilers vectorize (a call of
/// `exp` is not). The exponent is split into a whole power of 2, which is written into the exponent bits,
/// and a rest between -0.5 and 0.5, for which the Taylor series of degree 6 is enough.
#[inline]
fn decay(x: f32) -> f32 {
    /// `1.5 · 2²³`: adding and subtracting it rounds to a whole number, because no bits are left for
    /// fractions.
    const ROUNDER: f32 = 12_582_912.0;
    // Stops above the smallest normal number, whose exponent is -126, so that the bits below stay valid.
    let power = (-x * std::f32::consts::LOG2_E).max(-120.0);
    let rounded = power + ROUNDER;
    let whole = rounded - ROUNDER;
    let rest = (power - whole) * std::f32::consts::LN_2;
    let series = 1.0 / 120.0 + rest * (1.0 / 720.0);
    let series = 0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0 + rest * series));
    let fraction = 1.0 + rest * (1.0 + rest * series);
    // The low bits of `rounded` hold the whole part.
    let exponent = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23;
    fraction * f32::from_bits(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_hand() {
        assert_eq!(Kernel::Matern32.correlation(0.0), 1.0);
        let root3 = 3f64.sqrt();
        assert!((Kernel::Matern32.correlation(1.0) - (1.0 + root3) * (-root3).exp()).abs() < 1e-15);
        let root5 = 5f64.sqrt();
        let expected = (1.0 + 2.0 * root5 + 20.0 / 3.0) * (-2.0 * root5).exp();
        assert!((Kernel::Matern52.correlation(4.0) - expected).abs() < 1e-15);
    }

    #[test]
    fn slopes_are_derivatives() {
        for kernel in [Kernel::Matern32, Kernel::Matern52] {
            for square in [0.01, 0.5, 1.0, 7.0] {
                let step = 1e-6;
                let difference = kernel.correlation(square + step) - kernel.correlation(square - step);
                let slope = -2.0 * difference / (2.0 * step);
                assert!((kernel.slope(square) - slope).abs() < 1e-7, "{kernel:?} {square}");
            }
        }
    }

    #[test]
    fn single_precision_follows_double() {
        let squares: Vec<f64> = (0..4000).map(|step| f64::from(step * step) * 1e-4).collect();
        for kernel in [Kernel::Matern32, Kernel::Matern52] {
            let mut fast: Vec<f32> = squares.iter().map(|square| *square as f32).collect();
            kernel.correlations(&mut fast);
            for (fast, square) in fast.iter().zip(&squares) {
                let exact = kernel.correlation(*square);
                let error = (f64::from(*fast) - exact).abs();
                assert!(error <= 1e-5 * exact + 1e-30, "{square}: {fast} is not {exact}");
            }
        }
        let mut far = [1e30, f32::INFINITY];
        Kernel::Matern52.correlations(&mut far);
        assert!(far.iter().all(|far| *far < 1e-30));
    }
}
