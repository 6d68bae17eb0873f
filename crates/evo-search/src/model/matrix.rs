//! The tables in which models take their inputs: numbers row after row, and for trees the values of each column, coded
//! by their rank among the values it can have: two bytes, which compare as integers.

use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    pub fn zero(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, values: vec![0.0; rows * columns] }
    }

    pub fn with_columns(columns: usize) -> Matrix {
        Matrix { rows: 0, columns, values: Vec::new() }
    }

    pub fn from_rows<R: AsRef<[f64]>>(rows: &[R]) -> Matrix {
        Matrix::of_rows(rows.first().map_or(0, |row| row.as_ref().len()), rows)
    }

    pub fn of_rows(columns: usize, rows: impl IntoIterator<Item: AsRef<[f64]>>) -> Matrix {
        let mut matrix = Matrix::with_columns(columns);
        rows.into_iter().for_each(|row| matrix.push(row.as_ref()));
        matrix
    }

    pub fn push(&mut self, row: &[f64]) {
        assert_eq!(row.len(), self.columns, "a row has one value for each column");
        self.values.extend_from_slice(row);
        self.rows += 1;
    }

    pub fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.values.truncate(self.rows * self.columns);
    }

    pub(crate) fn exchange(&mut self, row: usize) {
        let start = row * self.columns;
        let (first, second) = self.values[start..].split_at_mut(self.columns);
        first.swap_with_slice(&mut second[..self.columns]);
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.columns..(row + 1) * self.columns]
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        (0..self.rows).map(|row| self.row(row))
    }

    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    pub fn select(&self, rows: &[usize]) -> Matrix {
        Matrix::of_rows(self.columns, rows.iter().map(|row| self.row(*row)))
    }
}

/// Four partial sums let the processor overlap additions. Their order is part of the result to the last bit, so a
/// change here changes search traces.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a4.zip(b4) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Most distinct values of a scale, as many as a code has; of more values, evenly spaced ones are kept.
const VALUES_MAX: usize = 1 << 16;

/// The values of a column, ascending; a value's code is its position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnScale {
    values: Vec<f64>,
}

impl ColumnScale {
    /// The scale of some values: the distinct ones, without NaN.
    pub fn new(mut values: Vec<f64>) -> ColumnScale {
        values.retain(|value| !value.is_nan());
        values.sort_by(f64::total_cmp);
        // By `==`, for which 0.0 and -0.0 are one value although they sort apart.
        values.dedup_by(|a, b| a == b);
        if values.len() > VALUES_MAX {
            let last = values.len() - 1;
            // Evenly by rank, with both ends, so that dense regions keep more values.
            values = (0..VALUES_MAX).map(|at| values[at * last / (VALUES_MAX - 1)]).collect();
        }
        ColumnScale { values }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The code of the nearest value, the lower of two equally near ones; 0 for NaN.
    pub fn code(&self, value: f64) -> u16 {
        let above = self.values.partition_point(|other| *other < value);
        if above == 0 || value.is_nan() {
            return 0;
        }
        let lower = match self.values.get(above) {
            None => true,
            // The first comparison also settles infinite values, whose differences are NaN.
            Some(upper) => value != *upper && value - self.values[above - 1] <= upper - value,
        };
        (above - usize::from(lower)) as u16
    }

    pub fn value(&self, code: u16) -> f64 {
        self.values[usize::from(code)]
    }

    /// The threshold at `share` (0 to below 1) of the way from the value of `low` to the value of the larger code
    /// `high`, as a code: codes up to it lie below the threshold. Both sides keep at least one value. Extremely
    /// randomized trees draw between values, not between codes: a wide gap between two values is split more often.
    pub fn threshold(&self, low: u16, high: u16, share: f64) -> u16 {
        let (from, to) = (usize::from(low), usize::from(high));
        let (a, b) = (self.values[from], self.values[to]);
        let cut = a + (b - a) * share;
        let inside = self.values[from..=to].partition_point(|value| *value <= cut);
        (from + inside.clamp(1, to - from) - 1) as u16
    }
}

pub type Scales = Arc<[ColumnScale]>;

/// Codes, column after column.
#[derive(Clone, Debug, Default)]
pub struct Codes {
    columns: Vec<Vec<u16>>,
    rows: usize,
}

impl Codes {
    pub fn with_columns(columns: usize) -> Codes {
        Codes { columns: vec![Vec::new(); columns], rows: 0 }
    }

    pub fn of_rows(columns: usize, rows: impl IntoIterator<Item = Vec<u16>>) -> Codes {
        let mut codes = Codes::with_columns(columns);
        rows.into_iter().for_each(|row| codes.push(&row));
        codes
    }

    pub fn push(&mut self, row: &[u16]) {
        assert_eq!(row.len(), self.columns.len(), "a row has one code for each column");
        self.columns.iter_mut().zip(row).for_each(|(column, code)| column.push(*code));
        self.rows += 1;
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    pub fn column(&self, column: usize) -> &[u16] {
        &self.columns[column]
    }

    pub fn row(&self, row: usize) -> Vec<u16> {
        self.columns.iter().map(|column| column[row]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns() {
        let matrix = Matrix::from_rows(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        assert_eq!((matrix.rows(), matrix.columns(), matrix.at(1, 2)), (2, 3, 6.0));
        assert_eq!(matrix.select(&[1, 1, 0]).iter().map(|row| row[0]).collect::<Vec<_>>(), [4.0, 4.0, 1.0]);
        let none: Vec<[f64; 0]> = vec![[], []];
        assert_eq!(Matrix::from_rows(&none).iter().len(), 2, "rows without columns are rows");
    }

    #[test]
    fn dot_takes_every_length() {
        for length in 0..10 {
            let a: Vec<f64> = (0..length).map(f64::from).collect();
            assert_eq!(dot(&a, &a), a.iter().map(|a| a * a).sum::<f64>());
        }
    }

    #[test]
    fn codes_are_positions_and_other_values_go_to_the_nearest() {
        let scale = ColumnScale::new(vec![8.0, 1.0, f64::NAN, 2.0, 1.0]);
        assert_eq!(scale.len(), 3);
        let codes: Vec<u16> = [1.0, 2.0, 8.0, -5.0, 99.0, 1.4, 1.6, 5.0, 5.1, f64::NAN, f64::INFINITY]
            .map(|value| scale.code(value))
            .to_vec();
        assert_eq!(codes, [0, 1, 2, 0, 2, 0, 1, 1, 2, 0, 2]);
        assert_eq!(scale.value(2), 8.0);
        assert_eq!(ColumnScale::new((0..200_000).map(f64::from).collect()).len(), VALUES_MAX);
        assert_eq!(ColumnScale::new(vec![f64::NEG_INFINITY, 0.0, f64::INFINITY]).code(f64::INFINITY), 2);
    }

    #[test]
    fn thresholds_leave_a_value_on_both_sides() {
        let scale = ColumnScale::new(vec![0.0, 1.0, 10.0]);
        let cuts: Vec<u16> = [0.0, 0.05, 0.1, 0.99].map(|share| scale.threshold(0, 2, share)).to_vec();
        assert_eq!(cuts, [0, 0, 1, 1]);
        assert_eq!(scale.threshold(1, 2, 0.999_999_999), 1);
        let infinite = ColumnScale::new(vec![f64::NEG_INFINITY, f64::INFINITY]);
        assert_eq!(infinite.threshold(0, 1, 0.5), 0, "a threshold although the middle is NaN");
    }
}
