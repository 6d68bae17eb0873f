//! The shapes of a benchmark: problems with what is asked of them beside their sizes.

use evo_protocol::device::DeviceKind;

use crate::engine::recipe::problems_on;
use crate::kernel::spec::{KernelSpec, ProblemSpec};

#[derive(Clone, Debug)]
pub struct BenchShape {
    pub problem: ProblemSpec,
    /// Its position on each axis.
    pub axes: Vec<i64>,
    pub canonical: bool,
}

/// The timed problems of a kernel on a kind of device, those for commands that name them included.
pub fn of_kernel(kernel: &KernelSpec, kind: DeviceKind) -> Vec<BenchShape> {
    of_problems(problems_on(kernel, kind))
}

/// Those of the problems that are timed. Sizes that differ between them are the axes.
pub fn of_problems<'a>(problems: impl IntoIterator<Item = &'a ProblemSpec>) -> Vec<BenchShape> {
    let problems: Vec<&ProblemSpec> = problems.into_iter().filter(|problem| problem.timed).collect();
    // Where this device has none that is marked, all of them are.
    let is_marked = problems.iter().any(|problem| problem.canonical);
    let shape = |problem: &&ProblemSpec| BenchShape {
        problem: (*problem).clone(),
        axes: problem.sizes.values().map(|value| value.as_int().unwrap_or(0)).collect(),
        canonical: problem.canonical || !is_marked,
    };
    problems.iter().map(shape).collect()
}
