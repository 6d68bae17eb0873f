//! What a plain loop over outputs and answers counts: the numbers that people know from other tools.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    pub atol: f64,
    pub rtol: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlainErrors {
    pub elements: u64,
    pub abs_max: f64,
    /// Largest |actual − expected| / |expected| over elements whose answer is not zero; absent where there is none.
    pub rel_max: Option<f64>,
    /// Elements without a finite error, such as a NaN; equal infinities are none of them.
    pub not_finite: u64,
    /// Elements that are neither equal nor within atol + rtol·|expected|. Of the last tolerance, NaN is right where
    /// NaN is expected.
    pub outside: [u64; 3],
}

impl PlainErrors {
    pub fn with(mut self, actual: f64, expected: f64, tolerances: &[Tolerance; 3]) -> PlainErrors {
        self.elements += 1;
        let error = (actual - expected).abs();
        // Equal infinities have no finite difference, and are equal.
        let same = actual == expected;
        let both_nan = actual.is_nan() && expected.is_nan();
        for (number, tolerance) in tolerances.iter().enumerate() {
            let close = same || error <= tolerance.atol + tolerance.rtol * expected.abs();
            self.outside[number] += u64::from(!(close || number == 2 && both_nan));
        }
        if !error.is_finite() {
            self.not_finite += u64::from(!same);
            return self;
        }
        self.abs_max = self.abs_max.max(error);
        let relative = error / expected.abs();
        if relative.is_finite() {
            self.rel_max = Some(self.rel_max.unwrap_or(0.0).max(relative));
        }
        self
    }

    pub fn and(mut self, other: &PlainErrors) -> PlainErrors {
        self.elements += other.elements;
        self.abs_max = self.abs_max.max(other.abs_max);
        self.rel_max = self.rel_max.into_iter().chain(other.rel_max).reduce(f64::max);
        self.not_finite += other.not_finite;
        self.outside.iter_mut().zip(other.outside).for_each(|(own, other)| *own += other);
        self
    }
}
