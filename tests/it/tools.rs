//! Outside programs around a device worker, played by scripts: the tool's end and the worker's answer are told apart.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use evo::supervise::job::Job;
use evo::supervise::lane::LaneError;
use evo::supervise::solo::{SoloOrder, SoloRun};
use evo::tool::{FoundTool, ToolArguments, ToolKind, probe, run_under};
use evo_space::value::Value;
use serde_json::Value as Json;

use crate::lane::{job_of, options, own_worker};
use crate::sweep::{Bench, text};

/// A sanitizer that answers its two questions and otherwise does `script`; `"$@"` is the worker's command.
fn fake(folder: &Path, script: &str) -> FoundTool {
    let path = folder.join("compute-sanitizer");
    let whole = format!(
        "#!/bin/sh\ncase \"$1\" in\n--version) echo Compute Sanitizer; echo Version 2025.3.0.0; exit;;\n\
         --help) echo ' --tool arg  --log-file arg'; exit;;\nesac\nshift 2\n{script}\n"
    );
    std::fs::write(&path, whole).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    probe(ToolKind::ComputeSanitizer, path).unwrap()
}

fn job() -> Job {
    job_of("faults", &[("FAULT", Value::text("none")), ("THREADS", Value::Int(128))], false)
}

/// The small shapes of a job under a tool, three calls each after one more.
fn under(script: &str, job: &Job, limit: Duration) -> SoloRun {
    let folder = tempfile::tempdir().unwrap();
    let tool = fake(folder.path(), script);
    let arguments =
        ToolArguments::of(&tool).preferred("--padding", ["4096"]).demanded("--tool", ["memcheck"]);
    assert_eq!((&arguments.left_out[..], arguments.lacking.len()), (&["--padding".to_string()][..], 0));
    let options = options(own_worker());
    let order = SoloOrder { warmup: 1, calls: 3, ..SoloOrder::once(&options, job, &job.tiny, limit) };
    run_under(&tool, &arguments, &order).unwrap()
}

const PATIENT: Duration = Duration::from_secs(120);

#[test]
fn launches_are_made_under_a_tool_and_nothing_else_is() {
    let job = job();
    let run = under("echo talk >&2; \"$@\"; exit 86", &job, PATIENT);
    let launched = run.launched.unwrap();
    let expected: Vec<u64> = job.tiny.iter().map(|plan| 4 * plan.launches.len() as u64).collect();
    assert_eq!(launched, expected);
    assert!(launched.iter().sum::<u64>() > 0);
    assert_eq!(run.status.and_then(|status| status.code()), Some(86), "the tool's own verdict");
    assert!(run.log.contains("talk"), "{}", run.log);
}

#[test]
fn a_tool_that_dies_or_hangs_is_no_answer() {
    let job = job();
    let dead = under("exit 255", &job, PATIENT);
    assert!(matches!(dead.launched, Err(LaneError::Died { .. })), "{dead:?}");
    assert_eq!(dead.status.and_then(|status| status.code()), Some(255));
    let hanging = under("sleep 600", &job, Duration::from_secs(1));
    assert!(matches!(hanging.launched, Err(LaneError::Died { .. })), "{hanging:?}");
    assert_eq!(hanging.status, None, "it was killed");
    // The worker has answered everything, and the tool does not end.
    let slow = under("\"$@\"; sleep 600", &job, Duration::from_secs(20));
    assert!(slow.launched.is_ok() && slow.status.is_none(), "{slow:?}");
    let babbling = under("echo words; \"$@\"", &job, PATIENT);
    assert!(
        matches!(babbling.launched, Err(LaneError::Died { .. })),
        "its words would pass for the worker's: {babbling:?}"
    );
}

#[test]
fn a_kernel_that_faults_is_the_workers_answer() {
    let job = job_of("faults", &[("FAULT", Value::text("trap")), ("THREADS", Value::Int(128))], false);
    let run = under("exec \"$@\"", &job, PATIENT);
    assert!(run.launched.is_err(), "{run:?}");
}

#[test]
fn preflight_lists_each_tool_with_its_state_and_keeps_it() {
    let bench = Bench::new();
    let tools = tempfile::tempdir().unwrap();
    let fake = fake(tools.path(), "exit 0");
    let mut command = bench.command("preflight --device host --json --write --out kept");
    command
        .env("EVO_COMPUTE_SANITIZER", &fake.path)
        .env("EVO_NCU", tools.path().join("ncu"))
        .env("EVO_PYTHON", "/bin/false");
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "tools are not needed for a sweep: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    let kept: Json =
        serde_json::from_slice(&std::fs::read(bench.path().join("kept/toolchain.json")).unwrap()).unwrap();
    assert_eq!(kept["tools"], told["tools"]);
    let state = |name: &str| {
        let tool = told["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        (tool["state"].as_str().unwrap().to_string(), tool["version"].clone())
    };
    assert_eq!(state("compute-sanitizer"), ("ok".into(), Json::from("2025.3.0.0")));
    assert_eq!(state("ncu"), ("missing".into(), Json::Null));
    assert_eq!(state("python3"), ("broken".into(), Json::Null));
    std::fs::write(bench.path().join("file"), "").unwrap();
    let refused = bench.run("preflight --device host --write --out file");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("cannot write `file/toolchain.json`"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn entries_may_not_be_called_as_evos_own_kernels() {
    let bench = Bench::new();
    let space = std::fs::read_to_string(bench.path().join("scale.toml")).unwrap();
    std::fs::write(
        bench.path().join("scale.toml"),
        space.replace("entry = \"scale\"", "entry = \"evo_scale\""),
    )
    .unwrap();
    let output = bench.run("space scale.toml");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("begins evo's own kernels"), "{}", text(&output.stderr));
}
