//! A dense matrix of numbers, row after row: the form in which models take their inputs.

/// Rows of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    /// All zero.
    pub fn zero(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, values: vec![0.0; rows * columns] }
    }

    /// No rows yet, of a known width.
    pub fn with_columns(columns: usize) -> Matrix {
        Matrix { rows: 0, columns, values: Vec::new() }
    }

    /// From rows, which must be of one length.
    pub fn from_rows<R: AsRef<[f64]>>(rows: &[R]) -> Matrix {
        let mut matrix = Matrix::with_columns(rows.first().map_or(0, |row| row.as_ref().len()));
        rows.iter().for_each(|row| matrix.push(row.as_ref()));
        matrix
    }

    /// Adds a row below.
    pub fn push(&mut self, row: &[f64]) {
        assert_eq!(row.len(), self.columns, "a row has one value for each column");
        self.values.extend_from_slice(row);
        self.rows += 1;
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.values.truncate(self.rows * self.columns);
    }

    /// Exchanges a row with the next one.
    pub(crate) fn exchange(&mut self, row: usize) {
        let start = row * self.columns;
        let (first, second) = self.values[start..].split_at_mut(self.columns);
        first.swap_with_slice(&mut second[..self.columns]);
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// A row, to be changed.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// All rows; a matrix without columns has empty ones.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        (0..self.rows).map(|row| self.row(row))
    }

    /// One value.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    /// The named rows, in that order.
    pub fn select(&self, rows: &[usize]) -> Matrix {
        let mut chosen = Matrix::with_columns(self.columns);
        rows.iter().for_each(|row| chosen.push(self.row(*row)));
        chosen
    }
}

/// The inner product of two equally long rows. Four partial sums let the processor overlap additions, which
/// would wait for each other in one sum. The order of additions is part of the result to the last bit, so a
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
}
