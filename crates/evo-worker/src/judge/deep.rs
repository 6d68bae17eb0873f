//! Further questions to finalists, as many as time allows: more shapes, more seeds.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::CheckPlan;

use super::case::{self, Case};
use super::inputs::{self, Family};
use super::wrong::CaseResult;

/// As many are tried on a busy machine: then half of all residues of a tile of 32 still have their turn.
const SHAPES_MIN: usize = 24;
/// How many seeds are tried at one small shape at most: what fails for one set of values in 256 is found by 1,000 in 98
/// of 100 studies.
const SEEDS: u32 = 1000;
/// As many are tried on a busy machine: they find what fails for one set of values in 20.
const SEEDS_MIN: usize = 64;
/// A busy machine gets this many times as long.
const BUSY: u32 = 4;
/// So many draws of every family at most: a fault that one draw in two shows is found by these in 99 of 100 studies, if the
/// time is enough for all of them.
const ROUNDS: u32 = 7;
/// In series: so long the cases at a timed problem may take.
pub const AT_SIZE: u32 = 4;
/// A shape for many seeds has at least so many elements, where there is such a shape. Fewer values are too few for
/// those on which a fault may depend.
const SEEDS_ELEMENTS_MIN: u64 = 256;
/// And at most so many: a larger one takes milliseconds.
const SEEDS_ELEMENTS_MAX: u64 = 1 << 16;
/// A shape for all families has at most so many: its rows are longer, and its answers are still quick.
const FAMILIES_ELEMENTS_MAX: u64 = 1 << 13;

/// The first case of every shape that has not been met, for twice the time of a series: most take a few milliseconds.
pub fn shapes<'a>(
    check: &CheckPlan,
    plans: &'a [&ProblemPlan],
    met: &[CaseResult],
) -> impl Iterator<Item = Case> + use<'a> {
    let names: HashSet<String> = met.iter().map(|own| own.name.clone()).collect();
    let cases = plans.iter().map(|plan| Case::first(plan));
    within(2 * series(check), SHAPES_MIN, cases.filter(move |case| !names.contains(&case.name())))
}

pub fn series(check: &CheckPlan) -> Duration {
    Duration::from_millis(u64::from(check.series_ms))
}

/// At the largest shape that is quick to look at: once with another draw than the small shapes have met, so that
/// families of two kinds show the other one, and again while a series lasts.
pub fn families(check: &CheckPlan, plans: &[&ProblemPlan]) -> Result<Vec<Case>, DeviceError> {
    let Some(case) = shape_for_families(plans).or_else(|| shape_for_seeds(plans)) else {
        return Ok(Vec::new());
    };
    let case = Case { plan: case::with_dictionary(check, &case.plan), ..case };
    let asked = case::stress(check, &case.plan, true)?;
    let round = |seed_index| {
        let case = &case;
        asked.iter().map(move |family| Case { seed_index, family: *family, ..case.clone() })
    };
    Ok((1..=ROUNDS).flat_map(round).collect())
}

/// Those that go first where time does not suffice for all: what kernels treat otherwise on a path for large sizes.
const AT_SIZE_FIRST: [Family; 5] =
    [Family::Special, Family::Borders, Family::Offset, Family::Subnormal, Family::Lowest];

/// At the least problem of the file what it has not met: a path for large sizes may have faults that depend on values,
/// and no small shape takes it.
pub fn at_size(
    check: &CheckPlan,
    plans: &[&ProblemPlan],
    met: &[CaseResult],
) -> Result<impl Iterator<Item = Case> + use<>, DeviceError> {
    let least = plans.iter().min_by_key(|plan| Case::first(plan).elements());
    let mut cases = Vec::new();
    if let Some(plan) = least {
        let plan = case::with_dictionary(check, plan);
        let mut asked = case::stress(check, &plan, true)?;
        let turn = |family: &Family| AT_SIZE_FIRST.iter().position(|first| first == family);
        asked.sort_by_key(|family| turn(family).unwrap_or(AT_SIZE_FIRST.len()));
        for family in asked {
            // Both kinds, and of `Borders` in two of the buffers.
            let draws = match family {
                Family::Borders => 4,
                Family::Subnormal => 2,
                _ => 1,
            };
            let case = |seed_index| Case { plan: plan.clone(), seed_index, family };
            cases.extend((0..draws).map(case));
        }
        cases.retain(|case| !met.iter().any(|result| result.name == case.name()));
    }
    Ok(within(AT_SIZE * series(check), 0, cases.into_iter()))
}

/// Those that are drawn at random and have at most so many elements.
fn quick<'a>(plans: &'a [&ProblemPlan], most: u64) -> impl Iterator<Item = Case> + Clone + use<'a> {
    let random = plans.iter().filter(|plan| plan.buffers.iter().any(inputs::varies));
    random.map(|plan| Case::first(plan)).filter(move |case| case.elements() <= most)
}

fn shape_for_families(plans: &[&ProblemPlan]) -> Option<Case> {
    quick(plans, FAMILIES_ELEMENTS_MAX).max_by_key(Case::elements)
}

/// As many as a series allows, and each family once on a busy machine.
pub fn while_it_lasts(check: &CheckPlan, families: Vec<Case>) -> impl Iterator<Item = Case> + use<> {
    let few = families.len() / ROUNDS as usize;
    within(series(check), few, families.into_iter())
}

fn shape_for_seeds(plans: &[&ProblemPlan]) -> Option<Case> {
    let random = quick(plans, SEEDS_ELEMENTS_MAX);
    let enough = random.clone().filter(|case| case.elements() >= SEEDS_ELEMENTS_MIN);
    enough.min_by_key(Case::elements).or_else(|| random.max_by_key(Case::elements))
}

/// More seeds of plain inputs, and of kinds that take many draws.
pub fn seeds(check: &CheckPlan, plans: &[&ProblemPlan]) -> impl Iterator<Item = Case> + use<> {
    let chosen = shape_for_seeds(plans);
    // Beyond the seeds that other cases have, the next one of which a comparison may use.
    let first = check.seeds.max(1) + 1;
    let may = |family, own| {
        let changes = chosen.as_ref().is_some_and(|case| case::changes(&case.plan, family));
        changes && check.families.is_empty() && check.checks.include(own)
    };
    let mut turns = vec![Family::Normal];
    // At an order of magnitude of its own.
    turns.extend(Some(Family::Spread).filter(|family| may(*family, GateCheck::InputsSpread)));
    // Packed fields and keys, with as many words as are quick: what happens at one word in 2^14 is found, at one in 2^20
    // it is not.
    turns.extend(Some(Family::Wide).filter(|family| may(*family, GateCheck::InputsWide)));
    let large = shape_for_families(plans);
    let case = move |case: Case| {
        let (turns, large) = (turns.clone(), large.unwrap_or_else(|| case.clone()));
        (first..first + SEEDS).map(move |seed_index| {
            let family = turns[(seed_index - first) as usize % turns.len()];
            let shape = if family == Family::Wide { &large } else { &case };
            Case { seed_index, family, ..shape.clone() }
        })
    };
    within(series(check), SEEDS_MIN, chosen.map(case).into_iter().flatten())
}

/// The cases that begin within so much time of the first one, and a few more on a busy machine.
fn within(limit: Duration, few: usize, cases: impl Iterator<Item = Case>) -> impl Iterator<Item = Case> {
    let (mut began, mut count) = (None, 0);
    cases.take_while(move |_| {
        count += 1;
        let limit = if count > few { limit } else { BUSY * limit };
        began.get_or_insert_with(Instant::now).elapsed() < limit
    })
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::reference::testing::{buffer, check_plan, plan};

    fn shape(name: &str, elements: u64) -> ProblemPlan {
        plan(name, &[], vec![buffer("x", DType::F32, &[elements], Role::Input)])
    }

    #[test]
    fn seeds_are_tried_where_it_is_cheap() {
        let [one, few, more, many] = [1, 100, 300, 1 << 20].map(|n| shape(&format!("tiny:N={n}"), n));
        let chosen = |plans: &[&ProblemPlan]| seeds(&check_plan("gemm"), plans).next();
        assert_eq!(chosen(&[&many, &one, &more, &few]).unwrap().name(), "tiny:N=300 seed 3 normal");
        assert_eq!(chosen(&[&many, &one, &few]).unwrap().name(), "tiny:N=100 seed 3 normal");
        assert!(chosen(&[&many]).is_none());
        let output = plan("p", &[], vec![buffer("y", DType::F32, &[300], Role::Output)]);
        assert!(chosen(&[&output]).is_none());
        assert_eq!(seeds(&check_plan("gemm"), &[&more]).count(), SEEDS as usize);
    }

    #[test]
    fn families_are_met_once_at_the_least_problem() {
        let plans = [shape("large", 1 << 20), shape("least", 70_000)];
        let plans: Vec<&ProblemPlan> = plans.iter().collect();
        let check = check_plan("gemm");
        let names = |met: &[CaseResult]| -> Vec<String> {
            at_size(&check, &plans, met).unwrap().map(|case| case.name()).collect()
        };
        let all = names(&[]);
        assert_eq!(all[..2], ["least seed 0 special", "least seed 0 borders"]);
        assert!(
            all.contains(&"least seed 3 borders".to_string())
                && all.contains(&"least seed 1 subnormal".to_string())
        );
        // Without a number in the texts nothing is named.
        assert!(all.iter().all(|name| name.starts_with("least") && !name.ends_with("named")), "{all:?}");
        let met = [CaseResult::of(&Case { family: Family::Special, ..Case::first(plans[1]) }, None)];
        assert_eq!(names(&met)[..], all[1..]);
    }

    #[test]
    fn time_ends_a_series_and_a_few_are_tried_all_the_same() {
        let case = Case::first(&shape("tiny:N=300", 300));
        let endless = || std::iter::repeat_with(|| case.clone());
        assert_eq!(within(Duration::ZERO, 5, endless()).count(), 0);
        let slow = || endless().inspect(|_| std::thread::sleep(Duration::from_millis(4)));
        // The clock starts with the first one, and a busy machine sleeps longer.
        assert_eq!(within(Duration::from_millis(2), 0, slow()).count(), 1);
        assert!((1..=3).contains(&within(Duration::from_millis(2), 9, slow()).count()));
    }

    #[test]
    fn shapes_are_met_once() {
        let plans = [shape("tiny:N=1", 1), shape("tiny:N=2", 2)];
        let plans: Vec<&ProblemPlan> = plans.iter().collect();
        let met = [CaseResult::of(&Case::first(plans[0]), None)];
        let left: Vec<String> =
            shapes(&check_plan("gemm"), &plans, &met).map(|case| case.plan.name).collect();
        assert_eq!(left, ["tiny:N=2"]);
    }
}
