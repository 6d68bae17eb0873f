//! `evo selftest gates`: each check inside the gates left out, and what then slips through.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evo::compile::{CompileFarm, FarmOptions};
use evo_protocol::binary::CompileOutcome;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport, GateState};
use serde_json::Value;

use crate::support;
use crate::toolchain;

/// The rows of one run and its exit code.
fn play(only: &str) -> (Option<i32>, Vec<Value>) {
    let output = Command::new(env!("CARGO_BIN_EXE_evo"))
        .env("EVO_CACHE_DIR", support::cache())
        .args(["selftest", "gates", "--device", "host", "--seed", "3", "--json", "--only", only])
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), answer["rows"].as_array().unwrap().clone())
}

fn check(only: &str, with: &str, without: &str, state: &str) {
    let (code, rows) = play(only);
    let row = rows.iter().find(|row| row["check"] == only).unwrap_or_else(|| panic!("{only}: {rows:?}"));
    let found = (row["with_check"].as_str(), row["without_check"].as_str(), row["state"].as_str());
    assert_eq!((code, found), (Some(0), (Some(with), Some(without), Some(state))), "{row:#}");
}

#[test]
fn a_fixture_is_refused_with_its_check_and_passes_without() {
    check("error_norm", "wrong_answer:precision", "pass", "needed");
    check("guard_zones", "oob_write", "pass", "needed");
    check("instrumented_bounds", "oob_read", "pass", "needed");
    check("variant_hash", "stale_binary", "pass", "needed");
}

#[test]
fn weaker_checks_are_called_by_their_worth() {
    check("limit_threads", "static_reject:threads", "launch_fail:threads", "names the cause");
    check("launch_resources", "launch_fail:cooperative", "launch_fail:cooperative", "refuses early");
    check("input_hash", "input_mutated", "pass", "needed behind read_only_inputs");
    let (code, rows) = play("roofline");
    assert_eq!((code, &rows[0]["passed"]), (Some(0), &Value::Null), "{rows:?}");
}

#[test]
fn an_unknown_check_is_a_mistake() {
    let output = Command::new(env!("CARGO_BIN_EXE_evo"))
        .args(["selftest", "gates", "--device", "host", "--only", "biass"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("did you mean `bias`?"), "{said}");
}

/// Only the self-test can leave a check out. Whoever else calls it makes results that nobody should believe.
#[test]
fn nobody_else_leaves_checks_out() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut callers = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if path.components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if code.contains("CheckSet::without(") || code.contains(".judged_by(") {
                callers.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    callers.sort();
    assert_eq!(callers, ["src/cli/selftest/gates/bench.rs", "src/cli/selftest/gates/play.rs"]);
}

#[test]
fn what_was_judged_without_a_check_never_ranks() {
    let journal = include_str!("../data/golden/journal.jsonl");
    let record = journal.lines().find_map(|line| {
        let value: Value = serde_json::from_str(line).unwrap();
        serde_json::from_value::<Evaluation>(value["record"].clone()).ok()
    });
    let mut evaluation = record.expect("the journal has an evaluation");
    let passed = |gate: &Gate| GateReport { state: GateState::Pass, ..GateReport::not_run(*gate, "") };
    evaluation.gates = Gate::ALL.iter().map(passed).collect();
    assert!(evaluation.may_rank());
    evaluation.gates[3].evidence.insert(CheckSet::EVIDENCE, vec![GateCheck::Bias.as_str()]);
    assert!(!evaluation.may_rank());
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
        // One fixture includes a file whose name nobody can look at.
        checks: CheckSet::without(GateCheck::IncludePaths, None),
        ..FarmOptions::new(DeviceKind::Cuda, "sm_90a")
    };
    let outcomes: Arc<Mutex<Vec<(u64, CompileOutcome)>>> = Arc::default();
    let seen = Arc::clone(&outcomes);
    let on_done = Box::new(move |ticket, outcome| seen.lock().unwrap().push((ticket, outcome)));
    let farm = CompileFarm::start_with(options, &toolchain::toolbox(), on_done).unwrap();
    let sources = evo::cli::gate_fixtures(DeviceKind::Cuda).unwrap();
    for (ticket, source) in sources.iter().enumerate() {
        farm.submit(ticket as u64, source.clone());
    }
    let give_up = Instant::now() + Duration::from_secs(300);
    while farm.pending() > 0 {
        assert!(Instant::now() < give_up, "{} of {} still compile", farm.pending(), sources.len());
        std::thread::sleep(Duration::from_millis(20));
    }
    let outcomes = outcomes.lock().unwrap();
    for (ticket, outcome) in outcomes.iter() {
        let text = &sources[*ticket as usize].text;
        assert!(outcome.is_ok(), "{outcome:?}\n{text}");
    }
    let spills = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().ok());
    let spilled = |own: &evo_protocol::binary::Binary| {
        own.resources.iter().any(|entry| entry.spill_store_bytes.is_some_and(|bytes| bytes > 0))
    };
    assert_eq!(spills.filter(|binary| spilled(binary)).count(), 1, "one fixture spills");
}
