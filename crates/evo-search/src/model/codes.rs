//! Tables of small integers: the values of each column, coded by their rank among the values it can have.
//!
//! Trees only compare values, so ranks serve as well, take two bytes and compare as integers. The scale of a
//! column holds its ascending values; a value's code is its position among them.

use std::sync::Arc;

use super::matrix::Matrix;

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

    /// Number of codes.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the scale has no values.
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

    /// The value of a code.
    pub fn value(&self, code: u16) -> f64 {
        self.values[usize::from(code)]
    }

    /// The threshold at `share` (0 to below 1) of the way from the value of `low` to the value of the
    /// larger code `high`, as a code: codes up to it lie below the threshold. Both sides keep at least one
    /// value.
    ///
    /// Drawing between values, not between codes, is how extremely randomized trees draw thresholds: a wide
    /// gap between two values is split more often.
    pub fn threshold(&self, low: u16, high: u16, share: f64) -> u16 {
        let (from, to) = (usize::from(low), usize::from(high));
        let (a, b) = (self.values[from], self.values[to]);
        let cut = a + (b - a) * share;
        let inside = self.values[from..=to].partition_point(|value| *value <= cut);
        (from + inside.clamp(1, to - from) - 1) as u16
    }
}

/// The scales of all columns.
pub type Scales = Arc<[ColumnScale]>;

/// Codes, column after column.
#[derive(Clone, Debug, Default)]
pub struct Codes {
    columns: Vec<Vec<u16>>,
    rows: usize,
}

impl Codes {
    /// No rows yet.
    pub fn with_columns(columns: usize) -> Codes {
        Codes { columns: vec![Vec::new(); columns], rows: 0 }
    }

    /// From columns of `rows` values each.
    pub fn from_columns(columns: Vec<Vec<u16>>, rows: usize) -> Codes {
        assert!(columns.iter().all(|column| column.len() == rows), "columns are equally long");
        Codes { columns, rows }
    }

    /// The codes of a matrix, each value by the nearest value of its column's scale.
    pub fn of_matrix(matrix: &Matrix, scales: &[ColumnScale]) -> Codes {
        let column = |(at, scale): (usize, &ColumnScale)| {
            (0..matrix.rows()).map(|row| scale.code(matrix.at(row, at))).collect()
        };
        Codes::from_columns(scales.iter().enumerate().map(column).collect(), matrix.rows())
    }

    /// Adds a row below.
    pub fn push(&mut self, row: &[u16]) {
        assert_eq!(row.len(), self.columns.len(), "a row has one code for each column");
        self.columns.iter_mut().zip(row).for_each(|(column, code)| column.push(*code));
        self.rows += 1;
    }

    /// Adds a column at the right.
    pub fn push_column(&mut self, column: Vec<u16>) {
        assert_eq!(column.len(), self.rows, "columns are equally long");
        self.columns.push(column);
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// One column.
    pub fn column(&self, column: usize) -> &[u16] {
        &self.columns[column]
    }

    /// One row.
    pub fn row(&self, row: usize) -> Vec<u16> {
        self.columns.iter().map(|column| column[row]).collect()
    }
}

/// The scales of the columns of a matrix.
pub fn scales_of(matrix: &Matrix) -> Scales {
    let column = |at| ColumnScale::new((0..matrix.rows()).map(|row| matrix.at(row, at)).collect());
    (0..matrix.columns()).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
