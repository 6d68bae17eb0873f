//! What a real Nsight Compute printed (`tests/data/tools/ncu/recorded`), and what one says here if it is installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use evo::inspect::profile::{Collection, METRICS, MetricSet, MetricUnit, RawPage, collect, counters, wanted};
use evo::tool::{ToolKind, ToolPlaces, ToolState, locate};

use crate::lane::{fault, options, own_worker};

fn recorded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools/ncu/recorded");
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn recorded_tables_are_read() {
    let page = RawPage::read(&recorded("transpose_coalesced.csv")).unwrap();
    assert_eq!((page.launches(), page.kernel(0)), (1, Some("transposeCoalesced")));
    let value = |field: &str| {
        let metric = METRICS.iter().find(|metric| metric.field == field).unwrap();
        page.value(0, metric.counter, metric.unit)
    };
    assert_eq!(value("memory_throughput_percent"), Ok(90.23));
    assert_eq!(
        (value("bank_conflicts_load"), value("shared_wavefronts_load")),
        (Ok(65_011_712.0), Ok(67_446_928.0))
    );
    assert_eq!((value("threads_per_instruction"), value("stall_barrier")), (Ok(32.0), Ok(22.2)));
    assert!(value("dram_bytes").is_err(), "it was not collected");
    let padded = RawPage::read(&recorded("transpose_no_bank_conflicts.csv")).unwrap();
    let conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum";
    let wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
    let share = |page: &RawPage| {
        let value = |counter| page.value(0, counter, MetricUnit::Count).unwrap();
        value(conflicts) / value(wavefronts)
    };
    // The example pads a tile: passes that conflicts cost are among all passes.
    assert!(
        (0.9..=1.0).contains(&share(&page)) && share(&padded) < 0.3,
        "{} {}",
        share(&page),
        share(&padded)
    );
}

#[test]
fn recorded_units_are_brought_to_their_base() {
    let page = RawPage::read(&recorded("add_const_scaled.csv")).unwrap();
    assert_eq!(page.kernel(0), Some("addConstDouble3"), "the table has its arguments");
    assert_eq!(page.value(0, "dram__bytes_read.sum", MetricUnit::Bytes), Ok(25_172_480.0));
    assert_eq!(page.value(0, "gpu__time_duration.sum", MetricUnit::Any), Ok(89_856.0));
    assert!(page.value(0, "gpu__time_duration.sum", MetricUnit::Count).is_err());
}

/// Kind and unit of each counter, chip by chip.
fn listed() -> BTreeMap<String, BTreeMap<String, (String, String)>> {
    let mut chips: BTreeMap<String, BTreeMap<String, (String, String)>> = BTreeMap::new();
    let mut chip = String::new();
    for line in recorded("query_metrics.txt").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Chip", name] => chip = name.to_string(),
            [name, kind, ref unit @ ..] => {
                let told = (kind.to_string(), unit.join(" "));
                chips.entry(chip.clone()).or_default().insert(name.to_string(), told);
            }
            _ => panic!("{line}"),
        }
    }
    chips
}

#[test]
fn every_counter_exists_where_it_is_asked_for_with_its_unit() {
    let chips = listed();
    for (chip, arch) in
        [("tu102", "sm_75"), ("ga100", "sm_80"), ("ga102", "sm_86"), ("ad102", "sm_89"), ("gh100", "sm_90a")]
    {
        for metric in wanted(MetricSet::Wide, &[], arch) {
            for counter in counters(std::slice::from_ref(&metric)) {
                let (base, suffix) = counter.split_once('.').unwrap();
                let (kind, unit) = chips[chip].get(base).unwrap_or_else(|| panic!("{chip} lacks {base}"));
                let fits = match metric.unit {
                    // A ratio and its percentage have units of their own.
                    MetricUnit::Percent => unit == "%" || suffix.contains("pct"),
                    MetricUnit::Bytes => unit == "byte",
                    MetricUnit::Count => !unit.contains("byte") && unit != "%",
                    MetricUnit::Any => false,
                };
                assert!(fits, "{counter} on {chip}: {unit}");
                let of_kind = match kind.as_str() {
                    "Ratio" => ["ratio", "pct"].contains(&suffix),
                    "Counter" => suffix.starts_with("sum") || suffix.starts_with("avg"),
                    _ => suffix.starts_with("avg.pct_of_peak_sustained"),
                };
                assert!(of_kind, "{counter} on {chip} is a {kind}");
            }
        }
    }
    assert!(!chips["ad102"].contains_key("sm__inst_executed_pipe_tensor_op_gmma"));
}

#[test]
fn a_real_profiler_around_a_worker_without_a_gpu_is_no_answer() {
    let tool = match locate(ToolKind::Ncu, None, &ToolPlaces::of_environment()) {
        Ok(tool) => tool,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let job = fault("none");
    let folder = tempfile::tempdir().unwrap();
    let options = options(own_worker());
    let wanted = wanted(MetricSet::Light, &[], "sm_90a");
    let failure = collect(&Collection {
        tool: &tool,
        options: &options,
        job: &job,
        plan: &job.tiny[0],
        wanted: &wanted,
        folder: folder.path(),
        limit: Duration::from_secs(60),
    });
    // The kernels of the host device are none of its own.
    let failure = failure.unwrap_err();
    assert!([ToolState::Broken, ToolState::Incompatible].contains(&failure.state), "{failure:?}");
}
