//! The answers of the kernels that ship, computed in fp64 with plain loops over the definition, and how far from
//! them an honest kernel may be.
//!
//! None of this is used by the gates: they have references, tolerances and comparisons of their own
//! (`crates/evo-worker/src/judge/`), and a fault there must not hide here. Error bounds are the textbook's (Higham, *Accuracy and
//! Stability of Numerical Algorithms*, 2nd ed., §3.1 and §4.2), for sums in any order.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Unit roundoff of f32 and of f16.
const UNIT_F32: f64 = 1.0 / (1u64 << 24) as f64;
const UNIT_F16: f64 = 1.0 / (1u64 << 11) as f64;
/// Half of the distance between subnormal halves.
const TINY_F16: f64 = 1.0 / (1u64 << 25) as f64;
/// Error of an exponential in units of the last place, and of what follows it; the fast one has this much.
const EXP_ULPS: f64 = 32.0;

/// Steps of loops that are made for one answer, a multiplication or the like each. All of a product of 2,048 × 2,048
/// × 2,048 would be 256 times as many, for each of 2,000 configurations.
const STEPS: usize = 1 << 27;

/// Elements of an answer, and how far from them an honest kernel may be.
#[derive(Debug, Default)]
pub struct PlainAnswer {
    /// Where the elements stand in the output.
    pub places: Vec<usize>,
    pub values: Vec<f64>,
    pub bounds: Vec<f64>,
    /// Elements of the whole output.
    pub total: usize,
}

impl PlainAnswer {
    fn push(&mut self, place: usize, value: f64, bound: f64) {
        self.places.push(place);
        self.values.push(value);
        self.bounds.push(bound);
    }
}

/// Pushes the elements of one unit.
type Compute<'a> = Box<dyn Fn(usize, &mut PlainAnswer) + 'a>;

/// An output in units that are computed one by one.
struct Units<'a> {
    count: usize,
    /// Elements of one.
    width: usize,
    steps: usize,
    compute: Compute<'a>,
}

/// What a kernel computes from its inputs, by argument name, and the problem's sizes: all of it, or the first, the last and
/// as many drawn units as [`STEPS`] allow. `None`: no kernel of this name ships with evo.
pub fn answer(
    kernel: &str,
    inputs: &BTreeMap<&str, Vec<f64>>,
    sizes: &BTreeMap<String, i64>,
    random: &mut ChaCha8Rng,
) -> Option<PlainAnswer> {
    let units = units(kernel, inputs, sizes)?;
    let mut answer = PlainAnswer { total: units.count * units.width, ..PlainAnswer::default() };
    for unit in chosen(units.count, STEPS / units.steps.max(1), random) {
        (units.compute)(unit, &mut answer);
    }
    Some(answer)
}

/// Which of `count` units are computed, where there is time for `most`.
fn chosen(count: usize, most: usize, random: &mut ChaCha8Rng) -> BTreeSet<usize> {
    if count <= most.max(2) {
        return (0..count).collect();
    }
    let drawn = (2..most).map(|_| (random.next_u64() % count as u64) as usize);
    drawn.chain([0, count - 1]).collect()
}

fn units<'a>(
    kernel: &str,
    inputs: &'a BTreeMap<&str, Vec<f64>>,
    sizes: &BTreeMap<String, i64>,
) -> Option<Units<'a>> {
    let size = |name: &str| sizes.get(name).map_or(0, |size| *size as usize);
    let input = |name: &str| inputs.get(name).map_or(&[][..], Vec::as_slice);
    Some(match kernel {
        "gemm" | "gemm_mma" => {
            let extents = [size("M"), size("N"), size("K")];
            gemm(input("a"), input("b"), extents, kernel == "gemm_mma")
        }
        "reduction" => reduction(input("x")),
        "rmsnorm" => rmsnorm(input("x"), input("w"), size("COLS")),
        "softmax" => softmax(input("x"), size("COLS")),
        "transpose" => transpose(input("x"), size("ROWS"), size("COLS")),
        "attention_simt" | "attention_mma" => {
            let extents = ["B", "HQ", "HKV", "SQ", "SKV", "CAUSAL"].map(size);
            attention([input("q"), input("k"), input("v")], extents, kernel == "attention_mma")
        }
        _ => return None,
    })
}

/// An element each. `halved`: the answer is rounded to a half.
fn gemm<'a>(a: &'a [f64], b: &'a [f64], [m, n, depth]: [usize; 3], halved: bool) -> Units<'a> {
    let compute = move |unit: usize, answer: &mut PlainAnswer| {
        let (row, column) = (unit / n, unit % n);
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for k in 0..depth {
            let product = a[row * depth + k] * b[k * n + column];
            sum += product;
            magnitude += product.abs();
        }
        // Tensor cores cut off what they add, so each term may cost a whole unit.
        let (terms, rounding) = match halved {
            true => (2.0 * (depth + 1) as f64, sum.abs() * UNIT_F16 + TINY_F16),
            false => ((depth + 1) as f64, 0.0),
        };
        answer.push(unit, sum, 1.01 * rounding + terms * UNIT_F32 * magnitude);
    };
    // A column's elements are far apart in memory.
    Units { count: m * n, width: 1, steps: 4 * depth, compute: Box::new(compute) }
}

/// Thousands of threads share the sum, so no chain is longer than the root of the length allows for.
fn reduction(x: &[f64]) -> Units<'_> {
    let compute = move |unit: usize, answer: &mut PlainAnswer| {
        let (sum, magnitude) = (x.iter().sum(), x.iter().map(|value| value.abs()).sum::<f64>());
        answer.push(unit, sum, (2.0 * (x.len() as f64).sqrt() + 32.0) * UNIT_F32 * magnitude);
    };
    Units { count: 1, width: 1, steps: x.len(), compute: Box::new(compute) }
}

fn rmsnorm<'a>(x: &'a [f64], w: &'a [f64], columns: usize) -> Units<'a> {
    let compute = move |unit: usize, answer: &mut PlainAnswer| {
        let row = &x[unit * columns..(unit + 1) * columns];
        let square: f64 = row.iter().map(|value| value * value).sum();
        let norm = (square / columns as f64 + 1e-6).sqrt();
        for (column, (value, weight)) in row.iter().zip(w).enumerate() {
            let exact = value / norm * weight;
            answer.push(unit * columns + column, exact, exact.abs() * (UNIT_F16 + 1e-5) + TINY_F16);
        }
    };
    rows(x.len(), columns, 4, Box::new(compute))
}

fn softmax(x: &[f64], columns: usize) -> Units<'_> {
    let compute = move |unit: usize, answer: &mut PlainAnswer| {
        let row = &x[unit * columns..(unit + 1) * columns];
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|value| (value - largest).exp()).sum();
        for (column, value) in row.iter().enumerate() {
            let exact = (value - largest).exp() / sum;
            let ulps = EXP_ULPS + 2.0 * (value - largest).abs() + (columns as f64).sqrt();
            let bound = exact * ulps * UNIT_F32 + f64::from(f32::MIN_POSITIVE);
            answer.push(unit * columns + column, exact, bound);
        }
    };
    rows(x.len(), columns, 20, Box::new(compute))
}

/// Units that are rows of the input and of the output, with so many steps for an element.
fn rows<'a>(elements: usize, columns: usize, steps: usize, compute: Compute<'a>) -> Units<'a> {
    Units { count: elements / columns.max(1), width: columns, steps: steps * columns, compute }
}

fn transpose(x: &[f64], rows: usize, columns: usize) -> Units<'_> {
    let compute = move |unit: usize, answer: &mut PlainAnswer| {
        let (column, row) = (unit / rows, unit % rows);
        answer.push(unit, x[row * columns + column], 0.0);
    };
    Units { count: rows * columns, width: 1, steps: 4, compute: Box::new(compute) }
}

/// Width of a head in the space that ships.
const WIDTH: usize = 64;

/// A query each. Softmax of q·k over √width, times v; with a mask, the last query sees all keys, the one before it all
/// but one, and a query without keys gives 0. `halved`: weights are rounded to halves before they meet the values.
fn attention<'a>(
    [q, k, v]: [&'a [f64]; 3],
    [batches, heads, heads_kv, queries, keys, causal]: [usize; 6],
    halved: bool,
) -> Units<'a> {
    let (count, steps) = (batches * heads * queries, 4 * keys * WIDTH);
    let compute = move |unit: usize, answer: &mut PlainAnswer| {
        let (pair, query) = (unit / queries, unit % queries);
        let (batch, head) = (pair / heads, pair % heads);
        let shared = batch * heads_kv + head * heads_kv / heads;
        let hidden = if causal != 0 { queries - 1 - query } else { 0 };
        let visible = keys.saturating_sub(hidden);
        let at = unit * WIDTH;
        let mut weights = Vec::new();
        for key in 0..visible {
            let dot: f64 = (0..WIDTH).map(|d| q[at + d] * k[(shared * keys + key) * WIDTH + d]).sum();
            weights.push(dot / (WIDTH as f64).sqrt());
        }
        let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        weights.iter_mut().for_each(|weight| *weight = (*weight - largest).exp());
        let sum: f64 = weights.iter().sum();
        for d in 0..WIDTH {
            let (mut value, mut magnitude, mut all) = (0.0, 0.0, 0.0);
            for (key, weight) in weights.iter().enumerate() {
                let element = v[(shared * keys + key) * WIDTH + d];
                let term = weight / sum * element;
                value += term;
                magnitude += term.abs();
                all += element.abs();
            }
            let inside = (EXP_ULPS + keys as f64) * UNIT_F32 * magnitude;
            let weights = if halved && sum > 0.0 { UNIT_F16 * magnitude + TINY_F16 / sum * all } else { 0.0 };
            answer.push(at + d, value, value.abs() * UNIT_F16 + TINY_F16 + 2.0 * inside + 1.01 * weights);
        }
    };
    Units { count, width: WIDTH, steps, compute: Box::new(compute) }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn random() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(1)
    }

    /// What the loops themselves compute is compared with the kernels that ship.
    #[test]
    fn of_a_long_answer_the_ends_and_some_between_are_computed() {
        assert_eq!(chosen(5, 9, &mut random()), (0..5).collect());
        assert_eq!(chosen(2, 0, &mut random()), (0..2).collect());
        let some = chosen(1_000_000, 100, &mut random());
        assert!((90..=100).contains(&some.len()) && some.contains(&0) && some.contains(&999_999));
        assert_ne!(some, chosen(1_000_000, 100, &mut ChaCha8Rng::seed_from_u64(2)));
        // A product of which a tenth can be afforded; each element is where it belongs.
        let inputs =
            BTreeMap::from([("a", vec![0.0, 1.0, 2.0, 3.0]), ("b", (0..6).map(f64::from).collect())]);
        let own = [("M", 2), ("N", 3), ("K", 2)].map(|(name, size)| (name.to_string(), size)).into();
        let all = answer("gemm", &inputs, &own, &mut random()).unwrap();
        assert_eq!((all.total, &all.places), (6, &(0..6).collect()));
        assert_eq!(all.values, [3.0, 4.0, 5.0, 9.0, 14.0, 19.0]);
        let mut two = PlainAnswer::default();
        for unit in chosen(6, 2, &mut random()) {
            (units("gemm", &inputs, &own).unwrap().compute)(unit, &mut two);
        }
        assert_eq!((two.places, two.values), (vec![0, 5], vec![3.0, 19.0]));
    }
}
