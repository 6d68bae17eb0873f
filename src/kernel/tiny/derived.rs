//! Shapes that evo derives where the file lists none.

use std::collections::BTreeMap;

use evo_protocol::plan::ProblemPlan;
use evo_space::genome::Configuration;
use evo_space::value::Value;

use super::assemble::{self, Shape};
use super::roles::{self, SizeRole};
use crate::kernel::resolve::{self, Names, Resolver, whole};
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec};

/// Most shapes that are derived.
const SHAPES: usize = 8;
/// Most elements that the buffers of a shape have together.
const ELEMENTS: u64 = 1 << 20;

/// The plans of derived shapes, or why there are none. A shape that does not resolve, launches nothing or
/// does not fit the device is left out: it is ours, and no reason to refuse a variant.
pub(super) fn derive(
    kernel: &KernelSpec,
    configuration: &Configuration,
    fits: &dyn Fn(&ProblemPlan) -> bool,
) -> Result<Vec<ProblemPlan>, &'static str> {
    let first = kernel.problems.first().ok_or("there is no problem")?;
    if let ReferenceSpec::Npy { .. } = kernel.check.reference {
        return Err("the expected outputs come from files, which are made for one shape");
    }
    let roles = roles::roles(kernel, configuration, first);
    let threads = threads(kernel, configuration, first);
    let shapes = assemble::assemble(&roles, threads);
    if shapes.is_empty() {
        return Err("no size changes of which the kernel is told");
    }
    let tiled: Vec<&String> = roles
        .iter()
        .filter(|(_, role)| matches!(role, SizeRole::Free { tile: Some(_), .. }))
        .map(|(name, _)| name)
        .collect();
    let mut plans: Vec<ProblemPlan> = Vec::new();
    for (turn, shape) in shapes.iter().enumerate() {
        let attempt = |shape: &Shape| {
            let problem = problem_of(first, shape)?;
            let plan = resolve::resolve(kernel, configuration, &problem).ok()?;
            (elements(&plan) <= ELEMENTS && !plan.launches.is_empty() && fits(&plan)).then_some(plan)
        };
        let focus = tiled.get(turn % tiled.len().max(1)).map_or("", |name| name.as_str());
        let smaller = |focus| attempt(&assemble::reduced(&roles, shape, focus));
        let plan = attempt(shape).or_else(|| smaller(None)).or_else(|| smaller(Some(focus)));
        let Some(plan) = plan else { continue };
        if !plans.iter().any(|other| other.sizes == plan.sizes) {
            plans.push(plan);
        }
    }
    plans.truncate(SHAPES);
    if plans.is_empty() {
        return Err("every small shape is beyond the device's limits or has no launch plan");
    }
    Ok(plans)
}

/// Sizes that a tile divides, with the tile, of which no listed shape leaves a partial tile in this
/// configuration: a wrong tail would not show.
pub fn untouched_tiles(
    kernel: &KernelSpec,
    configuration: &Configuration,
    listed: &[ProblemPlan],
) -> Vec<(String, i64)> {
    let Some(first) = kernel.problems.first() else { return Vec::new() };
    let partial = |name: &str, tile: i64| {
        listed.iter().filter_map(|plan| plan.sizes.get(name)).any(|value| value % tile != 0)
    };
    let tile = |(name, role): (String, SizeRole)| match role {
        SizeRole::Free { tile: Some(tile), step, .. } if step % tile != 0 => {
            (!partial(&name, tile)).then_some((name, tile))
        }
        _ => None,
    };
    roles::roles(kernel, configuration, first).into_iter().filter_map(tile).collect()
}

/// Sizes with a tile that derived shapes leave alone, because every problem has the same value: their tails
/// are not checked.
pub fn fixed_tiles(kernel: &KernelSpec, configuration: &Configuration) -> Vec<(String, i64)> {
    kernel.problems.first().map_or(Vec::new(), |first| roles::fixed_tiles(kernel, configuration, first))
}

/// The first problem with the shape's sizes; `None` where nothing differs.
fn problem_of(first: &ProblemSpec, shape: &Shape) -> Option<ProblemSpec> {
    let mut sizes: BTreeMap<String, Value> = first.sizes.clone();
    let mut changes = Vec::new();
    for (name, value) in shape {
        if sizes.get(name).is_some_and(|own| whole(own) == Ok(*value)) {
            continue;
        }
        changes.push(format!("{name}={value}"));
        sizes.insert(name.clone(), Value::Int(*value));
    }
    let name = format!("tiny:{}", changes.join(","));
    (!changes.is_empty()).then_some(ProblemSpec {
        name,
        sizes,
        weight: 1.0,
        timed: false,
        checked: true,
        device: None,
    })
}

fn elements(plan: &ProblemPlan) -> u64 {
    plan.buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.elements()))
}

/// Threads of the first launch's block; 1 where that has no value.
fn threads(kernel: &KernelSpec, configuration: &Configuration, first: &ProblemSpec) -> i64 {
    let resolver = Resolver { names: Names { configuration, sizes: &first.sizes }, problem: &first.name };
    let Some(launch) = kernel.launches.first() else { return 1 };
    let extents = launch.block.iter().map(|extent| resolver.integer(extent, "block"));
    let product = extents.map(Result::ok).try_fold(1_i64, |product, extent| product.checked_mul(extent?));
    product.unwrap_or(1).clamp(1, 1024)
}
