//! The bottleneck of a candidate, by rules in a fixed order. `docs/profile.md` has the rules for people.
//!
//! Too few blocks and the launch itself come first, because nothing else helps then. The rules on throughput are
//! those of Nsight Compute's own rule `SOLBottleneck`: below 60 % of either peak latency bounds a kernel, and within
//! 10 points of each other they are balanced. A rule that lacks a counter ends the search: what it would have said is
//! not known.

use std::collections::BTreeMap;

use evo_protocol::invert::MetricDirection;
use evo_protocol::words;
use schemars::JsonSchema;
use serde::Serialize;

use super::collect::ProfiledLaunch;
use super::known::KnownFacts;
use super::metrics::{CounterMetric, METRICS, MetricTarget, MetricUnit, metric_of};

words! {
    Bottleneck {
        Parallelism = "parallelism",
        Launch = "launch",
        /// Shared memory, because of bank conflicts.
        SharedMemory = "shared_memory",
        Tensor = "tensor",
        Balanced = "balanced",
        Memory = "memory",
        Compute = "compute",
        Latency = "latency",
        Unknown = "unknown",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    pub bottleneck: Bottleneck,
    pub because: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProfileFinding {
    pub metric: &'static str,
    pub value: f64,
    pub target: f64,
    /// How far the value is from its target, from 0 to 1.
    pub gap_ratio: f64,
    pub meaning: &'static str,
    pub next: &'static str,
}

/// At most half of the time is work.
const FLOOR_TIMES: f64 = 2.0;
/// Passes through shared memory that bank conflicts cost, over all of them.
const CONFLICTS: f64 = 0.3;
/// The same from which on it is worth a finding.
const CONFLICTS_FOUND: f64 = 0.05;
/// Below this nothing is busy, percent.
const BUSY: f64 = 60.0;
/// Points between two throughputs that count as equal.
const BALANCED: f64 = 10.0;
const TOLD: usize = 3;

/// None where there are no counters.
pub type MainMetrics<'a> = Option<&'a BTreeMap<String, Option<f64>>>;

pub fn diagnose(known: &KnownFacts, metrics: MainMetrics<'_>) -> Diagnosis {
    let is = |bottleneck, because: String| Diagnosis { bottleneck, because };
    let unknown = |because: String| is(Bottleneck::Unknown, because);
    let sm_count = match &known.sm_count {
        Ok(sm_count) => *sm_count,
        Err(why) => return unknown(why.clone()),
    };
    if known.ctas < sm_count {
        return is(Bottleneck::Parallelism, format!("{} blocks for {sm_count} multiprocessors", known.ctas));
    }
    match &known.launch_floor_ratio {
        Ok(ratio) if *ratio <= FLOOR_TIMES => {
            return is(
                Bottleneck::Launch,
                format!("a call takes {ratio:.1} times as long as empty launches"),
            );
        }
        Ok(_) => {}
        Err(why) => return unknown(why.clone()),
    }
    let Some(metrics) = metrics else { return unknown("there are no counters".to_string()) };
    counted(metrics).unwrap_or_else(|lacking| unknown(format!("`{lacking}` is missing")))
}

fn counted(metrics: &BTreeMap<String, Option<f64>>) -> Result<Diagnosis, &'static str> {
    let get = |field: &'static str| metrics.get(field).copied().flatten().ok_or(field);
    let is = |bottleneck, because: String| Ok(Diagnosis { bottleneck, because });
    let conflicts = get("bank_conflicts_load")? + get("bank_conflicts_store")?;
    let passes = get("shared_wavefronts_load")? + get("shared_wavefronts_store")?;
    let dram = get("dram_throughput_percent")?;
    // Where device memory is busy, shared memory is waited for, not waited on.
    if passes > 0.0 && conflicts / passes >= CONFLICTS && dram < BUSY {
        let because =
            format!("bank conflicts cost {:.2} of all passes through shared memory", conflicts / passes);
        return is(Bottleneck::SharedMemory, because);
    }
    let (tensor, memory) = (get("tensor_pipe_percent")?, get("memory_throughput_percent")?);
    let compute = get("sm_throughput_percent")?;
    let both = format!("compute {compute:.0} %, memory {memory:.0} % of their peaks");
    if tensor >= BUSY && tensor >= memory {
        return is(Bottleneck::Tensor, format!("tensor cores {tensor:.0} % of their peak"));
    }
    match (compute >= BUSY, memory >= BUSY) {
        (true, true) if (compute - memory).abs() < BALANCED => is(Bottleneck::Balanced, both),
        (_, true) if memory > compute => is(Bottleneck::Memory, both),
        (true, _) => is(Bottleneck::Compute, both),
        _ => is(Bottleneck::Latency, both),
    }
}

pub fn findings(known: &KnownFacts, metrics: MainMetrics<'_>) -> Vec<ProfileFinding> {
    let mut found = of_facts(known);
    let is_limited = found.iter().any(|one| one.metric == OCCUPANCY_LIMIT);
    if let Some(metrics) = metrics {
        let missed = METRICS.iter().filter_map(|metric| of_metric(metric, metrics, known));
        // The limit says the same and why.
        found.extend(missed.filter(|one| !is_limited || one.metric != "occupancy_percent"));
    }
    found.sort_by(|a, b| b.gap_ratio.total_cmp(&a.gap_ratio));
    found.truncate(TOLD);
    found
}

const OCCUPANCY_LIMIT: &str = "occupancy_limit_percent";
const OCCUPANCY_TARGET: f64 = 50.0;

fn of_facts(known: &KnownFacts) -> Vec<ProfileFinding> {
    let mut found = Vec::new();
    let mut add = |metric, value: f64, target: f64, gap_ratio: f64, meaning, next| {
        if gap_ratio > 0.0 {
            found.push(ProfileFinding { metric, value, target, gap_ratio, meaning, next });
        }
    };
    if let Ok(sm_count) = known.sm_count {
        let (blocks, target) = (known.ctas as f64, sm_count as f64);
        let meaning = "blocks of the main launch; a multiprocessor without one does nothing";
        let next = "smaller tiles, or split the work along another axis";
        add("ctas", blocks, target, 1.0 - blocks / target, meaning, next);
    }
    if let Ok(percent) = known.occupancy_limit_percent {
        let meaning = "resident warps over the most that fit, however many blocks there are";
        let next = "less of what `limited_by` names, or smaller blocks";
        add(OCCUPANCY_LIMIT, percent, OCCUPANCY_TARGET, 1.0 - percent / OCCUPANCY_TARGET, meaning, next);
    }
    if let (Ok(spilled), Ok(registers)) = (&known.spill_bytes, &known.registers) {
        let (spilled, kept) = (*spilled as f64, 4.0 * *registers as f64);
        let meaning = "bytes of each thread that go through local memory instead of registers";
        let next = "smaller tiles for each thread, or looser launch bounds";
        // Of what a thread keeps, the part that is not in registers.
        add("spill_bytes", spilled, 0.0, spilled / (spilled + kept), meaning, next);
    }
    found
}

fn of_metric(
    metric: &CounterMetric,
    metrics: &BTreeMap<String, Option<f64>>,
    known: &KnownFacts,
) -> Option<ProfileFinding> {
    let get = |field: &str| metrics.get(field).copied().flatten();
    let counted = get(metric.field)?;
    let (value, target, gap_ratio) = match metric.target? {
        MetricTarget::AtLeastIfMemoryBound(_) if known.is_memory_bound != Ok(true) => return None,
        MetricTarget::AtLeastIfTensor(_) if known.is_tensor_meant != Ok(true) => return None,
        MetricTarget::AtLeast(target)
        | MetricTarget::AtLeastIfMemoryBound(target)
        | MetricTarget::AtLeastIfTensor(target) => (counted, target, 1.0 - counted / target),
        MetricTarget::NonePer(passes) => {
            let share = counted / get(passes).filter(|passes| *passes > 0.0)?;
            if share < CONFLICTS_FOUND {
                return None;
            }
            // Passes that conflicts cost are among the passes.
            (share, 0.0, share.min(1.0))
        }
    };
    let CounterMetric { field, meaning, next, .. } = *metric;
    (gap_ratio > 0.0).then_some(ProfileFinding { metric: field, value, target, gap_ratio, meaning, next })
}

/// Percent are averages over time, which differ from run to run: fewer points than this are chance.
const POINTS: f64 = 1.0;
/// Counts are exact where a kernel's path does not depend on time; where it does they differ by less than this share.
const SHARE: f64 = 1e-5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricMovement {
    pub before: f64,
    pub after: f64,
    pub has_moved: bool,
}

/// Whether a metric moved between two profiles of kernels that make the same launches. Counts are summed over the
/// launches; of an average it is the launch that went furthest in the direction.
pub fn movement(
    field: &str,
    direction: MetricDirection,
    before: &[ProfiledLaunch],
    after: &[ProfiledLaunch],
) -> Result<MetricMovement, String> {
    let metric = metric_of(field).ok_or_else(|| format!("`{field}` is not a metric"))?;
    let values = |launches: &[ProfiledLaunch]| -> Result<Vec<f64>, String> {
        let value = |own: &ProfiledLaunch| own.metrics.get(field).copied().flatten();
        let all: Option<Vec<f64>> = launches.iter().map(value).collect();
        all.filter(|all| !all.is_empty()).ok_or_else(|| format!("`{field}` has no value"))
    };
    let (before, after) = (values(before)?, values(after)?);
    let sign = match direction {
        MetricDirection::Up => 1.0,
        MetricDirection::Down => -1.0,
    };
    // Counts for each instruction do not add up over launches.
    let is_sum =
        matches!(metric.unit, MetricUnit::Count | MetricUnit::Bytes) && !metric.counter.ends_with(".ratio");
    let (before, after) = match is_sum {
        true => (before.iter().sum(), after.iter().sum()),
        false if before.len() == after.len() => {
            let pairs = before.into_iter().zip(after);
            let furthest =
                pairs.max_by(|one, other| (sign * (one.1 - one.0)).total_cmp(&(sign * (other.1 - other.0))));
            furthest.unwrap_or_default()
        }
        false => return Err(format!("launches are {} and not {}", after.len(), before.len())),
    };
    let least = match metric.unit {
        MetricUnit::Percent => POINTS,
        _ => SHARE * f64::abs(before),
    };
    Ok(MetricMovement { before, after, has_moved: sign * (after - before) > least })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evo_compile::occupancy::OccupancyLimit;

    fn known() -> KnownFacts {
        KnownFacts {
            launch: 0,
            ctas: 1000,
            waves: Ok(2.0),
            occupancy_limit_percent: Ok(75.0),
            limited_by: Ok(OccupancyLimit::Registers),
            registers: Ok(64),
            spill_bytes: Ok(0),
            roofline_ratio: Ok(0.5),
            sm_count: Ok(132),
            launch_floor_ratio: Ok(20.0),
            is_memory_bound: Ok(true),
            is_tensor_meant: Ok(false),
        }
    }

    fn metrics(changes: &[(&str, Option<f64>)]) -> BTreeMap<String, Option<f64>> {
        let base = [
            ("sm_throughput_percent", 30.0),
            ("memory_throughput_percent", 30.0),
            ("dram_throughput_percent", 20.0),
            ("tensor_pipe_percent", 0.0),
            ("bank_conflicts_load", 0.0),
            ("bank_conflicts_store", 0.0),
            ("shared_wavefronts_load", 100.0),
            ("shared_wavefronts_store", 100.0),
        ];
        let mut all: BTreeMap<String, Option<f64>> =
            base.into_iter().map(|(name, value)| (name.to_string(), Some(value))).collect();
        all.extend(changes.iter().map(|(name, value)| (name.to_string(), *value)));
        all
    }

    #[test]
    fn each_rule_has_its_turn() {
        let (sm, memory, tensor) =
            ("sm_throughput_percent", "memory_throughput_percent", "tensor_pipe_percent");
        let (conflicts, dram) = (("bank_conflicts_load", Some(60.0)), "dram_throughput_percent");
        let silent = [("shared_wavefronts_load", Some(0.0)), ("shared_wavefronts_store", Some(0.0))];
        let rows: [&[(&str, Option<f64>)]; 12] = [
            &[],
            &[(memory, Some(80.0))],
            &[(sm, Some(80.0))],
            &[(sm, Some(80.0)), (memory, Some(75.0))],
            &[(sm, Some(62.0)), (memory, Some(85.0))],
            &[(sm, Some(85.0)), (memory, Some(62.0))],
            &[(sm, Some(80.0)), (tensor, Some(78.0))],
            &[conflicts],
            &[conflicts, (dram, Some(70.0)), (memory, Some(70.0))],
            &silent,
            // A rule that lacks a counter guesses nothing.
            &[(tensor, None), (sm, Some(90.0))],
            &[(memory, Some(95.0))],
        ];
        // Few blocks and the launch itself come first.
        let few = KnownFacts { ctas: 100, launch_floor_ratio: Ok(1.1), ..known() };
        let short = KnownFacts { launch_floor_ratio: Ok(1.1), ..known() };
        let host = KnownFacts { sm_count: Err("no".into()), ..known() };
        let told = |found: Diagnosis| format!("{}: {}", found.bottleneck.as_str(), found.because);
        let by_rule = rows.map(|row| format!("{row:?}\n  {}", told(diagnose(&known(), Some(&metrics(row))))));
        let (nothing, busy) = (BTreeMap::new(), metrics(rows[11]));
        let early = [&few, &short, &host, &known()]
            .map(|own| {
                [None, Some(&nothing), Some(&busy)].map(|own_metrics| told(diagnose(own, own_metrics)))
            })
            .concat();
        insta::assert_snapshot!([&by_rule[..], &early[..]].concat().join("\n"));
    }

    #[test]
    fn three_findings_with_the_largest_gap_come_first_and_facts_alone_make_some_too() {
        let metrics = metrics(&[
            ("occupancy_percent", Some(10.0)),
            ("l2_hit_percent", Some(69.0)),
            ("load_efficiency_percent", Some(20.0)),
            ("bank_conflicts_load", Some(45.0)),
            ("bank_conflicts_store", Some(1.0)),
            ("tensor_pipe_percent", Some(0.0)),
        ]);
        let compute = KnownFacts { is_memory_bound: Ok(false), ..known() };
        let tensor = KnownFacts { is_tensor_meant: Ok(true), ..compute.clone() };
        let limited = KnownFacts { occupancy_limit_percent: Ok(5.0), ..known() };
        let poor =
            KnownFacts { ctas: 33, spill_bytes: Ok(256), occupancy_limit_percent: Ok(12.5), ..known() };
        let told = [
            ("memory-bound", &known(), Some(&metrics)),
            ("compute-bound", &compute, Some(&metrics)),
            ("with tensor cores", &tensor, Some(&metrics)),
            ("a limited occupancy", &limited, Some(&metrics)),
            ("poor facts alone", &poor, None),
            ("facts alone", &known(), None),
        ]
        .map(|(name, known, metrics)| {
            let found = findings(known, metrics);
            let found: Vec<_> = found.iter().map(|own| format!("{} {}", own.metric, own.gap_ratio)).collect();
            format!("{name}: {}", found.join(", "))
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    fn launches(field: &str, values: &[Option<f64>]) -> Vec<ProfiledLaunch> {
        let launch = |value: &Option<f64>| ProfiledLaunch {
            entry: "k".into(),
            grid: [1, 1, 1],
            block: [32, 1, 1],
            metrics: [(field.to_string(), *value)].into(),
        };
        values.iter().map(launch).collect()
    }

    #[test]
    fn counts_are_summed_averages_are_those_of_the_launch_that_moved_most_and_no_value_says_nothing() {
        use MetricDirection::{Down, Up};
        let some = |all: &[f64]| all.iter().copied().map(Some).collect::<Vec<_>>();
        let mut rows: Vec<_> = [
            ("instructions", Up, &[100.0, 50.0][..], &[100.0, 51.0][..]),
            ("instructions", Up, &[100.0, 50.0], &[90.0, 60.0]),
            ("instructions", Down, &[100.0], &[101.0]),
            ("local_load_sectors", Up, &[0.0], &[8.0]),
            ("local_load_sectors", Up, &[0.0], &[0.0]),
            ("occupancy_percent", Down, &[80.0, 40.0], &[79.9, 20.0]),
            ("occupancy_percent", Down, &[80.0], &[79.5]),
            ("threads_per_instruction", Down, &[32.0, 32.0], &[32.0, 24.0]),
            // A count that a waiting loop changes by a little is not one that was changed on purpose.
            ("instructions", Up, &[1e9], &[1e9 + 100.0]),
            ("instructions", Up, &[1.0], &[]),
            ("speed", Up, &[1.0], &[1.0]),
            ("l2_hit_percent", Up, &[1.0], &[1.0, 1.0]),
        ]
        .map(|(field, direction, before, after)| (field, direction, some(before), some(after)))
        .into();
        rows.push(("instructions", Up, vec![Some(1.0)], vec![None]));
        let told = rows.into_iter().map(|(field, direction, before, after)| {
            let found = movement(field, direction, &launches(field, &before), &launches(field, &after));
            let found = found.map(|own| (own.before, own.after, own.has_moved));
            format!("{field} {direction:?} {before:?} {after:?}: {found:?}")
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
    }
}
