//! `evo-selftest` as a program on the host device.

#[path = "../../../../tests/it/python.rs"]
#[expect(dead_code, reason = "the tests of evo use more of it")]
mod python;
#[path = "../../../../tests/it/skip.rs"]
#[expect(dead_code, reason = "the tests of evo use more of it")]
mod skip;
#[path = "../../../../tests/it/toolchain.rs"]
mod toolchain;

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use evo::compile::FarmOptions;
use evo::compile::WarmCompiler;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceKind;
use serde_json::Value;

/// The program that is its own workers.
const PROGRAM: &str = env!("CARGO_BIN_EXE_evo-selftest");

fn selftest(words: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(words.split(' ')).args(["--device", "host"]).stdin(Stdio::null());
    command.env("EVO_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/selftest-cache"));
    command.output().unwrap()
}

/// The answer for programs, its exit code, and what else was said.
fn answer(words: &str) -> (Option<i32>, Value, String) {
    let output = selftest(&format!("{words} --json"));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    (output.status.code(), answer, told)
}

/// The checks of a run in which none may fail.
fn passed(words: &str) -> Vec<Value> {
    let (code, answer, told) = answer(words);
    assert_eq!((code, &answer["passed"]), (Some(0), &Value::Bool(true)), "{told}{answer:#}");
    answer["checks"].as_array().unwrap().clone()
}

/// Wrong usage and what is said of it.
fn refused(words: &str, message: &str) {
    let output = selftest(words);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains(message), "{told}");
}

#[test]
fn a_fixture_is_refused_with_its_check_and_passes_without() {
    let check = |check: &str, with: &str, without: &str, state: &str| {
        let rows = passed(&format!("gates --seed 3 --only {check}"));
        let row = rows.iter().find(|row| row["name"] == check).unwrap_or_else(|| panic!("{rows:?}"));
        let found = ["with_check", "without_check", "state"].map(|name| row[name].as_str().unwrap());
        assert_eq!(found, [with, without, state], "{row:#}");
    };
    check("error_norm", "wrong_answer:precision", "pass", "needed");
    check("guard_zones", "oob_write", "pass", "needed");
    check("instrumented_bounds", "oob_read", "pass", "needed");
    check("variant_hash", "stale_binary", "pass", "needed");
    // Weaker checks are called by their worth.
    check("limit_threads", "static_reject:threads", "launch_fail:threads", "names the cause");
    check("launch_resources", "launch_fail:cooperative", "launch_fail:cooperative", "refuses early");
    check("input_hash", "input_mutated", "pass", "needed behind read_only_inputs");
    assert_eq!(passed("gates --only roofline")[0]["passed"], Value::Null);
}

#[test]
fn every_fixture_compiles_for_a_gpu() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = FarmOptions {
        jobs: 2,
        cache: folder.path().to_path_buf(),
        toolbox: toolchain::toolbox(),
        // One fixture includes a file by a name that climbs.
        checks: CheckSet::without(GateCheck::IncludePaths, None),
        ..FarmOptions::new(DeviceKind::Cuda, "sm_90a")
    };
    let compiler = WarmCompiler::start(&options).unwrap();
    let sources = evo_selftest::gates::sources(DeviceKind::Cuda).unwrap();
    sources.iter().for_each(|source| compiler.compile_ahead(source));
    let spills = sources.iter().filter(|source| {
        let outcome = compiler.compile(source, Some(Duration::from_secs(300)));
        let Ok(binary) = outcome else { panic!("{outcome:?}\n{}", source.text) };
        binary.resources.iter().any(|entry| entry.spill_store_bytes.is_some_and(|bytes| bytes > 0))
    });
    assert_eq!(spills.count(), 1, "one fixture spills");
}

#[test]
fn gates_and_plain_loops_agree_that_shipped_kernels_are_right() {
    let spaces = passed("alarms --count 8");
    assert_eq!(spaces.len(), 8);
    for space in spaces {
        assert_eq!((&space["judged"], &space["right"]), (&1.into(), &1.into()), "{space:#}");
        assert!(space["elements"].as_u64().unwrap() > 0, "{space:#}");
        // Moving data is exact, and the other kernels round.
        let worst = space["worst"].as_f64().unwrap();
        assert!(if space["name"] == "transpose" { worst == 0.0 } else { worst > 0.0 }, "{space:#}");
    }
    assert_eq!(selftest("alarms --count 0").status.code(), Some(1), "no configuration is not a pass");
}

#[test]
fn killed_and_resumed_sweeps_come_to_the_same_verdicts() {
    // A failing seed is printed, and `EVO_SEED` repeats it.
    let first: u64 = std::env::var("EVO_SEED").map_or(20_260, |seed| seed.parse().unwrap());
    let mut killed = 0;
    // On a machine where nothing else runs many moments come too late.
    for seed in (first..).step_by(100).take(4) {
        let studies = passed(&format!("crash --seed {seed} --count 12"));
        assert_eq!(studies.len(), 3);
        let kills = studies.iter().flat_map(|study| study["killed"].as_object().unwrap().values());
        killed += kills.filter_map(Value::as_u64).sum::<u64>();
        if killed >= 4 {
            return;
        }
    }
    panic!("only {killed} kills were in time");
}

fn names_of(words: &str) -> BTreeSet<String> {
    passed(words).iter().map(|check| check["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn instructions_on_the_host_agree_with_plain_loops() {
    let instructions = names_of("ptx --seed 7");
    assert_eq!(instructions.len(), 76);
    for name in
        ["mma_k16_bf16_f32", "load_x4_trans", "copy_cg_16_zfill", "wgmma_n200_bf16_trans", "box_store_2d"]
    {
        assert!(instructions.contains(name), "{name}");
    }
}

#[test]
fn references_on_the_host_agree_with_plain_loops() {
    let references = names_of("references --seed 7");
    for name in ["attention", "gemm", "reduction", "rmsnorm", "softmax", "transpose"] {
        assert!(references.iter().filter(|own| own.starts_with(name)).count() >= 9, "{name}");
    }
    for name in ["draw bell f32", "draw range i64", "convert f16", "measure"] {
        assert!(references.contains(name), "{name}");
    }
}

#[test]
fn a_name_of_nothing_is_a_mistake() {
    refused("gates --only biass", "did you mean `bias`?");
    refused("alarms --only nobody", "the spaces are attention_simt, attention_mma, gemm");
    refused("ptx --only tcgen05", "no instruction has `tcgen05` in its name");
}
