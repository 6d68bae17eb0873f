//! The metrics that evo asks a profiler for: a few, each with what it means and what to try when it is poor. Whole sets
//! of the profiler's own take minutes a kernel.
//!
//! Names are those of Nsight Compute 2022.3 and later. All but the wide set were read on an H200 (GH100) with 2025.3.1;
//! metrics that another architecture lacks come back null and are named.

use std::collections::BTreeSet;

use evo_protocol::device::capability;
use evo_space::diagnostic::nearest;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricSet {
    Light,
    Wide,
    /// Only where it is asked for by its name.
    Named,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    Percent,
    Bytes,
    /// A count, or a ratio of counts.
    Count,
    /// Whatever the profiler says in its base unit: a metric that the user named.
    Any,
}

/// What a good kernel reaches, where that can be said at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricTarget {
    AtLeast(f64),
    /// The same where memory traffic bounds the problem.
    AtLeastIfMemoryBound(f64),
    /// The same where tensor cores are meant: 16-bit floats and a problem that arithmetic bounds.
    AtLeastIfTensor(f64),
    /// None for each pass through shared memory, which this field counts.
    NonePer(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterMetric {
    pub field: &'static str,
    pub counter: &'static str,
    pub set: MetricSet,
    pub unit: MetricUnit,
    pub target: Option<MetricTarget>,
    pub meaning: &'static str,
    pub next: &'static str,
}

pub const TENSOR_INSTRUCTIONS: &str = "tensor_instructions";
/// Warpgroup products of sm_90, which the counter of the older instructions does not see.
const WARPGROUP_PRODUCTS: &str = "sm__inst_executed_pipe_tensor_op_gmma.sum";

const STALL: &str =
    "warps that wait, for each issued instruction; the largest of these is the reason to look for";

macro_rules! metrics {
    ($($field:literal $counter:literal $set:ident $unit:ident $target:expr, $meaning:expr, $next:expr;)*) => {
        &[$(CounterMetric { field: $field, counter: $counter, set: MetricSet::$set, unit: MetricUnit::$unit,
            target: $target, meaning: $meaning, next: $next },)*]
    };
}

use MetricTarget::{AtLeast, AtLeastIfMemoryBound, AtLeastIfTensor, NonePer};

pub const METRICS: &[CounterMetric] = metrics! {
    "sm_throughput_percent" "sm__throughput.avg.pct_of_peak_sustained_elapsed" Light Percent None,
        "how busy the busiest unit of the multiprocessors is", "fewer or cheaper instructions";
    "sm_busy_percent" "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed" Light Percent Some(AtLeast(70.0)),
        "cycles in which a scheduler has a warp at all",
        "more or smaller blocks, so that every multiprocessor has work until the end";
    "memory_throughput_percent" "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed" Light Percent
        Some(AtLeastIfMemoryBound(40.0)), "how busy the busiest level of the memory hierarchy is",
        "more loads in flight: wider loads, more stages, more warps";
    "dram_throughput_percent" "dram__throughput.avg.pct_of_peak_sustained_elapsed" Light Percent
        Some(AtLeastIfMemoryBound(40.0)), "how busy device memory is",
        "more loads in flight: wider loads, more stages, more warps";
    "occupancy_percent" "sm__warps_active.avg.pct_of_peak_sustained_active" Light Percent Some(AtLeast(50.0)),
        "resident warps over the most that fit", "fewer registers or less shared memory a block, or smaller blocks";
    "l2_hit_percent" "lts__t_sector_hit_rate.pct" Light Percent Some(AtLeast(70.0)),
        "sectors that the L2 cache had", "let neighboring blocks share data: another order of blocks, larger tiles";
    "tensor_pipe_percent" "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active" Light Percent
        Some(AtLeastIfTensor(50.0)), "cycles in which the tensor cores work",
        "larger tiles, more stages, loads that run ahead of the products";
    "load_efficiency_percent" "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct" Light Percent
        Some(AtLeast(80.0)), "bytes of each loaded 32-byte sector that are used",
        "neighboring threads load neighboring addresses; aligned vector loads";
    "bank_conflicts_load" "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum" Light Count
        Some(NonePer("shared_wavefronts_load")), "further passes through shared memory for loads",
        "pad or swizzle the rows in shared memory";
    "bank_conflicts_store" "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum" Light Count
        Some(NonePer("shared_wavefronts_store")), "further passes through shared memory for stores",
        "pad or swizzle the rows in shared memory";
    "shared_wavefronts_load" "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum" Light Count None,
        "passes through shared memory for loads", "wider loads from shared memory";
    "shared_wavefronts_store" "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum" Light Count None,
        "passes through shared memory for stores", "wider stores to shared memory";
    "threads_per_instruction" "smsp__thread_inst_executed_per_inst_executed.ratio" Wide Count Some(AtLeast(32.0)),
        "threads of a warp that an instruction works for", "less divergence: branches that whole warps take";
    "stall_long_scoreboard" "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio" Wide Count None,
        STALL, "it waits for global memory: load earlier, more stages";
    "stall_barrier" "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio" Wide Count None,
        STALL, "it waits at barriers: fewer of them, or fewer warps at each";
    "stall_wait" "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio" Wide Count None,
        STALL, "it waits for its own last instruction: more independent work in a thread";
    "stall_math_pipe_throttle" "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio" Wide Count
        None, STALL, "it waits for an arithmetic unit: other instructions, or fewer";
    "tensor_instructions" "sm__inst_executed_pipe_tensor_op_hmma.sum" Wide Count None,
        "instructions of the tensor cores on floats", "products of 16-bit floats through the tensor cores";
    "dram_bytes" "dram__bytes.sum" Wide Bytes None,
        "bytes between device memory and the L2 cache", "each byte once: fuse, or reuse in shared memory";
    "instructions" "smsp__inst_executed.sum" Named Count None,
        "instructions of warps", "fewer: wider loads, larger tiles a thread, unrolled loops";
    "l1_hit_percent" "l1tex__t_sector_hit_rate.pct" Named Percent None,
        "sectors that the L1 cache had", "reuse close by: neighboring threads on neighboring data";
    "local_load_sectors" "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum" Named Count None,
        "sectors of local memory that are loaded: spilled registers and arrays with computed places",
        "more registers a thread, smaller tiles a thread";
    "global_load_requests" "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum" Named Count None,
        "loads of global memory by whole warps, but for asynchronous copies", "wider loads, more reuse";
    "global_store_sectors" "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum" Named Count None,
        "sectors of global memory that are stored to, but for asynchronous copies",
        "whole sectors: neighboring threads store to neighboring addresses";
};

#[derive(Clone, Debug, PartialEq)]
pub struct WantedMetric {
    pub field: String,
    pub counters: Vec<String>,
    pub unit: MetricUnit,
    pub unanswerable: Option<String>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{name}` is not a metric")]
pub struct UnknownMetric {
    pub name: String,
    pub hint: String,
}

pub fn metric_of(field: &str) -> Option<&'static CounterMetric> {
    METRICS.iter().find(|metric| metric.field == field)
}

/// Fields, or names of the profiler's own such as `dram__bytes_read.sum`.
pub fn check_names(names: &[String]) -> Result<(), UnknownMetric> {
    let unknown = names.iter().find(|name| metric_of(name).is_none() && !is_counter(name));
    let Some(name) = unknown else { return Ok(()) };
    let known = METRICS.iter().flat_map(|metric| [metric.field, metric.counter]);
    let hint = match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let fields: Vec<&str> = METRICS.iter().map(|metric| metric.field).collect();
            format!(
                "there are {}, and names of `ncu --query-metrics` such as `dram__bytes_read.sum`",
                fields.join(", ")
            )
        }
    };
    Err(UnknownMetric { name: name.clone(), hint })
}

/// A name such as `sm__cycles_active.avg`: a unit, two underscores, a quantity. Groups and patterns are left out,
/// because nobody knows which columns they become.
fn is_counter(name: &str) -> bool {
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_.".contains(letter);
    let parts = name.split_once("__");
    parts.is_some_and(|(unit, rest)| !unit.is_empty() && !rest.is_empty()) && name.chars().all(plain)
}

pub fn named(fields: &[&str], arch: &str) -> Vec<WantedMetric> {
    let asked = METRICS.iter().filter(|metric| fields.contains(&metric.field));
    asked.map(|metric| of_table(metric, arch)).collect()
}

pub fn wanted(set: MetricSet, further: &[String], arch: &str) -> Vec<WantedMetric> {
    let named = |metric: &CounterMetric| further.iter().any(|name| name == metric.field);
    let own = METRICS.iter().filter(|metric| metric.set <= set || named(metric));
    let mut all: Vec<WantedMetric> = own.map(|metric| of_table(metric, arch)).collect();
    let mut seen = BTreeSet::new();
    let foreign = further.iter().filter(|name| metric_of(name).is_none() && seen.insert(name.as_str()));
    all.extend(foreign.map(|name| plain(name, name, MetricUnit::Any)));
    all
}

fn plain(field: &str, counter: &str, unit: MetricUnit) -> WantedMetric {
    WantedMetric { field: field.to_string(), counters: vec![counter.to_string()], unit, unanswerable: None }
}

fn of_table(metric: &CounterMetric, arch: &str) -> WantedMetric {
    let plain = plain(metric.field, metric.counter, metric.unit);
    if metric.field != TENSOR_INSTRUCTIONS {
        return plain;
    }
    match capability(arch) {
        Some(90) => {
            let mut counters = plain.counters.clone();
            counters.push(WARPGROUP_PRODUCTS.to_string());
            WantedMetric { counters, ..plain }
        }
        Some(70..90) => plain,
        // A sum that leaves out the instructions of a newer architecture would say that it used no tensor cores.
        _ => {
            let why = format!("which counters see the tensor instructions of `{arch}` is not known");
            WantedMetric { counters: Vec::new(), unanswerable: Some(why), ..plain }
        }
    }
}

pub fn counters(wanted: &[WantedMetric]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = wanted.iter().flat_map(|metric| &metric.counters);
    all.filter(|counter| seen.insert(counter.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_name_what_a_profile_has() {
        let known: Vec<&str> = METRICS.iter().map(|metric| metric.field).collect();
        assert_eq!(evo_kernel::load::goals::METRIC_NAMES, known.join(" "));
        for own in evo_kernel::harm::Pathology::all() {
            assert!(own.spec.moves.iter().all(|moved| metric_of(&moved.metric).is_some()), "{own:?}");
        }
    }

    #[test]
    fn fields_and_counters_stand_once_and_end_in_their_unit() {
        let fields: BTreeSet<&str> = METRICS.iter().map(|metric| metric.field).collect();
        let counters: BTreeSet<&str> = METRICS.iter().map(|metric| metric.counter).collect();
        assert_eq!((fields.len(), counters.len()), (METRICS.len(), METRICS.len()));
        for metric in METRICS {
            let percent = metric.counter.contains(".pct");
            assert_eq!(percent, metric.field.ends_with("_percent"), "{}", metric.field);
            assert_eq!(percent, metric.unit == MetricUnit::Percent, "{}", metric.field);
            assert!(is_counter(metric.counter) && !is_counter(metric.field), "{}", metric.field);
            if let Some(NonePer(other)) = metric.target {
                assert_eq!(metric_of(other).map(|own| own.set), Some(metric.set));
            }
        }
    }

    #[test]
    fn sets_and_further_names_come_together_and_tensor_instructions_are_those_of_the_architecture() {
        use MetricSet::{Light, Wide};
        let told = |all: Vec<WantedMetric>| {
            let counters = |own: &WantedMetric| match &own.unanswerable {
                None => own.counters.join(" + "),
                Some(why) => why.clone(),
            };
            let told = all.iter().map(|own| format!("  {} = {} ({:?})", own.field, counters(own), own.unit));
            told.collect::<Vec<_>>().join("\n")
        };
        let rows: [(MetricSet, &[&str]); 4] = [
            (Light, &[]),
            (Light, &["dram_bytes", "dram__bytes_read.sum", "dram__bytes_read.sum"]),
            (Wide, &["dram_bytes"]),
            (Wide, &["l1_hit_percent"]),
        ];
        let sets = rows.map(|(set, further)| {
            let names: Vec<String> = further.iter().map(|name| name.to_string()).collect();
            check_names(&names).unwrap();
            format!("{set:?} {further:?}\n{}", told(wanted(set, &names, "sm_90a")))
        });
        let archs = ["sm_80", "sm_90a", "sm_100a", "host"];
        let tensor = archs.map(|arch| format!("{arch}\n{}", told(named(&[TENSOR_INSTRUCTIONS], arch))));
        let two = told(named(&["instructions", "dram_bytes"], "sm_90a"));
        insta::assert_snapshot!([&sets[..], &tensor[..], &[two]].concat().join("\n"));
    }

    #[test]
    fn slips_of_the_finger_are_named() {
        let bad = "sm_busy_percnt|speed|group:memory__chart|regex:sm__.*||__|Sm__x|a__b,c__d";
        let told = bad.split('|').map(|name| {
            let unknown = check_names(&[name.to_string()]).unwrap_err();
            format!("{unknown}: {}", unknown.hint)
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
    }
}
