//! Small problems for the tests of every reference.

use evo_protocol::check::CheckSet;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};
use evo_protocol::worker::{CheckPlan, ReferencePlan, SpecialValues};

use super::numbers::ReferenceAnswer;
use super::work::{ReferenceWork, WorkKind};
pub(in crate::judge) use crate::judge::agreement::{buffer, problem as plan, problem_of};
use crate::judge::bounds::{AnswerScale, OutputShape};
use crate::judge::element;
use crate::judge::inputs::{self, Draw, Family};

pub fn check_plan(reference: &str) -> CheckPlan {
    CheckPlan {
        reference: ReferencePlan::Builtin { name: reference.into() },
        atol: None,
        rtol: None,
        trusted_factor: 2.0,
        seed: 1,
        seeds: 2,
        families: vec![],
        dictionary: Default::default(),
        deterministic: true,
        repeats: 4,
        allow_state: false,
        special_values: SpecialValues::default(),
        fast_math: false,
        flushes_subnormals: false,
        reference_f64: false,
        series_ms: evo_protocol::worker::SERIES_MS,
        checks: CheckSet::default(),
        task: None,
    }
}

/// The same where the reference is the user's kernel.
pub fn kernel_plan() -> CheckPlan {
    CheckPlan { reference: ReferencePlan::Kernel, ..check_plan("") }
}

/// A vector of f32 among others, at plain inputs.
pub fn vector(dtype: DType) -> OutputShape {
    let (family, length) = (Family::Normal, 1.0);
    OutputShape { dtype, family, row: 1, length, all_f32: true, one_is_subnormal: false }
}

/// Of 4,096 elements.
pub fn scale() -> AnswerScale {
    let (elements, finite) = (4096, 4096);
    AnswerScale { elements, finite, rms: 1.0, max: 4.0, spread: 1.0, tail: 1.0, ..AnswerScale::default() }
}

pub struct Operands<'a> {
    pub plan: &'a ProblemPlan,
    /// By position in `plan.buffers`; empty for outputs and scratch.
    pub values: Vec<Vec<f64>>,
}

impl Operands<'_> {
    pub fn answer(&self, reference: &str) -> ReferenceAnswer {
        let work = ReferenceWork::of(reference, self.plan).unwrap();
        let inputs: Vec<Vec<f64>> = work.inputs.iter().map(|at| self.values[*at].clone()).collect();
        let (expected, largest) = loops(work.kind, work.dtype, &inputs, &Arithmetic::WIDE);
        let (trusted, _) = loops(work.kind, work.dtype, &inputs, &Arithmetic::TRUSTED);
        let trusted = element::widen(&element::narrow(&trusted, work.dtype_out), work.dtype_out);
        work.answer(&self.values, [expected, trusted, vec![largest]])
    }
}

pub fn operands(plan: &ProblemPlan, family: Family, index: u32) -> Operands<'_> {
    let draw = Draw { seed: 11, index, family, magnitude: family.magnitudes()[0] };
    let fill = |buffer: &BufferPlan| match buffer.role {
        Role::Input | Role::Inout => {
            element::widen(&inputs::generate(plan, buffer, draw).unwrap(), buffer.dtype)
        }
        _ => Vec::new(),
    };
    Operands { plan, values: plan.buffers.iter().map(fill).collect() }
}

/// How loops compute.
pub struct Arithmetic {
    /// In fp64; else every step is rounded to f32.
    pub is_wide: bool,
    pub sum: fn(&[f64]) -> f64,
    /// Of a logit, and of the weights of attention.
    pub sum_inside: fn(&[f64]) -> f64,
    /// `exp(x - max)`.
    pub power: fn(f64, f64) -> f64,
}

impl Arithmetic {
    pub const WIDE: Arithmetic = Arithmetic {
        is_wide: true,
        sum: |terms| terms.iter().sum(),
        sum_inside: |terms| terms.iter().sum(),
        power: |x, max| (x - max).exp(),
    };
    pub const TRUSTED: Arithmetic = Arithmetic {
        is_wide: false,
        sum: in_chains,
        sum_inside: in_chains,
        power: |x, max| f64::from(((x - max) as f32).exp()),
    };
}

fn in_chains(terms: &[f64]) -> f64 {
    let chain = |terms: &[f64]| terms.iter().fold(0.0f32, |sum, term| sum + *term as f32);
    f64::from(terms.chunks(2048).map(chain).fold(0.0, |sum, own| sum + own))
}

/// What a reference computes, and its largest logit. Attention has as many queries as keys, and keys of its own for each
/// head.
pub fn loops(kind: WorkKind, dtype: DType, inputs: &[Vec<f64>], own: &Arithmetic) -> (Vec<f64>, f64) {
    let Arithmetic { is_wide, sum, sum_inside, power } = *own;
    let round = |value: f64| if is_wide { value } else { f64::from(value as f32) };
    let powers_of = |row: &[f64]| -> Vec<f64> {
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter().map(|x| power(*x, max)).collect()
    };
    let (x, mut out, mut largest) = (&inputs[0], Vec::new(), 0.0f64);
    match kind {
        WorkKind::Gemm { m, k, n } => {
            let [m, k, n] = [m, k, n].map(|extent| extent as usize);
            for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
                let term = |p: usize| round(x[row * k + p] * inputs[1][p * n + column]);
                out.push(sum(&(0..k).map(term).collect::<Vec<_>>()));
            }
        }
        WorkKind::Softmax { rows, columns } => {
            for row in x.chunks(columns as usize).take(rows as usize) {
                let powers = powers_of(row);
                let total = sum(&powers);
                out.extend(powers.iter().map(|power| round(power / total)));
            }
        }
        WorkKind::RmsNorm { columns, .. } => {
            for row in x.chunks(columns as usize) {
                let squares: Vec<f64> = row.iter().map(|x| round(x * x)).collect();
                let factor = round(1.0 / round(round(sum(&squares) / columns as f64) + 1e-6).sqrt());
                out.extend(row.iter().zip(&inputs[1]).map(|(x, w)| round(round(x * factor) * w)));
            }
        }
        WorkKind::Attention(work) => {
            let (length, depth) = (work.keys, work.depth);
            for row in 0..work.batch * work.heads * length {
                let (head, seen) =
                    (row / length * length, if work.causal { row % length + 1 } else { length });
                let logit = |j: usize| {
                    let term = |d: usize| round(x[row * depth + d] * inputs[1][(head + j) * depth + d]);
                    let dot = sum_inside(&(0..depth).map(term).collect::<Vec<_>>());
                    round(dot * round(1.0 / (depth as f64).sqrt()))
                };
                let logits: Vec<f64> = (0..seen).map(logit).collect();
                largest = logits.iter().fold(largest, |most, logit| most.max(logit.abs()));
                let powers = powers_of(&logits);
                let total = sum_inside(&powers);
                let rounded = element::widen(&element::narrow(&powers, dtype), dtype);
                let weights = if is_wide { powers } else { rounded };
                for d in 0..depth {
                    let term = |j: usize| round(weights[j] * inputs[2][(head + j) * depth + d]);
                    out.push(round(sum(&(0..seen).map(term).collect::<Vec<_>>()) / total));
                }
            }
        }
        WorkKind::Reduction { .. } | WorkKind::Transpose { .. } => out.push(sum(x)),
    }
    (out, largest)
}
