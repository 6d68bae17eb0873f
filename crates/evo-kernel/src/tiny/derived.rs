//! Shapes that evo derives where the file lists none.

use std::collections::BTreeMap;

use evo_protocol::binary::Specialization;
use evo_protocol::plan::ProblemPlan;
use evo_space::genome::Configuration;
use evo_space::value::Value;

use super::assemble::{self, Shape};
use super::drawn;
use super::roles::{self, SizeRole};
use crate::resolve::{self, Resolver};
use crate::spec::{KernelSpec, ProblemSpec, ReferenceSpec, TinySpec, whole};
use crate::specialize;

/// Most shapes that are derived for each set of constants where there is one set, where there are two, and where there
/// are more: the gate takes as long as all of them together.
const SHAPES: [usize; 3] = [8, 6, 4];
/// Most elements that the buffers of a shape have together.
const ELEMENTS: u64 = 1 << 20;
/// The same for shapes of several tiles: contenders meet them with all seeds and families, as they do all others.
const ELEMENTS_SEVERAL: u64 = 1 << 15;
/// And for every other shape drawn by lot, in turn: many small ones meet more residues, a few large ones more tiles.
const ELEMENTS_DRAWN: [u64; 2] = [1 << 13, 1 << 16];
/// The same for shapes just below a problem's, whose reference is computed where the kernel runs.
const ELEMENTS_NEAR: u64 = 1 << 24;
/// Floating-point operations of a shape drawn by lot, where the file declares them: attention over a long sequence has few
/// elements and much work.
const FLOPS_DRAWN: f64 = 3e8;
/// How far below the problem's own each size is, in three shapes: one that leaves all but an element of the last block,
/// one that leaves some, and one that leaves whole vectors of four of them, which a path for aligned sizes takes.
const NEAR: [[i64; 4]; 3] = [[1, 3, 5, 7], [29, 43, 61, 83], [20, 12, 36, 44]];

/// The plans of derived shapes, or why there are none. A shape that does not resolve, launches nothing or
/// does not fit the device is left out: it is ours, and no reason to refuse a variant.
pub(super) fn derive(
    derivations: &[Result<Derivation, &'static str>],
) -> Result<Vec<ProblemPlan>, &'static str> {
    let most = SHAPES[derivations.len().clamp(1, SHAPES.len()) - 1];
    let mut plans: Vec<ProblemPlan> = Vec::new();
    let mut first = Ok(());
    for derivation in derivations {
        match derivation.as_ref().map_err(|why| *why).and_then(derive_from) {
            Ok(found) => found.into_iter().take(most).for_each(|plan| keep(&mut plans, Some(plan))),
            Err(why) => first = first.and(Err(why)),
        }
    }
    // A set of constants without small shapes is still judged at its problems.
    if plans.is_empty() { first.map(|()| plans) } else { Ok(plans) }
}

fn derive_from(own: &Derivation<'_>) -> Result<Vec<ProblemPlan>, &'static str> {
    let roles = &own.roles;
    let shapes = assemble::assemble(roles, own.threads);
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
        let focus = tiled.get(turn % tiled.len().max(1)).map_or("", |name| name.as_str());
        let attempt = |shape: &Shape| own.plan(shape, ELEMENTS);
        let smaller = |focus| attempt(&assemble::reduced(roles, shape, focus));
        let plan = attempt(shape).or_else(|| smaller(None)).or_else(|| smaller(Some(focus)));
        keep(&mut plans, plan);
    }
    if plans.is_empty() {
        return Err("every small shape is beyond the device's limits or has no launch plan");
    }
    Ok(plans)
}

pub(super) fn several_tiles(derivations: &[Result<Derivation, &'static str>]) -> Vec<ProblemPlan> {
    let mut plans = Vec::new();
    for derivation in derivations.iter().flatten() {
        let shapes = assemble::several_tiles(&derivation.roles);
        shapes.iter().for_each(|shape| keep(&mut plans, derivation.plan(shape, ELEMENTS_SEVERAL)));
    }
    plans
}

/// Shapes drawn by lot, for finalists; none where the file lists its small shapes or has none, because it says then
/// which sizes the kernel supports.
pub fn drawn_shapes(
    kernel: &KernelSpec,
    configuration: &Configuration,
    constants: &[Specialization],
    seed: u64,
    fits: &dyn Fn(&ProblemPlan) -> bool,
) -> Vec<ProblemPlan> {
    if !matches!(kernel.check.tiny, TinySpec::Derived) {
        return Vec::new();
    }
    let all: Vec<Derivation> =
        Derivation::all(kernel, configuration, constants, fits).into_iter().flatten().collect();
    let mut plans = Vec::new();
    let Some(first) = all.first() else { return plans };
    for (turn, versions) in drawn::draw(&first.roles, first.threads, seed).iter().enumerate() {
        // Time may end the series anywhere, so the sets of constants take turns, each with small shapes and large ones.
        let (set, elements_max) = match turn % drawn::LONG == drawn::LONG - 1 {
            true => (turn / drawn::LONG, ELEMENTS),
            false => (turn / 2, ELEMENTS_DRAWN[turn % 2]),
        };
        let own = &all[set % all.len()];
        let is_quick = |plan: &ProblemPlan| plan.flops.is_none_or(|flops| flops <= FLOPS_DRAWN);
        let plan = versions.iter().find_map(|shape| own.plan(shape, elements_max).filter(is_quick));
        // Large tiles have no version that is as small as that.
        let smallest = || own.plan(versions.last()?, ELEMENTS_DRAWN[1]);
        keep(&mut plans, plan.or_else(smallest));
    }
    plans
}

/// Shapes just below a problem's, for finalists: a path for large sizes has tails of its own, which no small shape
/// meets. None where the file says which sizes the kernel supports.
pub fn near_shapes(
    kernel: &KernelSpec,
    configuration: &Configuration,
    problem: &ProblemSpec,
    fits: &dyn Fn(&ProblemPlan) -> bool,
) -> Vec<ProblemPlan> {
    let derives = matches!(kernel.check.tiny, TinySpec::Derived);
    let constants = specialize::constants_of(&kernel.specialize, problem);
    let derivation = Derivation::of(kernel, configuration, &constants, fits);
    let Some(own) = derivation.ok().filter(|_| derives) else { return Vec::new() };
    // Others are computed on the processor, where large shapes take seconds.
    let most = match kernel.check.reference {
        ReferenceSpec::Kernel { .. } => ELEMENTS_NEAR,
        _ => ELEMENTS,
    };
    let mut plans = Vec::new();
    for below in NEAR {
        let mut shape = problem.whole_sizes();
        let free = own.roles.iter().filter_map(|(name, role)| match role {
            SizeRole::Free { step, .. } => Some((name, *step)),
            _ => None,
        });
        for ((name, step), below) in free.zip(below) {
            if let Some(value) = shape.get_mut(name) {
                *value = ((*value - below).max(1) + step - 1) / step * step;
            }
        }
        assemble::tie(&own.roles, &mut shape);
        keep(&mut plans, own.plan_at(&shape, most));
    }
    plans
}

fn keep(plans: &mut Vec<ProblemPlan>, plan: Option<ProblemPlan>) {
    plans.extend(plan.filter(|plan| !plans.iter().any(|other| other.sizes == plan.sizes)));
}

pub(super) struct Derivation<'a> {
    kernel: &'a KernelSpec,
    configuration: &'a Configuration,
    first: ProblemSpec,
    roles: BTreeMap<String, SizeRole>,
    halos: BTreeMap<String, i64>,
    threads: i64,
    fits: &'a dyn Fn(&ProblemPlan) -> bool,
}

impl<'a> Derivation<'a> {
    /// One for each of the sets of constants, or why it has none.
    pub(super) fn all(
        kernel: &'a KernelSpec,
        configuration: &'a Configuration,
        constants: &[Specialization],
        fits: &'a dyn Fn(&ProblemPlan) -> bool,
    ) -> Vec<Result<Derivation<'a>, &'static str>> {
        constants.iter().map(|set| Derivation::of(kernel, configuration, set, fits)).collect()
    }

    fn of(
        kernel: &'a KernelSpec,
        configuration: &'a Configuration,
        constants: &Specialization,
        fits: &'a dyn Fn(&ProblemPlan) -> bool,
    ) -> Result<Derivation<'a>, &'static str> {
        let first = specialize::base_problem(kernel, constants).ok_or("there is no problem")?;
        if let ReferenceSpec::Npy { .. } = kernel.check.reference {
            return Err("the expected outputs come from files, which are made for one shape");
        }
        let roles = roles::roles(kernel, configuration, &first);
        let halos = roles::halos(kernel, configuration);
        let threads = threads(kernel, configuration, &first);
        Ok(Derivation { kernel, configuration, first, roles, halos, threads, fits })
    }

    /// The plan of a shape of tiles, to which halos are added; `None` where it does not resolve, launches nothing, or is
    /// too large.
    fn plan(&self, shape: &Shape, elements_max: u64) -> Option<ProblemPlan> {
        let mut shape = shape.clone();
        for (name, value) in &mut shape {
            let halo = self.halos.get(name).copied().unwrap_or(0);
            if let Some(SizeRole::Free { step, .. }) = self.roles.get(name).filter(|_| halo > 0) {
                *value = value.saturating_add(halo + step - 1) / step * step;
            }
        }
        assemble::tie(&self.roles, &mut shape);
        self.plan_at(&shape, elements_max)
    }

    fn plan_at(&self, shape: &Shape, elements_max: u64) -> Option<ProblemPlan> {
        let constants = specialize::constants_of(&self.kernel.specialize, &self.first);
        let problem = problem_of(&self.first, &constants, shape)?;
        let plan = resolve::resolve(self.kernel, self.configuration, &problem).ok()?;
        let fits = elements(&plan) <= elements_max && !plan.launches.is_empty() && (self.fits)(&plan);
        fits.then_some(plan)
    }
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

/// Sizes with a tile that have the same value in every problem, so that no derived shape checks their tails.
pub fn fixed_tiles(kernel: &KernelSpec, configuration: &Configuration) -> Vec<(String, i64)> {
    kernel.problems.first().map_or(Vec::new(), |first| roles::fixed_tiles(kernel, configuration, first))
}

/// The first problem with the shape's sizes; `None` where nothing differs. The constants stand in its name, since shapes
/// of several sets of them may differ in nothing else.
fn problem_of(first: &ProblemSpec, constants: &Specialization, shape: &Shape) -> Option<ProblemSpec> {
    let mut sizes: BTreeMap<String, Value> = first.sizes.clone();
    let mut changes = Vec::new();
    for (name, value) in shape {
        if sizes.get(name).is_some_and(|own| whole(own) == Ok(*value)) {
            continue;
        }
        changes.push(format!("{name}={value}"));
        sizes.insert(name.clone(), Value::Int(*value));
    }
    let constants = constants.iter().map(|(name, value)| format!("{name}={value}"));
    let name = format!("tiny:{}", constants.chain(changes.iter().cloned()).collect::<Vec<_>>().join(","));
    (!changes.is_empty()).then(|| ProblemSpec::small(name, sizes))
}

pub(super) fn elements(plan: &ProblemPlan) -> u64 {
    plan.buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.elements()))
}

/// Threads of the first launch's block; 1 where that has no value.
fn threads(kernel: &KernelSpec, configuration: &Configuration, first: &ProblemSpec) -> i64 {
    let resolver = Resolver::of(configuration, first);
    let Some(launch) = kernel.launches.first() else { return 1 };
    let extents = launch.block.iter().map(|extent| resolver.integer(extent, "block"));
    let product = extents.map(Result::ok).try_fold(1_i64, |product, extent| product.checked_mul(extent?));
    product.unwrap_or(1).clamp(1, 1024)
}
