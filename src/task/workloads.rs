//! Workloads, one a line: sizes of the variable axes, and where inputs come from.

use std::collections::BTreeSet;

use evo_kernel::foreign::{ForeignError, ForeignNode, Read, parsed, shown};
use evo_protocol::worker::TaskTolerance;
use evo_space::expr::Expr;
use evo_space::value::Value;

use super::definition::whole;
use super::model::{BenchmarkTask, TaskAxisKind, TaskWorkload, label, scalar};

/// Most of a task.
const WORKLOADS_MAX: usize = 500;

const HINT: &str = "a line is { \"workload\": { \"uuid\": \"…\", \"axes\": { \"M\": 16 }, \"inputs\": { \"A\": { \"type\": \"random\" } } } }";

/// Gives the task the workloads of a file with one object a line; with names in `only`, those of these names.
pub fn workloads(mut task: BenchmarkTask, text: &str, only: &[String]) -> Read<BenchmarkTask> {
    let (mut seen, mut rules) = (BTreeSet::new(), Vec::new());
    let mut names = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let lead = format!("line {}", number + 1);
        let value = parsed(line, &lead, "name the task's own file")?;
        let root = ForeignNode::root(&value, &lead, HINT, None);
        let other = root.find("definition").and_then(|own| own.value.as_str());
        if other.is_some_and(|own| label(own, "") != task.name) {
            continue;
        }
        let node = root.find("workload").unwrap_or(root);
        let uuid = node.need("uuid")?.text()?.to_string();
        names.push(shown(&uuid));
        // Traces of several solutions repeat their workload.
        if !only.is_empty() && !only.contains(&uuid) || !seen.insert(uuid.clone()) {
            continue;
        }
        rules.extend(tolerance(&node, task.form.tolerance())?);
        let own = workload(&task, &node, &uuid)?;
        task.workloads.push(own);
        if task.workloads.len() > WORKLOADS_MAX {
            let what = format!("the task has more than {WORKLOADS_MAX} workloads");
            return Err(ForeignError::new(lead, what, "choose some with `--workload UUID`"));
        }
    }
    if task.workloads.is_empty() {
        names.truncate(8);
        let hint = match names.is_empty() {
            true => HINT.to_string(),
            false => format!("there are {}", names.join(", ")),
        };
        return Err(ForeignError::new("the workloads", format!("none is of `{}`", task.name), hint));
    }
    distinct(&mut task.workloads);
    // One rule for all problems: the strictest.
    if let Some(strictest) = rules.into_iter().reduce(|one, other| TaskTolerance {
        atol: one.atol.min(other.atol),
        rtol: one.rtol.min(other.rtol),
        matched: one.matched.max(other.matched),
    }) {
        task.tolerance = strictest;
    }
    Ok(task)
}

/// Names that were made plain may have become the same.
fn distinct(all: &mut [TaskWorkload]) {
    let mut seen = BTreeSet::new();
    for (at, own) in all.iter_mut().enumerate() {
        if !seen.insert(own.name.clone()) {
            own.name = format!("workload_{}", at + 1);
            seen.insert(own.name.clone());
        }
    }
}

fn tolerance(node: &ForeignNode<'_>, usual: TaskTolerance) -> Read<Option<TaskTolerance>> {
    let Some(own) = node.find("tolerance") else { return Ok(None) };
    let number = |keys: [&str; 2], absent: f64| {
        let node = keys.iter().find_map(|key| own.find(key));
        node.map_or(Ok(absent), |node| match node.number()? {
            value if value >= 0.0 => Ok(value),
            _ => Err(node.wrong("it is below 0")),
        })
    };
    let matched = number(["required_matched_ratio", "matched_ratio"], usual.matched)?;
    if matched > 1.0 {
        return Err(own.wrong("its matched ratio is above 1"));
    }
    let (atol, rtol) = (number(["max_atol", "atol"], usual.atol)?, number(["max_rtol", "rtol"], usual.rtol)?);
    Ok(Some(TaskTolerance { atol, rtol, matched }))
}

fn workload(task: &BenchmarkTask, node: &ForeignNode<'_>, uuid: &str) -> Read<TaskWorkload> {
    let given = node.need("axes")?;
    given.entries()?;
    let mut axes = Vec::new();
    for axis in task.variable() {
        axes.push(given.need_or(&axis.name, "a workload gives every variable axis its value")?.extent()?);
    }
    let inputs = node.need("inputs")?;
    if let Some((name, own)) =
        inputs.entries()?.iter().find(|(name, _)| task.inputs.iter().all(|own| own.name != *name))
    {
        let what = format!("the definition has no input `{}`", shown(name));
        return Err(ForeignError::new(&own.place, what, "a workload describes the inputs of its definition"));
    }
    let mut scalars = Vec::new();
    for input in &task.inputs {
        let own = inputs.need(&input.name)?;
        let kind = own.need("type")?;
        match (kind.text()?, input.shape.is_some()) {
            ("random", true) => {}
            ("scalar", false) => scalars.push(scalar(&own.need("value")?)?),
            ("random", false) => {
                return Err(kind.unsupported("a random number for a scalar", "give it a value"));
            }
            ("safetensors", _) => {
                let hint = "evo fills inputs itself: make the input `random`, or add `fill = { npy = … }` to a space \
                            file of your own";
                return Err(kind.unsupported("an input from a safetensors file", hint));
            }
            ("custom", _) => {
                let hint = "evo fills inputs itself, for every shape and family that its gates ask about";
                return Err(kind.unsupported("an input that a function of the task makes", hint));
            }
            (other, _) => {
                let what = format!("the input `{}` for `{}`", shown(other), shown(&input.name));
                return Err(kind.unsupported(&what, "tensors are `random`, numbers are `scalar`"));
            }
        }
    }
    fits(task, &axes, &node.place)?;
    Ok(TaskWorkload { name: label(uuid, "workload"), axes, scalars })
}

/// Whether every extent of every tensor is a whole number at these sizes.
fn fits(task: &BenchmarkTask, axes: &[u64], place: &str) -> Read<()> {
    let size = |name: &str| {
        let at = task.variable().position(|own| own.label == name)?;
        Some(Value::Int(i64::try_from(*axes.get(at)?).ok()?))
    };
    let of_axes = task.axes.iter().filter_map(|axis| match &axis.kind {
        TaskAxisKind::Expr(text) => Some(text),
        _ => None,
    });
    for text in task.tensors().filter_map(|tensor| tensor.shape.as_ref()).flatten().chain(of_axes) {
        let value = Expr::parse(text).and_then(|expr| expr.evaluate(&size));
        if value.ok().as_ref().and_then(whole).is_none() {
            let what = format!("the extent `{}` is not a whole number from 0 there", shown(text));
            return Err(ForeignError::new(place, what, "give the axes values that fit"));
        }
    }
    Ok(())
}
