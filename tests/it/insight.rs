//! What a sweep says at its end beyond the winner, on a recording.

use serde_json::{Value, json};

use crate::support::answer::holds;
use crate::support::stage::{Ran, Stage};

/// A sweep of a recording, and its `study.json`.
fn sweep(recording: &str, words: &str) -> (Ran, Value) {
    let stage = Stage::empty();
    let device = format!("replay:{}/tests/data/{recording}", env!("CARGO_MANIFEST_DIR"));
    let ran = stage.run(&format!("sweep --device {device} --study s --verbose {words}")).ends(0);
    (ran, stage.json("evidence/s/study.json"))
}

/// The line of `--verbose`, whose further lines are indented.
fn line(ran: &Ran) -> String {
    let mut lines = ran.out.lines().skip_while(|line| !line.starts_with("insight: "));
    let first = lines.next().unwrap_or_else(|| panic!("{ran}"));
    let more = lines.take_while(|line| line.starts_with("  ")).map(str::trim_start);
    [first].into_iter().chain(more).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_sweep_says_what_mattered_and_keeps_the_record() {
    let (ran, study) = sweep("stencil__invented.json", "--strategy exhaustive --budget 90 --seed 3");
    let line = line(&ran);
    assert!(line.contains("the best was evaluation ") && line.contains(" of 90, proposed by `"), "{line}");
    assert!(line.contains("random search with the same budget ") && line.contains("(estimated)"), "{line}");

    let insight = &study["insight"];
    assert_eq!(insight["evaluations"], 90);
    assert_eq!(insight["best"]["number"], study["best_screened"]["number"]);
    assert_eq!(insight["random"]["basis"], "model");
    let parameters = insight["importance"]["parameters"].as_array().unwrap();
    assert_eq!(parameters.len(), 5);
    let sum: f64 = parameters.iter().map(|one| one["share"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{insight:#}");
    let first = parameters[0]["name"].as_str().unwrap();
    let explained = insight["importance"]["explained"].as_f64().unwrap();
    assert!(explained < 0.1 || line.starts_with(&format!("insight: `{first}` (")), "{line}");
    // No model proposed anything.
    assert!(insight["calibration"].is_null());
    let operators = insight["operators"].as_object().unwrap();
    let made: u64 = operators.values().map(|one| one["evaluations"].as_u64().unwrap()).sum();
    let origin = insight["best"]["origin"].as_str().unwrap();
    assert!(made == 90 && operators[origin]["improvements"].as_u64() >= Some(1), "{operators:#?}");
}

#[test]
fn random_search_beside_itself_comes_as_far() {
    let (ran, study) = sweep("stencil__invented.json", "--strategy random --budget 200 --seed 1");
    assert!(line(&ran).contains("(from this study's random draws)"), "{ran}");
    let random = &study["insight"]["random"];
    let [low, high] = ["quarter_ns", "three_quarters_ns"].map(|name| random[name].as_f64().unwrap());
    let best = study["insight"]["best"]["objective_ns"].as_f64().unwrap();
    assert!(low <= high && best <= low && low < 1.1 * best, "{random:#}");
}

#[test]
fn a_small_space_is_known_whole_and_too_little_to_learn_from() {
    let (ran, study) = sweep("replay/axpy__Toy.json", "--strategy exhaustive");
    let line = line(&ran);
    assert!(line.starts_with("insight: too few measurements to say what decides the time; "), "{line}");
    assert!(line.contains("evaluations to find one as fast (median)"), "{line}");
    let expected = json!({ "importance": null, "random.basis": "whole_space", "random.chance_as_good": 1.0 });
    holds(&study["insight"], &expected);
}

#[test]
fn json_has_the_record_in_its_result_and_no_line() {
    let (ran, study) = sweep("stencil__invented.json", "--strategy random --budget 40 --seed 1 --json");
    holds(&ran.object(), &json!({ "event": "result", "insight.best": study["insight"]["best"] }));
}
