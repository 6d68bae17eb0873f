//! What a device's limits exclude, as constraints of the space: the points that the device cannot launch are not
//! counted or drawn. Where expressions read more than parameters and sizes, `check_launches` looks at each
//! configuration.

use std::collections::{BTreeMap, BTreeSet};

use evo_protocol::device::DeviceLimits;
use evo_space::expr::Expr;
use evo_space::space::{Constraint, Parameter, SearchSpace};

use super::AXES;
use crate::spec::{LaunchSpec, ProblemSpec, ReplacedDefault, in_c};

/// Excluded is what cannot be launched at some of the problems, as far as expressions tell.
pub fn within(
    space: &SearchSpace,
    launches: &[LaunchSpec],
    problems: &[&ProblemSpec],
    limits: &DeviceLimits,
) -> SearchSpace {
    with(space, constraints(space.parameters(), launches, problems, limits))
}

fn with(space: &SearchSpace, more: Vec<Constraint>) -> SearchSpace {
    let all = space.constraints().iter().cloned().chain(more).collect();
    SearchSpace::new(space.parameters().to_vec(), all)
}

#[derive(Debug)]
pub struct DeviceSpace {
    /// Without the points that the device cannot launch; its default is valid.
    pub space: SearchSpace,
    /// Number of valid points that the device's limits exclude, more than 0.
    pub excluded: u128,
    pub of: u128,
    pub limits: Vec<String>,
    pub replaced_default: Option<ReplacedDefault>,
}

impl DeviceSpace {
    /// Folds the limits in. `None` where they exclude nothing, where nothing would be left (the verdicts then say
    /// why), and where the points cannot be counted with or without them: a search is better off with a space that
    /// can be counted and some `static_reject`.
    pub fn fold(
        space: &SearchSpace,
        launches: &[LaunchSpec],
        problems: &[&ProblemSpec],
        limits: &DeviceLimits,
    ) -> Option<DeviceSpace> {
        let found = constraints(space.parameters(), launches, problems, limits);
        if !space.is_exact() || found.is_empty() {
            return None;
        }
        let excludes = |one: &Constraint| {
            let folded = with(space, vec![one.clone()]);
            folded.is_exact() && folded.count() < space.count()
        };
        let found: Vec<Constraint> = found.into_iter().filter(excludes).collect();
        let folded = with(space, found.clone());
        let excluded = space.count() - folded.count();
        if !folded.is_exact() || folded.count() == 0 || excluded == 0 {
            return None;
        }
        let limits: BTreeSet<String> = found.into_iter().filter_map(|one| one.because).collect();
        let (limits, of) = (limits.into_iter().collect(), space.count());
        let (space, replaced_default) = ReplacedDefault::mend(folded);
        Some(DeviceSpace { space, excluded, of, limits, replaced_default })
    }

    pub fn note(&self) -> String {
        let (limits, verb) = (self.limits.join("; "), if self.excluded == 1 { "is" } else { "are" });
        format!("{} of {} valid points {verb} not tried: beyond {limits}", self.excluded, self.of)
    }
}

fn constraints(
    parameters: &[Parameter],
    launches: &[LaunchSpec],
    problems: &[&ProblemSpec],
    limits: &DeviceLimits,
) -> Vec<Constraint> {
    let mut found: BTreeMap<String, Constraint> = BTreeMap::new();
    for problem in problems {
        for launch in launches {
            for (text, because) in conditions(launch, problem, limits) {
                let Ok(expr) = Expr::parse(&text) else { continue };
                let names = expr.distinct_names();
                let position = |name: &str| parameters.iter().position(|own| &*own.name == name);
                let read: Option<Vec<usize>> = names.iter().map(|name| position(name)).collect();
                // The number of a turn in a loop is not a parameter, and what reads no parameter says nothing about a point.
                let Some(mut read) = read.filter(|read| !read.is_empty()) else { continue };
                read.sort_unstable();
                let because = Some(because);
                found.insert(text, Constraint { expr, because, parameters: read, span: None });
            }
        }
    }
    found.into_values().collect()
}

fn conditions(launch: &LaunchSpec, problem: &ProblemSpec, limits: &DeviceLimits) -> Vec<(String, String)> {
    let text = |expr: &Expr| format!("({})", expr.with_words(|name| problem.sizes.get(name).map(in_c)));
    let product = |all: &[Expr]| all.iter().map(&text).collect::<Vec<_>>().join(" * ");
    let of = |what: &str| format!("the device's limit on {what}, in launch `{}`", launch.entry);
    let threads = format!("{} <= {}", product(&launch.block), limits.threads_per_block);
    let mut found = vec![(threads, of("threads of a block"))];
    for (axis, (extent, most)) in launch.block.iter().zip(limits.block).enumerate() {
        if most < limits.threads_per_block {
            found.push((format!("{} <= {most}", text(extent)), of(&format!("threads in {}", AXES[axis]))));
        }
    }
    if let Some(bytes) = &launch.shared_bytes {
        let most = limits.shared_optin_bytes;
        found.push((format!("{} <= {most}", text(bytes)), of("shared memory of a block")));
    }
    if let Some(cluster) = &launch.cluster {
        found.push((format!("{} <= {}", product(cluster), limits.cluster), of("blocks of a cluster")));
    }
    let Some(when) = &launch.when else { return found };
    let guarded = |(condition, because)| (format!("not {} or {condition}", text(when)), because);
    found.into_iter().map(guarded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(parameters: &str, block: &str) -> Option<DeviceSpace> {
        let space = SearchSpace::parse(parameters).unwrap();
        let file = crate::catalog::open("gemm").unwrap();
        let kernel = file.kernel.unwrap();
        let block = Expr::parse(block).unwrap();
        let launch = kernel.launches.into_iter().next().unwrap();
        let launch =
            LaunchSpec { block: vec![block], shared_bytes: None, cluster: None, when: None, ..launch };
        let problems: Vec<&ProblemSpec> = kernel.problems.iter().collect();
        DeviceSpace::fold(&space, &[launch], &problems, &DeviceLimits::of_arch("sm_90").unwrap())
    }

    #[test]
    fn points_beyond_a_limit_are_not_searched() {
        let text = "[parameters]\nBLOCK = { values = [256, 512, 1024, 2048], default = 2048 }\nX = [1, 2]\n";
        let within = folded(text, "BLOCK * X").unwrap();
        assert_eq!((within.excluded, within.of, within.space.count()), (3, 8, 5));
        let note = "3 of 8 valid points are not tried: beyond the device's limit on threads";
        assert!(within.note().starts_with(note));
        assert_eq!(within.replaced_default.unwrap().taken.to_string(), "BLOCK=1024 X=1");
    }

    #[test]
    fn a_space_that_the_limits_leave_whole_or_empty_stays() {
        assert!(folded("[parameters]\nBLOCK = [256, 1024]\n", "BLOCK").is_none());
        assert!(folded("[parameters]\nBLOCK = [2048, 4096]\n", "BLOCK").is_none());
    }
}
