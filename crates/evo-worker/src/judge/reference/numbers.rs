//! What a reference gives: an answer, how far an honest kernel may be off, and the sums that bounds are made of.

use rayon::prelude::*;

/// Half the spacing of f32 at 1.
pub const UNIT_F32: f64 = 1.0 / 16_777_216.0;

/// An answer as a list in memory, or on a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReferenceAnswer<L = Vec<f64>> {
    pub buffer: usize,
    pub expected: L,
    /// The trusted same-dtype computation, rounded to the output's type; absent where there is none.
    pub trusted: Option<L>,
    /// No error is allowed at all (data movement, integers).
    pub exact: bool,
    /// Error that any f32 computation of this may have on these inputs, beyond the trusted one's.
    pub noise: Noise,
    /// Integer elements that rounding alone decides, such as which of two equal distances is the smaller.
    pub jumps: u64,
    /// More than a few integers change with the last bits of the inputs, as a hash or a choice among equals does.
    pub follows_bits: bool,
    /// What is said of integers of which single precision decides many otherwise.
    pub undecided: Option<String>,
    /// The reference kernel in single precision on the same inputs.
    pub single: Option<L>,
    /// Standard error of the mean of all errors in single precision, where those of a row are alike; else 0, and on the
    /// device, where nobody looks at rows.
    pub shared: f64,
    /// How far each element moved when the last bits of the inputs did; absent where that was not tried.
    pub distances: Option<L>,
    /// Elements far less certain than the others, and how far f32 may be off there.
    pub uncertain: Vec<(u64, f64)>,
}

impl<L> ReferenceAnswer<L> {
    pub fn map<M>(self, list: impl Fn(L) -> M) -> ReferenceAnswer<M> {
        let ReferenceAnswer {
            buffer, exact, noise, jumps, follows_bits, undecided, uncertain, shared, ..
        } = self;
        ReferenceAnswer {
            expected: list(self.expected),
            trusted: self.trusted.map(&list),
            single: self.single.map(&list),
            distances: self.distances.map(&list),
            buffer,
            exact,
            noise,
            jumps,
            follows_bits,
            undecided,
            uncertain,
            shared,
        }
    }
}

/// Absolute error that f32 arithmetic explains. It matters where few outputs make the trusted error a
/// matter of luck, and where sums cancel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Of a single element.
    pub max: f64,
    /// Root mean square over elements.
    pub rms: f64,
}

const CHUNK: usize = 1 << 16;

/// Waking a thread, which then looks for more work for a while, takes as long as some ten thousand operations, and
/// most cases of a study are small shapes.
pub fn rows_per_task(operations: usize) -> usize {
    (CHUNK / operations.max(1)).max(1)
}

/// Chunks are added in their order, so that a sum does not depend on the number of threads.
pub fn pair_sums<const N: usize>(
    left: &[f64],
    right: &[f64],
    terms: impl Fn(f64, f64) -> [f64; N] + Sync,
) -> [f64; N] {
    let add = |sums: [f64; N], own: [f64; N]| std::array::from_fn(|index| sums[index] + own[index]);
    let chunks = left.par_chunks(CHUNK).zip(right.par_chunks(CHUNK));
    let parts: Vec<[f64; N]> = chunks
        .map(|(left, right)| left.iter().zip(right).fold([0.0; N], |sums, (l, r)| add(sums, terms(*l, *r))))
        .collect();
    parts.into_iter().fold([0.0; N], add)
}

pub fn finite_sums<const N: usize>(values: &[f64], terms: impl Fn(f64) -> [f64; N] + Sync) -> [f64; N] {
    pair_sums(values, values, |value, _| if value.is_finite() { terms(value) } else { [0.0; N] })
}

pub fn rms(values: &[f64]) -> f64 {
    let [square, count] = finite_sums(values, |value| [value * value, 1.0]);
    (square / count.max(1.0)).sqrt()
}

pub fn max_abs(values: &[f64]) -> f64 {
    let magnitude = |value: &f64| if value.is_finite() { value.abs() } else { 0.0 };
    values.par_iter().with_min_len(CHUNK).map(magnitude).reduce(|| 0.0, f64::max)
}
