//! `evo sweep --device replay:FILE` on small recordings of our own, and what its journal holds. Sessions have the rest.

use std::collections::BTreeMap;
use std::process::Stdio;

use evo::journal::reader;
use evo::journal::replay::History;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::GateState;
use rustix::process::Signal;
use serde_json::json;

use crate::support::answer::holds;
use crate::support::processes::{send, wait};
use crate::support::stage::{Ran, Stage};

/// A folder to sweep in, with the recordings.
fn stage() -> Stage {
    Stage::of("tests/data/replay")
}

fn sweep(stage: &Stage, recording: &str, words: &str) -> Ran {
    stage.run(&format!("sweep --device replay:{recording} --study s --seed 1 {words}"))
}

fn history(stage: &Stage, journal: &str) -> History {
    History::replay(reader::read(&stage.at(journal)).unwrap())
}

fn evaluations(stage: &Stage) -> BTreeMap<String, Evaluation> {
    let pair = |one: Evaluation| (one.configuration.to_string(), one);
    history(stage, "evidence/s/journal.jsonl").evaluations.into_iter().map(pair).collect()
}

#[test]
fn a_sweep_answers_from_the_recording() {
    let stage = stage();
    sweep(&stage, "axpy__Toy.json", "").ends(0);
    let evaluations = evaluations(&stage);
    assert_eq!(evaluations.len(), 13);
    let best = &evaluations["BLOCK=64 VEC=2 MODE=staged N=4096"];
    assert!((best.objective_ns.unwrap() - 0.4e6).abs() < 1e-6);
    assert_eq!((best.compile_ms, best.device_ms), (120.0, 6.0));
    let refused = &evaluations["BLOCK=64 VEC=4 MODE=staged N=4096"];
    assert_eq!((refused.verdict.label().as_str(), refused.compile_ms), ("compile_error:recorded", 140.0));
    let failed = &evaluations["BLOCK=128 VEC=2 MODE=staged N=4096"];
    assert_eq!(failed.verdict.label(), "launch_fail:recorded");
    let history = history(&stage, "evidence/s/journal.jsonl");
    assert_eq!(history.header.as_ref().unwrap().device.name, "replay:Toy");
    assert!(history.confirmations.is_empty());
    for one in &history.evaluations {
        assert!(one.gates.iter().all(|gate| gate.state == GateState::NotRun), "{:?}", one.gates);
        assert!(one.measurements.is_empty() && one.resources.is_empty());
        assert!(one.source_hash.is_none() && one.binary_hash.is_none() && one.code_hash.is_none());
    }
}

#[test]
fn a_study_is_resumed_and_ends_as_in_one_run() {
    let (whole, parts) = (stage(), stage());
    sweep(&whole, "axpy__Toy.json", "--strategy random").ends(0);
    sweep(&parts, "axpy__Toy.json", "--strategy random --budget 5").ends(0);
    assert_eq!(evaluations(&parts).len(), 5);
    let again = sweep(&parts, "axpy__Toy.json", "--strategy random").ends(2);
    again.says(&["study `evidence/s` has a journal already"]);
    let rest = sweep(&parts, "axpy__Toy.json", "--strategy random --resume --budget 13").ends(0);
    rest.says(&["13 evaluations (8 in this run)"]);
    let verdicts = |stage: &Stage| -> BTreeMap<String, String> {
        let label = |(name, one): (String, Evaluation)| (name, one.verdict.label());
        evaluations(stage).into_iter().map(label).collect()
    };
    assert_eq!(verdicts(&whole), verdicts(&parts));
    // Another recording is another study.
    let other = sweep(&parts, "kernel_tuner_cache.json", "--resume").ends(2);
    other.says(&["belongs to another space or kernel"]);
}

#[test]
fn journals_of_earlier_studies_are_recordings_too() {
    let stage = stage();
    sweep(&stage, "kernel_tuner_cache.json", "--strategy random --budget 6").ends(0);
    let first = evaluations(&stage);
    for recording in ["evidence/s", "evidence/s/journal.jsonl"] {
        stage.run(&format!("sweep --device replay:{recording} --out second")).ends(0).says(&[
            "(evo journal, 6 configurations)",
            "the space of the study is not available: `replay:kernel_tuner_cache.json` ",
            "on replay:Toy GPU 1: 6 valid configurations",
        ]);
    }
    for one in history(&stage, "second/axpy-replay-Toy-GPU-1/journal.jsonl").evaluations {
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
    let text = json!({
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
fn an_interrupted_replay_ends_with_code_5_and_is_resumed() {
    let stage = stage();
    stage.write("long.json", &long_recording());
    let words = "sweep --device replay:long.json --study s --strategy exhaustive --budget 3000";
    let mut child = stage.evo(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let journal = stage.at("evidence/s/journal.jsonl");
    let kept = || std::fs::read_to_string(&journal).unwrap_or_default();
    wait(words, || kept().contains("\"kind\":\"evaluation\"") || child.try_wait().unwrap().is_some());
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let done = evaluations(&stage).len();
    assert!(done < 3000, "{done}");
    let more = done + 20;
    let rest = sweep(&stage, "long.json", &format!("--strategy exhaustive --resume --budget {more}")).ends(0);
    rest.says(&[&format!("{more} evaluations (20 in this run)")]);
    // No configuration twice.
    assert_eq!(evaluations(&stage).len(), more);
}

/// A space with a point that was not recorded.
const SPACE: &str = "[parameters]\nBLOCK = [32, 64, 128]\nVEC = [2, 4]\nMODE = ['direct', 'staged']\n\
                     [[constraints]]\nrequire = \"MODE == 'direct' or BLOCK > 32\"\n";

#[test]
fn a_named_space_is_swept_and_what_was_not_recorded_is_refused() {
    let stage = stage();
    stage.write("mine.toml", SPACE);
    let done = sweep(&stage, "axpy__Toy.json", "mine.toml").ends(0);
    done.says(&["5 of 13 recorded configurations are outside the space"]);
    let evaluations = evaluations(&stage);
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
    let last = sweep(&stage(), "axpy__Toy-t4.json", "--json").ends(0).object();
    let expected = json!({
        "event": "result", "replay.gpu": "Toy-t4", "replay.best.configuration.MODE": "staged", "section": null,
        "leaderboard": null, "passed_over": 0,
    });
    holds(&last, &expected);
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
    assert_eq!((keys[0], &own[..live.len()], own[live.len()]), ("schema", &live[..], "replay"));
}
