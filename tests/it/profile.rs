//! `evo profile`: the profiler is played by a script (`tests/data/tools/ncu`), the worker and its launches are real. The
//! host device never calls a profiler, so the collection is tested below the command line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evo::inspect::profile::{
    Bottleneck, Collected, Collection, KnownFacts, KnownSources, MetricSet, NoCounters, Profile, collect,
    wanted,
};
use evo::report::profile::ProfileResult;
use evo::supervise::job::Job;
use evo::tool::{FoundTool, PERMISSION_HINT, ToolFailure, ToolKind, ToolPlaces, ToolState, locate, probe};
use evo_protocol::device::{DeviceInfo, DeviceKind, EntryAttributes};
use evo_protocol::known::told;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use serde_json::json;
use tempfile::TempDir;

use crate::lane::{fault as job, options, own_worker};
use crate::support::processes::wait_for_ends;

const PATIENT: Duration = Duration::from_secs(120);

/// A profiler that plays a state, in a folder of its own.
struct Played {
    folder: TempDir,
    tool: FoundTool,
}

impl Played {
    fn new(state: &str) -> Played {
        Played::without(state, "no option at all")
    }

    /// The same without an option in its help.
    fn without(state: &str, option: &str) -> Played {
        let folder = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools/ncu");
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
        let program = folder.path().join("ncu");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("state"), format!("{state}\n")).unwrap();
        let help = fs::read_to_string(folder.path().join("help.txt")).unwrap();
        fs::write(folder.path().join("help.txt"), help.replace(option, "--gone")).unwrap();
        let tool = probe(ToolKind::Ncu, program).unwrap();
        Played { folder, tool }
    }

    fn collect(&self, job: &Job, plan: &ProblemPlan, limit: Duration) -> Result<Collected, ToolFailure> {
        let scratch = self.folder.path().join("scratch");
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir(&scratch).unwrap();
        let options = options(own_worker());
        let wanted = wanted(MetricSet::Wide, &["lts__t_sectors.sum".to_string()], "sm_90a");
        let (tool, folder) = (&self.tool, scratch.as_path());
        collect(&Collection { tool, options: &options, job, plan, wanted: &wanted, folder, limit })
    }

    /// The smallest shape of a kernel that is right.
    fn plain(&self, limit: Duration) -> Result<Collected, ToolFailure> {
        let job = job("none");
        self.collect(&job, &job.tiny[0], limit)
    }

    /// What the profiler was asked for.
    fn seen(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("seen")).unwrap();
        text.lines().map(String::from).collect()
    }
}

fn value(collected: &Collected, field: &str) -> Option<f64> {
    collected.launches[0].metrics[field]
}

fn reason<'a>(collected: &'a Collected, field: &str) -> &'a str {
    let missing = collected.missing.iter().find(|one| one.field == field);
    missing.map_or("it is there", |one| &one.reason)
}

#[test]
fn every_metric_of_every_launch_is_read() {
    let played = Played::new("fine");
    let collected = played.plain(PATIENT).unwrap();
    let launch = &collected.launches[0];
    assert_eq!((collected.launches.len(), launch.entry.as_str()), (1, "faults"));
    assert_eq!(value(&collected, "l2_hit_percent"), Some(81.4));
    assert_eq!(value(&collected, "dram_bytes"), Some(1_048_576.0));
    assert_eq!(value(&collected, "tensor_instructions"), Some(42.0), "both kinds of tensor instructions");
    // The user's own metric, which this report does not have.
    assert_eq!(value(&collected, "lts__t_sectors.sum"), None);
    assert_eq!(collected.missing.len(), 1, "{:?}", collected.missing);
    assert!(reason(&collected, "lts__t_sectors.sum").contains("no column"));
    assert!(fs::read(&collected.report).unwrap().starts_with(b"NVR"));
    assert!(collected.left_out.is_empty());
    let seen = played.seen();
    for expected in [
        "--target-processes application-only",
        "--kernel-name-base function",
        "--kernel-name regex:^(faults)$",
        "--launch-skip 3",
        "--launch-count 1",
        "--replay-mode kernel",
        "--cache-control none",
        "--clock-control none",
        "--page raw",
        "--print-units base",
    ] {
        assert!(seen.iter().any(|own| own == expected), "{expected}: {seen:?}");
    }
}

#[test]
fn numbers_with_separators_and_other_units_are_what_they_mean() {
    let collected = Played::new("separators").plain(PATIENT).unwrap();
    assert_eq!(value(&collected, "dram_bytes"), Some(12_345_678_901.0));
    assert_eq!(value(&collected, "tensor_instructions"), Some(1_048_578.0));
    assert_eq!(value(&collected, "shared_wavefronts_load"), Some(1234.0));
    assert_eq!(value(&collected, "dram_throughput_percent"), Some(25.0));
    let scaled = Played::new("scaled").plain(PATIENT).unwrap();
    assert_eq!(value(&scaled, "dram_bytes"), Some(1.5e6));
    assert_eq!(value(&scaled, "tensor_instructions"), Some(4002.0));
    for field in ["l2_hit_percent", "threads_per_instruction"] {
        assert_eq!(value(&scaled, field), None);
        assert!(reason(&scaled, field).contains("in the unit"), "{}", reason(&scaled, field));
    }
}

#[test]
fn what_is_not_available_is_missing_and_never_zero() {
    let collected = Played::new("not_available").plain(PATIENT).unwrap();
    for (field, why) in [
        // Read as 0, they would say that no tensor cores were used.
        ("tensor_instructions", "`n/a`, which is not a number"),
        ("tensor_pipe_percent", "`n/a`, which is not a number"),
        ("l2_hit_percent", "`nan`"),
        ("occupancy_percent", "`(!) n/a`"),
        ("dram_bytes", "is empty"),
        ("bank_conflicts_store", "`12,5`"),
        ("sm_busy_percent", "no column"),
    ] {
        assert_eq!(value(&collected, field), None, "{field}");
        assert!(reason(&collected, field).contains(why), "{field}: {}", reason(&collected, field));
    }
    assert_eq!(value(&collected, "sm_throughput_percent"), Some(44.75));
    assert_eq!(collected.missing.len(), 8);
}

#[test]
fn a_metric_that_the_profiler_does_not_know_is_left_out_and_named() {
    let played = Played::new("unknown_metric");
    let collected = played.plain(PATIENT).unwrap();
    assert_eq!(value(&collected, "tensor_instructions"), None, "half of the sum would be a wrong answer");
    assert!(
        reason(&collected, "tensor_instructions")
            .contains("does not know `sm__inst_executed_pipe_tensor_op_gmma.sum`")
    );
    assert_eq!(value(&collected, "tensor_pipe_percent"), Some(0.0), "a zero that was counted stays one");
    let asked: Vec<String> = played.seen().into_iter().filter(|line| line.starts_with("--metrics")).collect();
    assert_eq!(asked.len(), 2, "once with it and once without");
    assert!(!asked[1].contains("gmma") && asked[1].contains("hmma"), "{asked:?}");
}

#[track_caller]
fn fails(state: &str, expected: ToolState, words: &str) -> ToolFailure {
    let failure = Played::new(state).plain(PATIENT).unwrap_err();
    assert_eq!(failure.state, expected, "{state}: {failure:?}");
    assert!(failure.message.contains(words), "{state}: {failure:?}");
    failure
}

#[test]
fn each_way_to_give_no_answer_has_its_state() {
    assert_eq!(
        fails("refused", ToolState::Refused, "ERR_NVGPUCTRPERM").hint.as_deref(),
        Some(PERMISSION_HINT)
    );
    assert!(
        fails("busy", ToolState::Busy, "driver resource was unavailable").hint.unwrap().contains("dcgmi")
    );
    fails("locked", ToolState::Busy, "InterprocessLockFailed");
    assert!(
        fails("incompatible", ToolState::Incompatible, "not compatible").hint.unwrap().contains("EVO_NCU")
    );
    fails("unsupported", ToolState::Incompatible, "not supported on device 0");
    fails("no_driver", ToolState::Incompatible, "failed to connect to the CUDA driver");
    fails("no_kernel", ToolState::Broken, "No kernels were profiled");
    fails("silent", ToolState::Broken, "left no report");
    fails("dead", ToolState::Broken, "was not launched to the end");
    fails("late_death", ToolState::Broken, "failed with signal");
    fails("truncated", ToolState::Broken, "ends inside of a value");
    fails("garbage", ToolState::Broken, "no line of names");
    fails("short", ToolState::Broken, "no line of a launch");
    fails("other_kernel", ToolState::Broken, "is of `evo_fill`, and the plan launches `faults`");
}

#[test]
fn a_target_that_dies_under_a_profiler_that_ends_well_is_no_answer() {
    let job = job("trap");
    let failure = Played::new("fine").collect(&job, &job.tiny[0], PATIENT).unwrap_err();
    assert_eq!(failure.state, ToolState::Broken);
    assert!(failure.message.contains("was not launched to the end"), "{failure:?}");
}

#[test]
fn a_report_with_fewer_launches_than_the_plan_is_no_answer() {
    let job = job("none");
    let mut plan = job.tiny[0].clone();
    plan.launches.push(plan.launches[0].clone());
    let played = Played::new("fine");
    let failure = played.collect(&job, &plan, PATIENT).unwrap_err();
    assert_eq!(failure.state, ToolState::Broken);
    assert!(failure.message.contains("reports 1 launches instead of 2"), "{failure:?}");
    let seen = played.seen();
    assert!(
        seen.contains(&"--launch-skip 6".to_string()) && seen.contains(&"--launch-count 2".to_string()),
        "{seen:?}"
    );
}

#[test]
fn a_profiler_that_hangs_is_killed_with_all_that_it_started() {
    let played = Played::new("hang");
    let failure = played.plain(Duration::from_secs(2)).unwrap_err();
    assert_eq!(failure.state, ToolState::TimedOut, "{failure:?}");
    assert!(failure.hint.unwrap().contains("--limit tool"));
    let pids = fs::read_to_string(played.folder.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 2);
    wait_for_ends(&pids);
    let played = Played::new("slow_import");
    let slow = played.plain(Duration::from_secs(6)).unwrap_err();
    assert_eq!(slow.state, ToolState::TimedOut, "{slow:?}");
    assert!(played.seen().iter().any(|word| word.starts_with("--import")), "the import is what hangs");
}

#[test]
fn options_that_a_version_lacks_are_left_out_or_it_does_not_run() {
    let collected = Played::without("fine", "--replay-mode").plain(PATIENT).unwrap();
    assert_eq!(collected.left_out, ["--replay-mode"]);
    for option in ["--cache-control", "--log-file", "--launch-skip"] {
        let failure = Played::without("fine", option).plain(PATIENT).unwrap_err();
        assert_eq!(failure.state, ToolState::Incompatible, "{option}: {failure:?}");
        assert!(failure.message.contains(option), "{failure:?}");
    }
}

/// A device that nobody has here.
fn gpu() -> DeviceInfo {
    let limits = evo_protocol::device::DeviceLimits::of_arch("sm_90a").unwrap();
    DeviceInfo {
        kind: DeviceKind::Cuda,
        name: "NVIDIA H200".into(),
        arch: "sm_90a".into(),
        uuid: "GPU-0".into(),
        driver: "580".into(),
        multiprocessors: 4,
        limits,
        l2_bytes: 1 << 25,
        memory_bytes: 1 << 37,
        bandwidth: Some(4.8e12),
        flops_f32: Some(6e13),
        flops_f16: None,
    }
}

fn profile(version: Option<&str>, counters: Result<Collected, NoCounters>) -> Profile {
    let job = job("none");
    let mut plan = job.tiny[0].clone();
    plan.launches[0].grid = [64, 1, 1];
    let attributes = [EntryAttributes {
        registers: Some(64),
        blocks_per_multiprocessor: Some(8),
        ..EntryAttributes::default()
    }];
    let known = KnownFacts::of(&KnownSources {
        device: &gpu(),
        plan: &plan,
        resources: &[],
        attributes: &attributes,
        time_ns: Some(50_000.0),
        mode: TimingMode::Hot,
    });
    Profile { problem: "p".into(), known, version: version.map(String::from), counters }
}

#[test]
fn a_profile_names_the_bottleneck_and_without_counters_what_is_known() {
    let played = Played::new("fine");
    let version = played.tool.version.to_string();
    let whole = profile(Some(&version), Ok(played.plain(PATIENT).unwrap()));
    // 96 conflicts in 192 passes through shared memory.
    assert_eq!(whole.diagnosis().bottleneck, Bottleneck::SharedMemory);
    let with = told(&ProfileResult::of(&whole)).0;
    assert_eq!(
        with["tool"],
        json!({ "version": "2025.3.1.0", "state": "ok", "message": null, "left_out": [] })
    );
    assert_eq!(with["findings"][0]["metric"], "bank_conflicts_load");
    assert_eq!(with["findings"].as_array().unwrap().len(), 3);
    let refused = Played::new("refused").plain(PATIENT).unwrap_err();
    let without = told(&ProfileResult::of(&profile(Some(&version), Err(NoCounters::Failed(refused))))).0;
    assert_eq!(without["known_without_counters"], with["known_without_counters"]);
    assert_eq!(without["known_without_counters"]["waves"], 2.0);
    assert_eq!((&without["bottleneck"], &without["tool"]["state"]), (&"unknown".into(), &"refused".into()));
    // The tool is taken away.
    let nowhere = ToolPlaces { path: vec![PathBuf::from("/nonexistent")], ..ToolPlaces::default() };
    let missing = locate(ToolKind::Ncu, None, &nowhere).unwrap_err();
    let (gone, reasons) = told(&ProfileResult::of(&profile(None, Err(NoCounters::Failed(missing)))));
    assert_eq!(gone["tool"]["state"], "missing");
    assert_eq!(reasons["tool.version"], "it did not come to say its version");
}
