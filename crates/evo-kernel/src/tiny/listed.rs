//! Shapes that the file lists.
//!
//! Each entry of `check.tiny` overrides sizes of the first problem, with expressions over the
//! parameters and that problem's sizes (`S = "BLOCK_M + 1"`). Rules:
//! - an override that reads names and comes out below 1 drops its shape (`"BLOCK_M - 16"` has no
//!   meaning at `BLOCK_M = 16`); a plain number is taken as written (`CAUSAL = 0`);
//! - two entries with the same sizes are one shape.

use std::collections::BTreeMap;

use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::Verdict;
use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use evo_space::value::Value;

use crate::resolve::{self, Names, Resolver};
use crate::spec::{KernelSpec, ProblemSpec};

/// The plans of all listed shapes, each once.
pub fn resolve(
    kernel: &KernelSpec,
    list: &[BTreeMap<String, Expr>],
    configuration: &Configuration,
) -> Result<Vec<ProblemPlan>, Box<Verdict>> {
    let Some(first) = kernel.problems.first() else { return Ok(Vec::new()) };
    let mut plans: Vec<ProblemPlan> = Vec::new();
    for overrides in list {
        let Some(shape) = shape(first, configuration, overrides)? else { continue };
        let plan = resolve::resolve(kernel, configuration, &shape)?;
        if !plans.iter().any(|other| other.sizes == plan.sizes) {
            plans.push(plan);
        }
    }
    Ok(plans)
}

/// The first problem with sizes overridden; `None` where a computed size is below 1.
fn shape(
    first: &ProblemSpec,
    configuration: &Configuration,
    overrides: &BTreeMap<String, Expr>,
) -> Result<Option<ProblemSpec>, Box<Verdict>> {
    let resolver = Resolver { names: Names::new(configuration, &first.sizes), problem: &first.name };
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
    let name = format!("tiny:{}", changes.join(","));
    Ok(Some(ProblemSpec {
        name,
        sizes,
        weight: 1.0,
        timed: false,
        canonical: false,
        checked: true,
        device: None,
        on_request: false,
    }))
}
