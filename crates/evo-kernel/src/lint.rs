//! Remarks on a space file that is valid and checks less than its author may think.

use std::collections::{BTreeMap, BTreeSet};

use evo_protocol::plan::{Fill, Role};
use evo_protocol::worker::SpecialValues;
use evo_space::genome::Configuration;
use evo_space::text::quoted;
use evo_space::value::Value;

use crate::spec::{ArgumentSpec, BufferSpec, FillSpec, KernelSpec, ProblemSpec, whole};
use crate::tiny::{self, TinyShapes};
use crate::{resolve, specialize};

/// Every remark, in the order of the file's sections. `configuration` is the default one.
pub fn warnings(kernel: &KernelSpec, configuration: &Configuration) -> Vec<String> {
    let shapes = tiny::shapes(kernel, configuration, &specialize::of_kernel(kernel), &|_| true).ok();
    let met = met_values(kernel, shapes.as_ref());
    let mut warnings: Vec<String> =
        kernel.buffers().filter_map(|buffer| open_integers(kernel, buffer)).collect();
    warnings.extend(square_problems(kernel).map_or_else(|| equal_extents(&met), |warning| vec![warning]));
    // Extents that are 1 wherever the kernel runs: one that ignores them passes.
    let alone = |values: &[i64]| !values.is_empty() && values.iter().all(|value| *value == 1);
    warnings.extend(met.iter().filter(|(_, values)| alone(values)).map(|(name, _)| {
        format!(
            "`{name}` is 1 in every problem and small shape, so a kernel that ignores it passes: add a problem with \
             timed = false in which it is 2"
        )
    }));
    warnings.extend(built_in_values(kernel));
    warnings.extend(kernel.buffers().filter_map(resolve::remark));
    if kernel.check.special_values == SpecialValues::AsDefault {
        let untried = "special_values = \"as_default\": NaN, infinite, subnormal and huge inputs are not tried, because \
                       the answers of the default configuration are not taken; \"reference\" compares them with the \
                       reference";
        warnings.push(untried.to_string());
    }
    warnings.extend(shapes.iter().flat_map(|shapes| untested_tails(kernel, configuration, shapes)));
    warnings
}

/// An integer input without a range: gates give it every value of its type, which an index cannot take.
fn open_integers(kernel: &KernelSpec, buffer: &BufferSpec) -> Option<String> {
    let open = matches!(buffer.fill, FillSpec::Fixed(Fill::Unrestricted));
    if !open || !buffer.role.is_read() || buffer.dtype.is_float() {
        return None;
    }
    let (name, dtype) = (&buffer.name, buffer.dtype.as_str());
    let size = kernel.problems.first()?.sizes.keys().next().map_or("N", String::as_str);
    Some(format!(
        "input `{name}` takes every value of {dtype}: add fill = {{ uniform = [0, \"{size}\"] }} if the kernel uses \
         it as an index"
    ))
}

/// Problems whose extents are all equal hide swapped strides: `x[row * M + column]` is right where M equals N.
fn square_problems(kernel: &KernelSpec) -> Option<String> {
    let used: Vec<&ProblemSpec> = kernel.problems.iter().filter(|one| one.timed || one.checked).collect();
    let extents = extents(kernel);
    let is_square = |problem: &&ProblemSpec| {
        let values: Vec<&Value> = extents.iter().filter_map(|name| problem.sizes.get(name)).collect();
        values.windows(2).all(|pair| pair[0] == pair[1])
    };
    if extents.len() < 2 || !used.iter().all(is_square) {
        return None;
    }
    let names = quoted(&extents);
    Some(format!(
        "{names} are equal in every problem, which hides swapped strides: add a problem with timed = false in \
         which they differ"
    ))
}

fn met_values(kernel: &KernelSpec, shapes: Option<&TinyShapes>) -> BTreeMap<String, Vec<i64>> {
    let values = |name: String| {
        let used = kernel.problems.iter().filter(|problem| problem.timed || problem.checked);
        let of_problems = used.filter_map(|problem| whole(problem.sizes.get(&name)?).ok());
        let plans = shapes.iter().flat_map(|shapes| &shapes.plans);
        let all = of_problems.chain(plans.filter_map(|plan| plan.sizes.get(&name).copied())).collect();
        (name, all)
    };
    extents(kernel).into_iter().map(values).collect()
}

/// Extents that are equal in every problem and every small shape: swapped, they give the same answer.
fn equal_extents(met: &BTreeMap<String, Vec<i64>>) -> Vec<String> {
    let mut alike: BTreeMap<&[i64], Vec<&str>> = BTreeMap::new();
    for (name, values) in met.iter().filter(|(_, values)| values.iter().any(|value| *value > 1)) {
        alike.entry(values).or_default().push(name);
    }
    let warn = |names: Vec<&str>| {
        let names = quoted(names);
        format!(
            "{names} are equal to each other in every problem and small shape, which hides that a kernel swaps them: \
             add a problem with timed = false in which they differ"
        )
    };
    alike.into_values().filter(|names| names.len() > 1).map(warn).collect()
}

/// Scalars and constant inputs that never change: a kernel may have their value built in.
fn built_in_values(kernel: &KernelSpec) -> Option<String> {
    let scalar = |argument: &ArgumentSpec| match argument {
        ArgumentSpec::Scalar(scalar) => scalar.value.distinct_names().is_empty().then(|| scalar.name.clone()),
        ArgumentSpec::TensorMap(_) => None,
        ArgumentSpec::Buffer(buffer) => {
            let constant = matches!(buffer.fill, FillSpec::Fixed(Fill::Constant { .. }));
            (constant && buffer.role == Role::Input).then(|| buffer.name.clone())
        }
    };
    let names: Vec<String> = kernel.arguments.iter().filter_map(scalar).collect();
    let (names, verb) = (quoted(&names), if names.len() == 1 { "has" } else { "have" });
    (!names.is_empty()).then(|| {
        format!(
            "{names} {verb} one value in every problem, so a kernel that ignores it passes: make it a size with \
             another value in a problem with timed = false, if that matters"
        )
    })
}

fn extents(kernel: &KernelSpec) -> BTreeSet<String> {
    let shapes = kernel.buffers().flat_map(|buffer| &buffer.shape);
    let names: BTreeSet<String> =
        shapes.flat_map(|extent| extent.distinct_names()).map(ToString::to_string).collect();
    let first = kernel.problems.first();
    names.into_iter().filter(|name| first.is_some_and(|first| first.sizes.contains_key(name))).collect()
}

/// Listed shapes that leave no partial tile, and kernels whose tails nothing checks.
fn untested_tails(kernel: &KernelSpec, configuration: &Configuration, shapes: &TinyShapes) -> Vec<String> {
    if !shapes.absent.is_empty() {
        return vec![shapes.absent.clone()];
    }
    if shapes.derived {
        let warn = |(name, tile): (String, i64)| {
            format!(
                "`{name}` is the same in every problem, so derived shapes keep it, and no partial tile of it (a tile \
                 has {tile}) is checked: add a problem with timed = false and another `{name}` if the kernel supports it"
            )
        };
        return tiny::fixed_tiles(kernel, configuration).into_iter().map(warn).collect();
    }
    let untouched = tiny::untouched_tiles(kernel, configuration, &shapes.plans);
    let warn = |(name, tile): (String, i64)| {
        format!(
            "no shape of `tiny` leaves a partial tile of `{name}` (a tile has {tile}): a wrong tail would pass; add \
             one element to a tile, or leave `tiny` out and evo derives shapes"
        )
    };
    untouched.into_iter().map(warn).collect()
}
