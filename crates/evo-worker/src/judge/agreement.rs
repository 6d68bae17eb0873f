//! What the device computes beside the functions that define it, for `evo-selftest references`: built-in references, drawn
//! inputs, and the sums that bounds are made of.

use evo_device::device::{BufferId, Device, Tolerance};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan, Role};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::bounds::AnswerScale;
use super::inputs::{self, Draw, Family, REARRANGED};
use super::npy::task_error;
use super::on_device::{self, AGREEMENT, AGREEMENT_NOISE, DeviceReferences, Far, Kernels, There};
use super::perturb::Change;
use super::pool::Pool;
use super::reference::{ReferenceAnswer, ReferenceWork, UNIT_F32, WorkBuffers};
use super::{certainty, drawn, element, expected};

/// The error of the trusted computation is itself a matter of rounding: it may differ by this factor, and by this
/// many units of rounding of the largest element.
const TRUSTED_FACTOR: f64 = 2.0;
const TRUSTED_UNITS: f64 = 2.0;
/// Sums over the same elements in another order: of answers, which differ themselves, and of the same values.
const SCALES: f64 = 1e-6;
const SUMS: f64 = 1e-12;
/// Elements of a drawn buffer: several chunks of random words, the last of them short and odd.
const DRAWN: u64 = (1 << 18) + 12_345;
const MEASURED: usize = 100_003;
/// All buffers of a comparison take far less.
const MEMORY_MAX: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct Agreement {
    /// `gemm f16 70x33x65`.
    pub name: String,
    pub cases: usize,
    pub difference: Option<String>,
    /// The largest distance over what is allowed.
    pub worst: f64,
}

impl Agreement {
    fn begin(name: String) -> Agreement {
        Agreement { name, cases: 0, difference: None, worst: 0.0 }
    }

    fn note(&mut self, difference: Option<String>) {
        self.cases += 1;
        self.difference = self.difference.take().or(difference);
    }
}

impl Kernels<'_> {
    fn upload(&mut self, name: &str, bytes: &[u8]) -> Result<BufferId, DeviceError> {
        let buffer = self.pool.working(name, bytes.len() as u64)?;
        self.pool.device.write(buffer, bytes)?;
        Ok(buffer)
    }

    fn values(&mut self, buffer: BufferId) -> Result<Vec<f64>, DeviceError> {
        Ok(element::widen(&self.pool.device.read(buffer)?, DType::F64))
    }
}

pub fn compare_references(
    mut device: Box<dyn Device>,
    image: &[u8],
    only: Option<&str>,
    seed: u64,
) -> Result<Vec<Agreement>, DeviceError> {
    let references = &DeviceReferences::load(device.as_mut(), image, only)?;
    let limits = device.info().limits.clone();
    let kernels = &mut Kernels { pool: &mut Pool::new(device, MEMORY_MAX), references };
    let mut rows = Vec::new();
    for (name, plan) in problems().into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        let work = ReferenceWork::of(name, &plan)?
            .for_kernels(&plan, &limits)
            .ok_or_else(|| task_error(format!("the device's kernels do not take `{name}`")))?;
        let mut row = Agreement::begin(plan.name.clone());
        for family in Family::ALL.iter().copied() {
            for magnitude in family.magnitudes() {
                let draw = Draw { seed, index: 0, family, magnitude: *magnitude };
                let bytes = expected::input_bytes(&plan, draw)?;
                let (difference, worst) = compare(kernels, (name, &work, &plan), &bytes)?;
                row.note(difference.map(|what| format!("{} ×{magnitude}: {what}", family.as_str())));
                row.worst = row.worst.max(worst);
            }
        }
        rows.push(row);
    }
    if only.is_none_or(|only| only == on_device::OWN) {
        for buffer in buffers() {
            rows.push(draws(kernels, buffer, seed)?);
        }
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            rows.push(conversions(kernels, dtype, seed)?);
        }
        rows.push(measures(kernels, seed)?);
    }
    Ok(rows)
}

fn compare(
    kernels: &mut Kernels<'_>,
    (name, work, plan): (&str, &ReferenceWork, &ProblemPlan),
    bytes: &[Vec<u8>],
) -> Result<(Option<String>, f64), DeviceError> {
    let own = expected::builtin_answer(name, plan, bytes)?;
    let inputs = work.inputs.iter().map(|at| kernels.upload(&plan.buffers[*at].name, &bytes[*at]));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let elements = plan.buffers[work.output].elements();
    let mut room = |name: &str, bytes: u64| kernels.pool.working(name, bytes);
    let (expected, trusted) = (room("(expected)", 8 * elements)?, room("(trusted)", 4 * elements)?);
    let scratch = room("(scratch)", 8 * work.scratch())?;
    let right = kernels.upload("(right)", &element::f64_bytes(&own.expected))?;
    let given = WorkBuffers { inputs, expected, trusted, scratch };
    let (device_scale, odd) = kernels.compute(work, plan, &given)?;
    let scale = AnswerScale::of(&own);
    let atol = AGREEMENT * scale.max + AGREEMENT_NOISE * own.noise.max;
    let found =
        kernels.pool.device.compare(expected, DType::F64, right, Tolerance { atol, rtol: AGREEMENT })?;
    let element = found.first_bad().map(|index| {
        let (here, there) = (found.first_bad_actual, found.first_bad_expected);
        format!("element {index} is `{here:e}`, and `{there:e}` on the processor")
    });
    let first_special = own.expected.iter().position(|value| !value.is_finite()).map(|index| index as u64);
    let special = odd.first_special.map(|(index, _)| index) != first_special;
    let overflow = odd.overflows != overflows(&own);
    let difference = element
        .or_else(|| scales_differ(plan, work, &device_scale, &scale))
        .or_else(|| special.then(|| "the first value that is not finite".to_string()))
        .or_else(|| overflow.then(|| "where the trusted computation overflows".to_string()));
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
        |own: f64, other: f64, most: f64| own == other || (own - other).abs() <= SCALES * other.abs() + most;
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
        ("spread", near(own.spread, other.spread, SCALES * other.max + AGREEMENT_NOISE * other.noise_max)),
        ("tail", near(own.tail, other.tail, SCALES)),
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
    let mut all = Vec::new();
    for dtype in [DType::F16, DType::Bf16, DType::F32] {
        let mut add = |reference, what: &str, sizes: &[(&str, i64)], shapes: &[(&str, &[u64])]| {
            let name = format!("{reference} {} {what}", dtype.as_str());
            all.push((reference, ProblemPlan { name, ..problem_of(reference, dtype, sizes, shapes) }));
        };
        for (m, k, n) in [(1, 1, 1), (70, 33, 65), (64, 300, 130)] {
            add("gemm", &format!("{m}x{k}x{n}"), &[], &[("a", &[m, k]), ("b", &[k, n]), ("c", &[m, n])]);
        }
        // The last has more elements than a grid has threads.
        for (rows, columns) in [(3, 1), (5, 257), (2, 1500), (300, 257)] {
            let (row, what) = ([rows, columns], format!("{rows}x{columns}"));
            add("softmax", &what, &[], &[("x", &row), ("y", &row)]);
            add("rmsnorm", &what, &[], &[("x", &row), ("w", &[columns]), ("y", &row)]);
            add("transpose", &what, &[], &[("x", &row), ("y", &[columns, rows])]);
        }
        for count in [1, 1000, 70_001] {
            add("reduction", &count.to_string(), &[], &[("x", &[count]), ("out", &[1])]);
        }
        // Of so many keys shared memory holds the weights of few queries at once.
        let long = (dtype == DType::F32).then_some((3, 3900, 1));
        for (queries, keys, causal) in
            [(1, 1, 0), (9, 5, 1), (20, 77, 1), (33, 130, 0)].into_iter().chain(long)
        {
            let (q, k) = ([2, 4, queries, 24], [2, 2, keys, 24]);
            let what = format!("{queries}x{keys} causal={causal}");
            add("attention", &what, &[("CAUSAL", causal)], &[("q", &q), ("k", &k), ("v", &k), ("o", &q)]);
        }
    }
    all
}

fn buffers() -> Vec<BufferPlan> {
    let of = |name: &str, dtype, fill| {
        let plan = buffer(name, dtype, &[DRAWN / 5, 5], Role::Input);
        BufferPlan { fill, ..plan }
    };
    let range = |low, high| Fill::Uniform { low, high, inclusive: true };
    let floats = [DType::F16, DType::Bf16, DType::F32, DType::F64];
    let integers =
        [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64];
    let bells = floats.map(|dtype| of("bell", dtype, Fill::Normal { scale: 0.7 }));
    let flats = floats.map(|dtype| of("range", dtype, range(-1.5, 4.0)));
    let whole = integers.map(|dtype| of("range", dtype, range(0.0, 90.0)));
    bells.into_iter().chain(flats).chain(whole).collect()
}

fn draws(kernels: &mut Kernels<'_>, buffer: BufferPlan, seed: u64) -> Result<Agreement, DeviceError> {
    let mut row = Agreement::begin(format!("draw {} {}", buffer.name, buffer.dtype.as_str()));
    let (size, target) = (buffer.dtype.bytes() as usize, kernels.pool.working("(drawn)", buffer.bytes())?);
    let plan = &problem("draws", &[], vec![buffer]);
    let Kernels { pool, references } = kernels;
    for family in Family::ALL.iter().copied().filter(|family| drawn::is_drawn(*family)) {
        for index in [0, 1, REARRANGED] {
            let draw = Draw { seed, index, family, magnitude: family.magnitudes()[0] };
            drawn::write_input(Some(*references), pool, (plan, 0), draw, target)?;
            let expected = inputs::generate(plan, &plan.buffers[0], draw)?;
            let found = pool.device.read(target)?;
            let place = found.iter().zip(&expected).position(|(own, other)| own != other);
            let place = place.map(|place| place / size);
            row.note(place.map(|place| format!("{} {index}: element {place} differs", family.as_str())));
        }
    }
    Ok(row)
}

fn conversions(kernels: &mut Kernels<'_>, dtype: DType, seed: u64) -> Result<Agreement, DeviceError> {
    let x = BufferPlan { fill: Fill::Unrestricted, ..buffer("x", dtype, &[DRAWN], Role::Input) };
    let plan = problem("conversions", &[], vec![x.clone()]);
    let draw = Draw { seed, index: 0, family: Family::Normal, magnitude: 1.0 };
    let bytes = inputs::generate(&plan, &x, draw)?;
    let from = There { buffer: kernels.upload("(given)", &bytes)?, dtype, elements: DRAWN };
    let mut row = Agreement::begin(format!("convert {}", dtype.as_str()));
    let endless = (f64::NEG_INFINITY, f64::INFINITY);
    let changes = [
        Change::Unchanged,
        Change::Nudged(3),
        Change::Scaled(1.25),
        Change::Jiggled { seed: 3, low: endless.0, high: endless.1 },
    ];
    for wanted in [DType::F64, DType::F32] {
        let to = kernels.room("converted to", 0, wanted, DRAWN)?;
        for change in changes {
            kernels.convert(from, to, change)?;
            let expected =
                element::narrow(&element::widen(&change.apply(&bytes, dtype, None), dtype), wanted);
            let same = kernels.pool.device.read(to.buffer)? == expected;
            row.note((!same).then(|| format!("{change:?} to {}", wanted.as_str())));
        }
    }
    Ok(row)
}

fn measures(kernels: &mut Kernels<'_>, seed: u64) -> Result<Agreement, DeviceError> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut list = |spread: f64| -> Vec<f64> {
        let mut value = || f64::from(random.next_u32()) / 2f64.powi(32);
        (0..MEASURED).map(|at| value() * spread * if at % 997 == 0 { 1e3 } else { 1.0 }).collect()
    };
    let (expected, mut other, third) = (list(1.0), list(1.0), list(1e-3));
    (other[17], other[40_000]) = (f64::NAN, f64::INFINITY);
    let mut upload = |name: &str, values: &[f64]| {
        let buffer = kernels.upload(name, &element::f64_bytes(values))?;
        Ok::<There, DeviceError>(There { buffer, dtype: DType::F64, elements: MEASURED as u64 })
    };
    let [first, second, last] =
        [upload("(first)", &expected)?, upload("(second)", &other)?, upload("(third)", &third)?];
    let distances = upload("(distances)", &expected)?;
    let room = kernels.room("uncertain", 0, DType::F64, 2 * MEASURED as u64)?.buffer;
    let same = |own: &[f64], other: &[f64]| {
        own.len() == other.len() && own.iter().zip(other).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
    };
    let mut row = Agreement::begin("measure".into());
    let mut check = |what: &str, holds: bool| row.note((!holds).then(|| what.to_string()));

    kernels.distance(first, second, distances.buffer, false)?;
    let largest = certainty::distances(&expected, &other, None);
    check("distances", same(&kernels.values(distances.buffer)?, &largest));
    kernels.distance(first, last, distances.buffer, true)?;
    let largest = certainty::distances(&expected, &third, Some(largest));
    check("wider distances", same(&kernels.values(distances.buffer)?, &largest));

    let last_place = largest.iter().filter(|value| value.is_finite()).count() - 1;
    for place in [0, 1, last_place / 2, last_place * 999 / 1000, last_place] {
        let found = kernels.usual_size(distances, &|_| place)?;
        let near = found.zip(certainty::usual_size(&largest, &|_| place)).is_some_and(|(found, right)| {
            found.limit == right.limit && (found.rms - right.rms).abs() <= SUMS * right.rms
        });
        check(&format!("the size up to place {place}"), near);
    }

    let usual = certainty::usual_size(&largest, &|count| count * 99 / 100);
    let far = Far { least: usual.map_or(0.0, |own| own.limit), units: 1e-3, most: MEASURED };
    let right = far.among(&largest, &expected);
    let (count, found) = kernels.far((distances, first), far, room)?;
    check("uncertain elements", count == right.len() as u64 && found == right);

    kernels.bend([first, second, last], distances.buffer, false)?;
    let bends = certainty::bends([&expected, &other, &third], None);
    check("second differences", same(&kernels.values(distances.buffer)?, &bends));
    Ok(row)
}

pub(super) fn buffer(name: &str, dtype: DType, shape: &[u64], role: Role) -> BufferPlan {
    let fill = match dtype.is_float() {
        true => Fill::Normal { scale: 1.0 },
        false => Fill::Uniform { low: 0.0, high: 100.0, inclusive: false },
    };
    BufferPlan { name: name.into(), dtype, shape: shape.to_vec(), role, fill, symbol: None, view: None }
}

/// The last buffer is the output; that of a sum is f32.
pub(super) fn problem_of(
    reference: &str,
    dtype: DType,
    sizes: &[(&str, i64)],
    shapes: &[(&str, &[u64])],
) -> ProblemPlan {
    let of = |(number, (name, shape)): (usize, &(&str, &[u64]))| match number + 1 == shapes.len() {
        true if reference == "reduction" => buffer(name, DType::F32, shape, Role::Output),
        is_last => buffer(name, dtype, shape, if is_last { Role::Output } else { Role::Input }),
    };
    problem("p", sizes, shapes.iter().enumerate().map(of).collect())
}

pub(super) fn problem(name: &str, sizes: &[(&str, i64)], buffers: Vec<BufferPlan>) -> ProblemPlan {
    let (name, weight) = (name.into(), 1.0);
    let sizes = sizes.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    ProblemPlan { name, sizes, weight, buffers, ..ProblemPlan::default() }
}
