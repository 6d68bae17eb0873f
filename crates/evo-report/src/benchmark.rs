//! The figures of `evo benchmark`: flat fields that scripts read, and the same problem by problem. What is not known is
//! null, with its reason.

use std::collections::BTreeMap;

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::PairedProblem;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_space::genome::Configuration;
use serde_json::{Map, Value, json};

/// What was measured of a candidate.
#[derive(Debug)]
pub struct Measured<'a> {
    pub evaluation: &'a Evaluation,
    /// The timed problems; none for a candidate that never reached the device.
    pub plans: &'a [ProblemPlan],
    /// The mode that ranks.
    pub mode: TimingMode,
    /// Absent where no device was opened.
    pub device: Option<&'a DeviceInfo>,
    /// The kernel keeps its blocks running on purpose, so few of them mean nothing.
    pub is_persistent: bool,
    /// Absent where the candidate did not pass.
    pub compared: Option<&'a Compared>,
}

/// The comparison with the default configuration.
#[derive(Debug)]
pub struct Compared {
    pub configuration: Configuration,
    /// Why there is no comparison at all.
    pub missing: Option<String>,
    /// For each timed problem, or why there is none.
    pub problems: Vec<Result<PairedProblem, String>>,
    /// The largest relative difference between the default and itself.
    pub noise_floor: Option<f64>,
}

impl Compared {
    /// No comparison yet.
    pub fn with(configuration: Configuration) -> Compared {
        Compared { configuration, missing: None, problems: Vec::new(), noise_floor: None }
    }
}

/// Fields of an object, and why some are null.
#[derive(Debug)]
pub struct Figures {
    pub fields: Value,
    /// The six that `evo evaluate` has too.
    pub flat: Value,
    /// By dotted path.
    pub reasons: BTreeMap<String, String>,
}

/// A warning begins below this many blocks for each multiprocessor.
const FEW_BLOCKS: u64 = 4;

const NO_TORCH: &str = "`evo bench --peer torch` compares with torch, in one run with it";
const NOT_PASSED: &str = "the candidate did not pass, and a failure has no number";
const NOT_LAUNCHED: &str = "the candidate never came to a launch";

/// The figures of a measurement.
pub fn fields(measured: &Measured<'_>) -> Figures {
    let mut told = Told::default();
    let passed = measured.evaluation.verdict.is_pass();
    let latency_ms = measured.evaluation.objective_ns.filter(|_| passed).map(|time| time / 1e6);
    told.number("latency_ms", latency_ms.filter(|time| time.is_finite()), NOT_PASSED);
    let missing = measured.compared.map_or(NOT_PASSED, |own| own.missing.as_deref().unwrap_or(NOT_PASSED));
    let speedup = measured.compared.and_then(|own| mean_speedup(measured.plans, own));
    let why = match measured.compared.and_then(|own| own.problems.iter().find_map(|one| one.as_ref().err())) {
        Some(error) => error.as_str(),
        None => missing,
    };
    told.number("speedup_vs_baseline", speedup, why);
    told.number("speedup_vs_torch", None, NO_TORCH);
    let few = |plan: &ProblemPlan| (blocks(plan), few_ctas(measured, plan));
    // The problem with the fewest is the one that leaves most of the device idle.
    let fewest = measured.plans.iter().map(few).min_by_key(|(ctas, _)| *ctas);
    told.count("ctas", fewest.map(|(ctas, _)| ctas), NOT_LAUNCHED);
    let sm_count = measured.device.and_then(sm_count).map(u64::from);
    told.count("sm_count", sm_count, no_multiprocessors(measured.device));
    let flag = fewest.and_then(|(_, few)| few);
    told.flag("few_ctas", flag, few_is_unknown(measured));
    let flat = Value::Object(told.fields.clone());
    let copies = told.reasons.iter().map(|(name, why)| (format!("result.{name}"), why.clone()));
    told.reasons.extend(copies.collect::<Vec<_>>());
    told.fields.insert("problems".into(), problems(measured, &mut told.reasons));
    told.fields.insert("baseline".into(), baseline(measured, &mut told.reasons));
    Figures { fields: Value::Object(told.fields), flat, reasons: told.reasons }
}

/// Fields as they are told, each with its reason where it is null.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) fields: Map<String, Value>,
    pub(super) reasons: BTreeMap<String, String>,
}

impl Told {
    pub(super) fn number(&mut self, name: &str, value: Option<f64>, why: &str) {
        self.tell(name, value.filter(|value| value.is_finite()).map(Value::from), why);
    }

    fn count(&mut self, name: &str, value: Option<u64>, why: &str) {
        self.tell(name, value.map(Value::from), why);
    }

    fn flag(&mut self, name: &str, value: Option<bool>, why: &str) {
        self.tell(name, value.map(Value::from), why);
    }

    pub(super) fn tell(&mut self, name: &str, value: Option<Value>, why: &str) {
        if value.is_none() {
            self.reasons.insert(name.to_string(), why.to_string());
        }
        self.fields.insert(name.to_string(), value.unwrap_or_default());
    }
}

fn problems(measured: &Measured<'_>, reasons: &mut BTreeMap<String, String>) -> Value {
    let one = |(number, plan): (usize, &ProblemPlan)| {
        let mut told = Told::default();
        let mut own = measured.evaluation.measurements.iter();
        let time = own.find(|one| one.problem == plan.name && one.mode == measured.mode);
        told.fields.insert("problem".into(), plan.name.as_str().into());
        told.number("latency_ms", time.map(|time| time.p50_ns / 1e6), NOT_PASSED);
        let pair = measured.compared.and_then(|own| own.problems.get(number));
        let why = match (pair, measured.compared) {
            (Some(Err(error)), _) => error.as_str(),
            (_, Some(own)) => own.missing.as_deref().unwrap_or(NOT_PASSED),
            (_, None) => NOT_PASSED,
        };
        let pair = pair.and_then(|pair| pair.as_ref().ok());
        // The comparison has the candidate's time over the default's; a speed-up is its inverse.
        told.number("speedup_vs_baseline", pair.map(|pair| 1.0 / pair.ratio), why);
        told.number("speedup_low_ratio", pair.map(|pair| 1.0 / pair.ratio_high), why);
        told.number("speedup_high_ratio", pair.map(|pair| 1.0 / pair.ratio_low), why);
        told.tell("decision", pair.map(|pair| json!(pair.decision)), why);
        told.count("ctas", Some(blocks(plan)), NOT_LAUNCHED);
        told.flag("few_ctas", few_ctas(measured, plan), few_is_unknown(measured));
        reasons
            .extend(told.reasons.into_iter().map(|(name, why)| (format!("problems.{number}.{name}"), why)));
        Value::Object(told.fields)
    };
    Value::Array(measured.plans.iter().enumerate().map(one).collect())
}

/// What the candidate was compared with, and how.
fn baseline(measured: &Measured<'_>, reasons: &mut BTreeMap<String, String>) -> Value {
    let Some(compared) = measured.compared else {
        reasons.insert("baseline".into(), NOT_PASSED.into());
        return Value::Null;
    };
    let mut told = Told::default();
    told.fields.insert("configuration".into(), json!(compared.configuration));
    told.fields.insert("method".into(), "paired, A B B A in fresh processes".into());
    let why = compared.missing.as_deref().unwrap_or("it could not be measured");
    told.number("noise_floor_ratio", compared.noise_floor, why);
    reasons.extend(told.reasons.into_iter().map(|(name, why)| (format!("baseline.{name}"), why)));
    Value::Object(told.fields)
}

/// The weighted geometric mean of the speed-ups; `None` unless all problems have one.
fn mean_speedup(plans: &[ProblemPlan], compared: &Compared) -> Option<f64> {
    if compared.missing.is_some() || plans.len() != compared.problems.len() || plans.is_empty() {
        return None;
    }
    let (mut sum, mut weights) = (0.0, 0.0);
    for (plan, pair) in plans.iter().zip(&compared.problems) {
        sum -= plan.weight * pair.as_ref().ok()?.ratio.ln();
        weights += plan.weight;
    }
    Some((sum / weights).exp()).filter(|speedup| speedup.is_finite() && *speedup > 0.0)
}

/// Blocks of the launch that has the most.
pub fn blocks(plan: &ProblemPlan) -> u64 {
    let of = |grid: [i64; 3]| {
        grid.iter().map(|extent| u64::try_from(*extent).unwrap_or(0)).fold(1, u64::saturating_mul)
    };
    plan.launches.iter().map(|launch| of(launch.grid)).max().unwrap_or(0)
}

/// Multiprocessors of a GPU. A processor's cores are not that: a block there is a loop.
fn sm_count(device: &DeviceInfo) -> Option<u32> {
    (device.kind == DeviceKind::Cuda).then_some(device.multiprocessors)
}

fn no_multiprocessors(device: Option<&DeviceInfo>) -> &'static str {
    match device {
        Some(_) => "the host device has no multiprocessors",
        None => "no device was opened",
    }
}

fn few_ctas(measured: &Measured<'_>, plan: &ProblemPlan) -> Option<bool> {
    are_few(measured.device?, measured.is_persistent, plan)
}

/// Whether a problem has too few blocks for a device; unknown where the device has no multiprocessors.
pub fn are_few(device: &DeviceInfo, is_persistent: bool, plan: &ProblemPlan) -> Option<bool> {
    let sm_count = u64::from(sm_count(device)?);
    Some(!is_persistent && blocks(plan) < FEW_BLOCKS * sm_count)
}

fn few_is_unknown(measured: &Measured<'_>) -> &'static str {
    if measured.plans.is_empty() { NOT_LAUNCHED } else { no_multiprocessors(measured.device) }
}

/// The flat figures for people, a line each.
pub fn text(fields: &Value) -> String {
    let number = |name: &str| fields[name].as_f64();
    let mut text = String::new();
    if let Some(latency) = number("latency_ms") {
        text += &format!("latency  {latency:.6} ms\n");
    }
    if let Some(speedup) = number("speedup_vs_baseline") {
        text +=
            &format!("speed-up {speedup:.3}x over the default configuration, paired in fresh processes\n");
    }
    if fields["few_ctas"] == true {
        text += &format!(
            "warning: {} blocks are few for {} multiprocessors; `persistent = true` in [kernel] says that this is meant\n",
            fields["ctas"], fields["sm_count"]
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::{Verdict, VerdictKind};

    use super::*;
    use evo_journal::example as fake;
    use evo_supervise::job::example;

    fn plan(grid: [i64; 3]) -> ProblemPlan {
        let launch = json!({ "entry": "k", "grid": grid, "block": [32, 1, 1], "shared_bytes": 0, "arguments": [],
            "cluster": null, "cooperative": false, "programmatic": false });
        ProblemPlan { launches: vec![serde_json::from_value(launch).unwrap()], ..example::plan("p", 1.0) }
    }

    fn pair(ratio: f64) -> Result<PairedProblem, String> {
        let pair = json!({ "problem": "p", "ratio": ratio, "ratio_low": ratio, "ratio_high": ratio, "processes": 2,
            "pairs": 8, "decision": "same", "baseline_ns": 1.0, "finalist_ns": 1.0 });
        Ok(serde_json::from_value(pair).unwrap())
    }

    #[track_caller]
    fn check(
        kind: VerdictKind,
        on: DeviceKind,
        grid: [i64; 3],
        is_persistent: bool,
        expected: Value,
    ) -> Figures {
        let mut evaluation =
            fake::evaluation(0, Configuration::new(Vec::new()), "user", Verdict::new(kind, ""));
        evaluation.objective_ns = Some(2e6);
        let device = DeviceInfo { kind: on, multiprocessors: 132, ..fake::header().device };
        let compared =
            Compared { problems: vec![pair(0.5)], ..Compared::with(Configuration::new(Vec::new())) };
        let passed = kind == VerdictKind::Pass;
        let measured = Measured {
            evaluation: &evaluation,
            plans: &[plan(grid)],
            mode: TimingMode::Hot,
            device: Some(&device),
            is_persistent,
            compared: passed.then_some(&compared),
        };
        let figures = fields(&measured);
        assert_eq!(figures.flat, expected);
        for (name, value) in figures.flat.as_object().unwrap() {
            assert_eq!(value.is_null(), figures.reasons.contains_key(name), "{name}");
        }
        figures
    }

    #[test]
    fn few_blocks_are_a_warning_unless_the_kernel_is_persistent() {
        let flat = |ctas: u64, few: bool| {
            json!({ "latency_ms": 2.0, "speedup_vs_baseline": 2.0, "speedup_vs_torch": null, "ctas": ctas,
                "sm_count": 132, "few_ctas": few })
        };
        check(VerdictKind::Pass, DeviceKind::Cuda, [132, 4, 1], false, flat(528, false));
        let figures = check(VerdictKind::Pass, DeviceKind::Cuda, [132, 1, 1], false, flat(132, true));
        assert!(text(&figures.fields).contains("132 blocks are few for 132 multiprocessors"));
        check(VerdictKind::Pass, DeviceKind::Cuda, [132, 1, 1], true, flat(132, false));
    }

    #[test]
    fn what_is_not_known_is_null_with_a_reason() {
        let host = json!({ "latency_ms": 2.0, "speedup_vs_baseline": 2.0, "speedup_vs_torch": null, "ctas": 6,
            "sm_count": null, "few_ctas": null });
        check(VerdictKind::Pass, DeviceKind::Host, [2, 3, 1], false, host);
        let wrong = json!({ "latency_ms": null, "speedup_vs_baseline": null, "speedup_vs_torch": null, "ctas": 6,
            "sm_count": 132, "few_ctas": true });
        let figures = check(VerdictKind::WrongAnswer, DeviceKind::Cuda, [2, 3, 1], false, wrong);
        assert_eq!(figures.reasons["latency_ms"], NOT_PASSED);
        assert_eq!(figures.reasons["problems.0.speedup_vs_baseline"], NOT_PASSED);
    }
}
