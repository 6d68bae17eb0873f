//! Attention forward: `o = softmax(q·kᵀ / √D + mask) · v`, with grouped heads.
//!
//! The causal mask is aligned bottom-right: key `j` is visible to query `i` if `j ≤ i + SKV − SQ`. A
//! row without a visible key gives 0.

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use rayon::prelude::*;

use super::operands::{
    Noise, Operands, ReferenceAnswer, Tensor, UNIT_F32, has_trusted, require, rms, rows_per_task,
};
use crate::judge::element::round_f32;

#[derive(Clone, Copy)]
struct Extents {
    heads: usize,
    heads_kv: usize,
    queries: usize,
    keys: usize,
    depth: usize,
    causal: bool,
}

impl Extents {
    fn pairs_per_task(&self) -> usize {
        rows_per_task(2 * self.queries * self.keys * self.depth)
    }

    fn visible(&self, row: usize) -> usize {
        if self.causal {
            (row + 1 + self.keys).saturating_sub(self.queries).min(self.keys)
        } else {
            self.keys
        }
    }

    fn scale(&self) -> f64 {
        1.0 / (self.depth as f64).sqrt()
    }

    fn start_kv(&self, pair: usize) -> usize {
        let (batch, head) = (pair / self.heads, pair % self.heads);
        (batch * self.heads_kv + head / (self.heads / self.heads_kv)) * self.keys * self.depth
    }
}

pub fn compute(operands: &Operands<'_>) -> Result<Vec<ReferenceAnswer>, DeviceError> {
    const NAME: &str = "attention";
    let q = operands.input(NAME, "q", 4)?;
    let k = operands.input(NAME, "k", 4)?;
    let v = operands.input(NAME, "v", 4)?;
    let extents = extents(operands, &q, &k, &v)?;
    let (buffer, dtype) = operands.output(NAME, "o", &q.shape)?;
    if q.values.is_empty() {
        return Ok(vec![ReferenceAnswer { buffer, ..ReferenceAnswer::default() }]);
    }
    let (expected, logit_max) = exact(&q, &k, &v, extents);
    let trusted = has_trusted(dtype).then(|| trusted(&q, &k, &v, extents, dtype));
    // A logit of this size carries that much error in f32, and its power carries it on.
    let logit_error = UNIT_F32 * logit_max * rms(v.values);
    let noise = Noise { max: 8.0 * logit_error, rms: 2.0 * logit_error };
    Ok(vec![ReferenceAnswer { buffer, expected, trusted, exact: false, noise, ..ReferenceAnswer::default() }])
}

fn extents(
    operands: &Operands<'_>,
    q: &Tensor<'_>,
    k: &Tensor<'_>,
    v: &Tensor<'_>,
) -> Result<Extents, DeviceError> {
    const NAME: &str = "attention";
    require(k.shape == v.shape, NAME, "`k` and `v` of the same shape")?;
    require(q.shape[0] == k.shape[0], NAME, "`q` and `k` with the same B")?;
    require(q.shape[3] == k.shape[3], NAME, "`q` and `k` with the same D")?;
    require(k.shape[1] > 0 && q.shape[1].is_multiple_of(k.shape[1]), NAME, "HQ to be a multiple of HKV")?;
    // Without queries there is nothing to compute; without keys there is no answer.
    require(q.values.is_empty() || !k.values.is_empty(), NAME, "at least one key")?;
    let causal = operands.size("CAUSAL");
    require(causal.is_some(), NAME, "a size `CAUSAL` (0 or 1) in the problem")?;
    Ok(Extents {
        heads: q.shape[1],
        heads_kv: k.shape[1],
        queries: q.shape[2],
        keys: k.shape[2],
        depth: q.shape[3],
        causal: causal != Some(0),
    })
}

fn exact(q: &Tensor<'_>, k: &Tensor<'_>, v: &Tensor<'_>, extents: Extents) -> (Vec<f64>, f64) {
    let Extents { queries, keys, depth, .. } = extents;
    let mut out = vec![0.0f64; q.values.len()];
    let pairs = out.par_chunks_mut(queries * depth).with_min_len(extents.pairs_per_task());
    let maxima = pairs.enumerate().map(|(pair, out)| {
        let start = extents.start_kv(pair);
        // Transposed, so that the inner loop runs over keys and vectorizes without reordering any sum.
        let transposed = transpose(&k.values[start..][..keys * depth], keys, depth);
        let values = &v.values[start..][..keys * depth];
        let mut logits = vec![0.0f64; keys];
        let mut largest = 0.0f64;
        for (row, out) in out.chunks_mut(depth).enumerate() {
            let visible = extents.visible(row);
            let query = &q.values[(pair * queries + row) * depth..][..depth];
            let logits = &mut logits[..visible];
            dot_rows(query, &transposed, keys, logits);
            logits.iter_mut().for_each(|logit| *logit *= extents.scale());
            // The maximum is subtracted here too: a plain `exp` of large logits overflows even in fp64.
            let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            largest = logits.iter().fold(largest, |most, logit| most.max(logit.abs()));
            let mut sum = 0.0;
            for (power, value) in logits.iter().map(|logit| (logit - max).exp()).zip(values.chunks(depth)) {
                sum += power;
                out.iter_mut().zip(value).for_each(|(o, v)| *o += power * v);
            }
            if visible > 0 {
                out.iter_mut().for_each(|o| *o /= sum);
            }
        }
        largest
    });
    let largest = maxima.reduce(|| 0.0, f64::max);
    (out, largest)
}

/// f32 accumulation, powers rounded to the inputs' type before the second product, as libraries do.
fn trusted(q: &Tensor<'_>, k: &Tensor<'_>, v: &Tensor<'_>, extents: Extents, dtype: DType) -> Vec<f64> {
    let Extents { queries, keys, depth, .. } = extents;
    let mut out = vec![0.0f64; q.values.len()];
    let pairs = out.par_chunks_mut(queries * depth).with_min_len(extents.pairs_per_task());
    pairs.enumerate().for_each(|(pair, out)| {
        let start = extents.start_kv(pair);
        let narrow = |values: &[f64]| values.iter().map(|value| *value as f32).collect::<Vec<f32>>();
        let transposed = transpose(&narrow(&k.values[start..][..keys * depth]), keys, depth);
        let values = narrow(&v.values[start..][..keys * depth]);
        let mut logits = vec![0.0f32; keys];
        let mut sums = vec![0.0f32; depth];
        for (row, out) in out.chunks_mut(depth).enumerate() {
            let visible = extents.visible(row);
            let query = narrow(&q.values[(pair * queries + row) * depth..][..depth]);
            let logits = &mut logits[..visible];
            dot_rows(&query, &transposed, keys, logits);
            let scale = extents.scale() as f32;
            logits.iter_mut().for_each(|logit| *logit *= scale);
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0f32;
            sums.fill(0.0);
            for (power, value) in logits.iter().map(|logit| (logit - max).exp()).zip(values.chunks(depth)) {
                sum += power;
                let power = round_f32(power, q.dtype);
                sums.iter_mut().zip(value).for_each(|(o, v)| *o += power * v);
            }
            for (o, value) in out.iter_mut().zip(&sums) {
                *o = if visible > 0 { f64::from(round_f32(value / sum, dtype)) } else { 0.0 };
            }
        }
    });
    out
}

fn transpose<T: Copy + Default>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut out = vec![T::default(); values.len()];
    for row in 0..rows {
        for column in 0..columns {
            out[column * rows + row] = values[row * columns + column];
        }
    }
    out
}

/// `logits[j] = query · k[j]` for the first keys; the loop over keys is the inner one and vectorizes.
fn dot_rows<T>(query: &[T], transposed: &[T], keys: usize, logits: &mut [T])
where
    T: Copy + Default + std::ops::Mul<Output = T> + std::ops::AddAssign,
{
    logits.fill(T::default());
    for (column, factor) in query.iter().enumerate() {
        let row = &transposed[column * keys..][..logits.len()];
        for (logit, value) in logits.iter_mut().zip(row) {
            *logit += *factor * *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::{ProblemPlan, Role};

    use super::*;
    use crate::judge::inputs::Family;
    use crate::judge::reference::testing::{assert_close, buffer, operands, plan};

    const B: usize = 2;
    const HQ: usize = 4;
    const HKV: usize = 2;
    const D: usize = 8;

    fn problem(sq: usize, skv: usize, causal: bool) -> ProblemPlan {
        let shape = |heads: usize, length: usize| [B as u64, heads as u64, length as u64, D as u64];
        plan(
            "p",
            &[("CAUSAL", i64::from(causal))],
            vec![
                buffer("q", DType::F16, &shape(HQ, sq), Role::Input),
                buffer("k", DType::F16, &shape(HKV, skv), Role::Input),
                buffer("v", DType::F16, &shape(HKV, skv), Role::Input),
                buffer("o", DType::F16, &shape(HQ, sq), Role::Output),
            ],
        )
    }

    fn loops(operands: &Operands<'_>, sq: usize, skv: usize, causal: bool) -> Vec<f64> {
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
    fn equals_plain_loops_with_masks_groups_and_unequal_lengths() {
        for (sq, skv) in [(1, 1), (1, 7), (7, 1), (5, 9), (9, 5), (16, 16)] {
            for causal in [false, true] {
                let plan = problem(sq, skv, causal);
                let operands = operands(&plan, Family::Normal, 0);
                let answer = compute(&operands).unwrap().remove(0);
                let loops = loops(&operands, sq, skv, causal);
                assert_close(&answer.expected, &loops, 1e-12);
                assert_close(&answer.trusted.unwrap(), &loops, 2e-3);
            }
        }
    }

    #[test]
    fn constant_values_come_out_and_unseen_rows_are_zero() {
        let plan = problem(6, 4, true);
        let mut operands = operands(&plan, Family::Normal, 0);
        operands.values[2].fill(0.75);
        let answer = compute(&operands).unwrap().remove(0);
        for (index, value) in answer.expected.iter().enumerate() {
            let row = index / D % 6;
            let expected = if row < 2 { 0.0 } else { 0.75 };
            assert!((value - expected).abs() < 1e-12, "row {row}: {value}");
        }
    }

    #[test]
    fn a_missing_causal_size_is_named() {
        let mut plan = problem(2, 2, false);
        plan.sizes.clear();
        let operands = operands(&plan, Family::Normal, 0);
        assert!(compute(&operands).unwrap_err().message.contains("a size `CAUSAL`"));
    }
}
