//! What a device's limits exclude, as constraints of the space.
//!
//! A launch plan is checked for each configuration (`launch`). Where its expressions read parameters and sizes alone, the
//! same limits can be said of the whole space: then the points that the device cannot launch are not counted or drawn.

use std::collections::BTreeMap;

use evo_protocol::device::DeviceLimits;
use evo_space::constraint::Constraint;
use evo_space::expr::Expr;
use evo_space::parameter::Parameter;
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use crate::spec::{KernelSpec, LaunchSpec, ProblemSpec};

/// The space without the points that a device of a kind (`cuda`, `host`) with these limits cannot launch, as far as
/// expressions tell.
pub fn within(space: &SearchSpace, kernel: &KernelSpec, kind: &str, limits: &DeviceLimits) -> SearchSpace {
    let mut all = space.constraints().to_vec();
    all.extend(constraints(space.parameters(), kernel, kind, limits));
    SearchSpace::new(space.parameters().to_vec(), all)
}

/// The limits as constraints, each once.
fn constraints(
    parameters: &[Parameter],
    kernel: &KernelSpec,
    kind: &str,
    limits: &DeviceLimits,
) -> Vec<Constraint> {
    let runs = |own: &&ProblemSpec| own.device.as_deref().is_none_or(|device| device == kind);
    let mut found: BTreeMap<String, Constraint> = BTreeMap::new();
    for problem in kernel.problems.iter().filter(runs) {
        for launch in &kernel.launches {
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

/// Conditions of one launch at one problem, and why.
fn conditions(launch: &LaunchSpec, problem: &ProblemSpec, limits: &DeviceLimits) -> Vec<(String, String)> {
    let text = |expr: &Expr| with_sizes(expr, problem);
    let product = |all: &[Expr]| all.iter().map(&text).collect::<Vec<_>>().join(" * ");
    let of = |what: &str| format!("the device's limit on {what}, in launch `{}`", launch.entry);
    let mut found = vec![(
        format!("{} <= {}", product(&launch.block), limits.threads_per_block),
        of("threads of a block"),
    )];
    for (axis, (extent, most)) in launch.block.iter().zip(limits.block).enumerate() {
        if u64::from(most) < u64::from(limits.threads_per_block) {
            found.push((
                format!("{} <= {most}", text(extent)),
                of(&format!("threads in {}", ["x", "y", "z"][axis])),
            ));
        }
    }
    if let Some(bytes) = &launch.shared_bytes {
        found.push((
            format!("{} <= {}", text(bytes), limits.shared_optin_bytes),
            of("shared memory of a block"),
        ));
    }
    if let Some(cluster) = &launch.cluster {
        found.push((format!("{} <= {}", product(cluster), limits.cluster), of("blocks of a cluster")));
    }
    let Some(when) = &launch.when else { return found };
    let guarded = |(condition, because)| (format!("not {} or {condition}", text(when)), because);
    found.into_iter().map(guarded).collect()
}

/// An expression with the sizes of a problem in the place of their names, in parentheses.
fn with_sizes(expr: &Expr, problem: &ProblemSpec) -> String {
    let mut text = expr.text().to_string();
    // From the end, so that the places before stay where they are.
    let mut names = expr.names();
    names.sort_by_key(|(_, span)| std::cmp::Reverse(span.start));
    for (name, span) in names {
        if let Some(value) = problem.sizes.get(&*name) {
            let literal = match value {
                Value::Bool(value) => i64::from(*value).to_string(),
                other => other.to_string(),
            };
            text.replace_range(span, &literal);
        }
    }
    format!("({text})")
}
