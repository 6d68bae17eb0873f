//! `evo selftest faults` as a program on the host device: every fault that needs no GPU is played and gets its
//! verdict. The faults that need one compile for it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evo::compile::{CompileFarm, FarmOptions, compile_one};
use evo::kernel::catalog;
use evo::kernel::render::{render, render_reference};
use evo_protocol::binary::CompileOutcome;
use evo_protocol::device::DeviceKind;
use evo_space::genome::Configuration;
use evo_space::value::Value as Parameter;
use serde_json::Value;

use crate::skip::is_full;
use crate::toolchain;

const SPACES: [&str; 2] = ["faults", "faults_heads"];

/// What the host cannot show: it has no registers, and its bandwidth is unknown.
const OPEN_ON_HOST: [&str; 3] = ["inflated_work", "registers", "spills"];

/// Rows whose fault is outside the source.
const OUTSIDE: [&str; 3] = ["foreign_binary", "inflated_work", "stale_binary"];

/// Faults on which a compiler for a GPU gives up, and the verdict on them.
const NOT_COMPILED: [(&str, &str); 5] = [
    ("compile_hang", "compile_timeout"),
    ("compile_memory", "compile_oom"),
    ("include", "static_reject:include"),
    ("static_smem", "compile_error:smem"),
    ("syntax", "compile_error"),
];

/// Every fault of a space.
fn values(space: &str) -> Vec<String> {
    let file = catalog::open(space).unwrap();
    let fault = file.space.parameters().iter().find(|one| &*one.name == "FAULT").unwrap();
    fault.values.iter().map(Parameter::to_string).filter(|name| name != "none").collect()
}

fn selftest(words: &[&str], folder: &tempfile::TempDir) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder.path()).args(["selftest", "faults", "--device", "host"]).args(words);
    command.env("EVO_CACHE_DIR", folder.path().join("cache")).env("TMPDIR", folder.path());
    command.stdin(Stdio::null()).output().unwrap()
}

/// The checks of a run in which every row has its verdict, its evidence, a good neighbor and no leftovers.
fn played(words: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let output = selftest(&[words, &["--json"]].concat(), &folder);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    let checks = answer["checks"].as_array().unwrap();
    // How long a row takes depends on what else runs on this machine: a row that is only late does not fail here.
    let holds = |check: &&Value| {
        let cells = ["verdict", "evidence", "neighbor", "leftovers"];
        check["passed"] != false || cells.iter().all(|cell| check["fault"][cell] == true)
    };
    let failed: Vec<&Value> = checks.iter().filter(|check| !holds(check)).collect();
    assert!(failed.is_empty(), "{told}{failed:#?}");
    let is_late = checks.iter().any(|check| check["passed"] == false);
    assert_eq!((output.status.code(), &answer["passed"]), (Some(i32::from(is_late)), &(!is_late).into()));
    for check in checks.iter().filter(|check| check["fault"].is_object()) {
        assert!(check["fault"]["neighbor_ratio"].as_f64().unwrap() > 0.0, "{check:#}");
        assert!(!check["fault"]["catalogue"].as_array().unwrap().is_empty(), "{check:#}");
    }
    // Its own folder is gone, and so are the workers' files.
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "cache"), "{left:?}");
    checks.clone()
}

fn name(check: &Value) -> String {
    check["name"].as_str().unwrap().to_string()
}

fn faults(checks: &[Value]) -> BTreeSet<String> {
    checks.iter().filter(|check| check["fault"].is_object()).map(name).collect()
}

/// A process that ends, a block that waits for ever, and an answer of which a part is missing.
#[test]
fn some_faults_get_their_verdicts_between_good_variants() {
    for (part, expected) in
        [("exit", "early_exit exit"), ("spin", "barrier_spin spin"), ("half", "half half_sum")]
    {
        assert_eq!(faults(&played(&["--only", part])), expected.split(' ').map(String::from).collect());
    }
}

#[test]
fn every_fault_gets_its_verdict_between_good_variants() {
    if !is_full("faults") {
        return;
    }
    let checks = played(&[]);
    // Nothing is left out in silence.
    let mut expected: BTreeSet<String> = SPACES.iter().flat_map(|space| values(space)).collect();
    expected.extend(OUTSIDE.map(String::from));
    let open: BTreeSet<String> = OPEN_ON_HOST.map(String::from).into();
    assert_eq!(faults(&checks), &expected - &open);
    let skipped = checks.iter().filter(|check| check["passed"].is_null());
    for check in skipped.clone() {
        let why = check["message"].as_str().unwrap();
        assert!(why.starts_with("open: ") || why.contains(": not played; "), "{check:#}");
    }
    let said_open = skipped.filter(|check| check["message"].as_str().unwrap().starts_with("open: "));
    assert_eq!(said_open.map(name).collect::<BTreeSet<_>>(), open);
}

#[test]
fn a_row_that_does_not_exist_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = selftest(&["--only", "no_such_row"], &folder);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("no fault has `no_such_row` in its name or as its number"), "{told}");
    // A number is not a part of a longer one.
    let output = selftest(&["--only", "C1"], &folder);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("syntax") && !told.contains("include") && !told.contains("C10"), "{told}");
}

fn configuration(fault: &str) -> Configuration {
    let values = [("FAULT", Parameter::text(fault)), ("THREADS", Parameter::Int(64))];
    Configuration::new(values.map(|(name, value)| (name.into(), value)).into())
}

/// What the compiler says of each fault: its outcome, the largest spill in bytes and the most registers.
type Compiled = BTreeMap<String, Result<(u64, u64), String>>;

fn compile_all() -> Compiled {
    let folder = tempfile::tempdir().unwrap();
    let options = FarmOptions {
        jobs: 2,
        cache: folder.path().to_path_buf(),
        toolbox: toolchain::toolbox(),
        ..FarmOptions::new(DeviceKind::Cuda, "sm_90a")
    };
    let outcomes: Arc<Mutex<Vec<(String, CompileOutcome)>>> = Arc::default();
    let farm = CompileFarm::start(options).unwrap();
    let mut count = 0;
    let mut submit = |name: String, source| {
        let seen = Arc::clone(&outcomes);
        count += 1;
        farm.submit(source, move |outcome| seen.lock().unwrap().push((name, outcome)));
    };
    for space in SPACES {
        let file = catalog::open(space).unwrap();
        let kernel = file.kernel.as_ref().unwrap();
        submit(format!("the reference of {space}"), render_reference(kernel).unwrap());
        let compiles = |fault: &String| !NOT_COMPILED.iter().any(|(name, _)| name == fault);
        for fault in values(space).into_iter().filter(compiles) {
            let source = render(kernel, &configuration(&fault)).unwrap();
            submit(fault, source);
        }
    }
    let give_up = Instant::now() + Duration::from_secs(300);
    while farm.pending() > 0 {
        assert!(Instant::now() < give_up, "{} of {count} still compile", farm.pending());
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = |outcome: CompileOutcome| match outcome {
        Err(verdict) => Err(format!("{}: {}", verdict.label(), verdict.message)),
        Ok(binary) => {
            let most = |value: fn(&evo_protocol::binary::EntryResources) -> Option<u64>| {
                binary.resources.iter().filter_map(value).max().unwrap_or(0)
            };
            let spills = most(|own| own.spill_store_bytes);
            Ok((spills, most(|own| own.registers.map(u64::from))))
        }
    };
    let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
    outcomes.into_iter().map(|(name, outcome)| (name, told(outcome))).collect()
}

#[test]
fn the_faults_compile_for_a_gpu() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    for (name, outcome) in compile_all() {
        let (spills, registers) = outcome.unwrap_or_else(|told| panic!("{name}: {told}"));
        // `spill_bytes_max` of the space.
        assert_eq!(spills > 256, name == "spills", "{name} spills {spills} bytes");
        // 1,024 threads of 65 registers exceed a multiprocessor.
        assert!(name != "registers" || registers > 64, "{name} has {registers} registers");
    }
}

/// With the limits of the self-test, where a fault needs them to be short.
#[test]
fn compilers_for_a_gpu_give_up_on_faults_with_their_verdicts() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = catalog::open("faults").unwrap();
    let kernel = file.kernel.as_ref().unwrap();
    for (fault, expected) in NOT_COMPILED {
        let mut options = FarmOptions {
            cache: folder.path().to_path_buf(),
            toolbox: toolchain::toolbox(),
            ..FarmOptions::new(DeviceKind::Cuda, "sm_90a")
        };
        match fault {
            "compile_hang" => options.deadline = Duration::from_secs(4),
            "compile_memory" => options.memory_bytes = 300 << 20,
            _ => {}
        }
        let source = render(kernel, &configuration(fault)).unwrap();
        let verdict = compile_one(&options, source).unwrap().unwrap_err();
        assert_eq!(verdict.label(), expected, "{fault}: {verdict:?}");
    }
}
