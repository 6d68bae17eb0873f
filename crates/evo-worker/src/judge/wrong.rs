//! From a failed comparison to a verdict that names cause, place and smallest failing case.

use std::collections::{BTreeMap, BTreeSet};

use evo_device::device::{Comparison, GuardDamage};
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::plan::{BufferPlan, ComparedForm};
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use serde_json::{Value, json};

use super::case::Case;
use super::compare::Breach;
use super::element::compared_as;
use super::inputs::Family;
use super::run::{Mismatch, PreparedCase};

/// Beyond this share of the answer an error is no longer a matter of precision.
const GROSS: f64 = 0.3;

const SPECIAL_HINT: &str = "; where such inputs do not matter, say special_values = \"ignore\" under [check]";

/// Up to this share of the answer an error may be what the kernel's own precision costs: angles in f32, atomic sums in
/// halves.
fn small(dtype: &str) -> f64 {
    match dtype {
        "f16" => 2e-2,
        "bf16" => 1e-1,
        _ => 1e-3,
    }
}

const PRECISION_HINT: &str =
    "; if the kernel means to be no more accurate than this, say so by atol or rtol under [check]";

#[derive(Clone, Debug)]
pub struct CaseResult {
    pub name: String,
    pub sizes: BTreeMap<String, i64>,
    pub family: Family,
    pub elements: u64,
    pub failure: Option<Verdict>,
}

impl CaseResult {
    pub fn of(case: &Case, failure: Option<Verdict>) -> CaseResult {
        CaseResult {
            name: case.name(),
            sizes: case.plan.sizes.clone(),
            family: case.family,
            elements: case.elements(),
            failure,
        }
    }
}

/// Elements of the largest case at which a candidate has met the range of its data type; 0 for none.
pub fn explored(history: &[CaseResult]) -> u64 {
    let met = history.iter().filter(|result| result.family.explores_range());
    met.map(|result| result.elements).max().unwrap_or(0)
}

pub fn about(verdict: Verdict, case: &Case) -> Verdict {
    let mut verdict = verdict
        .with("case", case.name())
        .with("problem", case.plan.name.clone())
        .with("sizes", json!(case.plan.sizes))
        .with("seed_index", case.seed_index)
        .with("family", case.family.as_str());
    verdict.message = format!("{} (case `{}`)", verdict.message, case.name());
    verdict
}

/// JSON has no NaN.
pub fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

pub fn mismatch(prepared: &PreparedCase, Mismatch { output, breach }: &Mismatch) -> Verdict {
    let plan = &prepared.case.plan.buffers[output.position];
    let comparison = &output.comparison;
    let relative = comparison.relative_norm();
    let gross = relative.is_nan() || relative > GROSS;
    let cause = match breach {
        Breach::Special => Cause::SpecialValues,
        _ if prepared.case.family.is_special() => Cause::SpecialValues,
        Breach::NonFinite => Cause::NanInf,
        Breach::Bias => Cause::Bias,
        Breach::Insensitive => Cause::Constant,
        _ if gross => Cause::Value,
        _ => Cause::Precision,
    };
    let mut verdict = Verdict::new(VerdictKind::WrongAnswer, "")
        .with_cause(cause)
        .with("buffer", plan.name.clone())
        .with("dtype", plan.dtype.as_str())
        .with("rule", breach.describe())
        .with("elements", comparison.elements)
        .with("mismatches", comparison.mismatches)
        .with("non_finite", comparison.non_finite)
        .with("abs_error_max", number(comparison.abs_error_max))
        .with("abs_error_max_at", json!(plan.compared_at(comparison.abs_error_max_index)))
        .with("relative_norm", number(relative))
        .with("error_mean", number(comparison.error_sum / comparison.elements.max(1) as f64))
        .with("error_slope", number(comparison.error_dot_sum / comparison.expected_square_sum))
        .with("magnitude", prepared.set.magnitude);
    if let Some(target) = prepared.target(output.position) {
        verdict = verdict
            .with("bound_atol", number(target.bounds.tolerance.atol))
            .with("bound_rtol", number(target.bounds.tolerance.rtol))
            .with("bound_norm", number(target.bounds.norm))
            .with("bound_max", target.bounds.max.map_or(Value::Null, number))
            .with("expected_rms", number(target.rms));
    }
    if let Some(block) = output.block {
        verdict = verdict.with("worst_row", block.index).with("worst_row_error", number(block.ratio));
    }
    let (mut verdict, place) = first_bad(verdict, plan, comparison);
    let largest = shown(plan, comparison.abs_error_max);
    let what = match (breach, output.block) {
        (Breach::Block, Some(block)) => format!("row {} is farther off than rounding explains", block.index),
        (breach, _) => breach.describe().to_string(),
    };
    let small = plan.dtype.is_float() && relative <= small(plan.dtype.as_str()) && comparison.non_finite == 0;
    let hint = match verdict.has_cause(Cause::SpecialValues) {
        true => SPECIAL_HINT,
        false if small => PRECISION_HINT,
        false => "",
    };
    let form = match plan.view.as_ref().map(|own| own.form) {
        Some(ComparedForm::Sorted) => ", in ascending order",
        Some(ComparedForm::Sum) => ", its sum",
        Some(ComparedForm::Elements) | None => "",
    };
    verdict.message = format!(
        "`{}`{form}: {what}; {} of {} elements, largest error {largest}, error norm {:.3e} of the answer's{place}{hint}",
        plan.name, comparison.mismatches, comparison.elements, relative
    );
    about(verdict, &prepared.case)
}

fn shown(plan: &BufferPlan, value: f64) -> String {
    if plan.dtype.is_float() { format!("{value:.3e}") } else { value.to_string() }
}

fn first_bad(verdict: Verdict, plan: &BufferPlan, comparison: &Comparison) -> (Verdict, String) {
    let Some(index) = comparison.first_bad() else { return (verdict, String::new()) };
    let (got, expected) = (comparison.first_bad_actual, comparison.first_bad_expected);
    // 64-bit integers are compared as pairs of words.
    if compared_as(plan.dtype).bytes() != plan.dtype.bytes() {
        let at = plan.compared_at(index / 2);
        let half = if index.is_multiple_of(2) { "low" } else { "high" };
        let place = format!(", first at {at:?}: its {half} word is `{got}`, expected `{expected}`");
        return (verdict.with("first_bad_index", index / 2).with("first_bad_at", json!(at)), place);
    }
    let at = plan.compared_at(index);
    let place = match plan.dtype.is_float() {
        true => format!(", first at {at:?}: got `{got:.6e}`, expected `{expected:.6e}`"),
        false => format!(", first at {at:?}: got `{got}`, expected `{expected}`"),
    };
    let verdict = verdict
        .with("first_bad_index", index)
        .with("first_bad_at", json!(at))
        .with("actual", number(got))
        .with("expected", number(expected));
    (verdict, place)
}

pub fn unwritten(prepared: &PreparedCase, position: usize, count: u64) -> Verdict {
    let plan = &prepared.case.plan.buffers[position];
    let elements = plan.places_compared().map_or(plan.elements(), |own| own.len() as u64);
    let message = format!("`{}`: {count} of {elements} elements are never written", plan.name);
    let verdict = Verdict::new(VerdictKind::WrongAnswer, message)
        .with_cause(Cause::Unwritten)
        .with("buffer", plan.name.clone())
        .with("unwritten", count)
        .with("elements", elements);
    about(verdict, &prepared.case)
}

pub fn out_of_bounds(damage: &[GuardDamage], case: &Case) -> Option<Verdict> {
    let first = damage.first()?;
    let place = if first.offset < 0 { "before" } else { "behind" };
    let message = format!(
        "wrote {} bytes {place} buffer `{}`, from offset {} on",
        first.bytes_changed, first.buffer, first.offset
    );
    let verdict = Verdict::new(VerdictKind::OobWrite, message)
        .with("buffer", first.buffer.clone())
        .with("offset", first.offset)
        .with("bytes_changed", first.bytes_changed)
        .with("zones", damage.len());
    Some(about(verdict, case))
}

/// The failure with the smallest case. Its cause is widened by what the failing cases share and the
/// passing ones lack: a family, a flag, a ragged size, and at full shapes all that are large.
pub fn classify(results: &[CaseResult], checks: CheckSet, full: bool) -> Option<Verdict> {
    let (failing, passing): (Vec<&CaseResult>, Vec<&CaseResult>) =
        results.iter().partition(|result| result.failure.is_some());
    // The smallest failing case is the easiest one to debug.
    let smallest = failing.iter().min_by_key(|result| result.elements)?;
    let mut verdict = smallest.failure.clone()?;
    let base = verdict.cause.clone().unwrap_or_default();
    verdict = verdict
        .with("failing_cases", json!(failing.iter().map(|result| &result.name).collect::<Vec<_>>()))
        .with("passing_cases", passing.len());
    // Constant output is a finding of its own, whatever the cases share.
    let says_enough = [Cause::Constant, Cause::Bias, Cause::SpecialValues, Cause::Uninitialized];
    let named = says_enough.into_iter().any(|cause| verdict.has_cause(cause))
        || !checks.include(GateCheck::NameSharedCause);
    if verdict.kind == VerdictKind::WrongAnswer && !named && !passing.is_empty() {
        // A ragged size is where the most elements are, not where the fault is, if all that is wrong is rounding.
        let rounding = failing.iter().all(|result| result.failure.as_ref().is_some_and(is_rounding));
        let shared = pattern(&failing, &passing).filter(|(cause, _)| !rounding || cause == "range");
        if let Some((cause, note)) = shared {
            verdict.message = format!("{}; {note}", verdict.message);
            verdict = verdict.with("symptom", base).with_cause(cause);
        }
    }
    if !full || !verdict.has_cause(Cause::Value) || !checks.include(GateCheck::NameLargeSizes) {
        return Some(verdict);
    }
    // Everything small is right and everything large is grossly wrong: the kernel tells sizes apart.
    Some(match passing.iter().map(|result| result.elements).max() {
        Some(right) if right < smallest.elements => {
            verdict.with("symptom", Cause::Value.as_str()).with_cause(Cause::TimedShape)
        }
        _ => verdict,
    })
}

/// Whether a failure is no more than the precision of its type may cost.
fn is_rounding(verdict: &Verdict) -> bool {
    let text = |name: &str| verdict.evidence.get(name).and_then(Value::as_str).unwrap_or_default();
    let relative = verdict.evidence.get("relative_norm").and_then(Value::as_f64);
    verdict.has_cause(Cause::Precision) && relative.is_some_and(|own| own <= small(text("dtype")))
}

fn pattern(failing: &[&CaseResult], passing: &[&CaseResult]) -> Option<(String, String)> {
    if failing.iter().all(|result| result.family != Family::Normal)
        && passing.iter().any(|result| result.family == Family::Normal)
    {
        let families: BTreeSet<&str> = failing.iter().map(|result| result.family.as_str()).collect();
        let list = families.into_iter().collect::<Vec<_>>().join("`, `");
        return Some(("range".into(), format!("only inputs of family `{list}` fail")));
    }
    // The order goes from the sharpest explanation to the weakest: a flag that separates failing from passing
    // cases, then a ragged size, then a flag that the failing cases merely share.
    let flag = flag(failing, passing);
    if let Some((name, value, true)) = &flag {
        return Some((name.to_lowercase(), format!("all cases with {name}={value} fail, and no other")));
    }
    if let Some(name) = ragged(failing, passing) {
        return Some(("tail".into(), format!("only sizes of `{name}` that leave a partial tile fail")));
    }
    let (name, value, _) = flag?;
    Some((name.to_lowercase(), format!("only cases with {name}={value} fail")))
}

/// A size of 0 or 1 that all failing cases share and some passing case does not; whether no passing
/// case has it.
fn flag(failing: &[&CaseResult], passing: &[&CaseResult]) -> Option<(String, i64, bool)> {
    let names = failing.first()?.sizes.keys();
    let candidates = names.filter_map(|name| {
        let value = |result: &&CaseResult| result.sizes.get(name).copied();
        let all = failing.iter().chain(passing).map(value);
        let own = value(failing.first()?)?;
        let is_flag = all.clone().all(|value| matches!(value, Some(0 | 1)));
        let shared = failing.iter().all(|result| value(result) == Some(own));
        let differs = passing.iter().any(|result| value(result) != Some(own));
        let only = passing.iter().all(|result| value(result) != Some(own));
        (is_flag && shared && differs).then(|| (name.clone(), own, only))
    });
    candidates.max_by_key(|(_, _, only)| *only)
}

/// A size that is ragged in every failing case and even in all passing ones. Tiles are powers of two
/// or multiples of large ones: the largest power of two (at most 16) in any of the size's values is
/// taken for the tile.
fn ragged(failing: &[&CaseResult], passing: &[&CaseResult]) -> Option<String> {
    let names = failing.first()?.sizes.keys();
    let mut found = names.filter(|name| {
        let value = |result: &&CaseResult| result.sizes.get(*name).copied().unwrap_or(0);
        let all: Vec<i64> = failing.iter().chain(passing).map(value).collect();
        let power = all.iter().map(|value| value.trailing_zeros().min(4)).max().unwrap_or(0);
        let tile = 1i64 << power;
        tile >= 4
            && failing.iter().all(|result| value(result) % tile != 0)
            && passing.iter().any(|result| value(result) > 0 && value(result) % tile == 0)
    });
    found.next().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(sizes: &[(&str, i64)], family: Family, cause: Option<&str>) -> CaseResult {
        let failure = cause.map(|cause| Verdict::new(VerdictKind::WrongAnswer, "bad").with_cause(cause));
        CaseResult {
            name: format!("{sizes:?} {family:?}"),
            sizes: sizes.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
            family,
            elements: sizes.iter().map(|(_, value)| *value as u64).sum(),
            failure,
        }
    }

    fn cause(cases: &[(i64, i64, Family, Option<&str>)]) -> Option<String> {
        let results: Vec<CaseResult> = cases
            .iter()
            .map(|(s, causal, family, failed)| result(&[("CAUSAL", *causal), ("S", *s)], *family, *failed))
            .collect();
        classify(&results, CheckSet::default(), false).map(|verdict| verdict.cause.unwrap())
    }

    #[test]
    fn causes_name_what_failing_cases_share() {
        use Family::{Large, Normal};
        let bad = Some("value");
        assert_eq!(cause(&[(32, 0, Normal, None)]), None);
        assert_eq!(cause(&[(32, 0, Normal, bad)]).unwrap(), "value");
        assert_eq!(cause(&[(32, 0, Normal, None), (32, 0, Large, Some("nan_inf"))]).unwrap(), "range");
        let causal =
            [(32, 0, Normal, None), (33, 0, Normal, None), (32, 1, Normal, bad), (33, 1, Normal, bad)];
        assert_eq!(cause(&causal).unwrap(), "causal");
        let tail = [
            (32, 0, Normal, None),
            (33, 0, Normal, Some("unwritten")),
            (32, 1, Normal, None),
            (33, 1, Normal, Some("unwritten")),
        ];
        assert_eq!(cause(&tail).unwrap(), "tail");
        let both = [(32, 0, Normal, bad), (33, 0, Normal, bad), (32, 1, Normal, bad)];
        assert_eq!(cause(&both).unwrap(), "value");
        let partial = [(32, 0, Normal, None), (32, 1, Normal, bad), (64, 1, Normal, None)];
        assert_eq!(cause(&partial).unwrap(), "causal");
    }

    #[test]
    fn what_is_off_by_rounding_has_no_tail() {
        let of = |norm: f64| {
            let mut bad = result(&[("S", 33)], Family::Normal, Some("precision"));
            bad.failure = bad.failure.map(|own| own.with("relative_norm", norm).with("dtype", "f16"));
            let results = [result(&[("S", 32)], Family::Normal, None), bad];
            classify(&results, CheckSet::default(), false).unwrap().cause.unwrap()
        };
        assert_eq!((of(1e-2).as_str(), of(0.2).as_str()), ("precision", "tail"));
    }

    #[test]
    fn the_smallest_failing_case_is_shown() {
        let results = [
            result(&[("S", 64)], Family::Normal, Some("value")),
            result(&[("S", 32)], Family::Normal, Some("precision")),
        ];
        let verdict = classify(&results, CheckSet::default(), false).unwrap();
        assert_eq!(verdict.cause.as_deref(), Some("precision"));
        assert_eq!(verdict.evidence.get("failing_cases").unwrap().as_array().unwrap().len(), 2);
    }
}
