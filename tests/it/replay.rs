//! `evo sweep --device replay:FILE` as a program, on small recordings of our own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use evo::journal::reader;
use evo::journal::replay::History;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::GateState;
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/replay").join(name)
}

/// A folder to sweep in, with a copy of the recordings.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        for name in ["axpy__Toy.json", "kernel_tuner_cache.json", "axpy__Toy-t4.json"] {
            std::fs::copy(data(name), folder.path().join(name)).unwrap();
        }
        Bench(folder)
    }

    fn evo(&self, words: &[&str]) -> Assert {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("evo"));
        command.current_dir(self.0.path()).args(words).assert()
    }

    fn sweep(&self, recording: &str, words: &[&str]) -> Assert {
        let device = format!("replay:{recording}");
        self.evo(&[&["sweep", "--device", &device, "--study", "s", "--seed", "1"], words].concat())
    }

    fn history(&self) -> History {
        History::replay(reader::read(&self.0.path().join("evidence/s/journal.jsonl")).unwrap())
    }

    fn evaluations(&self) -> BTreeMap<String, Evaluation> {
        let pair = |one: Evaluation| (one.configuration.to_string(), one);
        self.history().evaluations.into_iter().map(pair).collect()
    }
}

fn out(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

fn talk(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

#[test]
fn a_sweep_answers_from_the_recording_and_says_so() {
    let bench = Bench::new();
    let done = bench.sweep("axpy__Toy.json", &[]).success();
    let talk = talk(&done);
    assert!(
        talk.contains(
            "this is a replay: nothing is compiled or run; the recording of `axpy__Toy` answers (tuning"
        ),
        "{talk}"
    );
    assert!(talk.contains("study s on replay:Toy: 13 valid configurations"), "{talk}");
    let shown: Vec<String> = out(&done).lines().map(String::from).collect();
    assert_eq!(shown[0], "axpy on replay:Toy · 4096");
    assert!(shown[1].starts_with("13 evaluations (13 in this run) in ") && shown.len() == 11, "{shown:?}");
    assert_eq!(shown[3], "  1     64    2  staged  400.0 µs");
    let headline = "on record: 400.0 µs, 2.50× (recorded)";
    assert_eq!(shown[9..], [headline, "best     BLOCK=64 VEC=2 MODE=staged"]);

    let evaluations = bench.evaluations();
    assert_eq!(evaluations.len(), 13);
    let best = &evaluations["BLOCK=64 VEC=2 MODE=staged N=4096"];
    assert!((best.objective_ns.unwrap() - 0.4e6).abs() < 1e-6);
    assert_eq!((best.compile_ms, best.device_ms), (120.0, 6.0));
    let refused = &evaluations["BLOCK=64 VEC=4 MODE=staged N=4096"];
    assert_eq!((refused.verdict.label().as_str(), refused.compile_ms), ("compile_error:recorded", 140.0));
    let failed = &evaluations["BLOCK=128 VEC=2 MODE=staged N=4096"];
    assert_eq!(failed.verdict.label(), "launch_fail:recorded");
}

#[test]
fn nothing_in_a_replay_passes_for_a_measurement() {
    let bench = Bench::new();
    bench.sweep("axpy__Toy.json", &["--finalists", "5"]).success();
    let history = bench.history();
    assert_eq!(history.header.as_ref().unwrap().device.name, "replay:Toy");
    assert!(history.confirmations.is_empty());
    for one in &history.evaluations {
        assert!(one.gates.iter().all(|gate| gate.state == GateState::NotRun), "{:?}", one.gates);
        assert!(one.measurements.is_empty() && one.resources.is_empty());
        assert!(one.source_hash.is_none() && one.binary_hash.is_none() && one.code_hash.is_none());
    }
    assert!(!bench.0.path().join("evidence/leaderboard.json").exists());
    let board = bench.evo(&["leaderboard", "--rebuild"]).success();
    assert_eq!(out(&board), "the leaderboard is empty\n");
    assert!(talk(&board).contains("is a replay, in which nothing was measured: it is not on the board"));
}

#[test]
fn a_study_is_resumed_and_ends_as_in_one_run() {
    let whole = Bench::new();
    whole.sweep("axpy__Toy.json", &["--strategy", "random"]).success();
    let parts = Bench::new();
    parts.sweep("axpy__Toy.json", &["--strategy", "random", "--budget", "5"]).success();
    assert_eq!(parts.evaluations().len(), 5);
    let again = parts.sweep("axpy__Toy.json", &["--strategy", "random"]).failure();
    assert!(talk(&again).contains("study `evidence/s` has a journal already"), "{}", talk(&again));
    let rest =
        parts.sweep("axpy__Toy.json", &["--strategy", "random", "--resume", "--budget", "13"]).success();
    assert!(out(&rest).contains("13 evaluations (8 in this run)"), "{}", out(&rest));
    let verdicts = |bench: &Bench| -> BTreeMap<String, String> {
        let label = |(name, one): (String, Evaluation)| (name, one.verdict.label());
        bench.evaluations().into_iter().map(label).collect()
    };
    assert_eq!(verdicts(&whole), verdicts(&parts));
    // Another recording is another study.
    let other = parts.sweep("kernel_tuner_cache.json", &["--resume"]).failure().code(2);
    assert!(talk(&other).contains("belongs to another space or kernel"), "{}", talk(&other));
}

#[test]
fn journals_of_earlier_studies_are_recordings_too() {
    let bench = Bench::new();
    bench.sweep("kernel_tuner_cache.json", &["--strategy", "random", "--budget", "6"]).success();
    let first = bench.evaluations();
    for recording in ["evidence/s", "evidence/s/journal.jsonl"] {
        let device = format!("replay:{recording}");
        let done = bench.evo(&["sweep", "--device", &device, "--out", "second"]).success();
        let talk = talk(&done);
        assert!(talk.contains("(evo journal, 6 configurations)"), "{talk}");
        assert!(
            talk.contains("the space of the study is not available: `replay:kernel_tuner_cache.json` "),
            "{talk}"
        );
        assert!(talk.contains("on replay:Toy GPU 1: 6 valid configurations"), "{talk}");
    }
    let journal = bench.0.path().join("second/axpy-replay-Toy-GPU-1/journal.jsonl");
    for one in History::replay(reader::read(&journal).unwrap()).evaluations {
        let earlier = &first[&one.configuration.to_string()];
        assert_eq!((one.objective_ns, one.verdict.kind), (earlier.objective_ns, earlier.verdict.kind));
        assert_eq!((one.compile_ms, one.device_ms), (earlier.compile_ms, earlier.device_ms));
    }
}

/// A recording with room for an interrupt: 4,000 configurations, none faster than another.
fn long_recording() -> String {
    let (a, b): (Vec<u64>, Vec<u64>) = ((0..50).collect(), (0..80).collect());
    let column = |position: fn(usize) -> usize| (0..4000).map(position).collect::<Vec<usize>>();
    let ones = vec![1.0; 4000];
    let text = serde_json::json!({
        "format": "tuning-data/1", "kernel": "flat", "gpu": "Toy",
        "objective": { "name": "time", "unit": "us", "direction": "min" },
        "params": [{ "name": "A", "values": a }, { "name": "B", "values": b }],
        "constraints": [], "size": 4000, "exhaustive": true,
        "rows": {
            "config": { "A": column(|row| row / 80), "B": column(|row| row % 80) },
            "objective": ones, "status": column(|_| 0), "compile_ms": ones, "validate_ms": ones, "runs_ms": ones,
            "framework_ms": ones,
        },
    });
    text.to_string()
}

#[test]
fn a_replay_in_which_nothing_passed_fails_too() {
    let bench = Bench::new();
    let (a, ones) = (vec![1, 2, 3], vec![1.0; 3]);
    let recording = serde_json::json!({
        "format": "tuning-data/1", "kernel": "broken", "gpu": "Toy",
        "objective": { "name": "time", "unit": "us", "direction": "min" },
        "params": [{ "name": "A", "values": a }], "constraints": [], "size": 3, "exhaustive": true,
        "rows": {
            "config": { "A": [0, 1, 2] }, "objective": [null, null, null], "status": [1, 2, 1],
            "compile_ms": ones, "validate_ms": ones, "runs_ms": ones, "framework_ms": ones,
        },
    });
    std::fs::write(bench.0.path().join("broken.json"), recording.to_string()).unwrap();
    let failed = bench.sweep("broken.json", &["--strategy", "exhaustive"]).failure().code(1);
    let page = out(&failed);
    assert!(page.contains("nothing passed; the first failure of each verdict:\n  compile_error"), "{page}");
    assert!(page.contains("again: evo sweep --device replay:broken.json --seed 1"), "{page}");
    let failed = bench.evo(&["sweep", "--device", "replay:broken.json", "--json"]).failure().code(1);
    let result: Value = serde_json::from_str(out(&failed).lines().last().unwrap()).unwrap();
    let verdicts: Vec<&str> =
        result["failures"].as_array().unwrap().iter().filter_map(|one| one["verdict"].as_str()).collect();
    assert_eq!((&result["passed"], verdicts.len()), (&Value::from(0), 2), "{verdicts:?}");
}

#[test]
fn an_interrupted_replay_ends_with_code_5_and_is_resumed() {
    let bench = Bench::new();
    std::fs::write(bench.0.path().join("long.json"), long_recording()).unwrap();
    let words = "sweep --device replay:long.json --study s --strategy exhaustive --budget 3000";
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("evo"));
    let command = command
        .current_dir(bench.0.path())
        .args(words.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let journal = bench.0.path().join("evidence/s/journal.jsonl");
    let begun =
        || std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"kind\":\"evaluation\""));
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let done = bench.evaluations().len();
    assert!(done < 3000, "{done}");
    let more = (done + 20).to_string();
    let words = ["--strategy", "exhaustive", "--resume", "--budget", more.as_str()];
    let rest = bench.sweep("long.json", &words).success();
    assert!(out(&rest).contains(&format!("{more} evaluations (20 in this run)")), "{}", out(&rest));
    // No configuration twice.
    assert_eq!(bench.evaluations().len(), done + 20);
}

#[test]
fn a_resumed_run_keeps_its_budget_unless_another_is_given() {
    let bench = Bench::new();
    let swept = |words: &[&str]| {
        let words = [&["--strategy", "exhaustive"], words].concat();
        let done = bench.sweep("axpy__Toy.json", &words).success();
        (bench.evaluations().len(), talk(&done).contains("the budget is that of the run before: `--budget "))
    };
    assert_eq!(swept(&["--budget", "4"]), (4, false));
    assert_eq!(swept(&["--resume"]), (4, true));
    assert_eq!(swept(&["--resume", "--budget", "6"]), (6, false));
    assert_eq!(swept(&["--resume"]), (6, true));
}

/// A space with a point that was not recorded.
const SPACE: &str = "[parameters]\nBLOCK = [32, 64, 128]\nVEC = [2, 4]\nMODE = ['direct', 'staged']\n\
                     [[constraints]]\nrequire = \"MODE == 'direct' or BLOCK > 32\"\n";

#[test]
fn a_named_space_is_swept_and_what_was_not_recorded_is_refused() {
    let bench = Bench::new();
    std::fs::write(bench.0.path().join("mine.toml"), SPACE).unwrap();
    let done = bench.sweep("axpy__Toy.json", &["mine.toml"]).success();
    assert!(talk(&done).contains("5 of 13 recorded configurations are outside the space"), "{}", talk(&done));
    let evaluations = bench.evaluations();
    assert_eq!(evaluations.len(), 10);
    for name in ["BLOCK=128 VEC=4 MODE=direct", "BLOCK=128 VEC=4 MODE=staged"] {
        let one = &evaluations[name];
        assert_eq!(one.verdict.label(), "static_reject:not_recorded");
        assert_eq!((one.objective_ns, one.compile_ms, one.device_ms), (None, 0.0, 0.0));
    }
    assert_eq!(evaluations["BLOCK=64 VEC=2 MODE=staged"].verdict.label(), "pass");
}

#[test]
fn json_lines_name_the_replay() {
    let bench = Bench::new();
    let done = bench.sweep("axpy__Toy-t4.json", &["--json"]).success();
    let text = out(&done);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "result");
    assert_eq!(last["replay"]["gpu"], "Toy-t4");
    assert_eq!(last["replay"]["best"]["configuration"]["MODE"], "staged");
    assert!(last["section"].is_null() && last["leaderboard"].is_null());
    // The object of a live sweep, with one more key.
    let keys: Vec<&str> = last.as_object().unwrap().keys().map(String::as_str).collect();
    let live = "
        event reason evaluations evaluations_this_run passed_over taken_over not_final trouble throughput
        wall_seconds finalists_left sanitized study leaderboard verdicts passed failures default_failure
        section kept insight
    ";
    let live: Vec<&str> = live.split_whitespace().collect();
    // Behind the first fields of the envelope.
    let own = &keys[5..];
    assert_eq!((keys[0], &own[..live.len()]), ("schema", &live[..]));
    assert_eq!((own[live.len()], &last["passed_over"]), ("replay", &Value::from(0)));
}

#[test]
fn mistakes_end_with_code_2_and_a_hint() {
    let bench = Bench::new();
    let check = |words: &[&str], part: &str| {
        let failed = bench.evo(&[&["sweep"], words].concat()).failure().code(2);
        assert!(talk(&failed).contains(part), "{}", talk(&failed));
    };
    check(&["--device", "replay:axpy__Toy.json", "--problem", "x"], "`--problem` cannot be used with");
    check(&["--device", "replay:axpy__Toy.json", "--worker-command", "x"], "a replay has no worker");
    check(&["--device", "replay:axpy__Toy.json", "--strategy", "best"], "best");
    check(&["gemm", "--device", "replay:axpy__Toy.json"], "the recording is of another space");
    assert!(!bench.0.path().join("evidence").exists());
}
