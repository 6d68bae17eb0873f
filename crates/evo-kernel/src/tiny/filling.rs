//! One problem on which a cheap ranking is made: as small as a timed one may be that still fills the device.
//!
//! A problem of few blocks leaves multiprocessors idle and ranks configurations by how many they occupy, and a huge one
//! costs time that a cheap ranking does not have. So the least timed problem that fills the device is taken, larger ones
//! are halved, and where none fills it, sizes of the largest are doubled. What does not fit the L2 cache is not halved
//! until it does: kernels that device memory bounds rank otherwise there (softmax on an H100: a rank correlation of -0.1).

use evo_protocol::plan::{LaunchPlan, ProblemPlan};
use evo_space::genome::Configuration;
use evo_space::value::Value;

use super::assemble;
use super::derived::elements;
use super::roles::{self, SizeRole};
use crate::resolve::resolve;
use crate::spec::{KernelSpec, ProblemSpec, whole};

/// Halving stops where fewer blocks a multiprocessor than this would be left.
const WAVES_KEPT: i64 = 4;
const STEPS: usize = 24;
const ELEMENTS_MAX: u64 = 1 << 27;

#[derive(Clone, Debug)]
pub struct FillingProblem {
    pub problem: ProblemSpec,
    /// Work of one call in the default configuration: operations where the space states them, else bytes, else elements.
    pub work: f64,
    /// Whether three in four of the configurations give each multiprocessor a block.
    pub is_filled: bool,
}

pub fn blocks(plan: &ProblemPlan) -> u64 {
    let product = |extents: [i64; 3]| extents.iter().fold(1_i64, |all, one| all.saturating_mul(*one)).max(0);
    let threads = |launch: &&LaunchPlan| product(launch.grid).saturating_mul(product(launch.block));
    plan.launches.iter().max_by_key(threads).map_or(0, |launch| product(launch.grid).unsigned_abs())
}

#[derive(Clone, Copy, Debug)]
pub struct FilledDevice {
    pub multiprocessors: u32,
    /// Of the L2 cache; 0 where that is unknown.
    pub l2_bytes: u64,
}

/// The problem for a device; `None` where no timed problem resolves. The first of `configurations` is the default, the
/// others stand for the space.
pub fn filling_problem(
    kernel: &KernelSpec,
    configurations: &[Configuration],
    timed: &[&ProblemSpec],
    device: FilledDevice,
) -> Option<FillingProblem> {
    let needed = i64::from(device.multiprocessors.max(1));
    let own = Filling { kernel, configurations, needed, l2_bytes: device.l2_bytes };
    let mut by_work: Vec<(f64, &ProblemSpec)> =
        timed.iter().filter_map(|problem| Some((own.work(problem)?, *problem))).collect();
    by_work.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fills = |problem: &ProblemSpec| own.blocks(problem) >= own.needed;
    let base = by_work.iter().find(|(_, problem)| fills(problem)).or(by_work.last())?.1;
    // Its blocks are as many as the device takes, whatever the problem.
    let problem = match kernel.is_persistent {
        true => base.clone(),
        false if fills(base) => own.halved(base),
        false => own.doubled(base),
    };
    let (work, is_filled) = (own.work(&problem)?, kernel.is_persistent || fills(&problem));
    Some(FillingProblem { problem: named(base, problem), work, is_filled })
}

struct Filling<'a> {
    kernel: &'a KernelSpec,
    configurations: &'a [Configuration],
    needed: i64,
    l2_bytes: u64,
}

impl Filling<'_> {
    /// Whether a smaller problem fits the L2 cache and the larger one does not.
    fn moves_into_cache(&self, larger: &ProblemSpec, smaller: &ProblemSpec) -> bool {
        let bytes = |problem| self.plan(problem).map_or(0, |plan| bytes(&plan));
        bytes(larger) > self.l2_bytes && bytes(smaller) <= self.l2_bytes
    }

    fn plan(&self, problem: &ProblemSpec) -> Option<ProblemPlan> {
        resolve(self.kernel, self.configurations.first()?, problem).ok()
    }

    fn work(&self, problem: &ProblemSpec) -> Option<f64> {
        let plan = self.plan(problem)?;
        let elements = elements(&plan) as f64;
        let stated = [plan.flops, plan.bytes, Some(elements)].into_iter().flatten();
        stated.into_iter().find(|work| work.is_finite() && *work > 0.0)
    }

    fn blocks(&self, problem: &ProblemSpec) -> i64 {
        let plans = self.configurations.iter().filter_map(|own| resolve(self.kernel, own, problem).ok());
        let mut counts: Vec<u64> = plans.map(|plan| blocks(&plan)).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 4).map_or(0, |count| i64::try_from(*count).unwrap_or(i64::MAX))
    }

    /// A problem with one size changed, and the sizes that follow it; `None` where the kernel does not take that.
    fn changed(&self, base: &ProblemSpec, name: &str, up: bool) -> Option<ProblemSpec> {
        let roles = roles::roles(self.kernel, self.configurations.first()?, base);
        let SizeRole::Free { step, .. } = roles.get(name)? else { return None };
        let old = whole(base.sizes.get(name)?).ok()?;
        let new = if up { old.checked_mul(2)? } else { old / 2 };
        if new < 1 || new % step != 0 || (!up && old % 2 != 0) {
            return None;
        }
        let mut shape = base.whole_sizes();
        shape.insert(name.to_string(), new);
        assemble::tie(&roles, &mut shape);
        let mut problem = base.clone();
        for (name, value) in shape {
            problem.sizes.insert(name, Value::Int(value));
        }
        let plan = self.plan(&problem)?;
        (!up || elements(&plan) <= ELEMENTS_MAX).then_some(problem)
    }

    /// Until the problem fills the device: each time the size that brings the most blocks for its work.
    fn doubled(&self, base: &ProblemSpec) -> ProblemSpec {
        self.changed_often(base, true, |problem, blocks, _, larger| {
            let cost = self.work(larger)? / self.work(problem).unwrap_or(1.0);
            let gain = self.blocks(larger) as f64 / blocks.max(1) as f64 / cost.max(1e-9);
            (blocks < self.needed && self.blocks(larger) > blocks).then_some(gain)
        })
    }

    /// The same problem with its largest size on the grid halved, as long as enough blocks are left.
    fn halved(&self, base: &ProblemSpec) -> ProblemSpec {
        self.changed_often(base, false, |problem, blocks, name, smaller| {
            let left = self.blocks(smaller);
            let is_enough = left < blocks && left >= self.needed * WAVES_KEPT;
            let size = whole(problem.sizes.get(name)?).ok()? as f64;
            (is_enough && !self.moves_into_cache(problem, smaller)).then_some(size)
        })
    }

    /// A problem with one size after the other changed: each time the one that is worth most, until none is worth
    /// anything. `worth` is told the problem, its blocks, the size, and the problem with that size changed.
    fn changed_often(
        &self,
        base: &ProblemSpec,
        up: bool,
        worth: impl Fn(&ProblemSpec, i64, &str, &ProblemSpec) -> Option<f64>,
    ) -> ProblemSpec {
        let mut problem = base.clone();
        for _ in 0..STEPS {
            let blocks = self.blocks(&problem);
            let valued = problem.sizes.keys().filter_map(|name| {
                let next = self.changed(&problem, name, up)?;
                Some((worth(&problem, blocks, name, &next)?, next))
            });
            let Some((_, next)) = valued.reduce(|best, one| if one.0 > best.0 { one } else { best }) else {
                break;
            };
            problem = next;
        }
        problem
    }
}

fn bytes(plan: &ProblemPlan) -> u64 {
    plan.buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.bytes()))
}

fn named(base: &ProblemSpec, problem: ProblemSpec) -> ProblemSpec {
    let changed: Vec<String> = problem
        .sizes
        .iter()
        .filter(|(name, value)| base.sizes.get(*name) != Some(*value))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if changed.is_empty() {
        return problem;
    }
    let name = format!("{} ({})", base.name, changed.join(", "));
    // It is made for one ranking, and stands for nobody's workload.
    ProblemSpec { name, weight: 1.0, canonical: false, ..problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn filled(space: &str, only: &str, multiprocessors: u32) -> (FillingProblem, u64) {
        filled_on(space, only, FilledDevice { multiprocessors, l2_bytes: 0 })
    }

    fn filled_on(space: &str, only: &str, device: FilledDevice) -> (FillingProblem, u64) {
        let file = catalog::open(space).unwrap();
        let kernel = file.kernel.as_ref().unwrap();
        let default = file.space.configuration(&file.space.default_genome());
        let count = file.space.count();
        let spread = (0..32).filter_map(|at| file.space.genome_at(count * at / 32));
        let mut configurations = vec![default.clone()];
        configurations.extend(spread.map(|genome| file.space.configuration(&genome)));
        let timed: Vec<&ProblemSpec> =
            kernel.problems.iter().filter(|one| one.timed && (only.is_empty() || one.name == only)).collect();
        assert!(!timed.is_empty(), "{space} has no timed problem `{only}`");
        let found = filling_problem(kernel, &configurations, &timed, device).unwrap();
        let blocks = blocks(&resolve(kernel, &default, &found.problem).unwrap());
        (found, blocks)
    }

    #[test]
    fn the_least_problem_that_fills_the_device_is_taken() {
        for space in ["gemm", "attention_simt", "attention_hopper", "softmax"] {
            let Ok(_) = catalog::open(space) else { continue };
            let (found, _) = filled(space, "", 132);
            assert!(found.is_filled, "{space}: {}", found.problem.name);
            assert!(found.work > 0.0);
        }
    }

    #[test]
    fn a_problem_that_does_not_fit_the_cache_is_not_halved_until_it_does() {
        // 64 MiB in all.
        let name = |l2_bytes| {
            let device = FilledDevice { multiprocessors: 132, l2_bytes };
            filled_on("softmax", "r8192_c1024", device).0.problem.name
        };
        assert_eq!(name(50 << 20), "r8192_c1024");
        assert_eq!(name(20 << 20), "r8192_c1024 (ROWS=4096)");
        assert_eq!(name(64 << 20), "r8192_c1024 (ROWS=4096)", "it fits, as its half does");
        assert_eq!(name(0), "r8192_c1024 (ROWS=4096)");
    }

    #[test]
    fn a_problem_grows_until_it_fills_and_shrinks_while_it_fills() {
        let file = catalog::open("gemm").unwrap();
        let problems = &file.kernel.as_ref().unwrap().problems;
        let least = problems.iter().find(|one| one.timed).unwrap();
        let (large, blocks) = filled("gemm", &least.name, 4000);
        assert!(large.is_filled && blocks >= 4000, "{}", large.problem.name);
        assert!(large.problem.name.starts_with(&format!("{} (", least.name)), "{}", large.problem.name);
        let (small, blocks) = filled("gemm", &least.name, 1);
        assert!(small.is_filled && blocks >= 1);
        assert!(small.work <= large.work);
        // Nothing is ever too small to be resolved, however many there are.
        let (most, _) = filled("gemm", &least.name, u32::MAX);
        assert!(!most.is_filled);
    }
}
