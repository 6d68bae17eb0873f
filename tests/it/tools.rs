//! Outside programs around a device worker, played by scripts: the tool's end and the worker's answer are told apart.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use evo::supervise::job::Job;
use evo::supervise::lane::LaneError;
use evo::supervise::solo::{SoloOrder, SoloRun};
use evo::tool::{FoundTool, ToolArguments, ToolKind, probe, run_under};
use serde_json::json;

use crate::lane::{fault, options, own_worker};
use crate::support::answer::{ended, holds};
use crate::support::stage::{Ran, Stage};

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
    let job = fault("none");
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
    let job = fault("none");
    let dead = under("exit 255", &job, PATIENT);
    assert!(matches!(dead.launched, Err(LaneError::Died { .. })), "{dead:?}");
    assert_eq!(dead.status.and_then(|status| status.code()), Some(255));
    let hanging = under("sleep 600", &job, Duration::from_secs(1));
    assert!(matches!(hanging.launched, Err(LaneError::Died { .. })), "{hanging:?}");
    assert_eq!(hanging.status, None, "it was killed");
    let babbling = under("echo words; \"$@\"", &job, PATIENT);
    assert!(
        matches!(babbling.launched, Err(LaneError::Died { .. })),
        "its words would pass for the worker's: {babbling:?}"
    );
}

#[test]
fn a_kernel_that_faults_is_the_workers_answer() {
    let run = under("exec \"$@\"", &fault("trap"), PATIENT);
    assert!(run.launched.is_err(), "{run:?}");
}

#[test]
fn preflight_lists_each_tool_with_its_state_and_keeps_it() {
    let (stage, tools) = (Stage::empty(), tempfile::tempdir().unwrap());
    let fake = fake(tools.path(), "exit 0");
    let words = "preflight --device host --json --write --out kept";
    let mut command = stage.evo(words);
    command.env("EVO_COMPUTE_SANITIZER", &fake.path).env("EVO_NCU", tools.path().join("ncu"));
    // Tools are not needed for a sweep.
    let output = command.env("EVO_PYTHON", "/bin/false").output().unwrap();
    let told = ended(&Ran::of(words, &output), "0", "pass", true);
    let expected = json!({
        "tools.compute-sanitizer.state": "ok", "tools.compute-sanitizer.version": "2025.3.0.0",
        "tools.ncu.state": "missing", "tools.ncu.version": null, "tools.python3.state": "broken",
        "tools.python3.version": null,
    });
    holds(&told, &expected);
    assert_eq!(stage.json("kept/toolchain.json")["tools"], told["tools"]);
    stage.write("file", "");
    let refused = stage.run("preflight --device host --write --out file").ends(2);
    refused.says(&["cannot write `file/toolchain.json`"]);
}
