//! The plain parity that people know: largest errors, and `allclose` at two tolerances. It decides nothing
//! (`docs/design/gates.md` says why a fixed tolerance tests little); it is reported so that numbers can be compared with
//! those of other tools. A file that comes from another benchmark's task may state that task's own rule, whose verdict
//! stands beside them. Both devices read outputs and answers back, so the numbers are the same arithmetic on both.

use evo_device::device::Device;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::verdict::GateReport;
use evo_protocol::worker::TaskTolerance;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::element;
use super::expected::compared_as;
use super::run::PreparedCase;

/// Outputs with more elements than this in all are not read back: half a gigabyte of answers.
const ELEMENTS_MAX: u64 = 1 << 26;

/// Elements that one thread looks at in a row.
const CHUNK: usize = 1 << 16;

/// `atol` and `rtol` of each `allclose`.
const TOLERANCES: [(&str, f64); 2] = [("allclose_1e-3", 1e-3), ("allclose_1e-2", 1e-2)];

/// The numbers of a case whose outputs are still on the device, as evidence of the gate.
pub fn of(
    device: &mut dyn Device,
    prepared: &PreparedCase,
    task: Option<TaskTolerance>,
) -> Result<Value, DeviceError> {
    let targets = prepared.targets();
    let elements: u64 = targets.iter().map(|(plan, ..)| plan.compared_elements()).sum();
    if elements > ELEMENTS_MAX {
        return Ok(unknown(&format!("the outputs have more than {ELEMENTS_MAX} elements")));
    }
    if targets.iter().any(|(plan, ..)| compared_as(plan.dtype) != plan.dtype) {
        return Ok(unknown("an output has 64-bit integers, which are compared bit by bit"));
    }
    // Without a rule of the task's, what lies outside of it is never asked.
    let mut seen = PlainErrors::default();
    let rule = task.unwrap_or(TaskTolerance { atol: 0.0, rtol: 0.0, matched: 1.0 });
    for (plan, own, expected) in targets {
        let actual = prepared.compared(device, own)?;
        let expected = element::widen(&device.read(expected)?, DType::F64);
        let count = usize::try_from(plan.compared_elements()).unwrap_or(usize::MAX);
        let pairs = actual.par_chunks(CHUNK).zip(expected.par_chunks(CHUNK)).enumerate();
        // Largest values and counts: the same in any order.
        let own = pairs.map(|(number, (own, right))| {
            let count = count.saturating_sub(number * CHUNK);
            own.iter()
                .zip(right)
                .take(count)
                .fold(PlainErrors::default(), |seen, (own, right)| seen.with(*own, *right, rule))
        });
        seen = seen.and(&own.reduce(PlainErrors::default, |one, other| one.and(&other)));
    }
    Ok(seen.told(task))
}

fn unknown(why: &str) -> Value {
    let mut told = Map::new();
    for name in GateReport::PARITY_NUMBERS {
        told.insert(name.to_string(), Value::Null);
        told.insert(format!("{name}{}", GateReport::PARITY_REASON), why.into());
    }
    Value::Object(told)
}

/// The errors of all outputs of a case.
#[derive(Clone, Debug, Default)]
struct PlainErrors {
    elements: u64,
    abs_max: f64,
    /// Over elements whose answer is not zero; absent where there is none.
    rel_max: Option<f64>,
    /// Elements without a finite error, such as a NaN.
    not_finite: u64,
    /// Elements outside each tolerance.
    outside: [u64; 2],
    /// Elements outside of the task's own rule.
    outside_task: u64,
}

impl PlainErrors {
    fn with(mut self, actual: f64, expected: f64, rule: TaskTolerance) -> PlainErrors {
        self.add(actual, expected, rule);
        self
    }

    fn and(mut self, other: &PlainErrors) -> PlainErrors {
        self.elements += other.elements;
        self.abs_max = self.abs_max.max(other.abs_max);
        self.rel_max = self.rel_max.into_iter().chain(other.rel_max).reduce(f64::max);
        self.not_finite += other.not_finite;
        self.outside_task += other.outside_task;
        self.outside.iter_mut().zip(other.outside).for_each(|(own, other)| *own += other);
        self
    }

    fn add(&mut self, actual: f64, expected: f64, rule: TaskTolerance) {
        self.elements += 1;
        let error = (actual - expected).abs();
        // Equal infinities have no finite difference, and are equal.
        let same = actual == expected;
        for (outside, (_, tolerance)) in self.outside.iter_mut().zip(TOLERANCES) {
            let inside = same || error <= tolerance + tolerance * expected.abs();
            *outside += u64::from(!inside);
        }
        let both_nan = actual.is_nan() && expected.is_nan();
        let inside = same || both_nan || error <= rule.atol + rule.rtol * expected.abs();
        self.outside_task += u64::from(!inside);
        if same && !error.is_finite() {
            return;
        }
        if !error.is_finite() {
            self.not_finite += 1;
            return;
        }
        self.abs_max = self.abs_max.max(error);
        let relative = error / expected.abs();
        if relative.is_finite() {
            self.rel_max = Some(self.rel_max.unwrap_or(0.0).max(relative));
        }
    }

    fn told(&self, task: Option<TaskTolerance>) -> Value {
        let broken = match (self.elements, self.not_finite) {
            (0, _) => Some("the outputs have no elements"),
            (_, 0) => None,
            _ => Some("an element is NaN or infinite where its answer is finite"),
        };
        let mut told = Map::new();
        let mut tell = |name: &str, value: Option<Value>, why: &str| {
            if value.is_none() {
                told.insert(format!("{name}{}", GateReport::PARITY_REASON), why.into());
            }
            told.insert(name.to_string(), value.unwrap_or_default());
        };
        let abs_max = broken.is_none().then(|| self.abs_max.into());
        tell("max_abs_error", abs_max, broken.unwrap_or_default());
        let rel_max = self.rel_max.filter(|_| broken.is_none()).map(Value::from);
        tell("max_rel_error", rel_max, broken.unwrap_or("every answer is zero"));
        for ((name, _), outside) in TOLERANCES.iter().zip(self.outside) {
            let close = (self.elements > 0).then(|| Value::from(outside == 0));
            tell(name, close, "the outputs have no elements");
        }
        if let Some(rule) = task.filter(|_| self.elements > 0) {
            let matched = (self.elements - self.outside_task) as f64 / self.elements as f64;
            let own = json!({ "matched_ratio": matched, "within": matched >= rule.matched });
            told.insert(GateReport::PARITY_TASK.to_string(), own);
        }
        Value::Object(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: TaskTolerance = TaskTolerance { atol: 0.5, rtol: 0.0, matched: 0.75 };

    #[track_caller]
    fn check(pairs: &[(f64, f64)], expected: Value) {
        let mut seen = PlainErrors::default();
        pairs.iter().for_each(|(own, right)| seen.add(*own, *right, RULE));
        assert_eq!(seen.told(None), expected, "{pairs:?}");
    }

    #[test]
    fn the_numbers_are_those_of_plain_loops() {
        check(
            &[(1.0, 1.0), (2.0078125, 2.0), (0.0, 0.0)],
            json!({ "max_abs_error": 0.0078125, "max_rel_error": 0.00390625, "allclose_1e-3": false,
                "allclose_1e-2": true }),
        );
        // At exactly the tolerance an element is close, and beyond it not.
        check(
            &[(0.5 + 1.5e-3, 0.5)],
            json!({ "max_abs_error": 0.0014999999999999458, "max_rel_error": 0.0029999999999998916,
                "allclose_1e-3": true, "allclose_1e-2": true }),
        );
        check(
            &[(f64::INFINITY, f64::INFINITY), (5.0, 4.0)],
            json!({ "max_abs_error": 1.0, "max_rel_error": 0.25, "allclose_1e-3": false, "allclose_1e-2": false }),
        );
    }

    #[test]
    fn what_has_no_number_is_null_and_says_why() {
        let why = "an element is NaN or infinite where its answer is finite";
        check(
            &[(f64::NAN, 1.0), (1.0, 1.0)],
            json!({ "max_abs_error_reason": why, "max_abs_error": null, "max_rel_error_reason": why,
                "max_rel_error": null, "allclose_1e-3": false, "allclose_1e-2": false }),
        );
        check(
            &[(1e-4, 0.0)],
            json!({ "max_abs_error": 1e-4, "max_rel_error_reason": "every answer is zero", "max_rel_error": null,
                "allclose_1e-3": true, "allclose_1e-2": true }),
        );
        let mut seen = PlainErrors::default();
        seen.add(f64::NAN, f64::NAN, RULE);
        assert_eq!(seen.told(Some(RULE))["task"], json!({ "matched_ratio": 1.0, "within": true }));
        assert_eq!(unknown("w")["max_abs_error_reason"], "w");
    }

    #[test]
    fn a_task_has_its_own_rule() {
        let mut seen = PlainErrors::default();
        for (own, right) in [(1.0, 1.0), (1.5, 1.0), (2.0, 1.0), (1.0, 1.0)] {
            seen.add(own, right, RULE);
        }
        let told = seen.told(Some(RULE));
        assert_eq!(told["task"], json!({ "matched_ratio": 0.75, "within": true }));
        let told = seen.told(Some(TaskTolerance { matched: 0.8, ..RULE }));
        assert_eq!(told["task"]["within"], json!(false));
        assert!(seen.told(None).get("task").is_none());
    }
}
