//! The shapes of a benchmark: a kernel's own problems, or the points of a grid.

use std::collections::{BTreeMap, BTreeSet};

use evo_protocol::device::DeviceKind;
use evo_space::diagnostic::Diagnostics;
use evo_space::document::suggestion;
use evo_space::grid::{Grid, GridPoint};
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use crate::engine::recipe::problems_on;
use crate::kernel::label::{LABEL_MAX, is_label};
use crate::kernel::spec::{self, KernelSpec, ProblemSpec};

#[derive(Clone, Debug)]
pub struct BenchShape {
    pub problem: ProblemSpec,
    /// Parameters that an axis sets, such as a data type: another configuration of the same candidate.
    pub parameters: Vec<(String, Value)>,
    /// Its position on each axis.
    pub axes: Vec<i64>,
    pub canonical: bool,
}

#[cfg(test)]
impl BenchShape {
    /// A shape without sizes.
    pub fn example(name: &str) -> BenchShape {
        let problem = problem(name.into(), BTreeMap::new(), true);
        BenchShape { problem, parameters: Vec::new(), axes: Vec::new(), canonical: true }
    }
}

/// The timed problems of a kernel on a kind of device, those for commands that name them included. Sizes that differ between them are the axes.
pub fn of_problems(kernel: &KernelSpec, kind: DeviceKind) -> Vec<BenchShape> {
    let problems: Vec<&ProblemSpec> =
        problems_on(kernel, kind).into_iter().filter(|problem| problem.timed).collect();
    // Where this device has none that is marked, all of them are.
    let is_marked = problems.iter().any(|problem| problem.canonical);
    let shape = |problem: &&ProblemSpec| BenchShape {
        problem: (*problem).clone(),
        parameters: Vec::new(),
        axes: problem.sizes.values().map(|value| value.as_int().unwrap_or(0)).collect(),
        canonical: problem.canonical || !is_marked,
    };
    problems.iter().map(shape).collect()
}

/// The points of a grid as problems of a kernel; `None` after a complaint.
pub fn of_grid(
    grid: &Grid,
    kernel: &KernelSpec,
    space: &SearchSpace,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<BenchShape>> {
    let parameter = |name: &str| space.parameters().iter().find(|own| &*own.name == name);
    let sizes = kernel.problems.iter().take(1).flat_map(|problem| problem.sizes.keys());
    let sizes: Vec<&str> = sizes.map(String::as_str).collect();
    let before = diagnostics.list().len();
    for axis in grid.axes() {
        let name = axis.name.as_str();
        if let Some(parameter) = parameter(name) {
            let unknown = axis.values.iter().find(|value| parameter.position(value).is_none());
            if let Some(value) = unknown {
                let message = format!("parameter `{name}` of the space has no value `{value}`");
                diagnostics.error(axis.span.clone(), message);
            }
        } else if !sizes.contains(&name) && !grid.reads(name) {
            let hint = suggestion(name, sizes.iter().copied(), || {
                format!("sizes of `{}` are {}", kernel.name, sizes.join(", "))
            });
            let message = format!("`{name}` is neither a size nor a parameter");
            diagnostics.error_with_hint(axis.span.clone(), message, hint);
        }
    }
    let lacking: Vec<&str> =
        sizes.iter().copied().filter(|name| !grid.names().any(|own| own == *name)).collect();
    if !lacking.is_empty() {
        let message =
            format!("the grid does not say the size `{}` of `{}`", lacking.join("`, `"), kernel.name);
        let hint = format!("add an axis, or `set = {{ {} = … }}`", lacking[0]);
        diagnostics.error_with_hint(grid.span().clone(), message, hint);
    }
    if diagnostics.list().len() > before {
        return None;
    }
    let mut taken = BTreeSet::new();
    let mut shapes = Vec::new();
    for (number, point) in grid.points(diagnostics)?.into_iter().enumerate() {
        let sizes = sizes_at(&point, &sizes, grid, diagnostics)?;
        let GridPoint { mut name, axes, canonical, .. } = point;
        // A long name would not fit files, and texts on axes may differ in letters that names do not have.
        if !is_label(&name) || !taken.insert(name.clone()) {
            let start: String = name.chars().take(LABEL_MAX - 12).collect();
            name = format!("{start}_{number}");
            taken.insert(name.clone());
        }
        // A text on an axis has no order of its own; the file's order stands for it.
        let position = |(name, value): &(String, Value)| {
            let axis = grid.axes().iter().find(|axis| axis.name == *name);
            let place = axis.and_then(|axis| axis.values.iter().position(|own| own == value)).unwrap_or(0);
            value.as_int().unwrap_or(place as i64)
        };
        shapes.push(BenchShape {
            problem: problem(name, sizes, canonical),
            axes: axes.iter().map(position).collect(),
            parameters: axes.into_iter().filter(|(name, _)| parameter(name).is_some()).collect(),
            canonical,
        });
    }
    Some(shapes)
}

/// The sizes at a point; `None` after a complaint.
fn sizes_at(
    point: &GridPoint,
    names: &[&str],
    grid: &Grid,
    diagnostics: &mut Diagnostics,
) -> Option<BTreeMap<String, Value>> {
    let mut sizes = BTreeMap::new();
    for name in names {
        let value = point.values.get(*name)?;
        let Some(whole) = spec::whole(value).ok().filter(|whole| *whole >= 0) else {
            let message = format!("size `{name}` is `{value}` at `{}`, expected 0 or more", point.name);
            let hint = "mend the axis or what `set` says, or leave the point out with `where`";
            diagnostics.error_with_hint(grid.span().clone(), message, hint);
            return None;
        };
        sizes.insert(name.to_string(), Value::Int(whole));
    }
    Some(sizes)
}

fn problem(name: String, sizes: BTreeMap<String, Value>, canonical: bool) -> ProblemSpec {
    ProblemSpec {
        name,
        sizes,
        weight: 1.0,
        timed: true,
        canonical,
        checked: true,
        device: None,
        on_request: false,
    }
}
