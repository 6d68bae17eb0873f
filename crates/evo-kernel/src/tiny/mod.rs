//! Small shapes at which every variant is checked: where off-by-one errors live.
//!
//! A file may list them, and where it does not, evo derives them from the sizes that the kernel is told and the tiles that
//! divide them (`derived`). A kernel that supports only the sizes of its problems says so.

use std::collections::BTreeMap;

use evo_protocol::binary::Specialization;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::Verdict;
use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use evo_space::value::Value;

use crate::resolve::{self, Resolver};
use crate::spec::{KernelSpec, ProblemSpec, ReferenceSpec, TinySpec};

use derived::Derivation;

pub use crate::tiny::derived::{drawn_shapes, fixed_tiles, near_shapes, untouched_tiles};
pub use crate::tiny::filling::{FilledDevice, FillingProblem, blocks, filling_problem};

mod assemble;
mod derived;
mod drawn;
mod filling;
mod roles;

pub const DERIVED_HINT: &str = "evo derived this shape from the kernel's sizes and tiles; if the kernel supports only some sizes, say \
     `multiple_of = { N = \"BLOCK\" }` or `tiny = \"none\"` in `[check]`";

/// The plans of the tiny shapes, named `tiny:S=33,CAUSAL=1` by what they change.
#[derive(Clone, Debug, Default)]
pub struct TinyShapes {
    pub plans: Vec<ProblemPlan>,
    /// Shapes of several tiles, for contenders. evo derives them or there are none.
    pub several: Vec<ProblemPlan>,
    /// Whether evo derived them, or tried to. A variant is never refused because such a shape cannot be launched.
    pub derived: bool,
    /// Why there are none; empty where there are.
    pub absent: String,
}

/// The tiny shapes of a configuration; `fits` says whether the device can take a plan. Derived shapes that
/// do not resolve or fit are left out; a listed one that does not resolve refuses the variant. Shapes are derived for
/// each of the sets of `constants`, so that every binary meets some.
pub fn shapes(
    kernel: &KernelSpec,
    configuration: &Configuration,
    constants: &[Specialization],
    fits: &dyn Fn(&ProblemPlan) -> bool,
) -> Result<TinyShapes, Box<Verdict>> {
    match &kernel.check.tiny {
        TinySpec::None => Ok(absent("the file says that only the sizes of its problems are supported")),
        TinySpec::Listed(list) => {
            let plans = resolve_listed(kernel, list, configuration)?;
            if plans.is_empty() {
                return Ok(absent("no shape of `tiny` has sizes of at least 1 here"));
            }
            Ok(TinyShapes { plans, ..TinyShapes::default() })
        }
        TinySpec::Derived => {
            let derivations = Derivation::all(kernel, configuration, constants, fits);
            match derived::derive(&derivations) {
                Ok(plans) => {
                    let mut several = derived::several_tiles(&derivations);
                    several.retain(|plan| !plans.iter().any(|other| other.sizes == plan.sizes));
                    Ok(TinyShapes { plans, several, derived: true, absent: String::new() })
                }
                // Files of answers are made for the sizes that the task has, and so say which these are.
                Err(why) => Ok(TinyShapes {
                    derived: !matches!(kernel.check.reference, ReferenceSpec::Npy { .. }),
                    ..absent(&format!("no shape can be derived: {why}"))
                }),
            }
        }
    }
}

fn absent(why: &str) -> TinyShapes {
    TinyShapes { absent: format!("{why}; tails not checked"), ..TinyShapes::default() }
}

pub fn resolve_listed(
    kernel: &KernelSpec,
    list: &[BTreeMap<String, Expr>],
    configuration: &Configuration,
) -> Result<Vec<ProblemPlan>, Box<Verdict>> {
    let Some(first) = kernel.problems.first() else { return Ok(Vec::new()) };
    let mut plans: Vec<ProblemPlan> = Vec::new();
    for overrides in list {
        let Some(shape) = listed_shape(first, configuration, overrides)? else { continue };
        let plan = resolve::resolve(kernel, configuration, &shape)?;
        if !plans.iter().any(|other| other.sizes == plan.sizes) {
            plans.push(plan);
        }
    }
    Ok(plans)
}

fn listed_shape(
    first: &ProblemSpec,
    configuration: &Configuration,
    overrides: &BTreeMap<String, Expr>,
) -> Result<Option<ProblemSpec>, Box<Verdict>> {
    let resolver = Resolver::of(configuration, first);
    let mut sizes = first.sizes.clone();
    let mut changes = Vec::new();
    for (name, expr) in overrides {
        let value = resolver.integer(expr, &format!("tiny size `{name}`"))?;
        if value < 1 && !expr.names().is_empty() {
            return Ok(None);
        }
        changes.push(format!("{name}={value}"));
        sizes.insert(name.clone(), Value::Int(value));
    }
    Ok(Some(ProblemSpec::small(format!("tiny:{}", changes.join(",")), sizes)))
}
