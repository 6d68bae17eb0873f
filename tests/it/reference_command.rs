//! References by command: right answers at every shape and family, nothing of a variant while they run, and failures that
//! are the task's.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::skip::has_programs;
use crate::support;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/reference_command");

fn has_python() -> bool {
    has_programs(&["python3"], "the reference of this test")
}

fn bench() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for name in ["scale.toml", "scale.cu", "ref.py"] {
        std::fs::copy(Path::new(EXAMPLE).join(name), root.path().join(name)).unwrap();
    }
    root
}

/// The same where there is Python for the reference.
fn with_python() -> Option<tempfile::TempDir> {
    has_python().then(bench)
}

/// The bench with this table as its reference.
fn with_reference(root: &Path, table: &str) {
    let text = std::fs::read_to_string(Path::new(EXAMPLE).join("scale.toml")).unwrap();
    let line = text.lines().find(|line| line.starts_with("reference = ")).unwrap();
    std::fs::write(root.join("scale.toml"), text.replace(line, &format!("reference = {table}"))).unwrap();
}

fn evo(root: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(root).env("EVO_CACHE_DIR", support::cache()).args(words);
    command.stdin(Stdio::null()).output().unwrap()
}

fn test_one(root: &Path) -> Output {
    evo(root, &["test-one", "scale.toml", "--device", "host", "--seed", "1", "--limit", "sampling=100ms"])
}

/// Exit code 2 before anything runs, with these words.
#[track_caller]
fn refused(root: &Path, table: &str, expected: &[&str]) {
    with_reference(root, table);
    let output = evo(root, &["sweep", "scale.toml", "--device", "host"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{table}: {message}");
    for part in expected {
        assert!(message.contains(part), "{table}: no `{part}` in: {message}");
    }
    assert!(message.lines().count() < 25 && output.stdout.is_empty(), "{message}");
    assert!(!root.join("evidence").exists(), "a study was begun");
}

#[test]
fn an_honest_kernel_passes_and_a_wrong_one_does_not() {
    let Some(root) = with_python() else { return };
    let output = test_one(root.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("verdict: pass"), "{text}");
    let kernel = std::fs::read_to_string(root.path().join("scale.cu")).unwrap();
    std::fs::write(root.path().join("scale.cu"), kernel.replace("+ x[i] * x[i]", "+ x[i] * 1.001f * x[i]"))
        .unwrap();
    let output = test_one(root.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("verdict: wrong_answer"), "{text}");
}

#[test]
fn no_process_of_a_variant_is_there_while_a_command_runs() {
    let Some(root) = with_python() else { return };
    let root = root.path();
    let spy = include_str!("../data/kernels/mix/spy.py");
    let own = std::fs::read_to_string(root.join("ref.py")).unwrap();
    let own = own
        .replace("import sys\n", &format!("import sys\n{spy}"))
        .replace("def answer(case):\n", "def answer(case):\n    look()\n");
    std::fs::write(root.join("ref.py"), own).unwrap();
    let output = test_one(root);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let seen = std::fs::read_to_string(root.join("seen")).unwrap();
    // The first question comes before any variant is loaded: what is there then is the fork server alone.
    let alone = seen.lines().next().unwrap();
    assert!(seen.lines().count() > 50 && alone != "0", "{seen}");
    assert!(seen.lines().all(|line| line == alone), "an executor was there: {seen}");
}

#[test]
fn a_command_that_fails_at_first_is_a_mistake_of_the_space() {
    let Some(root) = with_python() else { return };
    let root = root.path();
    let script = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
    let own = std::fs::read_to_string(root.join("ref.py")).unwrap();
    let values = "[alpha * value + value * value for value in x]";
    assert!(own.contains(values));
    script("short.py", &own.replace(values, "[0.0] * (len(x) - 1)"));
    script("single.py", &own.replace("y[\"dtype\"]", "\"<f4\""));
    script("nan.py", &own.replace(values, "[float(\"nan\")] * len(x)"));
    script("hang.py", "import time\ntime.sleep(1000)\n");
    script("fork.py", "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\nos._exit(3)\n");
    script(
        "flood.py",
        "import sys\nfor _ in range(64):\n    sys.stdout.write('y' * (1 << 20))\nsys.exit('last words')\n",
    );
    script(
        "garbage.py",
        "import sys, json\ncase = json.load(sys.stdin)\nopen(case['outputs']['y']['path'], 'w').write('no')\n",
    );
    script(
        "huge.py",
        "import sys, json\ncase = json.load(sys.stdin)\nopen(case['outputs']['y']['path'], 'w').truncate(1 << 40)\n",
    );
    script(
        "link.py",
        "import sys, json, os\ncase = json.load(sys.stdin)\nos.mkfifo(case['outputs']['y']['path'])\n",
    );
    let python = |name: &str| format!("{{ command = [\"python3\", \"{name}\"], timeout_s = 20 }}");
    refused(root, &python("short.py"), &["`python3 short.py` failed", "do not fill the shape `[777]`"]);
    refused(root, &python("single.py"), &["its data type is `f32`, expected `f64`"]);
    refused(root, &python("nan.py"), &["`NaN` for `y`, element 0"]);
    refused(root, "{ command = [\"python3\", \"hang.py\"], timeout_s = 1 }", &["it took longer than 1 s"]);
    refused(root, &python("fork.py"), &["it ended with exit code 3"]);
    refused(root, &python("flood.py"), &["it ended with exit code 1", "| last words"]);
    refused(root, &python("garbage.py"), &["it is not a .npy file"]);
    refused(root, &python("huge.py"), &["1099511627776 bytes"]);
    refused(root, &python("link.py"), &["a named pipe"]);
    refused(
        root,
        "{ command = [\"python3\", \"hang.py\"], serve = true, timeout_s = 1 }",
        &["it took longer than 1 s"],
    );
}

#[test]
fn a_command_that_fails_later_is_no_fault_of_the_variant() {
    let Some(root) = with_python() else { return };
    let root = root.path();
    // The first case is answered; later ones are not.
    let own = std::fs::read_to_string(root.join("ref.py")).unwrap();
    let check =
        "def answer(case):\n    if case['problem'].startswith('tiny:'):\n        sys.exit('not today')\n";
    std::fs::write(root.join("ref.py"), own.replace("def answer(case):\n", check)).unwrap();
    let output = test_one(root);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("verdict: harness_error:task") && text.contains("not today"), "{text}");
}

#[test]
fn the_command_is_shown() {
    let root = bench();
    let root = root.path();
    let line = "python3 ref.py (command, answers in float64, one process for many cases)";
    let space = evo(root, &["space", "scale.toml"]);
    assert!(String::from_utf8_lossy(&space.stdout).contains(line));
    let render = evo(root, &["render", "scale.toml"]);
    assert!(String::from_utf8_lossy(&render.stderr).contains(line));
}

#[test]
fn every_type_is_handed_over_and_answers_are_kept() {
    if !has_python() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    std::fs::write(root.join("mix.toml"), MIX).unwrap();
    std::fs::write(root.join("mix.cu"), MIX_KERNEL).unwrap();
    std::fs::write(root.join("mix.py"), MIX_REFERENCE).unwrap();
    let cache = root.join("cache");
    let asked = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
        command.current_dir(root).env("EVO_CACHE_DIR", &cache).stdin(Stdio::null());
        let output = command
            .args(["test-one", "mix.toml", "--device", "host", "--seed", "5", "--limit", "sampling=100ms"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let asked = std::fs::read_to_string(root.join("asked")).unwrap_or_default();
        let _ = std::fs::remove_file(root.join("asked"));
        asked.lines().count()
    };
    let first = asked();
    assert!(first > 10, "asked {first} times");
    let again = asked();
    // Only how many further seeds are asked about depends on the time.
    assert!(again < first / 2, "asked {again} times with all answers kept, and {first} times before");
    std::fs::write(root.join("mix.py"), format!("{MIX_REFERENCE}\n# edited\n")).unwrap();
    let edited = asked();
    assert!(edited > first / 2, "asked {edited} times after an edit, and {first} times before");
    let left: Vec<_> = std::fs::read_dir(cache.join("reference")).unwrap().flatten().collect();
    assert!(left.is_empty(), "files of a command are left: {left:?}");
}

const MIX: &str = include_str!("../data/kernels/mix/space.toml");

const MIX_KERNEL: &str = include_str!("../data/kernels/mix/mix.cu");

const MIX_REFERENCE: &str = include_str!("../data/kernels/mix/mix.py");

#[test]
fn a_command_dies_with_evo() {
    let Some(root) = with_python() else { return };
    let root = root.path();
    std::fs::write(
        root.join("wait.py"),
        "import os, subprocess, time\n\
         daemon = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n\
         open('pid', 'w').write(f'{os.getpid()} {daemon.pid} .')\ntime.sleep(1000)\n",
    )
    .unwrap();
    with_reference(root, "{ command = [\"python3\", \"wait.py\"] }");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(root).args(["test-one", "scale.toml", "--device", "host"]);
    command.env("EVO_CACHE_DIR", support::cache());
    let mut evo = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let wait = |what: &dyn Fn() -> bool| {
        let began = std::time::Instant::now();
        while !what() && began.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(what());
    };
    let pid = || std::fs::read_to_string(root.join("pid")).unwrap_or_default();
    wait(&|| pid().ends_with('.'));
    evo.kill().unwrap();
    evo.wait().unwrap();
    // The command itself, and what it started in a session of its own.
    let pids = pid();
    for pid in pids.split_whitespace().take(2) {
        let stat = format!("/proc/{pid}/stat");
        wait(&|| {
            let state = std::fs::read_to_string(&stat).unwrap_or_default();
            state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
        });
    }
}

/// Whoever asked for an answer in time is told that the time was too short, and not that evo is broken.
#[test]
fn a_command_that_hangs_does_not_hold_up_an_answer() {
    let Some(root) = with_python() else { return };
    let root = root.path();
    // SIGTERM does not end it either.
    let hangs = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)\n";
    std::fs::write(root.join("hangs.py"), hangs).unwrap();
    with_reference(root, "{ command = [\"python3\", \"hangs.py\"], timeout_s = 200 }");
    let began = std::time::Instant::now();
    let output = evo(root, &["evaluate", "scale.toml", "--device", "host", "--time-limit", "3s", "--json"]);
    let took = began.elapsed();
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let seen = (output.status.code(), object["status"].as_str(), object["error"]["code"].as_str());
    assert_eq!(seen, (Some(1), Some("not_run"), Some("timed_out")), "{object}");
    assert!(took < std::time::Duration::from_secs(18), "{took:?}");
}

#[test]
fn a_reference_that_throws_dice_is_refused() {
    let Some(root) = with_python() else { return };
    let own = std::fs::read_to_string(root.path().join("ref.py")).unwrap();
    let dice = own.replace("import sys\n", "import sys\nimport random\n").replace(
        "[alpha * value + value * value for value in x]",
        "[(alpha * value + value * value) * (1 + 1e-4 * random.random()) for value in x]",
    );
    assert_ne!(dice, own);
    std::fs::write(root.path().join("ref.py"), dice).unwrap();
    for table in
        ["{ command = [\"python3\", \"ref.py\"] }", "{ command = [\"python3\", \"ref.py\"], serve = true }"]
    {
        refused(root.path(), table, &["asked the same twice", "fix its seeds"]);
    }
}
