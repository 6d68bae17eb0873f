//! A draw: which of many possible contents the inputs of a case have, the random streams that follow from it, and the
//! family that each buffer has: most have the case's, or are plain where that does not apply to them.

use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::family::Family;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The study's secret seed.
    pub seed: u64,
    pub index: u32,
    pub family: Family,
    /// One of `Family::magnitudes`.
    pub magnitude: f64,
}

impl Draw {
    /// Several families have two kinds, which find different faults; a case's next seed has the other. The study's seed
    /// decides which one comes first, except where the second kind is for finalists only.
    pub fn is_second(self) -> bool {
        if matches!(self.family, Family::Large | Family::Subnormal) {
            return self.index & 1 == 1;
        }
        let mut dice = ChaCha8Rng::seed_from_u64(self.seed);
        // A stream of its own: others start from the same seed.
        dice.set_stream(2);
        (dice.next_u32() ^ self.index) & 1 == 1
    }
}

pub fn varies(buffer: &BufferPlan) -> bool {
    buffer.role.is_read()
        && matches!(buffer.fill, Fill::Unrestricted | Fill::Normal { .. } | Fill::Uniform { .. })
}

pub fn varies_in(buffer: &BufferPlan, family: Family) -> bool {
    varies(buffer) && family.applies(buffer)
}

/// A number that looks random for every place.
pub(super) fn mixed(index: usize, bits: u64) -> u64 {
    (index as u64 ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

pub(super) fn stream(seed: &[u8; 32], number: u64) -> ChaCha8Rng {
    let mut source = ChaCha8Rng::from_seed(*seed);
    source.set_stream(number);
    source
}

pub(super) fn stream_seed(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"evo input 2");
    hasher.update(&draw.seed.to_le_bytes());
    hasher.update(&draw.index.to_le_bytes());
    for part in [plan.name.as_str(), buffer.name.as_str(), draw.family.as_str()] {
        // The length keeps names apart that would be equal when joined.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

pub(super) fn family_of(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> (Family, f64) {
    match draw.family {
        Family::Mixed => mixed_family(plan, buffer, draw),
        family if takes_part(plan, buffer, draw) => (family, draw.magnitude),
        _ => (Family::Normal, 1.0),
    }
}

/// In the second kind of `Subnormal` and in `Borders` one buffer takes part, and the others are plain: products of two
/// subnormal numbers are zero, and so are nearly all of two buffers of zeros.
fn takes_part(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> bool {
    let pair = draw.index as usize / 2;
    let chosen = match draw.family {
        Family::Subnormal if draw.is_second() => mixed(pair, draw.seed) as usize,
        // Neighboring pairs of seeds take another one.
        Family::Borders => (mixed(0, draw.seed) as usize).wrapping_add(pair),
        _ => return varies_in(buffer, draw.family),
    };
    is_chosen(plan, buffer, draw.family, chosen)
}

fn is_chosen(plan: &ProblemPlan, buffer: &BufferPlan, family: Family, number: usize) -> bool {
    let all = || plan.buffers.iter().filter(|own| varies_in(own, family));
    all().nth(number % all().count().max(1)).is_some_and(|own| own.name == buffer.name)
}

/// Neighboring seeds make another buffer zero.
fn mixed_family(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> (Family, f64) {
    const OTHERS: [Family; 9] = [
        Family::Normal,
        Family::Normal,
        Family::Constant,
        Family::Ramp,
        Family::Large,
        Family::Small,
        Family::Spikes,
        Family::Extremes,
        Family::Round,
    ];
    let several = plan.buffers.iter().filter(|own| varies_in(own, Family::Zero)).count() > 1;
    let turn = (mixed(0, draw.seed) as usize).wrapping_add(draw.index as usize);
    if several && is_chosen(plan, buffer, Family::Zero, turn) {
        return (Family::Zero, 1.0);
    }
    let mut dice = stream(&stream_seed(plan, buffer, draw), u64::MAX - 1);
    let fits = OTHERS.into_iter().filter(|family| varies_in(buffer, *family)).collect::<Vec<_>>();
    let family = fits.get(dice.next_u32() as usize % fits.len().max(1)).copied().unwrap_or(Family::Normal);
    match family {
        Family::Large | Family::Spikes => (family, draw.magnitude),
        family => (family, family.magnitudes()[0]),
    }
}
