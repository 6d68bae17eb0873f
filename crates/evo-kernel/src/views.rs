//! What of an output is compared, with its numbers known.

use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_protocol::view::{AxisRange, ComparedForm, OutputView};
use evo_space::expr::Expr;

use crate::spec::{BufferSpec, RangeSpec};

/// What an expression at a place comes to.
type Integer<'a> = dyn Fn(&Expr, &str) -> Result<i64, Box<Verdict>> + 'a;

/// The view of a buffer with these extents.
///
/// # Errors
/// A range that leaves the output, or one without elements in an output that has some: nothing would be compared.
pub(crate) fn resolve(
    buffer: &BufferSpec,
    shape: &[u64],
    problem: &str,
    integer: &Integer<'_>,
) -> Result<Option<OutputView>, Box<Verdict>> {
    let Some(view) = &buffer.view else { return Ok(None) };
    let refuse = |what: String| {
        let verdict = Verdict::new(VerdictKind::StaticReject, format!("{what}, in problem `{problem}`"));
        let verdict = verdict.with_cause("region").with("check_of", buffer.name.clone());
        Box::new(verdict.with("problem", problem))
    };
    let mut region = Vec::new();
    for (axis, extent) in shape.iter().enumerate() {
        let place = format!("region[{axis}] of `check` of argument `{}`", buffer.name);
        region.push(match view.region.as_ref().and_then(|own| own.get(axis)) {
            Some(spec) => range(spec, (*extent, &place), integer, &refuse)?,
            None => AxisRange::all(*extent),
        });
    }
    Ok(Some(OutputView { region, form: view.form, axis: view.axis }))
}

fn range(
    spec: &RangeSpec,
    (extent, place): (u64, &str),
    integer: &Integer<'_>,
    refuse: &dyn Fn(String) -> Box<Verdict>,
) -> Result<AxisRange, Box<Verdict>> {
    let value = |expr: &Option<Expr>, absent: i64| match expr {
        Some(expr) => integer(expr, place),
        None => Ok(absent),
    };
    let extent = extent as i64;
    let (first, stop, step) = (value(&spec.first, 0)?, value(&spec.stop, extent)?, value(&spec.step, 1)?);
    if step < 1 {
        return Err(refuse(format!("{place} has the step {step}, expected 1 or more")));
    }
    if first < 0 || stop > extent {
        return Err(refuse(format!("{place} is {first}:{stop}, and the extent is {extent}")));
    }
    let count = (stop - first).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
    if count == 0 && extent > 0 {
        let what = format!("{place} is {first}:{stop}, which is empty: nothing would be compared");
        return Err(refuse(what));
    }
    Ok(AxisRange { first: first as u64, count, step: step as u64 })
}

/// A remark for each output that is not compared in full, in the words of the file.
pub(crate) fn remark(buffer: &BufferSpec) -> Option<String> {
    let view = buffer.view.as_ref()?;
    let part = |own: &Option<Expr>| own.as_ref().map_or("", |own| own.text()).to_string();
    let slice = |own: &RangeSpec| {
        let (first, stop, step) = (part(&own.first), part(&own.stop), part(&own.step));
        if step.is_empty() { format!("{first}:{stop}") } else { format!("{first}:{stop}:{step}") }
    };
    let region = view.region.as_ref().map(|own| own.iter().map(slice).collect::<Vec<_>>().join(", "));
    let axis = view.axis.map_or(String::new(), |axis| format!(" along axis {axis}"));
    let form = match view.form {
        ComparedForm::Elements => None,
        ComparedForm::Sorted => {
            Some(format!("in ascending order{axis}: which place holds which element is not checked"))
        }
        ComparedForm::Sum => Some(format!("by its sum{axis}: its elements are not checked")),
    };
    let name = &buffer.name;
    Some(match (region, form) {
        (Some(region), None) => {
            format!("`{name}` is compared in [{region}] alone: its other elements are not checked")
        }
        (None, Some(form)) => format!("`{name}` is compared {form}"),
        (Some(region), Some(form)) => format!("`{name}` is compared in [{region}] alone, {form}"),
        (None, None) => return None,
    })
}
