//! Remarks on a space file that is valid and checks less than its author may think.

use std::collections::BTreeSet;

use evo_protocol::plan::{Fill, Role};
use evo_space::genome::Configuration;
use evo_space::value::Value;

use super::spec::{ArgumentSpec, BufferSpec, FillSpec, KernelSpec, ProblemSpec};
use super::tiny;

/// Every remark, in the order of the file's sections. `configuration` is the default one.
pub fn warnings(kernel: &KernelSpec, configuration: &Configuration) -> Vec<String> {
    let mut warnings: Vec<String> =
        buffers(kernel).filter_map(|buffer| open_integers(kernel, buffer)).collect();
    warnings.extend(square_problems(kernel));
    warnings.extend(untested_tails(kernel, configuration));
    warnings
}

/// An integer input without a range: gates give it every value of its type, which an index cannot take.
fn open_integers(kernel: &KernelSpec, buffer: &BufferSpec) -> Option<String> {
    let open = matches!(buffer.fill, FillSpec::Fixed(Fill::Unrestricted));
    let input = matches!(buffer.role, Role::Input | Role::Inout);
    if !open || !input || buffer.dtype.is_float() {
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
    if extents.len() < 2 || used.iter().any(|problem| !is_square(problem, &extents)) {
        return None;
    }
    let names: Vec<String> = extents.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    Some(format!(
        "{names} are equal in every problem, which hides swapped strides: add a problem with timed = false in \
         which they differ"
    ))
}

/// Sizes that are extents of more than one element in some problem, by name.
fn extents(kernel: &KernelSpec) -> BTreeSet<String> {
    let shapes = buffers(kernel).flat_map(|buffer| &buffer.shape);
    let names: BTreeSet<String> =
        shapes.flat_map(|extent| extent.distinct_names()).map(ToString::to_string).collect();
    let first = kernel.problems.first();
    names.into_iter().filter(|name| first.is_some_and(|first| first.sizes.contains_key(name))).collect()
}

fn is_square(problem: &ProblemSpec, extents: &BTreeSet<String>) -> bool {
    let values: Vec<&Value> = extents.iter().filter_map(|name| problem.sizes.get(name)).collect();
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Listed shapes that leave no partial tile, and kernels whose tails nothing checks.
fn untested_tails(kernel: &KernelSpec, configuration: &Configuration) -> Vec<String> {
    let Ok(shapes) = tiny::shapes(kernel, configuration, &|_| true) else { return Vec::new() };
    if !shapes.absent.is_empty() {
        return vec![shapes.absent];
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

fn buffers(kernel: &KernelSpec) -> impl Iterator<Item = &BufferSpec> {
    kernel.arguments.iter().filter_map(|argument| match argument {
        ArgumentSpec::Buffer(buffer) => Some(buffer),
        ArgumentSpec::Scalar(_) => None,
    })
}
