//! Honest computations of every reference pass in every family; known cheats do not.

use evo_protocol::plan::{ProblemPlan, Role};
use half::f16;

use super::*;
use crate::gate::reference::testing::{buffer, check_plan, operands, plan};
use crate::gate::reference::{self, Operands};

/// How a simulated kernel adds up.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Style {
    /// f32, eight interleaved chains, then a tree: another order than the trusted one.
    Honest,
    /// Like honest, with the first percent of terms dropped.
    Drop,
    /// Accumulates in half.
    Half,
    /// Writes zeros.
    Zero,
}

fn sum(terms: &[f32], style: Style) -> f32 {
    let skip = if style == Style::Drop { terms.len().div_ceil(100) } else { 0 };
    match style {
        Style::Zero => 0.0,
        Style::Half => terms.iter().fold(f16::ZERO, |sum, term| f16::from_f32(sum.to_f32() + term)).to_f32(),
        _ => {
            let mut chains = [0.0f32; 8];
            for (index, term) in terms.iter().enumerate().skip(skip) {
                chains[index % 8] += term;
            }
            ((chains[0] + chains[4]) + (chains[2] + chains[6]))
                + ((chains[1] + chains[5]) + (chains[3] + chains[7]))
        }
    }
}

fn simulate(reference: &str, operands: &Operands<'_>, style: Style) -> Vec<f64> {
    let shape = |index: usize| -> Vec<usize> {
        operands.plan.buffers[index].shape.iter().map(|extent| *extent as usize).collect()
    };
    let input = |index: usize| -> Vec<f32> { operands.values[index].iter().map(|v| *v as f32).collect() };
    let mut out = Vec::new();
    match reference {
        "gemm" => {
            let (a, b, k, n) = (input(0), input(1), shape(0)[1], shape(1)[1]);
            for row in a.chunks(k) {
                for j in 0..n {
                    let terms: Vec<f32> = (0..k).map(|p| row[p] * b[p * n + j]).collect();
                    out.push(sum(&terms, style));
                }
            }
        }
        "softmax" => {
            for row in input(0).chunks(shape(0)[1]) {
                let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let log2e = std::f32::consts::LOG2_E;
                let powers: Vec<f32> = row.iter().map(|x| (x * log2e - max * log2e).exp2()).collect();
                let total = sum(&powers, style);
                let zero = style == Style::Zero;
                out.extend(powers.iter().map(|power| if zero { 0.0 } else { power / total }));
            }
        }
        "rmsnorm" => {
            let w = input(1);
            for row in input(0).chunks(w.len()) {
                let squares: Vec<f32> = row.iter().map(|x| x * x).collect();
                let factor = 1.0 / (sum(&squares, style) / w.len() as f32 + 1e-6).sqrt();
                let zero = if style == Style::Zero { 0.0 } else { 1.0 };
                out.extend(row.iter().zip(&w).map(|(x, w)| x * factor * w * zero));
            }
        }
        "reduction" => out.push(sum(&input(0), style)),
        "attention" => {
            let owned = [input(0), input(1), input(2)];
            let qkv = [0, 1, 2].map(|index| owned[index].as_slice());
            simulate_attention(qkv, operands.plan.buffers[0].dtype, &shape(0), &mut out, style);
        }
        other => panic!("no simulation of {other}"),
    }
    let dtype = operands.plan.buffers.last().unwrap().dtype;
    out.iter().map(|value| f64::from(element::round_f32(*value, dtype))).collect()
}

fn simulate_attention(
    [q, k, v]: [&[f32]; 3],
    dtype: DType,
    shape: &[usize],
    out: &mut Vec<f32>,
    style: Style,
) {
    let (length, depth) = (shape[2], shape[3]);
    let factor = std::f32::consts::LOG2_E / (depth as f32).sqrt();
    for (row, query) in q.chunks(depth).enumerate() {
        let base = row / length * length * depth;
        let logits: Vec<f32> = (0..length)
            .map(|j| {
                let terms: Vec<f32> = (0..depth).map(|d| query[d] * k[base + j * depth + d]).collect();
                sum(&terms, Style::Honest) * factor
            })
            .collect();
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f32> = logits.iter().map(|logit| (logit - max).exp2()).collect();
        let total = sum(&powers, if style == Style::Half { Style::Honest } else { style });
        for d in 0..depth {
            let terms: Vec<f32> =
                (0..length).map(|j| element::round_f32(powers[j], dtype) * v[base + j * depth + d]).collect();
            out.push(if style == Style::Zero { 0.0 } else { sum(&terms, style) / total });
        }
    }
}

fn problem(reference: &str, dtype: DType, small: bool) -> ProblemPlan {
    let pick = |large: u64, tiny: u64| if small { tiny } else { large };
    let buffers = match reference {
        "gemm" => {
            let (m, k, n) = (pick(8, 1), pick(1024, 3), pick(8, 1));
            vec![
                buffer("a", dtype, &[m, k], Role::Input),
                buffer("b", dtype, &[k, n], Role::Input),
                buffer("c", dtype, &[m, n], Role::Output),
            ]
        }
        "rmsnorm" => {
            let (rows, columns) = (pick(6, 1), pick(1024, 5));
            vec![
                buffer("x", dtype, &[rows, columns], Role::Input),
                buffer("w", dtype, &[columns], Role::Input),
                buffer("y", dtype, &[rows, columns], Role::Output),
            ]
        }
        "softmax" => {
            let shape = [pick(6, 1), pick(1024, 5)];
            vec![buffer("x", dtype, &shape, Role::Input), buffer("y", dtype, &shape, Role::Output)]
        }
        "reduction" => vec![
            buffer("x", dtype, &[pick(40_000, 33)], Role::Input),
            buffer("out", DType::F32, &[1], Role::Output),
        ],
        _ => {
            let shape = [1, 1, pick(128, 3), 16];
            let role = |name| if name == "o" { Role::Output } else { Role::Input };
            ["q", "k", "v", "o"].map(|name| buffer(name, dtype, &shape, role(name))).to_vec()
        }
    };
    plan("p", &[("CAUSAL", 0)], buffers)
}

fn verdict(
    reference: &str,
    dtype: DType,
    small: bool,
    family: Family,
    seed: u32,
    style: Style,
) -> Option<Breach> {
    let plan = problem(reference, dtype, small);
    let operands = operands(&plan, family, seed);
    let answer = (reference::find(reference).unwrap().compute)(&operands).unwrap().remove(0);
    let own = plan.buffers[answer.buffer].dtype;
    let representable = max_abs(&answer.expected) < element::precision(own).unwrap().largest / 2.0;
    if !representable {
        // The judge draws smaller inputs then (`Family::magnitudes`).
        return None;
    }
    let bounds = bounds(&check_plan(reference), own, family, &Scale::of(&answer));
    let actual = simulate(reference, &operands, style);
    breach(&on_host(&actual, &answer.expected, bounds.tolerance), &bounds)
}

const REFERENCES: [&str; 5] = ["gemm", "softmax", "rmsnorm", "reduction", "attention"];

#[test]
fn honest_kernels_of_another_order_pass_in_every_family() {
    for reference in REFERENCES {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for family in Family::ALL {
                for (small, seeds) in [(false, 2), (true, 12)] {
                    for seed in 0..seeds {
                        let breach = verdict(reference, dtype, small, family, seed, Style::Honest);
                        assert_eq!(breach, None, "{reference} {dtype:?} {family:?} small={small} {seed}");
                    }
                }
            }
        }
    }
}

#[test]
fn cheats_fail_on_normal_inputs() {
    for reference in REFERENCES {
        for dtype in [DType::F32, DType::F16] {
            for style in [Style::Drop, Style::Half, Style::Zero] {
                // One percent of the squares moves rmsnorm by half a percent: seen in f32 and f16.
                let breach = verdict(reference, dtype, false, Family::Normal, 0, style);
                assert!(breach.is_some(), "{reference} {dtype:?} {style:?}");
            }
        }
    }
}

#[test]
fn zeros_fail_at_8k_keys_although_they_pass_the_usual_tolerance() {
    // What matters is the size of the output: a mean of 8192 values is about 0.011.
    let answer = Answer {
        expected: (0..4096).map(|i| 0.011 * f64::from(i % 7 - 3) / 2.0).collect(),
        trusted: Some(
            (0..4096).map(|i| half::f16::from_f64(0.011 * f64::from(i % 7 - 3) / 2.0).to_f64()).collect(),
        ),
        ..Answer::default()
    };
    let zeros = vec![0.0; 4096];
    let usual = Tolerance { atol: 2e-2, rtol: 1e-2 };
    assert_eq!(on_host(&zeros, &answer.expected, usual).mismatches, 0);
    for (trusted, atol) in [(true, None), (false, None), (true, Some(2e-2)), (false, Some(2e-2))] {
        let mut answer = answer.clone();
        answer.trusted = answer.trusted.filter(|_| trusted);
        let check = CheckPlan { atol, ..check_plan("attention") };
        let bounds = bounds(&check, DType::F16, Family::Normal, &Scale::of(&answer));
        let comparison = on_host(&zeros, &answer.expected, bounds.tolerance);
        assert!(breach(&comparison, &bounds).is_some(), "trusted={trusted} atol={atol:?}");
    }
}

#[test]
fn integers_and_data_movement_compare_exactly() {
    let answer = Answer { expected: vec![1.0, 2.0, 3.0], exact: true, ..Answer::default() };
    let own = bounds(&check_plan("transpose"), DType::F16, Family::Normal, &Scale::of(&answer));
    let judge = |actual: &[f64]| breach(&on_host(actual, &answer.expected, own.tolerance), &own);
    assert_eq!(judge(&[1.0, 2.0, 3.0]), None);
    assert_eq!(judge(&[1.0, 2.0, 3.0 + 1e-9]), Some(Breach::Elements));
    assert_eq!(judge(&[1.0, f64::NAN, 3.0]), Some(Breach::NonFinite));
}

#[test]
fn flat_indices_become_coordinates() {
    assert_eq!(coordinates(0, &[2, 3, 4]), [0, 0, 0]);
    assert_eq!(coordinates(23, &[2, 3, 4]), [1, 2, 3]);
    assert_eq!(coordinates(5, &[2, 3, 4]), [0, 1, 1]);
}
