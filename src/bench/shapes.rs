//! The shapes of a benchmark: a kernel's own problems, or the points of a grid.

use std::collections::{BTreeMap, BTreeSet};

use evo_protocol::device::DeviceKind;
use evo_space::diagnostic::{Diagnostics, nearest};
use evo_space::grid::{Grid, GridPoint};
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use crate::engine::recipe::problems_on;
use crate::kernel::label::{LABEL_MAX, is_label};
use crate::kernel::spec::{KernelSpec, ProblemSpec};

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
        let problem = ProblemSpec {
            name: name.into(),
            sizes: BTreeMap::new(),
            weight: 1.0,
            timed: true,
            canonical: true,
            checked: true,
            device: None,
            on_request: false,
        };
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
    let sizes: Vec<&String> = kernel.problems.iter().take(1).flat_map(|own| own.sizes.keys()).collect();
    let before = diagnostics.list().len();
    for axis in grid.axes() {
        let known: Vec<&str> = sizes.iter().map(|own| own.as_str()).collect();
        match parameter(&axis.name) {
            Some(own) => {
                let unknown = axis.values.iter().find(|value| own.position(value).is_none());
                if let Some(value) = unknown {
                    let message = format!("parameter `{}` of the space has no value `{value}`", axis.name);
                    diagnostics.error(axis.span.clone(), message);
                }
            }
            None if !known.contains(&axis.name.as_str()) && !grid.reads(&axis.name) => {
                let hint = match nearest(&axis.name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("sizes of `{}` are {}", kernel.name, known.join(", ")),
                };
                let message = format!("`{}` is neither a size nor a parameter", axis.name);
                diagnostics.error_with_hint(axis.span.clone(), message, hint);
            }
            None => {}
        }
    }
    let lacking: Vec<&str> = sizes
        .iter()
        .filter(|name| !grid.names().any(|own| own == name.as_str()))
        .map(|own| own.as_str())
        .collect();
    if !lacking.is_empty() {
        let message =
            format!("the grid does not say the size `{}` of `{}`", lacking.join("`, `"), kernel.name);
        let hint = format!("add an axis, or `set = {{ {} = … }}`", lacking[0]);
        diagnostics.error_with_hint(grid.span().clone(), message, hint);
    }
    if diagnostics.list().len() > before {
        return None;
    }
    let points = grid.points(diagnostics)?;
    let shapes: Option<Vec<BenchShape>> = points
        .into_iter()
        .enumerate()
        .map(|(number, point)| {
            let is_parameter = |name: &str| parameter(name).is_some();
            shape(number, point, grid, &sizes, &is_parameter, diagnostics)
        })
        .collect();
    let mut shapes = shapes?;
    // Texts on axes may differ in letters that names do not have.
    let mut taken = BTreeSet::new();
    for (number, shape) in shapes.iter_mut().enumerate() {
        if !taken.insert(shape.problem.name.clone()) {
            let start: String = shape.problem.name.chars().take(LABEL_MAX - 12).collect();
            shape.problem.name = format!("{start}_{number}");
        }
    }
    Some(shapes)
}

fn shape(
    number: usize,
    point: GridPoint,
    grid: &Grid,
    sizes: &[&String],
    is_parameter: &dyn Fn(&str) -> bool,
    diagnostics: &mut Diagnostics,
) -> Option<BenchShape> {
    let mut known = BTreeMap::new();
    for name in sizes {
        let value = point.values.get(name.as_str())?;
        let whole = match value {
            Value::Float(own) if own.fract() == 0.0 && own.abs() < 9e15 => Some(*own as i64),
            other => other.as_int(),
        };
        let Some(whole) = whole.filter(|whole| *whole >= 0) else {
            let message = format!("size `{name}` is `{value}` at `{}`, expected 0 or more", point.name);
            let hint = "mend the axis or what `set` says, or leave the point out with `where`";
            diagnostics.error_with_hint(grid.span().clone(), message, hint);
            return None;
        };
        known.insert(name.to_string(), Value::Int(whole));
    }
    // A long name would not fit files; the number tells such points apart.
    let name = if is_label(&point.name) {
        point.name.clone()
    } else {
        let start: String = point.name.chars().take(LABEL_MAX - 12).collect();
        format!("{start}_{number}")
    };
    // A text on an axis has no order of its own; the file's order stands for it.
    let position = |(name, value): &(String, Value)| {
        let axis = grid.axes().iter().find(|axis| axis.name == *name);
        let place = axis.and_then(|axis| axis.values.iter().position(|own| own == value)).unwrap_or(0);
        value.as_int().unwrap_or(place as i64)
    };
    let axes = point.axes.iter().map(position).collect();
    let parameters = point.axes.iter().filter(|(name, _)| is_parameter(name)).cloned().collect();
    let problem = ProblemSpec {
        name,
        sizes: known,
        weight: 1.0,
        timed: true,
        canonical: point.canonical,
        checked: true,
        device: None,
        on_request: false,
    };
    Some(BenchShape { problem, parameters, axes, canonical: point.canonical })
}
