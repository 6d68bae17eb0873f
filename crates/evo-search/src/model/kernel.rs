//! Matérn covariances of half-integer smoothness: how alike the targets of two points are expected to
//! be, from their distance (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, 4.2).

/// Further away, measured as the exponent, single precision sees no correlation.
const FAR: f32 = 200.0;

/// How smooth the target is taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Once differentiable: what run times over tile sizes look like.
    Matern32,
    /// Twice differentiable.
    Matern52,
}

impl Kernel {
    fn root(self) -> f64 {
        match self {
            Kernel::Matern32 => 3f64.sqrt(),
            Kernel::Matern52 => 5f64.sqrt(),
        }
    }

    /// The correlation at a squared distance, in units of the length scale.
    pub fn correlation(self, square: f64) -> f64 {
        let far = self.root() * square.sqrt();
        match self {
            Kernel::Matern32 => (1.0 + far) * (-far).exp(),
            Kernel::Matern52 => (1.0 + far + far * far / 3.0) * (-far).exp(),
        }
    }

    /// Minus twice the derivative of the correlation by the squared distance. Finite at 0, other than
    /// the derivative by the distance. Times the square of a feature's scaled difference, it is the
    /// derivative by the logarithm of that feature's length scale.
    pub fn slope(self, square: f64) -> f64 {
        let far = self.root() * square.sqrt();
        match self {
            Kernel::Matern32 => 3.0 * (-far).exp(),
            Kernel::Matern52 => 5.0 / 3.0 * (1.0 + far) * (-far).exp(),
        }
    }

    /// Squared distances to correlations, many at once in single precision.
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

/// `exp(-x)` for `x` not below 0, to about 1e-7, in a form that compilers turn into vector code: 2 to the
/// whole part by writing the exponent, 2 to the rest by a polynomial.
#[inline]
fn decay(x: f32) -> f32 {
    /// Adding and taking this away rounds to whole numbers.
    const ROUNDER: f32 = 12_582_912.0;
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
