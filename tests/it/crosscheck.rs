//! `evo crosscheck`: others who time and check a kernel. What is said of them is told by a session; here are an agreement,
//! an end from outside, and the scripts that ask packages which few machines have.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use evo_report::crosscheck::CrosscheckLine;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::skip::has_programs;
use crate::support::answer::{ended, holds};
use crate::support::processes::{send, wait};
use crate::support::stage::{Ran, Stage};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/crosscheck/fake.py");
const SCRIPTS: [(&str, &str); 3] = [
    ("crosscheck.py", evo_export::CROSSCHECK),
    ("verify_peer.py", evo_export::VERIFY_PEER),
    ("evo_peer.py", evo::peer::SCRIPT),
];

/// Whether there is Python for a harness of our own.
fn has_python() -> bool {
    has_programs(&["python3"], "a harness of our own")
}

fn command(stage: &Stage, more: &[&str], how: &str) -> Command {
    let mut command =
        stage.evo("crosscheck ./steps.toml --device host --seed 3 --json --limit sampling=100ms");
    command.args(more).args(["--command", &format!("python3 {FAKE} {how}")]);
    command
}

/// The fake computes the answers itself, from the inputs that it is handed.
#[test]
fn a_program_of_ours_agrees_and_all_is_kept() {
    if !has_python() {
        return;
    }
    let stage = Stage::of("steps");
    let run = |how: &str| {
        let output = command(&stage, &["BLOCK=64", "--harness", "command"], how).output().unwrap();
        Ran::of("crosscheck", &output)
    };
    // Several attempts, each with times of its own: beside other tests one run of evo may take far longer than another.
    let attempt = |_| {
        let first = ended(&run("time=1"), "1", "fail", true);
        let rows = first["result"]["rows"].as_array().unwrap().iter();
        let times: Vec<String> = rows.map(|row| row["evo_ns"].as_f64().unwrap().to_string()).collect();
        let ran = run(&format!("like={}", times.join("/")));
        (ran.code == Some(0)).then_some(ran)
    };
    let found = ended(&(0..15).find_map(attempt).expect("an agreement"), "0", "pass", true);
    let headline = "2 comparisons agree with evo (command)";
    let expected = json!({
        "result.headline": headline, "result.rows": "# 2", "file": "evidence/steps-host/crosscheck.json",
    });
    holds(&found, &expected);
    for (row, problem) in found["result"]["rows"].as_array().unwrap().iter().zip(["p", "q"]) {
        // The fake says that the default takes three times as long.
        let expected = json!({
            "": "# 15", "problem": problem, "version": "fake 1", "mode": "hot", "agrees": true, "correct": true,
            "evo_correct": true, "faster_than_baseline": true,
        });
        holds(row, &expected);
    }
    let kept = stage.json("evidence/steps-host/crosscheck.json");
    assert_eq!(kept, found["result"]["rows"]);
    let page = stage.read("evidence/steps-host/crosscheck.md");
    assert!(
        page.contains(&format!("**{headline}**")) && page.contains("--harness command --command"),
        "{page}"
    );
    // KernelBench was not asked, and no board or journal knows of this.
    assert_eq!(fs::read_dir(stage.at("evidence/steps-host")).unwrap().count(), 2);
    assert!(!stage.at("evidence/leaderboard.json").exists());
}

#[test]
fn ctrl_c_leaves_what_is_finished() {
    if !has_python() {
        return;
    }
    let stage = Stage::of("steps");
    let mut command = command(&stage, &[], "hang");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let rows = || {
        let kept = fs::read(stage.at("evidence/steps-host/crosscheck.json")).unwrap_or_default();
        serde_json::from_slice::<Value>(&kept).map_or(0, |own| own.as_array().unwrap().len())
    };
    // The four harnesses before the one that hangs.
    wait("their rows", || rows() == 8);
    send(&child, Signal::INT);
    ended(&Ran::of("crosscheck", &child.wait_with_output().unwrap()), "5", "interrupted", true);
    assert_eq!(rows(), 8);
}

/// A request about a GPU, for the scripts alone.
fn asked(folder: &Path, harness: &str, request: &Value, path: &str) -> Vec<CrosscheckLine> {
    for (name, text) in SCRIPTS {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(folder.join("request.json"), request.to_string()).unwrap();
    let mut command = Command::new("python3");
    command.current_dir(folder).args(["-B", "crosscheck.py", harness, "request.json"]);
    command.env("PYTHONPATH", path).env_remove("EVO_KERNELBENCH").stdin(Stdio::null());
    if harness == "cutlass" {
        command.env("EVO_CUTLASS_PROFILER", folder.join("cutlass_profiler"));
    }
    if harness == "kernelbench" && folder.join("checkout").exists() {
        command.env("EVO_KERNELBENCH", folder.join("checkout"));
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn gemm() -> Value {
    let array = |rows: u64, columns: u64| json!({ "path": "x.npy", "dtype": "f16", "npy": "<f2", "shape": [rows, columns] });
    json!({
        "schema": "evo.crosscheck.request", "version": 1, "harness": "torch", "role": "candidate", "device": "cuda:0",
        "kernel": "gemm", "operator": "gemm", "mode": "hot", "limit_s": 60.0,
        "problems": [{
            "problem": "square", "sizes": { "M": 64, "N": 32, "K": 16 }, "scalars": {}, "folder": "candidate/0",
            "inputs": { "a": array(64, 16), "b": array(16, 32) }, "expected": { "c": array(64, 32) },
        }],
    })
}

#[test]
fn a_package_that_is_missing_old_or_broken_is_named() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fakes = folder.path().join("fakes");
    let reason = |harness: &str| {
        let lines = asked(folder.path(), harness, &gemm(), fakes.to_str().unwrap());
        assert_eq!((lines.len(), lines[0].problem.as_str(), lines[0].time_ns), (1, "square", None));
        lines[0].reason.clone().unwrap()
    };
    assert_eq!(
        reason("kernelbench"),
        "the Python package `kernelbench` is not installed, and EVO_KERNELBENCH names no checkout of it"
    );
    assert_eq!(reason("nvbench"), "the Python package `cuda-bench` is not installed");
    let package = |name: &str, version: &str| {
        let own = fakes.join(format!("{}-{version}.dist-info", name.replace('-', "_")));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("METADATA"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"))
            .unwrap();
        own
    };
    let old = package("cuda-bench", "0.2.1");
    assert_eq!(reason("nvbench"), "`cuda-bench 0.2.1` is too old, it takes 0.3 or later");
    fs::remove_dir_all(old).unwrap();
    package("cuda-bench", "0.3.0");
    fs::create_dir_all(fakes.join("cuda/bench")).unwrap();
    fs::write(fakes.join("cuda/bench/__init__.py"), "import of_a_driver_that_is_not_here\n").unwrap();
    assert_eq!(reason("nvbench"), "it cannot be imported: No module named 'of_a_driver_that_is_not_here'");
    fs::create_dir_all(fakes.join("torch")).unwrap();
    fs::write(fakes.join("torch/__init__.py"), "raise OSError('libcudart.so.13: cannot open')\n").unwrap();
    assert_eq!(reason("torch"), "torch cannot be imported: OSError: libcudart.so.13: cannot open");
}

#[test]
fn the_profiler_of_cutlass_is_a_point_of_reference() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = r#"#!/bin/sh
[ "$1" = --version ] && echo "CUTLASS 4.2.0" && exit
echo "$@" >> calls
for word; do case $word in --output=*) out=${word#--output=};; esac; done
[ -n "$BROKEN" ] && echo "no kernel" && exit 1
printf 'Problem,Operation,Status,Runtime\n1,slow,success,0.004\n1,fast,success,0.002\n1,none,failed,0\n' > "${out%.csv}.gemm.csv"
"#;
    let program = folder.path().join("cutlass_profiler");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let lines = asked(folder.path(), "cutlass", &gemm(), "");
    let line = &lines[0];
    assert_eq!((line.time_ns, line.spread_ratio, line.correct), (Some(2000.0), Some(0.0), None));
    assert_eq!(line.version.as_deref(), Some("cutlass_profiler 4.2.0"));
    assert_eq!(line.reason.as_deref(), Some("the time of CUTLASS's own kernel fast"));
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    assert!(calls.contains("--m=64 --n=32 --k=16 --A=f16:row --B=f16:row --C=f16:row\n"), "{calls}");
    assert_eq!(calls.lines().filter(|line| line.contains("--kernels=fast")).count(), 3);
    let mut other = gemm();
    other["operator"] = "softmax".into();
    let lines = asked(folder.path(), "cutlass", &other, "");
    assert_eq!(lines[0].reason.as_deref(), Some("the kernel is not a GEMM"));
}

/// A file of the tests for KernelBench.
fn of_kernelbench(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/crosscheck/kernelbench");
    fs::read_to_string(Path::new(folder).join(name)).unwrap()
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// An array of floats as evo hands it out.
fn floats(folder: &Path, name: &str, shape: [u64; 2], values: &[f32]) -> Value {
    let header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}\n", shape[0], shape[1]);
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|own| own.to_le_bytes()));
    let path = folder.join(format!("{name}.npy"));
    fs::write(&path, bytes).unwrap();
    json!({ "path": path, "dtype": "f32", "npy": "<f4", "shape": shape })
}

/// An exported product of two small matrices, whose expected answer no product gives, and a torch for it.
fn kernelbench_stage() -> (TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path();
    put(&own.join("fakes/torch.py"), &of_kernelbench("torch.py"));
    for name in ["launch_plan.py", "torch_op.py", "manifest.json"] {
        put(&own.join("candidate/0").join(name), &of_kernelbench(name));
    }
    let request = json!({
        "schema": "evo.crosscheck.request", "version": 1, "harness": "kernelbench", "role": "candidate",
        "device": "cuda:0", "kernel": "gemm", "operator": "gemm", "mode": "hot", "limit_s": 60.0,
        "problems": [{
            "problem": "small", "sizes": { "M": 2, "N": 1, "K": 2 }, "scalars": {}, "folder": own.join("candidate/0"),
            "inputs": {
                "a": floats(own, "a", [2, 2], &[1.0, 2.0, 3.0, 4.0]), "b": floats(own, "b", [2, 1], &[5.0, 6.0]),
            },
            "expected": { "c": floats(own, "c", [2, 1], &[7.0, 8.0]) },
        }],
    });
    (folder, request)
}

fn kernelbench_line(folder: &Path, request: &Value) -> CrosscheckLine {
    let mut lines = asked(folder, "kernelbench", request, folder.join("fakes").to_str().unwrap());
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

fn kernelbench_results(folder: &Path) -> Vec<Value> {
    let report: Value =
        serde_json::from_slice(&fs::read(folder.join("kernelbench_report.json")).unwrap()).unwrap();
    report["problems"].as_array().unwrap().clone()
}

#[test]
fn the_evaluator_of_kernelbench_gets_a_pair_and_inputs_like_its_own() {
    if !has_python() {
        return;
    }
    let (folder, mut request) = kernelbench_stage();
    let own = folder.path();
    put(&own.join("checkout/src/kernelbench/eval.py"), &of_kernelbench("eval.py"));
    let line = kernelbench_line(own, &request);
    assert_eq!(
        (line.correct, line.time_ns, line.spread_ratio),
        (Some(true), Some(5e5), Some(0.02)),
        "{line:?}"
    );
    assert_eq!(line.peer_ns, Some(6e6));
    assert!(line.version.unwrap().starts_with("kernelbench (eval.py "));
    assert!(line.overhead_ns.is_some_and(|own| own > 0.0));
    assert!(line.reason.unwrap().ends_with("it flags an excessive speedup over PyTorch"));
    request["role"] = "baseline".into();
    kernelbench_line(own, &request);
    let results = kernelbench_results(own);
    let roles: Vec<&Value> = results.iter().map(|own| &own["role"]).collect();
    assert_eq!(roles, ["candidate", "baseline"]);
    let told = &results[0]["result"]["metadata"];
    assert_eq!(
        told["options"],
        json!({
            "seed_num": 42, "timing_method": "cuda_event", "device": "cuda:0", "backend": "cuda", "precision": "f32",
            "num_correct_trials": 3, "num_perf_trials": 100, "check_for_excessive_speedup": true,
        })
    );
    // Three checks on inputs of their own, all in [0, 1); what is timed is evo's.
    let given: Vec<Vec<Vec<f64>>> = serde_json::from_value(told["given"].clone()).unwrap();
    assert!(given[..3].iter().flatten().flatten().all(|own| (0.0..1.0).contains(own)), "{given:?}");
    assert!(given[0] != given[1] && given[1] != given[2]);
    assert_eq!(given[3..], [vec![vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0]], given[3].clone()]);
    // Nobody knows an operator that has no name: evo's answer to evo's inputs, which the product is not.
    request["operator"] = Value::Null;
    let line = kernelbench_line(own, &request);
    assert_eq!((line.correct, line.time_ns, line.peer_ns), (Some(false), None, None));
    assert_eq!(
        line.reason.unwrap(),
        "Output mismatch (largest differences: 31.000000, 31.000000, 31.000000)"
    );
}

#[test]
fn a_wrong_kernel_and_an_old_kernelbench_are_seen() {
    if !has_python() {
        return;
    }
    let (folder, request) = kernelbench_stage();
    let own = folder.path();
    // A package that nobody installed, found like any module.
    put(&own.join("fakes/kernelbench/eval.py"), &of_kernelbench("eval.py"));
    let wrong = of_kernelbench("torch_op.py").replace("OFF = 0.0", "OFF = 0.5");
    put(&own.join("candidate/0/torch_op.py"), &wrong);
    let line = kernelbench_line(own, &request);
    assert_eq!((line.correct, line.time_ns), (Some(false), None), "{line:?}");
    assert!(line.reason.unwrap().starts_with("Output mismatch (largest differences: 0.500000"));
    // Before version 0.2 it did not flush the cache.
    put(&own.join("candidate/0/torch_op.py"), &of_kernelbench("torch_op.py"));
    let old = of_kernelbench("eval.py").replace("def eval_kernel_against_ref", "def newer");
    put(&own.join("checkout/src/eval.py"), &(old + &of_kernelbench("old_eval.py")));
    let line = kernelbench_line(own, &request);
    assert_eq!((line.correct, line.time_ns), (Some(true), None), "{line:?}");
    assert!(line.reason.unwrap().starts_with("this version does not flush the cache"));
    fs::remove_file(own.join("checkout/src/eval.py")).unwrap();
    let line = kernelbench_line(own, &request);
    assert!(line.reason.unwrap().ends_with("which has neither src/kernelbench/eval.py nor src/eval.py"));
}
