//! Inputs drawn by the device, bit for bit as the processor draws them (`inputs`).
//!
//! A buffer of 2²⁵ elements takes sixteen cores some hundred milliseconds to draw and to copy, and a contender meets
//! a dozen of them. The processor draws what only small problems meet, and checks the ends of a buffer.

use evo_device::device::{BufferId, CopiedPart, Device};
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{BufferPlan, ProblemPlan};

use super::inputs::{self, BELL_UNIT, CHUNK, Distribution, Draw, Family, FillRule, REARRANGED};
use super::on_device::{DeviceReferences, Kernels, disagreement, element_type};
use super::pool::Pool;

const DRAWN_MIN: u64 = 1 << 18;

pub fn write_input(
    references: Option<&DeviceReferences>,
    pool: &mut Pool,
    (plan, position): (&ProblemPlan, usize),
    draw: Draw,
    target: BufferId,
) -> Result<(), DeviceError> {
    let buffer = &plan.buffers[position];
    if buffer.elements() >= DRAWN_MIN
        && let Some(references) = references
        && let Some(rule) = FillRule::of(plan, buffer, Draw { index: draw.index % REARRANGED, ..draw })
        && let Some(bytes) = encoded(&rule, draw)
    {
        Kernels { pool, references }.draw(&bytes, buffer.elements(), target)?;
        return check_ends(pool.device.as_mut(), &rule, buffer, target);
    }
    pool.device.write(target, &inputs::generate(plan, buffer, draw)?)
}

pub fn is_drawn(family: Family) -> bool {
    use Family::{Constant, Large, Normal, Ramp, Small, Spikes, Zero};
    matches!(family, Normal | Large | Small | Constant | Ramp | Spikes | Zero)
}

/// The rule as the kernel reads it (`Rule` in `elements.cu`), eight bytes a field.
fn encoded(rule: &FillRule, draw: Draw) -> Option<Vec<u8>> {
    if !is_drawn(rule.family) || rule.nearly {
        return None;
    }
    let (kind, value) = match rule.family {
        Family::Constant => (0u64, rule.whole(rule.constant())),
        Family::Ramp => (2, 0.0),
        Family::Spikes => (3, 0.0),
        Family::Zero => (4, rule.whole(rule.shape.ends(rule.dtype).1)),
        _ => (1, 0.0),
    };
    let is_bell = matches!(rule.shape, Distribution::Bell { .. });
    let (scale, low, width) = match rule.shape {
        Distribution::Bell { scale } => (scale, 0.0, 0.0),
        Distribution::Flat { low, high, .. } => (1.0, low, high - low),
    };
    let factor = if rule.family == Family::Normal { 1.0 } else { rule.magnitude };
    let (from, to) = rule.ramp_ends();
    let spike = rule.level.abs() * rule.magnitude * rule.shape.size();
    let turned = (draw.index >= REARRANGED).then(|| inputs::turned_part(rule.count, draw.seed)).flatten();
    let (turned_first, turned_length) = turned.unwrap_or_default();
    let has_signs = rule.dtype.is_float() && !rule.declared;
    let key = rule.seed.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    let fields = key
        .chain([rule.count as u64, element_type(rule.dtype) as u64, kind, u64::from(is_bell)])
        .chain([u64::from(!rule.dtype.is_float())])
        .chain([BELL_UNIT, scale, low, width, factor, value, from, to - from].map(f64::to_bits))
        .chain([u64::from(rule.descending), u64::from(rule.second), rule.row as u64, rule.rows])
        .chain([rule.spike as u64, spike.to_bits(), (-spike).to_bits()])
        .chain([u64::from(rule.shape.signed()), u64::from(has_signs)])
        .chain([turned_first as u64, turned_length as u64]);
    Some(fields.flat_map(u64::to_le_bytes).collect())
}

/// A sixteenth of the buffer at each end stays in its place when a draw is rearranged.
fn check_ends(
    device: &mut dyn Device,
    rule: &FillRule,
    buffer: &BufferPlan,
    target: BufferId,
) -> Result<(), DeviceError> {
    let size = buffer.dtype.bytes() as usize;
    let last = (rule.count - 1) / CHUNK;
    let most = rule.count / 16;
    for chunk in [0, last] {
        let length = (rule.count - chunk * CHUNK).min(CHUNK);
        let mut expected = vec![0u8; length * size];
        rule.fill(chunk, &mut expected);
        let compared = length.min(most);
        let skipped = if chunk == 0 { 0 } else { length - compared };
        let source = ((chunk * CHUNK + skipped) * size) as u64;
        let bytes = (compared * size) as u64;
        let piece = device.allocate("(ends of an input)", bytes)?;
        let found = device
            .copy_part(target, piece, CopiedPart { source, target: 0, bytes })
            .and_then(|()| device.read(piece));
        device.free(piece)?;
        if found? != expected[skipped * size..(skipped + compared) * size] {
            let what = format!("`{}` is drawn otherwise, near element {}", buffer.name, chunk * CHUNK);
            return Err(disagreement(rule.family.as_str(), &what));
        }
    }
    Ok(())
}
