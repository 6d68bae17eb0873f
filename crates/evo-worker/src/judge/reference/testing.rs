//! Small problems for the tests of every reference.

use evo_protocol::check::CheckSet;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};
use evo_protocol::worker::{CheckPlan, ReferencePlan, SpecialValues};

use super::numbers::{ReferenceAnswer, max_abs};
use super::work::ReferenceWork;
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
        ReferenceWork::of(reference, self.plan).unwrap().answer(&self.values)
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

pub fn assert_close(actual: &[f64], expected: &[f64], relative: f64) {
    assert_eq!(actual.len(), expected.len());
    let scale = max_abs(expected).max(1e-300);
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert!((a - e).abs() <= relative * scale, "element {index}: {a} instead of {e}");
    }
}
