//! Built-in references computed by the device itself, with the numbers that bounds are made of.
//!
//! A product of 2048³ takes a processor with sixteen cores some hundred milliseconds in fp64, and a contender meets a
//! dozen of them. Answers stay in device memory, and a few kilobytes of sums come back. The plain functions beside
//! this file remain the definition.

use evo_device::device::{BoundArgument, BufferId, Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::VerdictKind;

use super::bounds::{AnswerScale, Oddities, TrustedError};
use super::element;
use super::reference::{
    Measured, NAMES, ReferenceWork, Size, WorkBuffers, blocks, double, int, launch, long, type_number,
};

const SOURCE: &str = include_str!("reference/references.cu");

const ELEMENTS: &str = include_str!("reference/elements.cu");
const ELEMENT_KERNELS: [&str; 8] =
    ["draw", "convert", "distance", "bend", "digits", "below", "uncertain", "leave_out"];
const RULE_BYTES: u64 = 28 * 8;
/// Values of a digit by which an order statistic is found.
pub(super) const DIGITS: usize = 2048;

/// In place of a reference's name: the user's own, which needs the kernels that all references share.
pub const OWN: &str = "own";

/// How far the device's fp64 answer may be from the processor's, beside the largest element: other orders of a sum and
/// another `exp`. A thousandth of what f32 arithmetic explains is enough where sums cancel.
pub const AGREEMENT: f64 = 1e-9;
pub const AGREEMENT_NOISE: f64 = 1e-3;

/// Bytes of one block's sums: `Measure` has seven fp64 values, `Weight` nine.
const MEASURE: usize = 7;
const WEIGHT: usize = 9;
const BLOCKS_MAX: usize = 264;
const THREADS: u32 = 256;

/// None where the device has no kernels for that reference.
pub fn source(name: Option<&str>) -> Option<String> {
    let number = match name {
        None => 0,
        Some(OWN) => NAMES.len() + 1,
        Some(name) => NAMES.iter().position(|known| *known == name)? + 1,
    };
    Some(format!("#define EVO_REFERENCE {number}\n{SOURCE}\n{ELEMENTS}"))
}

pub fn entries(name: Option<&str>) -> Vec<String> {
    let kernels = |name: &'static str| match name {
        "reduction" => vec!["chains", "reduce"],
        name => vec![name],
    };
    let wanted = NAMES.into_iter().filter(|known| name.is_none_or(|name| *known == name));
    let references = wanted.flat_map(kernels).chain(["measure", "measure_f64", "weigh"]);
    let references = references.map(|name| format!("evo_reference_{name}"));
    references.chain(ELEMENT_KERNELS.map(|name| format!("evo_elements_{name}"))).collect()
}

#[derive(Debug)]
pub struct DeviceReferences {
    pub(super) module: ModuleId,
    /// The only reference that was compiled; all if none.
    name: Option<String>,
    parts: BufferId,
    pub(super) rule: BufferId,
    /// Where kernels count: values by the digits of an order statistic.
    pub(super) counts: BufferId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
    pub(super) finite: f64,
    sum: f64,
    square: f64,
    pub(super) largest: f64,
    pub(super) first_nan: Option<u64>,
    pub(super) first_special: Option<(u64, f64)>,
}

impl DeviceReferences {
    pub fn load(
        device: &mut dyn Device,
        image: &[u8],
        name: Option<&str>,
    ) -> Result<DeviceReferences, DeviceError> {
        let module = device.load(image, &entries(name))?;
        let parts = device.allocate("(sums)", (BLOCKS_MAX * WEIGHT * 8) as u64)?;
        let rule = device.allocate("(rule of a draw)", RULE_BYTES)?;
        let counts = device.allocate("(counts)", 8 * DIGITS as u64)?;
        Ok(DeviceReferences { module, name: name.map(String::from), parts, rule, counts })
    }

    pub fn has(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|own| own == name)
    }

    /// Computes an answer into `buffers` and measures it.
    pub fn compute(
        &self,
        device: &mut dyn Device,
        work: &ReferenceWork,
        plan: &ProblemPlan,
        buffers: &WorkBuffers,
    ) -> Result<(AnswerScale, Oddities), DeviceError> {
        device.launch(self.module, &work.launches(buffers))?;
        let elements = plan.buffers[work.output].elements();
        let measure = self.measure(device, buffers.expected, DType::F64, elements)?;
        let noise = work.noise(|of| {
            let (buffer, dtype, elements) = match of {
                Measured::Input(input) => {
                    let elements = plan.buffers[work.inputs[input]].elements();
                    (buffers.inputs[input], work.dtype, elements)
                }
                Measured::Answer => return Ok(measure.size()),
                Measured::Logits => (buffers.scratch, DType::F64, work.scratch()),
            };
            self.measure(device, buffer, dtype, elements).map(|measure| measure.size())
        })?;
        let trusted = work.has_trusted().then_some(buffers.trusted);
        let (scale, trusted, lost) = self.weigh(device, (buffers.expected, elements), &measure, trusted)?;
        let (exact, noise_max, noise_rms) = (work.is_exact(), noise.max, noise.rms);
        let scale = AnswerScale { exact, noise_max, noise_rms, trusted, ..scale };
        Ok((scale, measure.oddities(elements, lost > 0.0)))
    }

    /// The scale of an answer, with the error of a computation in f32 beside it and how often that is not finite where the
    /// answer is.
    pub(super) fn weigh(
        &self,
        device: &mut dyn Device,
        (expected, elements): (BufferId, u64),
        measure: &Measure,
        narrow: Option<BufferId>,
    ) -> Result<(AnswerScale, Option<TrustedError>, f64), DeviceError> {
        let count = measure.finite.max(1.0);
        let largest = if measure.largest > 0.0 { measure.largest } else { 1.0 };
        let arguments = vec![
            BoundArgument::Buffer(expected),
            BoundArgument::Buffer(narrow.unwrap_or(expected)),
            long(elements),
            int(i32::from(narrow.is_some())),
            double(measure.sum / count),
            double(largest),
        ];
        let parts: Vec<[f64; WEIGHT]> =
            self.sums(device, "evo_reference_weigh".into(), arguments, elements)?;
        let mut sums = [0.0f64; WEIGHT];
        for part in parts {
            for (index, (sum, other)) in sums.iter_mut().zip(part).enumerate() {
                *sum = if index == 7 { sum.max(other) } else { *sum + other };
            }
        }
        let [
            distance,
            scaled_square,
            scaled_fourth,
            error_square,
            error_sum,
            error_dot,
            pair_square,
            max,
            lost,
        ] = sums;
        let error = TrustedError {
            max,
            norm: error_square.sqrt(),
            mean: error_sum / elements.max(1) as f64,
            slope: if pair_square > 0.0 { error_dot / pair_square } else { 0.0 },
        };
        let scale = AnswerScale {
            elements,
            rms: measure.rms(),
            max: measure.largest,
            spread: (distance / count).sqrt(),
            finite: measure.finite as u64,
            tail: match measure.largest > 0.0 {
                true => (measure.finite * scaled_fourth).sqrt() / scaled_square,
                false => 1.0,
            },
            ..AnswerScale::default()
        };
        Ok((scale, narrow.map(|_| error), lost))
    }

    pub(super) fn measure(
        &self,
        device: &mut dyn Device,
        buffer: BufferId,
        dtype: DType,
        elements: u64,
    ) -> Result<Measure, DeviceError> {
        let data = BoundArgument::Buffer(buffer);
        let (entry, arguments) = match dtype {
            DType::F64 => ("evo_reference_measure_f64", vec![data, long(elements)]),
            narrow => ("evo_reference_measure", vec![data, int(type_number(narrow)), long(elements)]),
        };
        let parts: Vec<[f64; MEASURE]> = self.sums(device, entry.into(), arguments, elements)?;
        let place = |value: f64| (value < elements as f64).then_some(value as u64);
        let mut whole = Measure::default();
        for [finite, sum, square, largest, first_nan, first_special, special] in parts {
            whole.finite += finite;
            whole.sum += sum;
            whole.square += square;
            whole.largest = whole.largest.max(largest);
            whole.first_nan = whole.first_nan.into_iter().chain(place(first_nan)).min();
            let found = place(first_special).map(|index| (index, special));
            whole.first_special =
                whole.first_special.into_iter().chain(found).min_by_key(|(index, _)| *index);
        }
        Ok(whole)
    }

    /// Runs a kernel whose blocks leave `N` values each, and brings these back.
    pub(super) fn sums<const N: usize>(
        &self,
        device: &mut dyn Device,
        entry: String,
        mut arguments: Vec<BoundArgument>,
        elements: u64,
    ) -> Result<Vec<[f64; N]>, DeviceError> {
        arguments.push(BoundArgument::Buffer(self.parts));
        let grid = blocks(elements);
        device.launch(self.module, &[launch(entry, [grid, 1, 1], THREADS, 0, arguments)])?;
        // Reading waits for the kernel on every device; a fault shows here.
        device.synchronize()?;
        let values = element::widen(&device.read(self.parts)?, DType::F64);
        let parts = values.chunks_exact(N).take(grid as usize);
        Ok(parts.filter_map(|part| part.try_into().ok()).collect())
    }
}

impl Measure {
    pub(super) fn rms(&self) -> f64 {
        (self.square / self.finite.max(1.0)).sqrt()
    }

    pub(super) fn oddities(&self, elements: u64, overflows: bool) -> Oddities {
        let Measure { finite, first_nan, first_special, largest: max, .. } = *self;
        Oddities { elements, finite: finite as u64, first_nan, first_special, max, overflows }
    }

    fn size(&self) -> Size {
        Size { rms: self.rms(), largest: self.largest }
    }
}

pub fn disagreement(case: &str, what: &str) -> DeviceError {
    let text = format!(
        "the device and the processor do not agree on the reference's answer to `{case}`: {what}\n\
         hint: `evo-selftest references` compares both"
    );
    DeviceError::plain(VerdictKind::HarnessError, text)
}
