//! A candidate's profile as an object and as text. What is not known is null, with its reason.

use std::collections::BTreeMap;

use evo_inspect::profile::{
    MetricTarget, MissingMetric, NoCounters, Profile, ProfileFinding, ProfiledLaunch, metric_of,
};
use evo_protocol::known::{Known, told};
use minijinja::context;
use minijinja::value::Serde;
use schemars::JsonSchema;
use serde::Serialize;

use super::judged::VerdictFields;
use super::templates;

const HOST: &str = "the host device has no counters";

/// The `result` of `evo profile`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProfileResult {
    pub problem: String,
    pub launches: Vec<LaunchMetrics>,
    metrics_missing: Vec<MissingRow>,
    tool: ProfilerSaid,
    known_without_counters: KnownWithoutCounters,
    pub bottleneck: &'static str,
    bottleneck_because: String,
    findings: Vec<ProfileFinding>,
}

/// The answer of `evo profile` about a candidate that passed; about another one it is that of `test-one`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProfileAnswer<'a> {
    #[serde(flatten)]
    pub fields: VerdictFields<'a>,
    pub profile_file: Known<String>,
    pub report_file: Known<String>,
    pub result: ProfileResult,
}

/// A launch with its counters.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LaunchMetrics {
    entry: String,
    grid: [i64; 3],
    block: [i64; 3],
    pub metrics: BTreeMap<String, Known<f64>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct MissingRow {
    field: String,
    entry: Option<String>,
    reason: String,
}

/// The profiler: its version, how it answered, which options it lacks.
#[derive(Debug, Serialize, JsonSchema)]
struct ProfilerSaid {
    version: Known<String>,
    state: Known<&'static str>,
    message: Known<String>,
    left_out: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct KnownWithoutCounters {
    ctas: u64,
    waves: Known<f64>,
    occupancy_limit_percent: Known<f64>,
    limited_by: Known<&'static str>,
    registers: Known<u64>,
    spill_bytes: Known<u64>,
    roofline_ratio: Known<f64>,
}

impl ProfileResult {
    pub fn of(profile: &Profile) -> ProfileResult {
        let missing = profile.counters.as_ref().map_or(&[][..], |collected| &collected.missing);
        let launch = |(at, launch): (usize, &ProfiledLaunch)| LaunchMetrics {
            entry: launch.entry.clone(),
            grid: launch.grid,
            block: launch.block,
            metrics: (launch.metrics.iter())
                .map(|(field, value)| {
                    let why = missing.iter().find(|row| row.launch == at && row.field == *field);
                    let why = why.map_or("the profiler does not say it", |row| row.reason.as_str());
                    (field.clone(), Known::of(*value, why))
                })
                .collect(),
        };
        let row = |row: &MissingMetric| MissingRow {
            field: row.field.clone(),
            entry: profile.launches().get(row.launch).map(|launch| launch.entry.clone()),
            reason: row.reason.clone(),
        };
        let facts = &profile.known;
        let diagnosis = profile.diagnosis();
        ProfileResult {
            problem: profile.problem.clone(),
            launches: profile.launches().iter().enumerate().map(launch).collect(),
            metrics_missing: missing.iter().map(row).collect(),
            tool: ProfilerSaid::of(profile),
            known_without_counters: KnownWithoutCounters {
                ctas: facts.ctas,
                waves: facts.waves.clone().into(),
                occupancy_limit_percent: facts.occupancy_limit_percent.clone().into(),
                limited_by: facts.limited_by.clone().map(|limit| limit.as_str()).into(),
                registers: facts.registers.clone().into(),
                spill_bytes: facts.spill_bytes.clone().into(),
                roofline_ratio: facts.roofline_ratio.clone().into(),
            },
            bottleneck: diagnosis.bottleneck.as_str(),
            bottleneck_because: diagnosis.because,
            findings: profile.findings(),
        }
    }
}

impl ProfilerSaid {
    fn of(profile: &Profile) -> ProfilerSaid {
        let (state, message, left_out) = match &profile.counters {
            Ok(collected) => {
                (Known::Is("ok"), Known::Unknown("it did its work".into()), collected.left_out.clone())
            }
            Err(NoCounters::Failed(failure)) => {
                (Known::Is(failure.state.as_str()), Known::Is(failure.message.clone()), Vec::new())
            }
            Err(NoCounters::HostDevice) => {
                (Known::Unknown(HOST.into()), Known::Unknown(HOST.into()), Vec::new())
            }
        };
        let no_version = if state.value().is_none() { HOST } else { "it did not come to say its version" };
        ProfilerSaid { version: Known::of(profile.version.clone(), no_version), state, message, left_out }
    }
}

pub fn text(profile: &Profile) -> String {
    let (result, reasons) = told(&ProfileResult::of(profile));
    let fields = profile.launches().iter().flat_map(|launch| launch.metrics.keys());
    let missing = profile.counters.as_ref().map_or(&[][..], |collected| &collected.missing);
    let missing = missing.iter().map(|metric| (&metric.field, metric.launch, &metric.reason));
    let values = context! {
        result => Serde(result),
        reasons,
        targets => fields.map(|field| (field.clone(), target(field))).collect::<BTreeMap<_, _>>(),
        missing => Serde(missing.collect::<Vec<_>>()),
    };
    templates::lines("profile.txt.j2", values)
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
    use serde_json::json;

    use super::*;
    use evo_compile::occupancy::OccupancyLimit;
    use evo_inspect::profile::{Collected, KnownFacts};

    fn profile() -> Profile {
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
        let metrics = [("l2_hit_percent".to_string(), Some(35.0)), ("tensor_instructions".to_string(), None)];
        let (grid, block) = ([264, 1, 1], [256, 1, 1]);
        let launch = ProfiledLaunch { entry: "k".into(), grid, block, metrics: metrics.into() };
        let [field, reason] = ["tensor_instructions", "it is `n/a`"].map(String::from);
        let counters = Collected {
            launches: vec![launch],
            missing: vec![MissingMetric { field, launch: 0, reason }],
            left_out: vec!["--replay-mode".into()],
            report: "r".into(),
        };
        Profile { problem: "p".into(), known, version: Some("2025.3.1.0".into()), counters: Ok(counters) }
    }

    #[test]
    fn counters_that_are_missing_are_null_and_named() {
        let (fields, reasons) = told(&ProfileResult::of(&profile()));
        assert_eq!(reasons["launches.0.metrics.tensor_instructions"], "it is `n/a`");
        assert_eq!(
            fields["metrics_missing"],
            json!([{ "field": "tensor_instructions", "entry": "k", "reason": "it is `n/a`" }])
        );
        assert_eq!(fields["tool"]["left_out"], json!(["--replay-mode"]));
        assert_eq!(
            (&fields["bottleneck"], &fields["known_without_counters"]["limited_by"]),
            (&"unknown".into(), &"registers".into())
        );
        assert_eq!(fields["findings"][0]["metric"], "l2_hit_percent");
        let text = text(&profile());
        assert!(text.contains("tensor_instructions        missing"), "{text}");
        assert!(text.contains("l2_hit_percent             35             target at least 70"), "{text}");
    }
}
