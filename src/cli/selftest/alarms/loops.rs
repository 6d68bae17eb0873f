//! The answers of the kernels that ship, computed in fp64 with plain loops over the definition, and how far from
//! them an honest kernel may be.
//!
//! None of this is used by the gates: they have references, tolerances and comparisons of their own
//! (`crates/evo-worker/src/judge/`), and a fault there must not hide here. Error bounds are the textbook's (Higham, *Accuracy and
//! Stability of Numerical Algorithms*, 2nd ed., §3.1 and §4.2), for sums in any order.

use std::collections::BTreeMap;

/// Unit roundoff of f32 and of f16.
const UNIT_F32: f64 = 1.0 / (1u64 << 24) as f64;
const UNIT_F16: f64 = 1.0 / (1u64 << 11) as f64;
/// Half of the distance between subnormal halves.
const TINY_F16: f64 = 1.0 / (1u64 << 25) as f64;
/// Error of an exponential in units of the last place, and of what follows it; the fast one has this much.
const EXP_ULPS: f64 = 32.0;

/// An answer, and how far from it an honest kernel may be, element by element.
#[derive(Debug, Default)]
pub struct PlainAnswer {
    pub values: Vec<f64>,
    pub bounds: Vec<f64>,
}

impl PlainAnswer {
    fn push(&mut self, value: f64, bound: f64) {
        self.values.push(value);
        self.bounds.push(bound);
    }
}

/// What a kernel computes from its inputs, by argument name, and the problem's sizes. `None`: no kernel of this name
/// ships with evo.
pub fn answer(
    kernel: &str,
    inputs: &BTreeMap<&str, Vec<f64>>,
    sizes: &BTreeMap<String, i64>,
) -> Option<PlainAnswer> {
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
            let own = Heads { halved: kernel == "attention_mma", ..Heads::of(size) };
            attention([input("q"), input("k"), input("v")], &own)
        }
        _ => return None,
    })
}

/// `halved`: the answer is rounded to a half.
fn gemm(a: &[f64], b: &[f64], [m, n, depth]: [usize; 3], halved: bool) -> PlainAnswer {
    let mut answer = PlainAnswer::default();
    for row in 0..m {
        for column in 0..n {
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
            answer.push(sum, 1.01 * rounding + terms * UNIT_F32 * magnitude);
        }
    }
    answer
}

/// Thousands of threads share the sum, so no chain is longer than the root of the length allows for.
fn reduction(x: &[f64]) -> PlainAnswer {
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for value in x {
        sum += value;
        magnitude += value.abs();
    }
    let mut answer = PlainAnswer::default();
    answer.push(sum, (2.0 * (x.len() as f64).sqrt() + 32.0) * UNIT_F32 * magnitude);
    answer
}

fn rmsnorm(x: &[f64], w: &[f64], columns: usize) -> PlainAnswer {
    let mut answer = PlainAnswer::default();
    for row in x.chunks(columns.max(1)) {
        let mut square = 0.0;
        for value in row {
            square += value * value;
        }
        let norm = (square / columns as f64 + 1e-6).sqrt();
        for (value, weight) in row.iter().zip(w) {
            let exact = value / norm * weight;
            answer.push(exact, exact.abs() * (UNIT_F16 + 1e-5) + TINY_F16);
        }
    }
    answer
}

fn softmax(x: &[f64], columns: usize) -> PlainAnswer {
    let mut answer = PlainAnswer::default();
    for row in x.chunks(columns.max(1)) {
        let mut largest = f64::NEG_INFINITY;
        for value in row {
            largest = largest.max(*value);
        }
        let mut sum = 0.0;
        for value in row {
            sum += (value - largest).exp();
        }
        for value in row {
            let exact = (value - largest).exp() / sum;
            let ulps = EXP_ULPS + 2.0 * (value - largest).abs() + (columns as f64).sqrt();
            answer.push(exact, exact * ulps * UNIT_F32 + f64::from(f32::MIN_POSITIVE));
        }
    }
    answer
}

fn transpose(x: &[f64], rows: usize, columns: usize) -> PlainAnswer {
    let mut answer = PlainAnswer::default();
    for column in 0..columns {
        for row in 0..rows {
            answer.push(x[row * columns + column], 0.0);
        }
    }
    answer
}

/// Extents of an attention problem.
struct Heads {
    batch: usize,
    queries: usize,
    keys: usize,
    heads: usize,
    heads_kv: usize,
    causal: bool,
    /// Weights are rounded to halves before they meet the values.
    halved: bool,
}

/// Width of a head in the space that ships.
const WIDTH: usize = 64;

impl Heads {
    fn of(size: impl Fn(&str) -> usize) -> Heads {
        Heads {
            batch: size("B"),
            queries: size("SQ"),
            keys: size("SKV"),
            heads: size("HQ"),
            heads_kv: size("HKV"),
            causal: size("CAUSAL") != 0,
            halved: false,
        }
    }
}

/// Softmax of q·k over √width, times v; with a mask, the last query sees all keys, the one before it all but one, and a
/// query without keys gives 0.
fn attention([q, k, v]: [&[f64]; 3], own: &Heads) -> PlainAnswer {
    let mut answer = PlainAnswer::default();
    for pair in 0..own.batch * own.heads {
        let (batch, head) = (pair / own.heads, pair % own.heads);
        let shared = batch * own.heads_kv + head * own.heads_kv / own.heads;
        for query in 0..own.queries {
            let hidden = if own.causal { own.queries - 1 - query } else { 0 };
            let visible = own.keys.saturating_sub(hidden);
            let at = (pair * own.queries + query) * WIDTH;
            let mut weights = Vec::new();
            for key in 0..visible {
                let mut dot = 0.0;
                for d in 0..WIDTH {
                    dot += q[at + d] * k[(shared * own.keys + key) * WIDTH + d];
                }
                weights.push(dot / (WIDTH as f64).sqrt());
            }
            let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut sum = 0.0;
            for weight in &mut weights {
                *weight = (*weight - largest).exp();
                sum += *weight;
            }
            for d in 0..WIDTH {
                let (mut value, mut magnitude, mut all) = (0.0, 0.0, 0.0);
                for (key, weight) in weights.iter().enumerate() {
                    let element = v[(shared * own.keys + key) * WIDTH + d];
                    let term = weight / sum * element;
                    value += term;
                    magnitude += term.abs();
                    all += element.abs();
                }
                let inside = (EXP_ULPS + own.keys as f64) * UNIT_F32 * magnitude;
                let weights =
                    if own.halved && sum > 0.0 { UNIT_F16 * magnitude + TINY_F16 / sum * all } else { 0.0 };
                answer.push(value, value.abs() * UNIT_F16 + TINY_F16 + 2.0 * inside + 1.01 * weights);
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
        pairs.iter().map(|(name, size)| (name.to_string(), *size)).collect()
    }

    #[test]
    fn small_cases_by_hand() {
        let of = |kernel, inputs: &[(&'static str, &[f64])], own: &[(&str, i64)]| {
            let inputs = inputs.iter().map(|(name, values)| (*name, values.to_vec())).collect();
            answer(kernel, &inputs, &sizes(own)).unwrap().values
        };
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        let product = of("gemm", &[("a", &a), ("b", &b)], &[("M", 2), ("N", 2), ("K", 2)]);
        assert_eq!(product, [19.0, 22.0, 43.0, 50.0]);
        assert_eq!(of("reduction", &[("x", &a)], &[]), [10.0]);
        let turned = of("transpose", &[("x", &[1.0, 2.0, 3.0])], &[("ROWS", 1), ("COLS", 3)]);
        assert_eq!(turned, [1.0, 2.0, 3.0]);
        let turned = of("transpose", &[("x", &a)], &[("ROWS", 2), ("COLS", 2)]);
        assert_eq!(turned, [1.0, 3.0, 2.0, 4.0]);
        let even = of("softmax", &[("x", &[3.0, 3.0])], &[("COLS", 2)]);
        assert_eq!(even, [0.5, 0.5]);
        let normed = of("rmsnorm", &[("x", &[3.0, -3.0]), ("w", &[1.0, 2.0])], &[("COLS", 2)]);
        assert!((normed[0] - 1.0).abs() < 1e-6 && (normed[1] + 2.0).abs() < 1e-6);
        assert!(answer("nobody", &BTreeMap::new(), &sizes(&[])).is_none());
    }

    #[test]
    fn a_mask_shows_the_first_query_one_key() {
        let own = [("B", 1), ("HQ", 1), ("HKV", 1), ("SQ", 2), ("SKV", 2), ("CAUSAL", 1)];
        let q = vec![0.0; 2 * WIDTH];
        let v: Vec<f64> = (0..2 * WIDTH).map(|i| if i < WIDTH { 1.0 } else { 3.0 }).collect();
        let inputs = BTreeMap::from([("q", q.clone()), ("k", q), ("v", v)]);
        let values = answer("attention_simt", &inputs, &sizes(&own)).unwrap().values;
        assert_eq!((values[0], values[WIDTH]), (1.0, 2.0));
    }
}
