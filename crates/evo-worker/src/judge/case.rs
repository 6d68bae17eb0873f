//! A case: one problem with one seed and one input family.

use std::collections::BTreeSet;

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{Dictionary, ProblemPlan};
use evo_protocol::worker::{CheckPlan, Depth, SpecialValues};

use super::inputs::{self, Draw, Family};
use crate::judge::npy::task_error;

#[derive(Clone, Debug)]
pub struct Case {
    pub plan: ProblemPlan,
    pub seed_index: u32,
    pub family: Family,
}

impl Case {
    pub fn first(plan: &ProblemPlan) -> Case {
        Case { plan: plan.clone(), seed_index: 0, family: Family::Normal }
    }

    /// `b1_h8_s512 seed 0 large`, for messages.
    pub fn name(&self) -> String {
        let (index, order) = match self.seed_index.checked_sub(inputs::REARRANGED) {
            Some(index) => (index, " rearranged"),
            None => (self.seed_index, ""),
        };
        format!("{} seed {index} {}{order}", self.plan.name, self.family.as_str())
    }

    pub fn draw(&self, check: &CheckPlan, magnitude: f64) -> Draw {
        Draw { seed: check.seed, index: self.seed_index, family: self.family, magnitude }
    }

    pub fn elements(&self) -> u64 {
        self.plan.buffers.iter().map(|buffer| buffer.elements()).sum()
    }
}

/// The largest problem of at most so many elements meets the families that explore the data type's range; the
/// smallest of all where none is so small. Others have no other values, and a large one's answers are expensive.
const RANGE_ELEMENTS: u64 = 1 << 16;
/// A case of fewer elements shows little of that range: where a small shape is a single row, one NaN is all of its answer.
const RANGE_ELEMENTS_FEW: u64 = 1 << 10;
/// As `explored`: this candidate does not meet the range of its data type at these problems.
pub const RANGE_KNOWN: u64 = u64::MAX;

/// `Quick` runs one case for each problem. `Full` runs every seed with the file's own inputs and every other family
/// once: families vary the arithmetic, seeds the values. `Deep` adds zeros at the largest problem, the other kind of
/// sorted rows, and integers at one end of their range or of any length. `explored` is how many elements the largest
/// case had at which this candidate has met the range of its data type.
pub fn cases(
    check: &CheckPlan,
    plans: &[&ProblemPlan],
    depth: Depth,
    explored: u64,
) -> Result<Vec<Case>, DeviceError> {
    let size = |plan: &&ProblemPlan| Case::first(plan).elements();
    let small = plans.iter().filter(|plan| size(plan) <= RANGE_ELEMENTS).max_by_key(|plan| size(plan));
    let again = |plan: &&&ProblemPlan| (explored + 1..=RANGE_ELEMENTS).contains(&size(plan));
    let chosen = match explored {
        0 => small.or_else(|| plans.iter().min_by_key(|plan| size(plan))),
        1..RANGE_ELEMENTS_FEW => small.filter(again),
        _ => None,
    };
    let mut out = Vec::new();
    for plan in plans {
        let explores = chosen.is_some_and(|chosen| std::ptr::eq(*chosen, *plan));
        out.extend(cases_of(check, plan, depth, explores)?);
    }
    let largest = plans.iter().max_by_key(|plan| size(plan)).filter(|_| depth == Depth::Deep);
    if let Some(plan) = largest {
        let asked = stress(check, plan, true)?;
        let further = [
            (Family::Zero, 0),
            (Family::Ramp, 1),
            (Family::Extremes, inputs::AT_ONE_END),
            (Family::Extremes, inputs::AT_UPPER_END),
            (Family::Wide, 0),
            (Family::Spread, 0),
            (Family::Spread, 1),
        ];
        // Values of other types have all lengths at small shapes already.
        let integers = changes(plan, Family::Wide);
        let further = further.into_iter().filter(|(family, _)| integers || *family != Family::Spread);
        let further = further.filter(|(family, _)| asked.contains(family));
        let further = further.map(|(family, seed_index)| Case { plan: (*plan).clone(), seed_index, family });
        out.extend(
            further.filter(|case| out.iter().all(|own| own.name() != case.name())).collect::<Vec<_>>(),
        );
    }
    Ok(out)
}

/// With the numbers that `Family::Named` draws.
pub(super) fn with_dictionary(check: &CheckPlan, plan: &ProblemPlan) -> ProblemPlan {
    ProblemPlan { dictionary: check.dictionary.clone(), ..plan.clone() }
}

pub(super) fn changes(plan: &ProblemPlan, family: Family) -> bool {
    if family == Family::Named && plan.dictionary == Dictionary::default() {
        return false;
    }
    // A single tensor meets every kind in the other families.
    let least = if family == Family::Mixed { 2 } else { 1 };
    plan.buffers.iter().filter(|buffer| inputs::varies_in(buffer, family)).nth(least - 1).is_some()
}

fn cases_of(
    check: &CheckPlan,
    plan: &ProblemPlan,
    depth: Depth,
    explores: bool,
) -> Result<Vec<Case>, DeviceError> {
    let mut out = vec![Case::first(plan)];
    if depth == Depth::Quick {
        return Ok(out);
    }
    let plan = &with_dictionary(check, plan);
    let mut families = stress(check, plan, explores)?;
    // A file that lists them means every variant.
    families.retain(|family| !family.is_for_finalists() || !check.families.is_empty());
    let case = |seed_index, family| Case { plan: plan.clone(), seed_index, family };
    // Without random inputs every seed would repeat the same case.
    if plan.buffers.iter().any(inputs::varies) && check.checks.include(GateCheck::MoreSeeds) {
        out.extend((1..check.seeds).map(|index| case(index, Family::Normal)));
    }
    // Which bits integers share is drawn, and one draw may leave out those that matter.
    let again = families.contains(&Family::Wide).then(|| case(1, Family::Wide));
    out.extend(families.into_iter().map(|family| case(0, family)).chain(again));
    Ok(out)
}

pub(super) fn stress(
    check: &CheckPlan,
    plan: &ProblemPlan,
    explores: bool,
) -> Result<Vec<Family>, DeviceError> {
    let families = families(check)?.into_iter().filter(|family| permitted(check, *family));
    let families = families.filter(|family| explores || !family.explores_range());
    let families = families.filter(|family| *family != Family::Normal && changes(plan, *family));
    Ok(families.filter(|family| family.check().is_none_or(|own| check.checks.include(own))).collect())
}

/// Whether declared compiler options and the file leave a family's answer to the reference. Fast math may
/// assume that there are no special values, and a build that flushes subnormals may lose them.
fn permitted(check: &CheckPlan, family: Family) -> bool {
    let special = check.special_values == SpecialValues::Reference;
    match family {
        Family::Special | Family::Huge | Family::Lowest => special && !check.fast_math,
        // Float atomics, for which a file allows runs to differ, lose subnormal numbers on a GPU.
        Family::Subnormal => special && !check.flushes_subnormals && check.deterministic,
        _ => true,
    }
}

fn families(check: &CheckPlan) -> Result<BTreeSet<Family>, DeviceError> {
    if check.families.is_empty() {
        return Ok(Family::ALL.iter().copied().collect());
    }
    let parse = |name: &String| {
        Family::named(name).ok_or_else(|| {
            let known: Vec<&str> = Family::ALL.iter().map(|family| family.as_str()).collect();
            task_error(format!("no input family `{name}`\nhint: there are `{}`", known.join("`, `")))
        })
    };
    check.families.iter().map(parse).collect()
}
