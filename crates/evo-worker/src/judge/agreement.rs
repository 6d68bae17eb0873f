//! Built-in references of the device beside the plain functions, for `evo-selftest references`.

use evo_device::device::{BufferId, Device, Tolerance};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{ProblemPlan, Role};

use super::bounds::AnswerScale;
use super::element;
use super::elements_agreement::{self, buffer, problem};
use super::expected;
use super::inputs::{Draw, Family};
use super::npy::task_error;
use super::on_device::{self, AGREEMENT, AGREEMENT_NOISE, DeviceReferences};
use super::reference::{ReferenceAnswer, ReferenceWork, UNIT_F32, WorkBuffers};

pub use super::elements_agreement::Agreement;

/// The error of the trusted computation is itself a matter of rounding: it may differ by this factor, and by this
/// many units of rounding of the largest element.
const TRUSTED_FACTOR: f64 = 2.0;
const TRUSTED_UNITS: f64 = 2.0;
/// Sums over the same elements in another order.
const SUMS: f64 = 1e-6;

pub fn compare_references(
    device: &mut dyn Device,
    image: &[u8],
    only: Option<&str>,
    seed: u64,
) -> Result<Vec<Agreement>, DeviceError> {
    let references = DeviceReferences::load(device, image, only)?;
    let mut rows = Vec::new();
    for (name, plan) in problems().into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        let limits = device.info().limits.clone();
        let work = ReferenceWork::of(name, &plan, &limits)
            .ok_or_else(|| task_error(format!("the device's kernels do not take `{name}`")))?;
        let mut row = Agreement { name: plan.name.clone(), cases: 0, difference: None, worst: 0.0 };
        for family in Family::ALL.iter().copied() {
            for magnitude in family.magnitudes() {
                let draw = Draw { seed, index: 0, family, magnitude: *magnitude };
                let bytes = expected::input_bytes(&plan, draw)?;
                let (difference, worst) = compare(device, &references, (name, &work, &plan), &bytes)?;
                let found = difference.map(|what| format!("{} ×{magnitude}: {what}", family.as_str()));
                row.difference = row.difference.or(found);
                row.worst = row.worst.max(worst);
                row.cases += 1;
            }
        }
        rows.push(row);
    }
    if only.is_none_or(|only| only == on_device::OWN) {
        rows.extend(elements_agreement::compare(device, &references, seed)?);
    }
    Ok(rows)
}

fn compare(
    device: &mut dyn Device,
    references: &DeviceReferences,
    (name, work, plan): (&str, &ReferenceWork, &ProblemPlan),
    bytes: &[Vec<u8>],
) -> Result<(Option<String>, f64), DeviceError> {
    let own = expected::builtin_answers(name, plan, bytes)?.remove(0);
    let mut buffers = Vec::new();
    let mut take = |device: &mut dyn Device, bytes: u64| -> Result<BufferId, DeviceError> {
        let buffer = device.allocate("(reference)", bytes)?;
        buffers.push(buffer);
        Ok(buffer)
    };
    let elements = plan.buffers[work.output].elements();
    let mut inputs = Vec::new();
    for position in &work.inputs {
        let buffer = take(device, bytes[*position].len() as u64)?;
        device.write(buffer, &bytes[*position])?;
        inputs.push(buffer);
    }
    let (expected, trusted) = (take(device, 8 * elements)?, take(device, 4 * elements)?);
    let (scratch, right) = (take(device, 8 * work.scratch())?, take(device, 8 * elements)?);
    let given = WorkBuffers { inputs, expected, trusted, scratch };
    let answer = references.compute(device, work, plan, &given)?;
    device.write(right, &element::f64_bytes(&own.expected))?;
    let scale = AnswerScale::of(&own);
    let atol = AGREEMENT * scale.max + AGREEMENT_NOISE * own.noise.max;
    let found = device.compare(expected, DType::F64, right, Tolerance { atol, rtol: AGREEMENT })?;
    let mut difference = found.first_bad.map(|index| {
        format!(
            "element {index} is `{:e}`, and `{:e}` on the processor",
            found.first_bad_actual, found.first_bad_expected
        )
    });
    for buffer in buffers {
        device.free(buffer)?;
    }
    difference = difference.or_else(|| scales_differ(plan, work, &answer.scale, &scale));
    let first_special = own.expected.iter().position(|value| !value.is_finite()).map(|index| index as u64);
    if answer.first_special.map(|(index, _)| index) != first_special {
        difference = difference.or(Some("the first value that is not finite".to_string()));
    }
    if answer.overflows != overflows(&own) {
        difference = difference.or(Some("where the trusted computation overflows".to_string()));
    }
    let worst = if atol > 0.0 { found.abs_error_max / atol } else { 0.0 };
    Ok((difference, worst))
}

fn overflows(answer: &ReferenceAnswer) -> bool {
    let pairs = answer.trusted.iter().flatten().zip(&answer.expected);
    pairs.into_iter().any(|(trusted, expected)| !trusted.is_finite() && expected.is_finite())
}

fn scales_differ(
    plan: &ProblemPlan,
    work: &ReferenceWork,
    own: &AnswerScale,
    other: &AnswerScale,
) -> Option<String> {
    let near =
        |own: f64, other: f64, most: f64| own == other || (own - other).abs() <= SUMS * other.abs() + most;
    let unit = element::precision(plan.buffers[work.output].dtype).map_or(0.0, |own| own.unit);
    // Where a sum cancels, the answer's own rounding shows in the distance from it.
    let doubt = AGREEMENT_NOISE * other.noise_max;
    let units = TRUSTED_UNITS * unit * other.max + doubt;
    let count = (other.elements as f64).sqrt();
    let trusted = |own: f64, other: f64, units: f64| {
        own <= TRUSTED_FACTOR * other + units && other <= TRUSTED_FACTOR * own + units
    };
    let (a, b) = (own.trusted.unwrap_or_default(), other.trusted.unwrap_or_default());
    let rows = [
        ("elements", own.elements == other.elements),
        ("finite elements", own.finite == other.finite),
        ("exactness", own.exact == other.exact && own.trusted.is_some() == other.trusted.is_some()),
        ("root mean square", near(own.rms, other.rms, AGREEMENT_NOISE * other.noise_max)),
        ("largest element", near(own.max, other.max, AGREEMENT_NOISE * other.noise_max)),
        ("spread", near(own.spread, other.spread, SUMS * other.max + AGREEMENT_NOISE * other.noise_max)),
        ("tail", near(own.tail, other.tail, SUMS)),
        ("noise", near(own.noise_max, other.noise_max, 0.0) && near(own.noise_rms, other.noise_rms, 0.0)),
        ("largest trusted error", trusted(a.max, b.max, units)),
        // Rounding to the output's type is much more than what another `exp` makes of it.
        ("trusted error", trusted(a.norm, b.norm, (TRUSTED_UNITS * UNIT_F32 * other.rms + doubt) * count)),
        ("mean trusted error", (a.mean - b.mean).abs() <= units),
    ];
    let (what, _) = rows.into_iter().find(|(_, same)| !same)?;
    Some(format!("{what}: {own:?} and {other:?} on the processor"))
}

fn problems() -> Vec<(&'static str, ProblemPlan)> {
    use Role::{Input, Output};
    let mut all = Vec::new();
    for dtype in [DType::F16, DType::Bf16, DType::F32] {
        let text = dtype.as_str();
        for (m, k, n) in [(1, 1, 1), (70, 33, 65), (64, 300, 130)] {
            let buffers = vec![
                buffer("a", dtype, &[m, k], Input),
                buffer("b", dtype, &[k, n], Input),
                buffer("c", dtype, &[m, n], Output),
            ];
            all.push(("gemm", problem(format!("gemm {text} {m}x{k}x{n}"), &[], buffers)));
        }
        for (rows, columns) in [(3, 1), (5, 257), (2, 1500)] {
            let (x, y) =
                (buffer("x", dtype, &[rows, columns], Input), buffer("y", dtype, &[rows, columns], Output));
            let w = buffer("w", dtype, &[columns], Input);
            let turned = buffer("y", dtype, &[columns, rows], Output);
            let name = |of: &str| format!("{of} {text} {rows}x{columns}");
            all.push(("softmax", problem(name("softmax"), &[], vec![x.clone(), y.clone()])));
            all.push(("rmsnorm", problem(name("rmsnorm"), &[], vec![x.clone(), w, y])));
            all.push(("transpose", problem(name("transpose"), &[], vec![x, turned])));
        }
        for count in [1, 1000, 70_001] {
            let buffers = vec![buffer("x", dtype, &[count], Input), buffer("out", DType::F32, &[1], Output)];
            all.push(("reduction", problem(format!("reduction {text} {count}"), &[], buffers)));
        }
        for (queries, keys, causal) in [(1, 1, 0), (9, 5, 1), (20, 77, 1), (33, 130, 0)] {
            let shape = |heads: u64, length: u64| [2, heads, length, 24];
            let buffers = vec![
                buffer("q", dtype, &shape(4, queries), Input),
                buffer("k", dtype, &shape(2, keys), Input),
                buffer("v", dtype, &shape(2, keys), Input),
                buffer("o", dtype, &shape(4, queries), Output),
            ];
            let name = format!("attention {text} {queries}x{keys} causal={causal}");
            all.push(("attention", problem(name, &[("CAUSAL", causal)], buffers)));
        }
    }
    all
}
