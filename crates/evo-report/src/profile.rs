//! A candidate's profile as an object and as text. What is not known is null, with its reason.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use serde_json::{Map, Value, json};

use evo_inspect::profile::{
    Known, MetricTarget, NoCounters, Profile, ProfileFinding, ProfiledLaunch, metric_of,
};

/// The object, and why fields of it are null, by dotted path: `result.tool.version`.
#[derive(Debug)]
pub struct ProfileFields {
    pub fields: Value,
    pub reasons: BTreeMap<String, String>,
}

const HOST: &str = "the host device has no counters";
const NO_VERSION: &str = "it did not come to say its version";

/// The object of a profile.
pub fn fields(profile: &Profile) -> ProfileFields {
    let mut reasons = BTreeMap::new();
    let missing = profile.counters.as_ref().map_or(&[][..], |collected| &collected.missing);
    let launches: Vec<Value> = profile.launches().iter().map(launch).collect();
    for one in missing {
        reasons.insert(format!("launches.{}.metrics.{}", one.launch, one.field), one.reason.clone());
    }
    let entry = |at: usize| profile.launches().get(at).map(|launch| launch.entry.as_str());
    let missing: Vec<Value> = missing
        .iter()
        .map(|one| json!({ "field": one.field, "entry": entry(one.launch), "reason": one.reason }))
        .collect();
    let known = known(profile, &mut reasons);
    let tool = tool(profile, &mut reasons);
    let diagnosis = profile.diagnosis();
    let fields = json!({
        "problem": profile.problem,
        "launches": launches,
        "metrics_missing": missing,
        "tool": tool,
        "known_without_counters": known,
        "bottleneck": diagnosis.bottleneck.as_str(),
        "bottleneck_because": diagnosis.because,
        "findings": profile.findings().iter().map(finding).collect::<Vec<_>>(),
    });
    let reasons = reasons.into_iter().map(|(path, why)| (format!("result.{path}"), why)).collect();
    ProfileFields { fields, reasons }
}

fn launch(launch: &ProfiledLaunch) -> Value {
    let ProfiledLaunch { entry, grid, block, metrics } = launch;
    json!({ "entry": entry, "grid": grid, "block": block, "metrics": metrics })
}

fn finding(one: &ProfileFinding) -> Value {
    let ProfileFinding { metric, value, target, gap_ratio, meaning, next } = one;
    json!({ "metric": metric, "value": value, "target": target, "gap_ratio": gap_ratio, "meaning": meaning,
        "next": next })
}

/// The profiler: its version, how it answered, which options it lacks.
fn tool(profile: &Profile, reasons: &mut BTreeMap<String, String>) -> Value {
    let (state, message, left_out) = match &profile.counters {
        Ok(collected) => (Some("ok"), None, collected.left_out.clone()),
        Err(NoCounters::Failed(failure)) => {
            (Some(failure.state.as_str()), Some(failure.message.clone()), Vec::new())
        }
        Err(NoCounters::HostDevice) => (None, None, Vec::new()),
    };
    if state.is_none() {
        reasons.insert("tool.state".to_string(), HOST.to_string());
    }
    if profile.version.is_none() {
        reasons
            .insert("tool.version".to_string(), if state.is_none() { HOST } else { NO_VERSION }.to_string());
    }
    if message.is_none() {
        let why = if state.is_none() { HOST } else { "it did its work" };
        reasons.insert("tool.message".to_string(), why.to_string());
    }
    json!({ "version": profile.version, "state": state, "message": message, "left_out": left_out })
}

fn known(profile: &Profile, reasons: &mut BTreeMap<String, String>) -> Value {
    let mut fields = Map::new();
    let facts = &profile.known;
    fields.insert("ctas".to_string(), facts.ctas.into());
    let mut tell = |name: &str, value: Known<Value>| {
        let value = value.unwrap_or_else(|why| {
            reasons.insert(format!("known_without_counters.{name}"), why);
            Value::Null
        });
        fields.insert(name.to_string(), value);
    };
    tell("waves", facts.waves.clone().map(Value::from));
    tell("occupancy_limit_percent", facts.occupancy_limit_percent.clone().map(Value::from));
    tell("limited_by", facts.limited_by.clone().map(|limit| limit.as_str().into()));
    tell("registers", facts.registers.clone().map(Value::from));
    tell("spill_bytes", facts.spill_bytes.clone().map(Value::from));
    tell("roofline_ratio", facts.roofline_ratio.clone().map(Value::from));
    Value::Object(fields)
}

/// The profile for people.
pub fn text(profile: &Profile) -> String {
    let diagnosis = profile.diagnosis();
    let mut text = format!("problem    {}\n", profile.problem);
    let _ = writeln!(text, "bottleneck {} ({})", diagnosis.bottleneck.as_str(), diagnosis.because);
    for one in profile.findings() {
        let ProfileFinding { metric, value, target, meaning, next, .. } = one;
        let _ = writeln!(text, "  {metric} is {}, target {}: {meaning}", short(value), short(target));
        let _ = writeln!(text, "    next: {next}");
    }
    let facts = &profile.known;
    let _ = writeln!(text, "known without counters, of the main launch");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<26} {value}");
    };
    line("ctas", facts.ctas.to_string());
    line("waves", shown(&facts.waves, |value| short(*value)));
    line("occupancy_limit_percent", shown(&facts.occupancy_limit_percent, |value| short(*value)));
    line("limited_by", shown(&facts.limited_by, |value| value.as_str().to_string()));
    line("registers", shown(&facts.registers, ToString::to_string));
    line("spill_bytes", shown(&facts.spill_bytes, ToString::to_string));
    line("roofline_ratio", shown(&facts.roofline_ratio, |value| short(*value)));
    for launch in profile.launches() {
        let _ =
            writeln!(text, "{} grid {} block {}", launch.entry, extents(launch.grid), extents(launch.block));
        for (field, value) in &launch.metrics {
            let value = value.map_or("missing".to_string(), short);
            let _ = writeln!(text, "  {field:<26} {value:<14} {}", target(field));
        }
    }
    for one in profile.counters.as_ref().map_or(&[][..], |collected| &collected.missing) {
        let _ = writeln!(text, "missing: {} of launch {}: {}", one.field, one.launch, one.reason);
    }
    text
}

fn shown<T>(value: &Known<T>, show: impl Fn(&T) -> String) -> String {
    value.as_ref().map_or_else(|why| format!("unknown: {why}"), show)
}

/// About four digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 || size == size.trunc() => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn extents(extents: [i64; 3]) -> impl Display {
    format!("{}x{}x{}", extents[0], extents[1], extents[2])
}

fn target(field: &str) -> String {
    match metric_of(field).and_then(|metric| metric.target) {
        Some(MetricTarget::AtLeast(target)) => format!("target at least {target}"),
        Some(MetricTarget::AtLeastIfMemoryBound(target)) => {
            format!("target at least {target} if memory-bound")
        }
        Some(MetricTarget::AtLeastIfTensor(target)) => format!("target at least {target} with tensor cores"),
        Some(MetricTarget::NonePer(other)) => format!("target about 0 for each of {other}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evo_compile::occupancy::OccupancyLimit;
    use evo_inspect::profile::{Collected, KnownFacts, MissingMetric};
    use evo_inspect::tool::{ToolFailure, ToolState};

    fn profile(counters: Result<Collected, NoCounters>) -> Profile {
        let known = KnownFacts {
            launch: 0,
            ctas: 264,
            waves: Ok(0.5),
            occupancy_limit_percent: Ok(50.0),
            limited_by: Ok(OccupancyLimit::Registers),
            registers: Ok(64),
            spill_bytes: Err("the compiler does not report it".into()),
            roofline_ratio: Ok(0.25),
            sm_count: Ok(132),
            launch_floor_ratio: Ok(9.0),
            is_memory_bound: Ok(true),
            is_tensor_meant: Ok(false),
        };
        Profile { problem: "p".into(), known, version: Some("2025.3.1.0".into()), counters }
    }

    fn collected() -> Collected {
        let metrics = [("l2_hit_percent".to_string(), Some(35.0)), ("tensor_instructions".to_string(), None)];
        let launch = ProfiledLaunch {
            entry: "k".into(),
            grid: [264, 1, 1],
            block: [256, 1, 1],
            metrics: metrics.into(),
        };
        Collected {
            launches: vec![launch],
            missing: vec![MissingMetric {
                field: "tensor_instructions".into(),
                launch: 0,
                reason: "it is `n/a`".into(),
            }],
            left_out: vec!["--replay-mode".into()],
            report: "r".into(),
        }
    }

    /// Every null has a reason, and every reason a null.
    #[track_caller]
    fn hold_to_reasons(told: &ProfileFields) {
        for path in told.reasons.keys() {
            let pointer = path.strip_prefix("result").unwrap().replace('.', "/");
            assert_eq!(told.fields.pointer(&pointer), Some(&Value::Null), "{path}");
        }
        let nulls = told.fields.to_string().matches("null").count();
        assert_eq!(nulls, told.reasons.len(), "{}", told.fields);
    }

    #[test]
    fn counters_that_are_missing_are_null_and_named() {
        let told = fields(&profile(Ok(collected())));
        hold_to_reasons(&told);
        assert_eq!(told.fields["launches"][0]["metrics"]["tensor_instructions"], Value::Null);
        assert_eq!(
            told.fields["metrics_missing"],
            json!([{ "field": "tensor_instructions", "entry": "k", "reason": "it is `n/a`" }])
        );
        assert_eq!(told.fields["tool"]["left_out"], json!(["--replay-mode"]));
        assert_eq!(told.fields["bottleneck"], "unknown");
        assert_eq!(told.fields["findings"][0]["metric"], "l2_hit_percent");
        let text = text(&profile(Ok(collected())));
        assert!(text.contains("tensor_instructions        missing"), "{text}");
        assert!(text.contains("l2_hit_percent             35             target at least 70"), "{text}");
    }

    #[test]
    fn without_counters_there_is_what_is_known_without_them() {
        for (none, state) in [
            (NoCounters::HostDevice, Value::Null),
            (NoCounters::Failed(ToolFailure::new(ToolState::Refused, "no")), "refused".into()),
        ] {
            let told = fields(&Profile { version: None, ..profile(Err(none)) });
            hold_to_reasons(&told);
            assert_eq!(told.fields["tool"]["state"], state);
            assert_eq!(told.fields["known_without_counters"]["limited_by"], "registers");
            assert_eq!(told.fields["launches"], json!([]));
        }
    }
}
