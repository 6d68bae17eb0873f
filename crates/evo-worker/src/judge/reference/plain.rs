//! The built-in references as plain functions on all cores. They are the definition: `references.cu` computes the same.
//!
//! Each is written once for both precisions. In fp64 it gives the answer; in f32, with the output rounded, it is the
//! trusted computation, which does what a decent kernel does.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use evo_protocol::dtype::DType;
use rayon::prelude::*;

use super::numbers::{ReferenceAnswer, max_abs, rms, rows_per_task};
use super::work::{AttentionWork, Measured, ReferenceWork, Size, WorkKind, chain};
use crate::judge::element::round_f32;

const EPSILON: f64 = 1e-6;

/// A product in blocks of so many rows, columns and steps.
const ROWS: usize = 16;
const COLUMNS: usize = 256;
const STEPS: usize = 64;

/// The type in which a reference computes.
trait Real:
    Copy
    + Default
    + Send
    + Sync
    + Sum
    + AddAssign
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Into<f64>
    + PartialOrd
{
    fn of(value: f64) -> Self;
    fn exp(self) -> Self;
    fn sqrt(self) -> Self;
    /// A value as the kernel keeps it between two steps in the inputs' type; fp64 keeps all bits.
    fn rounded(self, dtype: DType) -> Self;
    /// By which fp64 rounding stays out of sight for any length, and f32 rounding is that of a decent kernel.
    fn total(values: &[Self]) -> Self;
}

impl Real for f64 {
    fn of(value: f64) -> f64 {
        value
    }

    fn exp(self) -> f64 {
        self.exp()
    }

    fn sqrt(self) -> f64 {
        self.sqrt()
    }

    fn rounded(self, _: DType) -> f64 {
        self
    }

    fn total(values: &[f64]) -> f64 {
        pairwise(values)
    }
}

impl Real for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }

    fn exp(self) -> f32 {
        self.exp()
    }

    fn sqrt(self) -> f32 {
        self.sqrt()
    }

    fn rounded(self, dtype: DType) -> f32 {
        round_f32(self, dtype)
    }

    /// A thread's chain, then a chain over threads.
    fn total(values: &[f32]) -> f32 {
        let add = |sum: f32, value: f32| sum + value;
        let chains = values.chunks(chain(values.len() as u64) as usize);
        chains.map(|values| values.iter().copied().fold(0.0, add)).fold(0.0, add)
    }
}

impl ReferenceWork {
    /// `values` has what the plan's buffers hold, by position.
    pub fn answer(&self, values: &[Vec<f64>]) -> ReferenceAnswer {
        let (buffer, exact) = (self.output, self.is_exact());
        let (expected, logit_max) = self.compute::<f64>(values);
        let trusted = self.has_trusted().then(|| {
            let (answer, _) = self.compute::<f32>(values);
            let rounded = |value: f32| f64::from(round_f32(value, self.dtype_out));
            answer.into_par_iter().with_min_len(rows_per_task(1)).map(rounded).collect()
        });
        let size = |values: &[f64]| Size { rms: rms(values), largest: max_abs(values) };
        let noise = self.noise(|of| {
            Ok::<Size, std::convert::Infallible>(match of {
                Measured::Input(input) => size(&values[self.inputs[input]]),
                Measured::Answer => size(&expected),
                Measured::Logits => Size { largest: logit_max, ..Size::default() },
            })
        });
        let Ok(noise) = noise;
        ReferenceAnswer { buffer, expected, trusted, exact, noise, ..ReferenceAnswer::default() }
    }

    /// The answer, and the largest logit of attention.
    fn compute<T: Real>(&self, values: &[Vec<f64>]) -> (Vec<T>, f64) {
        let convert = |input: &usize| -> Vec<T> {
            values[*input].par_iter().with_min_len(rows_per_task(1)).map(|value| T::of(*value)).collect()
        };
        let inputs: Vec<Vec<T>> = self.inputs.iter().map(convert).collect();
        let x = &inputs[0];
        let answer = match self.kind {
            WorkKind::Gemm { m, k, n } => product(x, &inputs[1], [m, k, n].map(|extent| extent as usize)),
            WorkKind::Softmax { columns, .. } => rows(x, columns as usize, softmax),
            WorkKind::RmsNorm { columns, .. } => {
                rows(x, columns as usize, |out, row| rmsnorm(out, row, &inputs[1]))
            }
            WorkKind::Reduction { .. } => vec![T::total(x)],
            WorkKind::Transpose { rows, columns } => transposed(x, rows as usize, columns as usize),
            WorkKind::Attention(work) => {
                return attention(&work, self.dtype, [x, &inputs[1], &inputs[2]]);
            }
        };
        (answer, 0.0)
    }
}

/// What `each` makes of every row, on all cores.
fn rows<T: Real>(x: &[T], columns: usize, each: impl Fn(&mut [T], &[T]) + Sync) -> Vec<T> {
    let mut out = vec![T::default(); x.len()];
    let width = columns.max(1);
    // A row of exponentials counts for eight of plain numbers.
    let tasks = out.par_chunks_mut(width).with_min_len(rows_per_task(8 * width));
    tasks.zip(x.par_chunks(width)).for_each(|(out, row)| each(out, row));
    out
}

/// Subtracting the maximum keeps `exp` in range for the magnified input families, in fp64 too.
fn powers<T: Real>(row: &[T]) -> impl Iterator<Item = T> {
    // Of a NaN nothing is larger.
    let max = row.iter().copied().fold(T::of(f64::NEG_INFINITY), |most, x| if x > most { x } else { most });
    row.iter().map(move |x| (*x - max).exp())
}

fn softmax<T: Real>(out: &mut [T], row: &[T]) {
    let mut sum = T::default();
    for (value, power) in out.iter_mut().zip(powers(row)) {
        *value = power;
        sum += power;
    }
    out.iter_mut().for_each(|value| *value = *value / sum);
}

fn rmsnorm<T: Real>(out: &mut [T], row: &[T], weights: &[T]) {
    let mean = row.iter().map(|x| *x * *x).sum::<T>() / T::of(row.len() as f64);
    let factor = T::of(1.0) / (mean + T::of(EPSILON)).sqrt();
    for ((value, x), w) in out.iter_mut().zip(row).zip(weights) {
        *value = *x * factor * *w;
    }
}

const TASK: usize = 1 << 16;

fn pairwise(values: &[f64]) -> f64 {
    if values.len() <= 256 {
        return values.iter().sum();
    }
    let (left, right) = values.split_at(values.len() / 2);
    // The same pairs either way, so that the sum does not depend on it.
    let (left, right) = match values.len() < TASK {
        true => (pairwise(left), pairwise(right)),
        false => rayon::join(|| pairwise(left), || pairwise(right)),
    };
    left + right
}

fn transposed<T: Real>(x: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut out = vec![T::default(); x.len()];
    let lines = out.par_chunks_mut(rows.max(1)).with_min_len(rows_per_task(rows));
    lines.enumerate().for_each(|(column, out)| {
        for (row, value) in out.iter_mut().enumerate() {
            *value = x[row * columns + column];
        }
    });
    out
}

/// The loop over columns is the inner one, so that it vectorizes without reordering any sum.
fn product<T: Real>(a: &[T], b: &[T], [m, k, n]: [usize; 3]) -> Vec<T> {
    let mut c = vec![T::default(); m * n];
    if n == 0 {
        return c;
    }
    let tasks = c.par_chunks_mut(ROWS * n).with_min_len(rows_per_task(ROWS * n * k));
    tasks.enumerate().for_each(|(task, rows)| {
        for column in (0..n).step_by(COLUMNS) {
            let columns = column..(column + COLUMNS).min(n);
            for step in (0..k).step_by(STEPS) {
                let steps = step..(step + STEPS).min(k);
                for (quad, four) in rows.chunks_mut(4 * n).enumerate() {
                    let first = task * ROWS + quad * 4;
                    add_block(four, &a[first * k..], b, (k, n), columns.clone(), steps.clone());
                }
            }
        }
    });
    c
}

/// Four rows at once share each load of `b`.
fn add_block<T: Real>(
    rows: &mut [T],
    a: &[T],
    b: &[T],
    (k, n): (usize, usize),
    columns: std::ops::Range<usize>,
    steps: std::ops::Range<usize>,
) {
    let mut strips: Vec<&mut [T]> = rows.chunks_mut(n).map(|row| &mut row[columns.clone()]).collect();
    for step in steps {
        let right = &b[step * n..][columns.clone()];
        if let [r0, r1, r2, r3] = strips.as_mut_slice() {
            let [f0, f1, f2, f3] = [0, 1, 2, 3].map(|row| a[row * k + step]);
            let sums = r0.iter_mut().zip(r1.iter_mut()).zip(r2.iter_mut().zip(r3.iter_mut()));
            for (((s0, s1), (s2, s3)), value) in sums.zip(right) {
                *s0 += f0 * *value;
                *s1 += f1 * *value;
                *s2 += f2 * *value;
                *s3 += f3 * *value;
            }
        } else {
            for (row, strip) in strips.iter_mut().enumerate() {
                let factor = a[row * k + step];
                strip.iter_mut().zip(right).for_each(|(sum, value)| *sum += factor * *value);
            }
        }
    }
}

/// `o = softmax(q·kᵀ / √D + mask) · v` with grouped heads, and the largest logit. A row without a visible key gives 0.
/// Powers are rounded to the inputs' type before the second product, as libraries do.
fn attention<T: Real>(work: &AttentionWork, dtype: DType, [q, k, v]: [&[T]; 3]) -> (Vec<T>, f64) {
    let AttentionWork { queries, keys, depth, .. } = *work;
    let mut out = vec![T::default(); q.len()];
    let scale = T::of(1.0 / (depth as f64).sqrt());
    let least = rows_per_task(2 * queries * keys * depth);
    let pairs = out.par_chunks_mut((queries * depth).max(1)).with_min_len(least);
    let maxima = pairs.enumerate().map(|(pair, out)| {
        let start = work.start_kv(pair);
        // The inner loop runs over keys and vectorizes without reordering any sum.
        let by_depth = turned(&k[start..][..keys * depth], depth);
        let values = &v[start..][..keys * depth];
        let mut logits = vec![T::default(); keys];
        let mut largest = 0.0f64;
        for (row, out) in out.chunks_mut(depth).enumerate() {
            let query = &q[(pair * queries + row) * depth..][..depth];
            let logits = &mut logits[..work.visible(row)];
            dot_rows(query, &by_depth, keys, logits);
            logits.iter_mut().for_each(|logit| *logit = *logit * scale);
            largest = logits.iter().fold(largest, |most, logit| most.max(Into::<f64>::into(*logit).abs()));
            let mut sum = T::default();
            for (power, value) in powers(logits).zip(values.chunks(depth)) {
                sum += power;
                let power = power.rounded(dtype);
                out.iter_mut().zip(value).for_each(|(o, v)| *o += power * *v);
            }
            if !logits.is_empty() {
                out.iter_mut().for_each(|o| *o = *o / sum);
            }
        }
        largest
    });
    let largest = maxima.reduce(|| 0.0, f64::max);
    (out, largest)
}

/// Columns as rows, on this core.
fn turned<T: Real>(values: &[T], columns: usize) -> Vec<T> {
    let column = |column: usize| values.iter().skip(column).step_by(columns).copied();
    (0..columns).flat_map(column).collect()
}

/// `logits[j] = query · k[j]` for the first keys; the loop over keys is the inner one and vectorizes.
fn dot_rows<T: Real>(query: &[T], by_depth: &[T], keys: usize, logits: &mut [T]) {
    logits.fill(T::default());
    for (column, factor) in query.iter().enumerate() {
        let row = &by_depth[column * keys..][..logits.len()];
        for (logit, value) in logits.iter_mut().zip(row) {
            *logit += *factor * *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::ProblemPlan;

    use super::*;
    use crate::judge::inputs::Family;
    use crate::judge::reference::testing::{Operands, assert_close, operands, problem_of};

    fn equals(reference: &str, operands: &Operands<'_>, loops: &[f64], (most, trusted): (f64, f64)) {
        let answer = operands.answer(reference);
        assert_close(&answer.expected, loops, most);
        assert_eq!(answer.exact, answer.trusted.is_none());
        if let Some(own) = answer.trusted {
            assert_close(&own, loops, trusted);
        }
        assert_eq!(answer.buffer, operands.plan.buffers.len() - 1);
    }

    #[test]
    fn sums_are_those_of_floats_and_integers() {
        for dtype in [DType::F32, DType::I32] {
            let plan = problem_of("", dtype, &[], &[("x", &[10_001]), ("out", &[1])]);
            let operands = operands(&plan, Family::Normal, 0);
            equals("reduction", &operands, &[operands.values[0].iter().sum()], (1e-12, 1e-5));
        }
    }

    #[test]
    fn rows_become_columns() {
        let plan = problem_of("", DType::U8, &[], &[("x", &[3, 5]), ("y", &[5, 3])]);
        let operands = operands(&plan, Family::Normal, 0);
        let loops: Vec<f64> = (0..15).map(|at| operands.values[0][at % 3 * 5 + at / 3]).collect();
        equals("transpose", &operands, &loops, (0.0, 0.0));
    }

    #[test]
    fn rows_over_weights_have_mean_square_one() {
        let plan = problem_of("", DType::F32, &[], &[("x", &[5, 40]), ("w", &[40]), ("y", &[5, 40])]);
        let operands = operands(&plan, Family::Normal, 0);
        let answer = operands.answer("rmsnorm");
        for (row, x) in answer.expected.chunks(40).zip(operands.values[0].chunks(40)) {
            let plain: Vec<f64> = row.iter().zip(&operands.values[1]).map(|(y, w)| y / w).collect();
            let mean = plain.iter().map(|v| v * v).sum::<f64>() / 40.0;
            assert!((mean - 1.0).abs() < 1e-5);
            assert!((plain[0] / x[0] - plain[1] / x[1]).abs() < 1e-9);
        }
        equals("rmsnorm", &operands, &answer.expected, (0.0, 1e-6));
    }

    #[test]
    fn rows_sum_to_one_in_every_family() {
        let plan = problem_of("", DType::F32, &[], &[("x", &[9, 33]), ("y", &[9, 33])]);
        for family in Family::ALL.iter().copied().filter(|family| *family != Family::Special) {
            let operands = operands(&plan, family, 0);
            let answer = operands.answer("softmax");
            for row in answer.expected.chunks(33) {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
            if family == Family::Normal {
                let row: Vec<f64> = operands.values[0][..33].iter().map(|x| (x - 300.0).exp()).collect();
                let sum: f64 = row.iter().sum();
                let loops: Vec<f64> = row.iter().map(|value| value / sum).collect();
                assert_close(&answer.expected[..33], &loops, 1e-12);
            }
            assert_close(&answer.trusted.unwrap(), &answer.expected, 1e-5);
        }
    }

    const B: usize = 2;
    const HQ: usize = 4;
    const HKV: usize = 2;
    const D: usize = 8;

    fn masked(sq: usize, skv: usize, causal: bool) -> ProblemPlan {
        let shape = |heads: usize, length: usize| [B, heads, length, D].map(|extent| extent as u64);
        let (q, kv) = (shape(HQ, sq), shape(HKV, skv));
        let sizes = [("CAUSAL", i64::from(causal))];
        problem_of("", DType::F16, &sizes, &[("q", &q), ("k", &kv), ("v", &kv), ("o", &q)])
    }

    fn attention_loops(operands: &Operands<'_>, sq: usize, skv: usize, causal: bool) -> Vec<f64> {
        let (q, k, v) = (&operands.values[0], &operands.values[1], &operands.values[2]);
        let mut out = vec![0.0; B * HQ * sq * D];
        for (b, h, i) in (0..B).flat_map(|b| (0..HQ).flat_map(move |h| (0..sq).map(move |i| (b, h, i)))) {
            let kv = |j: usize, d: usize| ((b * HKV + h / (HQ / HKV)) * skv + j) * D + d;
            let at = |d: usize| ((b * HQ + h) * sq + i) * D + d;
            let seen: Vec<usize> =
                (0..skv).filter(|j| !causal || *j as i64 <= i as i64 + skv as i64 - sq as i64).collect();
            let power =
                |j: usize| ((0..D).map(|d| q[at(d)] * k[kv(j, d)]).sum::<f64>() / (D as f64).sqrt()).exp();
            let sum: f64 = seen.iter().map(|j| power(*j)).sum();
            for d in 0..D {
                let value: f64 = seen.iter().map(|j| power(*j) * v[kv(*j, d)]).sum();
                out[at(d)] = if seen.is_empty() { 0.0 } else { value / sum };
            }
        }
        out
    }

    #[test]
    fn attention_equals_plain_loops_with_masks_groups_and_unequal_lengths() {
        for (sq, skv) in [(1, 1), (1, 7), (7, 1), (5, 9), (9, 5), (16, 16)] {
            for causal in [false, true] {
                let plan = masked(sq, skv, causal);
                let operands = operands(&plan, Family::Normal, 0);
                equals("attention", &operands, &attention_loops(&operands, sq, skv, causal), (1e-12, 2e-3));
            }
        }
    }

    #[test]
    fn constant_values_come_out_and_unseen_rows_are_zero() {
        let plan = masked(6, 4, true);
        let mut operands = operands(&plan, Family::Normal, 0);
        operands.values[2].fill(0.75);
        for (index, value) in operands.answer("attention").expected.iter().enumerate() {
            let row = index / D % 6;
            let expected = if row < 2 { 0.0 } else { 0.75 };
            assert!((value - expected).abs() < 1e-12, "row {row}: {value}");
        }
    }
}
