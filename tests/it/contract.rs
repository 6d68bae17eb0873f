//! One contract: with `--json` every command leaves exactly one object, whatever happens, and the object is what its
//! schema says. Here is what signals, readers and full disks leave; sessions (`sessions.rs`) have the rest.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::answer;
use crate::support::processes::{descendants, is_running, send, wait};
use crate::support::stage::{Ran, Stage};

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

/// Sends a signal once the command has started others, or has written a line, and looks at what it leaves.
#[track_caller]
fn interrupt(words: &str, signal: Signal, waits_for_line: bool) -> Value {
    let stage = Stage::of("scale_fault");
    let mut command = stage.evo(words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    if waits_for_line {
        stdout.read_line(&mut text).unwrap();
    } else {
        wait(words, || !descendants(child.id()).is_empty());
    }
    let started = descendants(child.id());
    send(&child, signal);
    stdout.read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    wait(&format!("nothing is left of {words}"), || !started.iter().any(|pid| is_running(*pid)));
    let output = Output { status, stdout: text.into_bytes(), stderr: Vec::new() };
    let object = answer::last(&Ran::of(words, &output).ends(5));
    let seen = (object["status"].as_str(), object["error"]["code"].as_str());
    assert_eq!(seen, (Some("interrupted"), Some("interrupted")), "`{words}`: {object}");
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
    let stage = Stage::of("scale_fault");
    let words = "test-one scale.toml --device host";
    let child = stage.evo(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait(words, || !descendants(child.id()).is_empty());
    send(&child, Signal::TERM);
    let ran = Ran::of(words, &child.wait_with_output().unwrap()).ends(5);
    assert!(ran.out.is_empty() && ran.err.contains("error: interrupted by SIGTERM"), "{ran}");
}

#[test]
fn a_reader_that_leaves_is_no_error_and_a_full_disk_is() {
    let stage = Stage::empty();
    let mut command = stage.evo("space attention_simt --list --json");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for words in ["space --json", "--help", "--version"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        Ran::of(words, &stage.evo(words).stdout(full).output().unwrap()).ends(4);
    }
}

#[test]
fn schemas_are_printed_by_name() {
    let stage = Stage::empty();
    for name in evo::cli::answers::names() {
        let printed = stage.run(&format!("explain --schema {name}")).out;
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), answer::schema(name), "{name}");
    }
    let told = "there is no schema `leaderbord`\nhint: did you mean `leaderboard`?";
    stage.run("explain --schema leaderbord").ends(2).says(&[told]);
}

/// The commands, `help`, and two options.
#[test]
fn the_help_is_short_and_the_other_commands_are_hidden() {
    let lines = |words: &str| {
        let help = Stage::empty().run(words).out;
        help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).count()
    };
    assert_eq!(lines("--help"), 18 + 1 + 2);
    assert!(lines("--help --all") > 30);
}
