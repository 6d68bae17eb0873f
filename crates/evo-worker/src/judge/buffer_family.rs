//! Which family each buffer of a case has: most have the case's, or are plain where that does not apply to them.

use evo_protocol::plan::{BufferPlan, ProblemPlan};
use rand::Rng;

use super::draw::{Draw, mixed, stream, stream_seed, varies_in};
use super::family::Family;

pub(super) fn of(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> (Family, f64) {
    match draw.family {
        Family::Mixed => mixed_family(plan, buffer, draw),
        family if takes_part(plan, buffer, draw) => (family, draw.magnitude),
        _ => (Family::Normal, 1.0),
    }
}

/// In the second kind of `Subnormal` one buffer takes part, and the others are plain: products of two subnormal
/// numbers are zero.
fn takes_part(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> bool {
    if draw.family != Family::Subnormal || !draw.is_second() {
        return varies_in(buffer, draw.family);
    }
    let chosen = mixed(draw.index as usize / 2, draw.seed) as usize;
    is_chosen(plan, buffer, Family::Subnormal, chosen)
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
