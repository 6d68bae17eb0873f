//! The plain parity that people know: largest errors, and `allclose` at two tolerances. It decides nothing
//! (`docs/design/gates.md` says why); it is reported so that numbers can be compared with those of other tools. A
//! file that comes from another benchmark's task may state that task's own rule, whose verdict stands beside them.

use evo_device::device::{Device, Tolerance};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::verdict::GateReport;
use evo_protocol::worker::TaskTolerance;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::element;
use super::element::compared_as;
use super::run::PreparedCase;

/// Outputs with more elements than this in all are not read back: half a gigabyte of answers.
const ELEMENTS_MAX: u64 = 1 << 26;

/// `atol` and `rtol` of each `allclose`.
const TOLERANCES: [(&str, f64); 2] = [("allclose_1e-3", 1e-3), ("allclose_1e-2", 1e-2)];

pub fn of(
    device: &mut dyn Device,
    prepared: &PreparedCase,
    task: Option<TaskTolerance>,
) -> Result<Value, DeviceError> {
    let elements: u64 = prepared.targets().map(|(plan, _)| plan.compared_elements()).sum();
    if elements > ELEMENTS_MAX {
        return Ok(unknown(&format!("the outputs have more than {ELEMENTS_MAX} elements")));
    }
    if prepared.targets().any(|(plan, _)| compared_as(plan.dtype) != plan.dtype) {
        return Ok(unknown("an output has 64-bit integers, which are compared bit by bit"));
    }
    // Without a rule of the task's, what lies outside of it is never asked.
    let rule =
        task.map_or(Tolerance { atol: 0.0, rtol: 0.0 }, |own| Tolerance { atol: own.atol, rtol: own.rtol });
    let [first, second] = TOLERANCES.map(|(_, own)| Tolerance { atol: own, rtol: own });
    let tolerances = [first, second, rule];
    let mut seen = PlainErrors::default();
    for (plan, target) in prepared.targets() {
        let actual = prepared.compared(device, target.position)?;
        let expected = element::widen(&device.read(target.expected)?, DType::F64);
        let count = usize::try_from(plan.compared_elements()).unwrap_or(usize::MAX);
        let pairs = actual.par_iter().zip(&expected).take(count);
        // Largest values and counts: the same in any order.
        let own = pairs.fold(PlainErrors::default, |seen, (own, right)| seen.with(*own, *right, &tolerances));
        seen = seen.and(own.reduce(PlainErrors::default, PlainErrors::and));
    }
    Ok(told(&seen, task))
}

/// What a plain loop over outputs and answers counts: the numbers that people know from other tools.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PlainErrors {
    elements: u64,
    abs_max: f64,
    /// Largest |actual − expected| / |expected| over elements whose answer is not zero; absent where there is none.
    rel_max: Option<f64>,
    /// Elements without a finite error, such as a NaN; equal infinities are none of them.
    not_finite: u64,
    /// Elements that are neither equal nor within atol + rtol·|expected|. Of the last tolerance, NaN is right where
    /// NaN is expected.
    outside: [u64; 3],
}

impl PlainErrors {
    fn with(mut self, actual: f64, expected: f64, tolerances: &[Tolerance; 3]) -> PlainErrors {
        self.elements += 1;
        let error = (actual - expected).abs();
        // Equal infinities have no finite difference, and are equal.
        let same = actual == expected;
        let both_nan = actual.is_nan() && expected.is_nan();
        for (number, tolerance) in tolerances.iter().enumerate() {
            let close = same || error <= tolerance.atol + tolerance.rtol * expected.abs();
            self.outside[number] += u64::from(!(close || number == 2 && both_nan));
        }
        if !error.is_finite() {
            self.not_finite += u64::from(!same);
            return self;
        }
        self.abs_max = self.abs_max.max(error);
        let relative = error / expected.abs();
        if relative.is_finite() {
            self.rel_max = Some(self.rel_max.unwrap_or(0.0).max(relative));
        }
        self
    }

    fn and(mut self, other: PlainErrors) -> PlainErrors {
        self.elements += other.elements;
        self.abs_max = self.abs_max.max(other.abs_max);
        self.rel_max = self.rel_max.into_iter().chain(other.rel_max).reduce(f64::max);
        self.not_finite += other.not_finite;
        self.outside.iter_mut().zip(other.outside).for_each(|(own, other)| *own += other);
        self
    }
}

fn unknown(why: &str) -> Value {
    let mut told = Map::new();
    for name in GateReport::PARITY_NUMBERS {
        told.insert(name.to_string(), Value::Null);
        told.insert(format!("{name}{}", GateReport::PARITY_REASON), why.into());
    }
    Value::Object(told)
}

fn told(seen: &PlainErrors, task: Option<TaskTolerance>) -> Value {
    let broken = match (seen.elements, seen.not_finite) {
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
    let abs_max = broken.is_none().then(|| seen.abs_max.into());
    tell("max_abs_error", abs_max, broken.unwrap_or_default());
    let rel_max = seen.rel_max.filter(|_| broken.is_none()).map(Value::from);
    tell("max_rel_error", rel_max, broken.unwrap_or("every answer is zero"));
    for ((name, _), outside) in TOLERANCES.iter().zip(seen.outside) {
        let close = (seen.elements > 0).then(|| Value::from(outside == 0));
        tell(name, close, "the outputs have no elements");
    }
    if let Some(rule) = task.filter(|_| seen.elements > 0) {
        let matched = (seen.elements - seen.outside[2]) as f64 / seen.elements as f64;
        let own = json!({ "matched_ratio": matched, "within": matched >= rule.matched });
        told.insert(GateReport::PARITY_TASK.to_string(), own);
    }
    Value::Object(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: TaskTolerance = TaskTolerance { atol: 0.5, rtol: 0.0, matched: 0.75 };

    fn of_pairs(pairs: &[(f64, f64)]) -> PlainErrors {
        let [first, second] = TOLERANCES.map(|(_, own)| Tolerance { atol: own, rtol: own });
        let tolerances = [first, second, Tolerance { atol: RULE.atol, rtol: RULE.rtol }];
        pairs.iter().fold(PlainErrors::default(), |seen, (own, right)| seen.with(*own, *right, &tolerances))
    }

    #[track_caller]
    fn check(pairs: &[(f64, f64)], expected: Value) {
        assert_eq!(told(&of_pairs(pairs), None), expected, "{pairs:?}");
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
        let seen = of_pairs(&[(f64::NAN, f64::NAN)]);
        assert_eq!(told(&seen, Some(RULE))["task"], json!({ "matched_ratio": 1.0, "within": true }));
        assert_eq!(unknown("w")["max_abs_error_reason"], "w");
    }

    #[test]
    fn a_task_has_its_own_rule() {
        let seen = of_pairs(&[(1.0, 1.0), (1.5, 1.0), (2.0, 1.0), (1.0, 1.0)]);
        let own = told(&seen, Some(RULE));
        assert_eq!(own["task"], json!({ "matched_ratio": 0.75, "within": true }));
        let own = told(&seen, Some(TaskTolerance { matched: 0.8, ..RULE }));
        assert_eq!(own["task"]["within"], json!(false));
        assert!(told(&seen, None).get("task").is_none());
    }
}
