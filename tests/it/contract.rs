//! One contract: with `--json` every command leaves exactly one object, whatever happens, and the object is what its
//! schema says. The kernels here are small and right, or wrong on purpose; the device is the host.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use evo_protocol::envelope::CommandEnvelope;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{BRIEF, answer, evo, scale};

/// `y = 2 x`. The default configuration is wrong where `FAULT` says so.
const SOURCE: &str = include_str!("../data/kernels/scale_fault/scale.cu");

const HEAD: &str = include_str!("../data/kernels/scale_fault/head.toml");

/// A folder with `scale.toml`, whose default is right, and `wrong.toml`, whose default is not.
pub fn stage() -> TempDir {
    let folder = scale::stage_with("scale.cu", SOURCE, HEAD);
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let fault = |default: u32| format!("[parameters]\nFAULT = {{ values = [0, 1, 2], default = {default} }}");
    for (name, default) in [("scale.toml", 0), ("wrong.toml", 1)] {
        write(name, &scale::space(&HEAD.replace("[parameters]", &fault(default))));
    }
    write("broken.toml", "[parameters]\nA = []\n");
    folder
}

/// The one object of a finished command, with lines of a stream before it where there may be.
#[track_caller]
pub fn object(words: &str, output: &Output, is_stream: bool) -> Value {
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!lines.is_empty() && (is_stream || lines.len() == 1), "`{words}`: {stdout}\n{stderr}");
    assert!(stdout.ends_with('\n'));
    for line in &lines[..lines.len() - 1] {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["schema"].is_null(), "`{words}`: an object before the last: {line}");
    }
    let object: Value = serde_json::from_str(lines[lines.len() - 1]).unwrap_or_else(|_| panic!("{stdout}"));
    assert_eq!(object["exit_code"], output.status.code().unwrap_or(-1), "`{words}`: {stderr}");
    hold_to_schema(words, &object);
    hold_to_names(words, &object);
    object
}

#[track_caller]
fn hold_to_schema(words: &str, object: &Value) {
    let name = object["schema"].as_str().unwrap().strip_prefix("evo.").unwrap();
    assert!(evo::cli::answers::commands().any(|own| own == name), "`{words}`: {object}");
    answer::hold_to_schema(name, words, object);
}

/// Numbers that need no unit: counts, codes, and names that the issue of the contract fixed.
const WITHOUT_UNIT: &str = "
    version exit_code line column seed number ctas waves registers sm_count speedup_vs_baseline
    speedup_vs_torch max_abs_error max_rel_error passed confirmed errors warnings launches cases
    configuration
";

const UNITS: [&str; 6] = ["_ns", "_ms", "_s", "_bytes", "_percent", "_ratio"];

/// Every field that came with the envelope: no null without a reason, and every number with its unit.
#[track_caller]
fn hold_to_names(words: &str, object: &Value) {
    let reasons: BTreeSet<&str> = object["reasons"].as_object().unwrap().keys().map(String::as_str).collect();
    let new = "
        schema version status exit_code error candidate conditions limits elapsed_ms repro result
        allowed_not_run reasons parity latency_ms speedup_vs_baseline speedup_vs_torch ctas sm_count
        few_ctas problems baseline profile_file report_file
    ";
    for name in new.split_whitespace() {
        let Some(value) = object.get(name) else { continue };
        // Values of parameters and reasons are the user's and ours, and no numbers of a measurement.
        walk(value, name, &mut |path, name, value| {
            let told = reasons.contains(path) || CommandEnvelope::NULL_FOR_NONE.contains(&path);
            assert!(!value.is_null() || told, "`{words}`: `{path}` is null without a reason: {object}");
            let named = UNITS.iter().any(|unit| name.ends_with(unit))
                || WITHOUT_UNIT.split_whitespace().any(|word| word == name);
            assert!(!value.is_number() || named, "`{words}`: `{path}` is a number without a unit");
        });
    }
}

fn walk(value: &Value, path: &str, see: &mut impl FnMut(&str, &str, &Value)) {
    match value {
        Value::Object(fields) if !path.ends_with("configuration") => {
            fields.iter().for_each(|(name, own)| walk(own, &format!("{path}.{name}"), see));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, own)| walk(own, &format!("{path}.{number}"), see));
        }
        value => see(path, path.rsplit('.').next().unwrap_or_default(), value),
    }
}

#[track_caller]
pub fn check(folder: &Path, words: &str, code: i32, status: &str, error: &str) -> Value {
    let output = evo(folder, words).output().unwrap();
    let object = object(
        words,
        &output,
        words.contains("--list") || words.contains("--all") || words.starts_with("sweep"),
    );
    let seen =
        (output.status.code(), object["status"].as_str(), object["error"]["code"].as_str().unwrap_or(""));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(seen, (Some(code), Some(status), error), "`{words}`: {object}\n{stderr}");
    object
}

#[test]
fn wrong_command_lines_leave_the_object_of_their_command() {
    let folder = stage();
    let usage = |words: &str| check(folder.path(), words, 2, "error", "usage");
    let object = usage("test-one --jsn --json");
    assert_eq!(object["schema"], "evo.test-one");
    for words in ["foo --json", "--json", "man --json", "completions bash --json"] {
        assert_eq!(usage(words)["schema"], "evo.unknown");
    }
    assert_eq!(
        usage("test-one scale.toml BLOCK=33 --json")["repro"],
        "evo test-one scale.toml BLOCK=33 --json"
    );
    // Behind `--` it is a word like any other.
    let output = evo(folder.path(), "space -- --json").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    for words in ["--help", "space --help --json", "--version"] {
        let output = evo(folder.path(), words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && !text.starts_with('{') && !text.is_empty(), "{words}: {text}");
    }
}

#[test]
fn bad_files_and_missing_devices_leave_one_object_with_a_place() {
    let folder = stage();
    let bad = check(folder.path(), "space broken.toml --json", 2, "error", "bad_file");
    let place = serde_json::json!({ "file": "broken.toml", "line": 2, "column": 1 });
    assert_eq!(bad["error"]["place"], place);
    check(folder.path(), "test-one nowhere.toml --json", 2, "error", "bad_file");
    let board = check(folder.path(), "leaderboard --json", 2, "error", "bad_file");
    assert_eq!(board["error"]["place"]["file"], "evidence/leaderboard.json");
    let none = check(folder.path(), "history --out none --json", 2, "error", "bad_file");
    assert_eq!(none["error"]["place"]["file"], "none");
    check(folder.path(), "leaderboard --rebuild --json", 2, "error", "bad_file");
    check(folder.path(), "sweep --device replay:none.json --json", 2, "error", "bad_file");
    // No test machine has so many GPUs.
    for command in ["preflight", "test-one scale.toml", "build scale.toml", "sweep scale.toml"] {
        check(folder.path(), &format!("{command} --device cuda:63 --json"), 2, "error", "no_device");
    }
    fs::write(folder.path().join("file"), "").unwrap();
    check(folder.path(), "sweep scale.toml --device host --out file/x --json", 2, "error", "bad_file");
    let mut command = evo(folder.path(), "build scale.toml --device host --json");
    let output = command.env("EVO_CACHE_DIR", "/proc/nowhere").output().unwrap();
    assert_eq!(object("build", &output, false)["error"]["code"], "bad_file");
    let mut command = evo(folder.path(), "build scale.toml --device host --json");
    let output = command.env("CXX", "no-such-compiler").output().unwrap();
    assert_eq!(object("build", &output, false)["error"]["code"], "tool_missing");
    // A compiler that writes nothing says nothing about what it was given.
    for words in ["build scale.toml --device host --json", "test-one scale.toml --device host --json"] {
        let output = evo(folder.path(), words).env("CXX", "/bin/true").output().unwrap();
        let answer = object(words, &output, false);
        assert_eq!((&answer["exit_code"], &answer["status"]), (&4.into(), &"error".into()), "{answer}");
        assert!(answer["error"]["hint"].as_str().unwrap().contains("CXX"), "{answer}");
    }
    // What else is missing is told as well.
    let absent = check(folder.path(), "preflight --device cuda:63 --json", 2, "error", "no_device");
    assert_eq!(absent["ready"], false);
    assert!(absent["findings"].as_array().is_some_and(|all| all.len() > 5), "{absent}");
}

#[test]
fn answers_keep_their_fields_and_gain_the_envelope() {
    let folder = stage();
    let pass = |words: &str| check(folder.path(), words, 0, "pass", "");
    let space = pass("space scale.toml --json");
    assert_eq!((&space["valid"], &space["parameters"][0]["name"]), (&6.into(), &"FAULT".into()));
    pass("space scale.toml --sample 2 --json");
    pass("space scale.toml --check BLOCK=32 --json");
    assert_eq!(
        pass("space scale.toml --neighbors --json")["neighbors"]["points"].as_array().unwrap().len(),
        3
    );
    assert_eq!(pass("space scale.toml --list --rows 3 --json")["rows"], 3);
    assert_eq!(pass("render scale.toml --json")["candidate"]["space"], "scale.toml");
    pass("explain hang --json");
    pass("cache --json");
    assert_eq!(pass("preflight --device host --json")["device"], "host");
    let built = pass("build scale.toml --device host --json");
    assert_eq!((&built["fits"], &built["arch"]), (&true.into(), &"host".into()));
    assert_eq!(pass("compile scale.toml --all --arch host --json")["variants"], 6);
    let swept = pass("sweep scale.toml --device host --problem p --budget 2 --finalists 0 --seed 1 --json");
    assert_eq!((&swept["event"], &swept["result"]["passed"]), (&"result".into(), &swept["passed"]));
    pass("selftest device --device host --json");
    let mut command = evo(folder.path(), "preflight --device host --json");
    let output = command.env("CXX", "no-such-compiler").output().unwrap();
    assert_eq!(object("preflight", &output, false)["status"], "fail");
}

#[test]
fn a_device_that_the_sanitizer_does_not_know_is_not_run() {
    let folder = stage();
    let words = "sanitize scale.toml --device host --seed 1 --json";
    let object = check(folder.path(), words, 1, "not_run", "tool_incompatible");
    let result = &object["result"];
    let states = |name: &str| -> Vec<Value> {
        result["checks"].as_array().unwrap().iter().map(|check| check[name].clone()).collect()
    };
    assert_eq!(states("tool"), ["memcheck", "racecheck", "initcheck", "synccheck"]);
    assert!(states("state").iter().all(|state| state == "not_run"), "{result}");
    assert_eq!((&result["state"], &result["findings"]), (&"not_run".into(), &serde_json::json!([])));
    let stand_ins = result["stand_ins"].as_array().unwrap();
    let names: Vec<&str> = stand_ins.iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["guard_pages", "barrier_detection", "host_twin"]);
    assert!(stand_ins.iter().all(|own| own["ran"] == true), "{result}");
    assert_eq!(result["shapes"].as_array().unwrap().last().unwrap(), "p");
    let allowed =
        "sanitize scale.toml --device host --seed 1 --tool racecheck --allow-not-run sanitize --json";
    let object = check(folder.path(), allowed, 0, "not_run", "tool_incompatible");
    assert_eq!(object["allowed_not_run"], serde_json::json!(["sanitize"]));
    assert_eq!(object["result"]["checks"].as_array().unwrap().len(), 1);
    assert!(object["repro"].as_str() == Some(&*format!("evo {allowed}")), "{object}");
    // A constraint, and a source that does not compile: nothing to look at.
    fs::write(folder.path().join("scale.cu"), "no CUDA").unwrap();
    let object = check(folder.path(), words, 1, "fail", "");
    assert_eq!(object["result"]["verdict"], "compile_error");
    assert_eq!(object["result"]["state"], "not_run");
}

#[test]
fn the_host_devices_own_findings_fail() {
    let folder = stage();
    let beyond = SOURCE.replace("if (at < n) y[at]", "if (at == 0) y[n + 100000] = 1; if (at < n) y[at]");
    fs::write(folder.path().join("scale.cu"), beyond).unwrap();
    let object = check(folder.path(), "sanitize scale.toml --device host --json", 1, "fail", "");
    let finding = &object["result"]["findings"][0];
    assert_eq!(finding["tool"], "evo", "{object}");
    assert_eq!(object["result"]["verdict"], finding["kind"], "{object}");
    assert!(finding["address"].is_null() && object["reasons"]["result.findings.0.address"].is_string());
}

#[test]
fn a_candidate_is_built_tested_and_timed() {
    let folder = stage();
    let tested = check(folder.path(), "test scale.toml --device host --seed 1 --json", 0, "pass", "");
    let gate = |object: &Value, name: &str| {
        let gates = object["gates"].as_array().unwrap();
        gates.iter().find(|gate| gate["gate"] == name).map(|gate| gate["state"].clone())
    };
    assert_eq!(
        (gate(&tested, "repeatability"), gate(&tested, "timing")),
        (Some("pass".into()), Some("not_run".into()))
    );
    assert!(tested["measurements"].as_array().unwrap().is_empty() && tested["objective_ns"].is_null());
    let close = serde_json::json!([{ "problem": "p", "max_abs_error": 0.0, "max_rel_error": 0.0,
        "allclose_1e-3": true, "allclose_1e-2": true }]);
    assert_eq!(tested["parity"], close);

    let timed = check(
        folder.path(),
        &format!("benchmark scale.toml BLOCK=32 {BRIEF} --device host --json"),
        0,
        "pass",
        "",
    );
    assert!(
        timed["latency_ms"].as_f64().unwrap() > 0.0 && timed["speedup_vs_baseline"].as_f64().unwrap() > 0.0
    );
    // 500 elements in blocks of 32.
    assert_eq!(
        (&timed["ctas"], &timed["sm_count"], &timed["few_ctas"]),
        (&16.into(), &Value::Null, &Value::Null)
    );
    assert_eq!(timed["reasons"]["sm_count"], "the host device has no multiprocessors");
    assert_eq!(timed["result"]["latency_ms"], timed["latency_ms"]);
    assert_eq!(timed["limits"]["compile_s"], 120.0);
}

#[test]
fn failures_have_a_verdict_and_no_number() {
    let folder = stage();
    let failed = check(folder.path(), "test-one scale.toml FAULT=1 --device host --json", 1, "fail", "");
    assert_eq!((&failed["class"], &failed["error"]), (&"wrong".into(), &Value::Null));
    let timed = check(folder.path(), "benchmark scale.toml FAULT=1 --device host --json", 1, "fail", "");
    assert!(timed["latency_ms"].is_null() && timed["speedup_vs_baseline"].is_null());
    let hangs = "test scale.toml FAULT=2 --device host --limit device=1s --json";
    let hung = check(folder.path(), hangs, 1, "fail", "");
    assert_eq!((&hung["verdict"], &hung["limits"]["hit"]), (&"hang".into(), &"device".into()));
    let swept = "sweep wrong.toml --device host --budget 1 --finalists 0 --json";
    let swept = check(folder.path(), swept, 1, "fail", "");
    assert_eq!((&swept["event"], &swept["passed"]), (&"result".into(), &0.into()));
}

#[test]
fn a_comparison_that_did_not_run_is_no_pass_unless_it_is_allowed() {
    let folder = stage();
    let words = &format!("benchmark wrong.toml FAULT=0 {BRIEF} --device host --json");
    let missing = check(folder.path(), words, 1, "not_run", "");
    assert!(missing["reasons"]["speedup_vs_baseline"].as_str().unwrap().contains("does not pass its gates"));
    assert!(missing["latency_ms"].as_f64().is_some());
    let allowed = check(folder.path(), &format!("{words} --allow-not-run baseline"), 0, "pass", "");
    assert_eq!(allowed["allowed_not_run"], serde_json::json!(["baseline"]));
}

#[test]
fn limits_that_are_hit_are_named() {
    let folder = stage();
    let script = "case \"$*\" in *--version*) echo 'fake (test) 1.0'; exit 0;; *c++-header*) exit 1;; esac\nsleep 600\n";
    fs::write(folder.path().join("cxx"), script).unwrap();
    let slow = |words: &str| {
        let output = evo(folder.path(), words).env("CXX", "bash cxx").output().unwrap();
        object(words, &output, false)
    };
    let compile = slow("build scale.toml --device host --limit compile=1s --json");
    assert_eq!(
        (&compile["status"], &compile["verdict"]["kind"]),
        (&"fail".into(), &"compile_timeout".into())
    );
    assert_eq!(compile["limits"]["hit"], "compile");
    let total = slow("build scale.toml --device host --limit total=1s --json");
    assert_eq!((&total["status"], &total["error"]["code"]), (&"not_run".into(), &"timed_out".into()));
    assert_eq!((&total["exit_code"], &total["limits"]["hit"]), (&1.into(), &"total".into()));
}

#[test]
fn a_lost_device_leaves_one_object() {
    let folder = stage();
    let worker = format!("{}/tests/data/fake_worker.py", env!("CARGO_MANIFEST_DIR"));
    let head = HEAD.replace("[parameters]", "[parameters]\nFAULT = ['none', 'hang']");
    fs::write(folder.path().join("lost.toml"), scale::space(&head)).unwrap();
    fs::write(folder.path().join("scale.cu"), SOURCE.replace("FAULT", "0")).unwrap();
    let mut command =
        evo(folder.path(), "test-one lost.toml FAULT=hang --device host --json --limit device=2s");
    let output = command
        .args(["--worker-command", &format!("python3 {worker} . canary_dies_from=1")])
        .output()
        .unwrap();
    let object = object("lost", &output, false);
    assert_eq!(
        (&object["exit_code"], &object["error"]["code"]),
        (&3.into(), &"device_lost".into()),
        "{object}"
    );
}

/// What a machine without a GPU cannot print: objects of an H200 that are kept as evidence.
#[test]
fn what_a_gpu_printed_keeps_to_the_schemas() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("evidence/commands/h200");
    let mut names: Vec<String> = Vec::new();
    for path in fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let object: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let name = object["schema"].as_str().unwrap().strip_prefix("evo.").unwrap().to_string();
        answer::hold_to_schema(&name, &path.display().to_string(), &object);
        names.push(name);
    }
    for name in ["preflight", "profile", "sanitize", "summary"] {
        assert!(names.iter().any(|own| own == name), "{names:?}");
    }
}

/// Processes that a process started, and what they started.
fn descendants(of: u32) -> Vec<u32> {
    let (mut found, mut open) = (Vec::new(), vec![of]);
    while let Some(pid) = open.pop() {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
            found.extend(&children);
            open.extend(children);
        }
    }
    found
}

fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

/// Sends a signal once the command has started others, or has written a line, and looks at what it leaves.
#[track_caller]
fn interrupt(words: &str, signal: Signal, waits_for_line: bool) -> Value {
    let folder = stage();
    let mut child = evo(folder.path(), words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    let give_up = Instant::now() + Duration::from_secs(60);
    if waits_for_line {
        stdout.read_line(&mut text).unwrap();
    }
    while descendants(child.id()).is_empty() && !waits_for_line {
        assert!(Instant::now() < give_up, "`{words}` starts nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    let started = descendants(child.id());
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
    stdout.read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    while let Some(pid) = started.iter().copied().find(|pid| is_running(*pid)) {
        assert!(Instant::now() < give_up, "`{words}` left {pid}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = Output { status, stdout: text.into_bytes(), stderr: Vec::new() };
    let object = object(words, &output, waits_for_line);
    let seen = (output.status.code(), object["status"].as_str(), object["error"]["code"].as_str());
    assert_eq!(seen, (Some(5), Some("interrupted"), Some("interrupted")), "`{words}`: {object}");
    object
}

/// SIGHUP, unless this test runs under `nohup`, as everything that it starts does then.
fn hang_up() -> Signal {
    if evo::process::is_ignored(Signal::HUP.as_raw()) { Signal::TERM } else { Signal::HUP }
}

#[test]
fn signals_leave_one_object_and_no_process() {
    interrupt("test-one scale.toml --device host --json", Signal::INT, false);
    interrupt("test scale.toml --device host --json", Signal::TERM, false);
    interrupt("benchmark scale.toml --device host --json", hang_up(), false);
    interrupt("profile scale.toml --device host --json", Signal::INT, false);
    interrupt("build scale.toml --device host --json", Signal::TERM, false);
    interrupt("compile gemm --all --arch host --json", Signal::INT, true);
    interrupt("selftest device --device host --json", Signal::INT, false);
    let swept = interrupt("sweep softmax --device host --json", hang_up(), true);
    assert!(swept["study"].is_string(), "an interrupted sweep says where it can be resumed");
}

#[test]
fn without_json_a_signal_leaves_words_and_the_same_exit_code() {
    let folder = stage();
    let words = "test-one scale.toml --device host";
    let mut child = evo(folder.path(), words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while descendants(child.id()).is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(5), 0), "{stderr}");
    assert!(stderr.contains("error: interrupted by SIGTERM"), "{stderr}");
}

#[test]
fn a_reader_that_leaves_is_no_error_and_a_full_disk_is() {
    let folder = stage();
    let mut command = evo(folder.path(), "space attention_simt --list --json");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for words in ["space --json", "--help", "--version"] {
        let output = evo(folder.path(), words).stdout(full.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn schemas_are_printed_by_name() {
    let explain = |name: &str| evo(Path::new("."), &format!("explain --schema {name}")).output().unwrap();
    for name in evo::cli::answers::names() {
        let output = explain(name);
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed, answer::schema(name), "{name}");
    }
    let unknown = explain("leaderbord");
    assert_eq!(unknown.status.code(), Some(2));
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(text.contains("there is no schema `leaderbord`\nhint: did you mean `leaderboard`?"), "{text}");
}

#[test]
fn one_command_has_the_others_as_levels_and_options() {
    let folder = stage();
    let judged = |options: &str| {
        let brief = if options.contains("compile") { "" } else { BRIEF };
        let words = format!("test-one scale.toml {options} --device host --json {brief}");
        let output = evo(folder.path(), &words).output().unwrap();
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        hold_to_schema(&words, &object);
        (object["schema"].as_str().unwrap().to_string(), object["exit_code"].as_i64().unwrap(), object)
    };
    for (options, schema) in [
        ("--level compile", "evo.build"),
        ("--level tiny", "evo.test-one"),
        ("--level quick", "evo.test-one"),
        ("--against @baseline", "evo.evaluate"),
    ] {
        let (name, exit, object) = judged(options);
        assert_eq!((name.as_str(), exit), (schema, 0), "{options}: {object}");
    }
    let (_, _, tiny) = judged("--level tiny");
    assert_eq!((&tiny["objective_ns"], &tiny["verdict"]), (&Value::Null, &"pass".into()));
    let (name, exit, _) = judged("--level tiny FAULT=1");
    assert_eq!((name.as_str(), exit), ("evo.test-one", 1));
    let (name, exit, object) = judged("--baseline none.json");
    assert_eq!((name.as_str(), exit), ("evo.gate", 2), "{object}");
    let (_, exit, object) = judged("--invert --against @baseline");
    assert_eq!((exit, &object["error"]["code"]), (2, &"usage".into()));
    let help = |words: &str| {
        let output = evo(folder.path(), words).output().unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .count()
    };
    // The commands, `help`, and two options.
    assert_eq!(help("--help"), 18 + 1 + 2);
    assert!(help("--help --all") > 30);
}
