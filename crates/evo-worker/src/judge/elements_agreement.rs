//! What the device does to elements beside the functions that define it, for `evo-selftest references`.

use evo_device::device::{BufferId, Device};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan, Role};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::drawn;
use super::element;
use super::elements::Change;
use super::inputs::{self, Draw, Family, REARRANGED};
use super::on_device::DeviceReferences;
use super::perturb;

/// Elements of a drawn buffer: several chunks of random words, the last of them short and odd.
const DRAWN: u64 = (1 << 18) + 12_345;
const MEASURED: usize = 100_003;
/// Sums over the same elements in another order.
const SUMS: f64 = 1e-12;

#[derive(Clone, Debug)]
pub struct Agreement {
    /// `gemm f16 70x33x65`.
    pub name: String,
    pub cases: usize,
    pub difference: Option<String>,
    /// The largest distance over what is allowed.
    pub worst: f64,
}

pub fn compare(
    device: &mut dyn Device,
    references: &DeviceReferences,
    seed: u64,
) -> Result<Vec<Agreement>, DeviceError> {
    let mut rows = Vec::new();
    for buffer in buffers() {
        rows.push(draws(device, references, &buffer, seed)?);
    }
    for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
        rows.push(conversions(device, references, dtype, seed)?);
    }
    rows.push(measures(device, references, seed)?);
    Ok(rows)
}

fn row(name: String, cases: usize, difference: Option<String>) -> Agreement {
    Agreement { name, cases, difference, worst: 0.0 }
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

fn draws(
    device: &mut dyn Device,
    references: &DeviceReferences,
    buffer: &BufferPlan,
    seed: u64,
) -> Result<Agreement, DeviceError> {
    let plan: ProblemPlan = problem("draws".into(), &[], vec![buffer.clone()]);
    let target = device.allocate(&buffer.name, buffer.bytes())?;
    let (mut cases, mut difference) = (0, None);
    for family in Family::ALL.iter().copied().filter(|family| drawn::is_drawn(*family)) {
        for index in [0, 1, REARRANGED] {
            let draw = Draw { seed, index, family, magnitude: family.magnitudes()[0] };
            drawn::write_input(Some(references), device, &plan, buffer, draw, target)?;
            let (found, expected) = (device.read(target)?, inputs::generate(&plan, buffer, draw)?);
            let place = found.iter().zip(&expected).position(|(own, other)| own != other);
            let place = place.map(|place| place / buffer.dtype.bytes() as usize);
            let what = place.map(|place| format!("{} {index}: element {place} differs", family.as_str()));
            difference = difference.or(what);
            cases += 1;
        }
    }
    device.free(target)?;
    Ok(row(format!("draw {} {}", buffer.name, buffer.dtype.as_str()), cases, difference))
}

fn conversions(
    device: &mut dyn Device,
    references: &DeviceReferences,
    dtype: DType,
    seed: u64,
) -> Result<Agreement, DeviceError> {
    let x = BufferPlan { fill: Fill::Unrestricted, ..buffer("x", dtype, &[DRAWN], Role::Input) };
    let plan = problem("conversions".into(), &[], vec![x.clone()]);
    let draw = Draw { seed, index: 0, family: Family::Normal, magnitude: 1.0 };
    let bytes = vec![inputs::generate(&plan, &x, draw)?];
    let from = uploaded(device, &bytes[0])?;
    let (mut cases, mut difference) = (0, None);
    for wanted in [DType::F64, DType::F32] {
        let to = device.allocate("converted", DRAWN * wanted.bytes())?;
        let nudged = perturb::nudged(&plan, &bytes, 3);
        let scaled = perturb::scaled(&plan, &bytes, 1.25);
        let jiggled = perturb::jiggled(&plan, &bytes, 3);
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        let changes = [
            (Change::Unchanged, &bytes),
            (Change::Nudged(perturb::nudge_seed(3, 0)), &nudged),
            (Change::Scaled(1.25), &scaled),
            (Change::Jiggled { seed: perturb::nudge_seed(3, 0), low, high }, &jiggled),
        ];
        for (change, expected) in changes {
            references.convert(device, (from, dtype), (to, wanted), DRAWN, change)?;
            let expected = element::narrow(&element::widen(&expected[0], dtype), wanted);
            if device.read(to)? != expected {
                difference = difference.or(Some(format!("{change:?} to {}", wanted.as_str())));
            }
            cases += 1;
        }
        device.free(to)?;
    }
    device.free(from)?;
    Ok(row(format!("convert {}", dtype.as_str()), cases, difference))
}

fn measures(
    device: &mut dyn Device,
    references: &DeviceReferences,
    seed: u64,
) -> Result<Agreement, DeviceError> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut list = |spread: f64| -> Vec<f64> {
        let mut value = || f64::from(random.next_u32()) / 2f64.powi(32);
        (0..MEASURED).map(|at| value() * spread * if at % 997 == 0 { 1e3 } else { 1.0 }).collect()
    };
    let (expected, mut other, third) = (list(1.0), list(1.0), list(1e-3));
    (other[17], other[40_000]) = (f64::NAN, f64::INFINITY);
    let elements = MEASURED as u64;
    let ids = [&expected, &other, &third].map(|values| uploaded(device, &element::f64_bytes(values)));
    let [first, second, last] = ids;
    let (first, second, last) = (first?, second?, last?);
    let distances = uploaded(device, &element::f64_bytes(&expected))?;
    let mut wrong = Vec::new();
    let mut check = |what: &str, holds: bool| {
        if !holds {
            wrong.push(what.to_string());
        }
    };
    let same = |own: &[f64], other: &[f64]| {
        own.len() == other.len() && own.iter().zip(other).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
    };

    references.distance(device, first, (second, DType::F64), distances, elements, false)?;
    let mut largest = perturb::distances(&expected, &other);
    check("distances", same(&values(device, distances)?, &largest));
    references.distance(device, first, (last, DType::F64), distances, elements, true)?;
    perturb::widen(&mut largest, &perturb::distances(&expected, &third));
    check("wider distances", same(&values(device, distances)?, &largest));

    let known = perturb::finite(largest.clone());
    let last_place = known.len() - 1;
    for place in [0, 1, last_place / 2, last_place * 999 / 1000, last_place] {
        let found = references.usual_size(device, distances, elements, |_| place)?;
        let right = perturb::usual_size(&known, place);
        let near = found.is_some_and(|found| {
            found.limit == right.limit && (found.rms - right.rms).abs() <= SUMS * right.rms
        });
        check(&format!("the size up to place {place}"), near);
    }

    let least = perturb::usual_size(&known, last_place * 99 / 100).limit;
    let far = |(at, error): (usize, &f64)| {
        let is_far = error.is_finite() && *error > least && *error > 1e-3 * expected[at].abs();
        is_far.then_some((at as u64, *error))
    };
    let right: Vec<(u64, f64)> = largest.iter().enumerate().filter_map(far).collect();
    let room = device.allocate("list", 16 * elements)?;
    let (count, found) =
        references.uncertain(device, (distances, first), elements, (least, 1e-3), (room, elements))?;
    check("uncertain elements", count == right.len() as u64 && found == right);

    references.bend(device, [first, second, last], distances, elements, false)?;
    let bends = perturb::largest_bend(&expected, &[other, third]);
    check("second differences", same(&values(device, distances)?, &bends));
    for buffer in [first, second, last, distances, room] {
        device.free(buffer)?;
    }
    let difference = (!wrong.is_empty()).then(|| wrong.join(", "));
    Ok(row("measure".into(), 9, difference))
}

fn uploaded(device: &mut dyn Device, bytes: &[u8]) -> Result<BufferId, DeviceError> {
    let buffer = device.allocate("elements", bytes.len() as u64)?;
    device.write(buffer, bytes)?;
    Ok(buffer)
}

fn values(device: &mut dyn Device, buffer: BufferId) -> Result<Vec<f64>, DeviceError> {
    Ok(element::widen(&device.read(buffer)?, DType::F64))
}

pub(super) fn buffer(name: &str, dtype: DType, shape: &[u64], role: Role) -> BufferPlan {
    let (shape, fill) = (shape.to_vec(), Fill::Normal { scale: 1.0 });
    BufferPlan { name: name.into(), dtype, shape, role, fill, symbol: None, view: None }
}

pub(super) fn problem(name: String, sizes: &[(&str, i64)], buffers: Vec<BufferPlan>) -> ProblemPlan {
    ProblemPlan {
        name,
        sizes: sizes.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
        weight: 1.0,
        buffers,
        ..ProblemPlan::default()
    }
}
