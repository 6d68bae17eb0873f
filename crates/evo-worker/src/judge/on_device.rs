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
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::bounds::{AnswerScale, Oddities, TrustedError};
use super::element;
use super::perturb::Change;
use super::pool::Pool;
use super::reference::{
    Measured, NAMES, ReferenceWork, Size, WorkBuffers, blocks, double, int, launch, long, type_number,
};

const SOURCE: &str = include_str!("reference/references.cu");

const ELEMENTS: &str = include_str!("reference/elements.cu");
const ELEMENT_KERNELS: [&str; 8] =
    ["draw", "convert", "distance", "bend", "digits", "below", "uncertain", "leave_out"];
const RULE_BYTES: u64 = 28 * 8;
/// Values of a digit by which an order statistic is found.
const DIGITS: usize = 2048;

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
const DIGIT_BITS: u32 = DIGITS.ilog2();
const STRIDED_BLOCKS: u64 = 2048;

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

#[derive(Clone, Debug)]
pub struct DeviceReferences {
    module: ModuleId,
    /// The only reference that was compiled; all if none.
    name: Option<String>,
    parts: BufferId,
    rule: BufferId,
    /// Where kernels count: values by the digits of an order statistic.
    counts: BufferId,
}

/// Many numbers on the device.
#[derive(Clone, Copy, Debug)]
pub struct There {
    pub buffer: BufferId,
    pub dtype: DType,
    pub elements: u64,
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
    pub fn load(device: &mut dyn Device, image: &[u8], name: Option<&str>) -> Result<Self, DeviceError> {
        let module = device.load(image, &entries(name))?;
        let parts = device.allocate("(sums)", (BLOCKS_MAX * WEIGHT * 8) as u64)?;
        let rule = device.allocate("(rule of a draw)", RULE_BYTES)?;
        let counts = device.allocate("(counts)", 8 * DIGITS as u64)?;
        Ok(DeviceReferences { module, name: name.map(String::from), parts, rule, counts })
    }

    pub fn has(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|own| own == name)
    }
}

/// The kernels of references, and the buffers that they work on.
pub struct Kernels<'a> {
    pub pool: &'a mut Pool,
    pub references: &'a DeviceReferences,
}

impl Kernels<'_> {
    /// Computes an answer into `buffers` and measures it.
    pub fn compute(
        &mut self,
        work: &ReferenceWork,
        plan: &ProblemPlan,
        buffers: &WorkBuffers,
    ) -> Result<(AnswerScale, Oddities), DeviceError> {
        self.pool.device.launch(self.references.module, &work.launches(buffers))?;
        let elements = plan.buffers[work.output].elements();
        let expected = There { buffer: buffers.expected, dtype: DType::F64, elements };
        let measure = self.measure(expected)?;
        let noise = work.noise(|of| {
            let list = match of {
                Measured::Input(input) => {
                    let elements = plan.buffers[work.inputs[input]].elements();
                    There { buffer: buffers.inputs[input], dtype: work.dtype, elements }
                }
                Measured::Answer => return Ok(measure.size()),
                Measured::Logits => There { buffer: buffers.scratch, elements: work.scratch(), ..expected },
            };
            self.measure(list).map(|measure| measure.size())
        })?;
        let trusted = work.has_trusted().then_some(buffers.trusted);
        let (scale, trusted, lost) = self.weigh(expected, &measure, trusted)?;
        let (exact, noise_max, noise_rms) = (work.is_exact(), noise.max, noise.rms);
        let scale = AnswerScale { exact, noise_max, noise_rms, trusted, ..scale };
        Ok((scale, measure.oddities(elements, lost > 0.0)))
    }

    /// The scale of an answer, with the error of a computation in f32 beside it and how often that is not finite where the
    /// answer is.
    pub(super) fn weigh(
        &mut self,
        There { buffer: expected, elements, .. }: There,
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
        let parts: Vec<[f64; WEIGHT]> = self.sums("evo_reference_weigh", arguments, elements)?;
        let mut sums = [0.0f64; WEIGHT];
        for part in parts {
            for (index, (sum, other)) in sums.iter_mut().zip(part).enumerate() {
                *sum = if index == 7 { sum.max(other) } else { *sum + other };
            }
        }
        let [distance, scaled, fourth, errors @ .., max, lost] = sums;
        let error = TrustedError::of(max, elements, errors);
        let scale = AnswerScale::of_sums(
            [measure.finite, measure.largest],
            elements,
            [measure.square, distance, scaled, fourth],
        );
        Ok((scale, narrow.map(|_| error), lost))
    }

    pub(super) fn measure(
        &mut self,
        There { buffer, dtype, elements }: There,
    ) -> Result<Measure, DeviceError> {
        let data = BoundArgument::Buffer(buffer);
        let (entry, arguments) = match dtype {
            DType::F64 => ("evo_reference_measure_f64", vec![data, long(elements)]),
            narrow => ("evo_reference_measure", vec![data, int(type_number(narrow)), long(elements)]),
        };
        let parts: Vec<[f64; MEASURE]> = self.sums(entry, arguments, elements)?;
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
    fn sums<const N: usize>(
        &mut self,
        entry: &str,
        mut arguments: Vec<BoundArgument>,
        elements: u64,
    ) -> Result<Vec<[f64; N]>, DeviceError> {
        let DeviceReferences { module, parts, .. } = *self.references;
        arguments.push(BoundArgument::Buffer(parts));
        let grid = blocks(elements);
        self.pool.device.launch(module, &[launch(entry, [grid, 1, 1], THREADS, 0, arguments)])?;
        // Reading waits for the kernel on every device; a fault shows here.
        self.pool.device.synchronize()?;
        let values = element::widen(&self.pool.device.read(parts)?, DType::F64);
        let parts = values.chunks_exact(N).take(grid as usize);
        Ok(parts.filter_map(|part| part.try_into().ok()).collect())
    }

    // What the device does to every element of large buffers, a launch or two each (`reference/elements.cu`).

    pub fn draw(&mut self, rule: &[u8], elements: u64, target: BufferId) -> Result<(), DeviceError> {
        self.pool.device.write(self.references.rule, rule)?;
        let arguments = [self.references.rule, target].map(BoundArgument::Buffer);
        self.strided("draw", elements, arguments.into())
    }

    /// A list of this buffer's under a name, which outlives later runs.
    pub fn room(
        &mut self,
        name: &str,
        buffer: usize,
        dtype: DType,
        elements: u64,
    ) -> Result<There, DeviceError> {
        let buffer = self.pool.working(&format!("({name} {buffer})"), dtype.bytes() * elements)?;
        Ok(There { buffer, dtype, elements })
    }

    pub fn convert(&mut self, from: There, to: There, change: Change) -> Result<(), DeviceError> {
        if change == Change::Unchanged && from.dtype == to.dtype {
            return self.pool.device.copy(from.buffer, to.buffer);
        }
        let endless = [f64::NEG_INFINITY, f64::INFINITY];
        let (kind, factor, [low, high], seed) = match change {
            Change::Unchanged => (0, 1.0, endless, None),
            Change::Nudged(seed) => (1, 1.0, endless, Some(seed)),
            Change::Scaled(factor) => (2, factor, endless, None),
            Change::Jiggled { seed, low, high } => (3, 1.0, [low, high], Some(seed)),
        };
        let key = seed.map_or([0; 32], |seed| ChaCha8Rng::seed_from_u64(seed).get_seed());
        let words = key.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let typed = |list: There| [BoundArgument::Buffer(list.buffer), int(element_type(list.dtype))];
        let mut arguments = [typed(from), typed(to)].concat();
        arguments.extend([long(to.elements), int(kind)]);
        arguments.extend([factor, low, high].map(double).into_iter().chain(words.map(long)));
        self.strided("convert", to.elements, arguments)
    }

    /// How far values are from an answer, element by element; `widens` distances that are there.
    pub fn distance(
        &mut self,
        expected: There,
        other: There,
        distances: BufferId,
        widens: bool,
    ) -> Result<(), DeviceError> {
        let [own, other_buffer, distances] =
            [expected.buffer, other.buffer, distances].map(BoundArgument::Buffer);
        let (dtype, widens) = (int(element_type(other.dtype)), int(i32::from(widens)));
        let arguments = vec![own, other_buffer, dtype, distances, long(expected.elements), widens];
        self.strided("distance", expected.elements, arguments)
    }

    /// The second difference of three runs, element by element; `widens` those that are there.
    pub fn bend(&mut self, runs: [There; 3], largest: BufferId, widens: bool) -> Result<(), DeviceError> {
        let elements = runs[0].elements;
        let buffers = runs.map(|run| run.buffer).into_iter().chain([largest]).map(BoundArgument::Buffer);
        let arguments = buffers.chain([long(elements), int(i32::from(widens))]).collect();
        self.strided("bend", elements, arguments)
    }

    /// The size of finite values that are not negative, up to the one at the place in their order that `place` gives for
    /// their number (`certainty::usual_size`); none where nothing is finite.
    pub fn usual_size(
        &mut self,
        values: There,
        place: &dyn Fn(usize) -> usize,
    ) -> Result<Option<UsualSize>, DeviceError> {
        let (mut leading, mut known, mut wanted) = (0u64, 0, None);
        while known < u64::BITS {
            let counts = self.digits(values, leading, known)?;
            let all: u64 = counts.iter().sum();
            if all == 0 {
                return Ok(None);
            }
            // The place among the values with these leading bits.
            let mut left = wanted.unwrap_or_else(|| place(all as usize) as u64);
            let mut digit = 0;
            while digit + 1 < DIGITS && left >= counts[digit] {
                left -= counts[digit];
                digit += 1;
            }
            wanted = Some(left);
            let bits = DIGIT_BITS.min(u64::BITS - known);
            leading = leading << bits | digit as u64 >> (DIGIT_BITS - bits);
            known += bits;
        }
        let limit = f64::from_bits(leading);
        let [square, smaller] = self.below(values, limit)?;
        let counted = smaller + wanted.unwrap_or_default() as f64 + 1.0;
        // Those that equal the limit count as far as the place.
        Ok(Some(UsualSize { limit, rms: ((square + (counted - smaller) * limit * limit) / counted).sqrt() }))
    }

    /// The sum of the squares of values below a limit, and their number.
    fn below(&mut self, There { buffer, elements, .. }: There, limit: f64) -> Result<[f64; 2], DeviceError> {
        let arguments = vec![BoundArgument::Buffer(buffer), long(elements), double(limit)];
        let parts: Vec<[f64; 2]> = self.sums("evo_elements_below", arguments, elements)?;
        Ok(parts.into_iter().fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]))
    }

    fn digits(
        &mut self,
        There { buffer, elements, .. }: There,
        leading: u64,
        known: u32,
    ) -> Result<Vec<u64>, DeviceError> {
        let counts = self.references.counts;
        self.pool.device.fill(counts, 0)?;
        let [values, counted] = [buffer, counts].map(BoundArgument::Buffer);
        let arguments = vec![values, long(elements), long(leading), int(known as i32), counted];
        self.strided("digits", elements, arguments)?;
        let bytes = self.pool.device.read(counts)?;
        Ok(bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes)).collect())
    }

    pub fn count_moved(&mut self, distances: There) -> Result<u64, DeviceError> {
        let [_, still] = self.below(distances, f64::from_bits(1))?;
        Ok(distances.elements - still as u64)
    }

    /// The number of the elements that are far off, and those with their errors, in order; `list` has room for `far.most`.
    pub fn far(
        &mut self,
        (errors, expected): (There, There),
        far: Far,
        list: BufferId,
    ) -> Result<(u64, Vec<(u64, f64)>), DeviceError> {
        let (most, counts) = (far.most as u64, self.references.counts);
        self.pool.device.fill(counts, 0)?;
        let [own, answer, found, counted] =
            [errors.buffer, expected.buffer, list, counts].map(BoundArgument::Buffer);
        let limits = [long(errors.elements), double(far.least), double(far.units), long(most)];
        let arguments = [own, answer].into_iter().chain(limits).chain([found, counted]).collect();
        self.strided("uncertain", errors.elements, arguments)?;
        let count = element::widen(&self.pool.device.read(counts)?[..8], DType::U64)[0] as u64;
        if count == 0 || count > most {
            return Ok((count, Vec::new()));
        }
        let values = element::widen(&self.pool.device.read(list)?, DType::F64);
        let pairs = values.chunks_exact(2).take(count as usize);
        let mut found: Vec<(u64, f64)> = pairs.map(|pair| (pair[0] as u64, pair[1])).collect();
        found.sort_by_key(|(index, _)| *index);
        Ok((count, found))
    }

    pub fn leave_out(&mut self, single: BufferId, list: BufferId, count: u64) -> Result<(), DeviceError> {
        let [single, list] = [single, list].map(BoundArgument::Buffer);
        self.strided("leave_out", count, vec![single, list, long(count)])
    }

    fn strided(
        &mut self,
        name: &str,
        elements: u64,
        arguments: Vec<BoundArgument>,
    ) -> Result<(), DeviceError> {
        let grid = elements.div_ceil(u64::from(THREADS)).clamp(1, STRIDED_BLOCKS) as u32;
        let call = launch(&format!("evo_elements_{name}"), [grid, 1, 1], THREADS, 0, arguments);
        self.pool.device.launch(self.references.module, &[call])
    }
}

/// The number of a type in `elements.cu`: its place among all.
pub fn element_type(dtype: DType) -> i32 {
    dtype as i32
}

/// Which elements are far from the others.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    /// Errors above this,
    pub least: f64,
    /// and above this share of the value,
    pub units: f64,
    /// if there are no more than so many.
    pub most: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsualSize {
    /// The largest that counts.
    pub limit: f64,
    /// Root mean square of it and the smaller ones.
    pub rms: f64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_numbers_of_the_kernels() {
        use DType::*;
        let all = [F16, Bf16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64];
        assert_eq!(all.map(element_type), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }
}
