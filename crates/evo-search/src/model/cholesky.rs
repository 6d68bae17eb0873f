//! The Cholesky factor of a covariance matrix, `K = L Lᵀ`: solving with it, its determinant, its inverse, and
//! one more row (Golub and Van Loan, "Matrix Computations", 4th ed., section 4.2).
//!
//! Rows of `L` are stored packed, row `i` with `i + 1` values, so that a new observation is appended at the
//! end and every inner product runs over two contiguous slices.

use super::matrix::{Matrix, dot};

/// A share of the mean diagonal, ten times more on each failure; far below the noise of a process (`NOISE_FLOOR`).
const JITTER: f64 = 1e-10;

/// Jitters tried before giving up; the last one is 1 % of the mean diagonal.
const TRIES: i32 = 9;

/// A reflection of two neighboring coordinates. Whatever is whitened by a factor, of which two rows changed places,
/// is to be reflected as the factor's columns were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reflection {
    pub(crate) at: usize,
    cosine: f64,
    sine: f64,
}

impl Reflection {
    pub(crate) fn of(self, first: f64, second: f64) -> (f64, f64) {
        (self.cosine * first + self.sine * second, self.sine * first - self.cosine * second)
    }

    pub(crate) fn of_rows(self, first: &mut [f32], second: &mut [f32]) {
        let (cosine, sine) = (self.cosine as f32, self.sine as f32);
        for (first, second) in first.iter_mut().zip(second) {
            (*first, *second) = (cosine * *first + sine * *second, sine * *first - cosine * *second);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cholesky {
    packed: Vec<f64>,
    size: usize,
    jitter: f64,
}

impl Cholesky {
    /// Factors a symmetric matrix, of which only the lower triangle is read. If the matrix is not positive
    /// definite in floating point, the smallest jitter that makes it so is added to the diagonal. `None` if
    /// 1 % of the mean diagonal is not enough, or a value is not finite.
    pub(crate) fn new(matrix: &Matrix) -> Option<Cholesky> {
        let size = matrix.rows();
        let trace: f64 = (0..size).map(|at| matrix.at(at, at)).sum();
        // Jitter is relative to the diagonal, so that the result does not depend on the unit of the targets.
        let mean = if size == 0 { 1.0 } else { trace / size as f64 };
        if !mean.is_finite() || mean < 0.0 {
            return None;
        }
        let jitters = (0..TRIES).map(|power| JITTER * 10f64.powi(power) * mean);
        std::iter::once(0.0).chain(jitters).find_map(|jitter| factor(matrix, jitter))
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Row `row` of the factor, up to the diagonal and including it.
    pub(crate) fn row(&self, row: usize) -> &[f64] {
        let start = row * (row + 1) / 2;
        &self.packed[start..start + row + 1]
    }

    /// `O(n²)` in place of `O(n³)` for factoring again. With covariances `k` to the old rows and variance `v`, the new
    /// row of the factor is `(lᵀ, d)` with `L l = k` and `d² = v - lᵀ l`. A `d²` that rounding makes too small, as for
    /// a duplicate row, is lifted to `JITTER v`.
    pub(crate) fn append(&mut self, covariances: &[f64], variance: f64) {
        let mut row = covariances.to_vec();
        self.solve_lower(&mut row);
        // The diagonal of the older rows has the jitter too.
        let left = variance + self.jitter - dot(&row, &row);
        self.packed.extend_from_slice(&row);
        self.packed.push(left.max(JITTER * variance.abs()).max(f64::MIN_POSITIVE).sqrt());
        self.size += 1;
    }

    /// Drops all rows and columns but the first `size`. Earlier rows do not depend on later ones.
    pub(crate) fn truncate(&mut self, size: usize) {
        self.size = self.size.min(size);
        self.packed.truncate(self.size * (self.size + 1) / 2);
    }

    /// Exchanges row and column `at` of the factored matrix with the next ones, `O(n)`. That leaves one number above
    /// the diagonal; a reflection of the two columns makes it 0 and changes no product of rows (Golub and Van Loan,
    /// section 6.5).
    pub(crate) fn exchange(&mut self, at: usize) -> Reflection {
        let start = |row: usize| row * (row + 1) / 2;
        let (upper, lower) = (start(at), start(at + 1));
        let diagonal = self.packed[upper + at];
        let (left, right) = (self.packed[lower + at], self.packed[lower + at + 1]);
        let length = left.hypot(right);
        let reflection = Reflection { at, cosine: left / length, sine: right / length };
        let (before, after) = self.packed.split_at_mut(lower);
        before[upper..upper + at].swap_with_slice(&mut after[..at]);
        self.packed[upper + at] = length;
        (self.packed[lower + at], self.packed[lower + at + 1]) = reflection.of(diagonal, 0.0);
        for row in at + 2..self.size {
            let place = start(row) + at;
            (self.packed[place], self.packed[place + 1]) =
                reflection.of(self.packed[place], self.packed[place + 1]);
        }
        reflection
    }

    /// Solves `L x = b` in place, for as many of the first rows as `b` has numbers.
    pub(crate) fn solve_lower(&self, b: &mut [f64]) {
        for at in 0..b.len() {
            let row = self.row(at);
            b[at] = (b[at] - dot(&row[..at], &b[..at])) / row[at];
        }
    }

    /// Solves `Lᵀ x = b` in place.
    pub(crate) fn solve_upper(&self, b: &mut [f64]) {
        for at in (0..self.size).rev() {
            let row = self.row(at);
            b[at] /= row[at];
            let value = b[at];
            // An inner product would walk down a column, which the packed form scatters.
            b[..at].iter_mut().zip(row).for_each(|(b, l)| *b -= l * value);
        }
    }

    /// Solves `K x = b` in place.
    pub(crate) fn solve(&self, b: &mut [f64]) {
        self.solve_lower(b);
        self.solve_upper(b);
    }

    pub(crate) fn log_determinant(&self) -> f64 {
        2.0 * (0..self.size).map(|at| self.row(at)[at].ln()).sum::<f64>()
    }

    /// The inverse of `K`, both triangles: `L⁻ᵀ L⁻¹`, with `L⁻¹` by forward substitution. `O(n³)`, which
    /// only the gradient of the likelihood needs.
    pub(crate) fn inverse(&self) -> Matrix {
        let size = self.size;
        // Row `j` holds column `j` of the inverse of `L`: both loops read contiguous memory.
        let mut columns = Matrix::zero(size, size);
        for column in 0..size {
            let x = columns.row_mut(column);
            x[column] = 1.0 / self.row(column)[column];
            for at in column + 1..size {
                let row = self.row(at);
                x[at] = -dot(&row[column..at], &x[column..at]) / row[at];
            }
        }
        let mut inverse = Matrix::zero(size, size);
        for a in 0..size {
            for b in 0..=a {
                // Column `b` begins earlier, but above row `a` column `a` is 0.
                let value = dot(&columns.row(a)[a..], &columns.row(b)[a..]);
                inverse.row_mut(a)[b] = value;
                inverse.row_mut(b)[a] = value;
            }
        }
        inverse
    }
}

fn factor(matrix: &Matrix, jitter: f64) -> Option<Cholesky> {
    let size = matrix.rows();
    let mut packed: Vec<f64> = Vec::with_capacity(size * (size + 1) / 2);
    for at in 0..size {
        let start = packed.len();
        for column in 0..at {
            let other = column * (column + 1) / 2;
            let done = dot(&packed[start..], &packed[other..other + column]);
            packed.push((matrix.at(at, column) - done) / packed[other + column]);
        }
        let left = matrix.at(at, at) + jitter - dot(&packed[start..], &packed[start..]);
        // Also refuses NaN. A pivot below rounding error has no correct digit left.
        if !(left > 1e-14 * matrix.at(at, at).abs() && left.is_finite()) {
            return None;
        }
        packed.push(left.sqrt());
    }
    Some(Cholesky { packed, size, jitter })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Matrix {
        Matrix::from_rows(&[[4.0, 12.0, -16.0], [12.0, 37.0, -43.0], [-16.0, -43.0, 98.0]])
    }

    #[test]
    fn the_textbook_factor() {
        let factor = Cholesky::new(&example()).unwrap();
        assert_eq!(factor.row(0), [2.0]);
        assert_eq!(factor.row(1), [6.0, 1.0]);
        assert_eq!(factor.row(2), [-8.0, 5.0, 3.0]);
        assert!((factor.log_determinant() - 36f64.ln()).abs() < 1e-12);
        assert_eq!(factor.jitter, 0.0);
    }

    #[test]
    fn solves_and_inverse_by_hand() {
        let factor = Cholesky::new(&example()).unwrap();
        let mut x = vec![4.0 + 24.0 - 48.0, 12.0 + 74.0 - 129.0, -16.0 - 86.0 + 294.0];
        factor.solve(&mut x);
        for (at, expected) in [1.0, 2.0, 3.0].into_iter().enumerate() {
            assert!((x[at] - expected).abs() < 1e-10, "{x:?}");
        }
        let inverse = factor.inverse();
        assert!((inverse.at(0, 0) - 1777.0 / 36.0).abs() < 1e-9);
        assert!((inverse.at(2, 1) - -5.0 / 9.0).abs() < 1e-10);
        assert_eq!(inverse.at(2, 1), inverse.at(1, 2));
    }

    #[test]
    fn an_appended_row_is_as_if_it_had_always_been_there() {
        let whole = Cholesky::new(&example()).unwrap();
        let mut grown = Cholesky::default();
        for at in 0..3 {
            grown.append(&example().row(at)[..at], example().at(at, at));
        }
        for at in 0..3 {
            assert_eq!(grown.row(at), whole.row(at));
        }
        grown.truncate(1);
        grown.append(&example().row(1)[..1], example().at(1, 1));
        assert_eq!((grown.size(), grown.row(1)), (2, whole.row(1)));
    }

    #[test]
    fn exchanged_rows_are_as_if_they_had_always_been_there() {
        let mut factor = Cholesky::new(&example()).unwrap();
        let mut whitened = [1.0, 2.0, 3.0];
        factor.solve_lower(&mut whitened);
        for (at, order) in [(0, [1, 0, 2]), (1, [1, 2, 0]), (0, [2, 1, 0]), (0, [1, 2, 0])] {
            let reflection = factor.exchange(at);
            (whitened[at], whitened[at + 1]) = reflection.of(whitened[at], whitened[at + 1]);
            let cell = |a: usize, b: usize| example().at(order[a], order[b]);
            let rows = [0, 1, 2].map(|a| [0, 1, 2].map(|b| cell(a, b)));
            let fresh = Cholesky::new(&Matrix::from_rows(&rows)).unwrap();
            let mut expected = order.map(|at| (at + 1) as f64);
            fresh.solve_lower(&mut expected);
            for row in 0..3 {
                for (own, other) in factor.row(row).iter().zip(fresh.row(row)) {
                    assert!((own - other).abs() < 1e-9, "{order:?}: {factor:?} is not {fresh:?}");
                }
                assert!((whitened[row] - expected[row]).abs() < 1e-9, "{whitened:?} is not {expected:?}");
            }
        }
    }

    #[test]
    fn a_singular_matrix_gets_a_little_help_and_a_hopeless_one_is_refused() {
        let singular = Cholesky::new(&Matrix::from_rows(&[[1.0, 1.0], [1.0, 1.0]])).unwrap();
        assert!(singular.jitter > 0.0 && singular.jitter < 1e-6);
        let negative = Matrix::from_rows(&[[1.0, 5.0], [5.0, 1.0]]);
        assert!(Cholesky::new(&negative).is_none());
        assert!(Cholesky::new(&Matrix::from_rows(&[[f64::NAN]])).is_none());
        assert_eq!(Cholesky::new(&Matrix::zero(0, 0)).unwrap().log_determinant(), 0.0);
        let mut twice = Cholesky::new(&Matrix::from_rows(&[[1.0]])).unwrap();
        twice.append(&[1.0], 1.0);
        assert!(twice.row(1)[1] > 0.0, "a duplicate without noise keeps a positive diagonal");
    }
}
