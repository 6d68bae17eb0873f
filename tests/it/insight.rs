//! What a sweep says at its end beyond the winner, as a program on a recording.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// Sweeps a recording in a temporary folder; gives stdout and the study's `study.json`.
fn sweep(recording: &str, words: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(recording);
    let device = format!("replay:{}", recording.display());
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("evo"));
    command
        .current_dir(folder.path())
        .args(["sweep", "--device", &device, "--study", "s", "--verbose"])
        .args(words);
    let output = command.assert().success().get_output().clone();
    let study = std::fs::read(folder.path().join("evidence/s/study.json")).unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), serde_json::from_slice(&study).unwrap())
}

/// The line of `--verbose`, whose further lines are indented.
fn line(stdout: &str) -> String {
    let mut lines = stdout.lines().skip_while(|line| !line.starts_with("insight: "));
    let first = lines.next().unwrap_or_else(|| panic!("{stdout}"));
    let more = lines.take_while(|line| line.starts_with("  ")).map(str::trim_start);
    [first].into_iter().chain(more).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_sweep_says_what_mattered_and_keeps_the_record() {
    let (stdout, study) =
        sweep("stencil__invented.json", &["--strategy", "exhaustive", "--budget", "90", "--seed", "3"]);
    let line = line(&stdout);
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
    let (stdout, study) =
        sweep("stencil__invented.json", &["--strategy", "random", "--budget", "200", "--seed", "1"]);
    assert!(line(&stdout).contains("(from this study's random draws)"), "{stdout}");
    let random = &study["insight"]["random"];
    let [low, high] = ["quarter_ns", "three_quarters_ns"].map(|name| random[name].as_f64().unwrap());
    let best = study["insight"]["best"]["objective_ns"].as_f64().unwrap();
    assert!(low <= high && best <= low && low < 1.1 * best, "{random:#}");
}

#[test]
fn a_small_space_is_known_whole_and_too_little_to_learn_from() {
    let (stdout, study) = sweep("replay/axpy__Toy.json", &["--strategy", "exhaustive"]);
    let line = line(&stdout);
    assert!(line.starts_with("insight: too few measurements to say what decides the time; "), "{line}");
    assert!(line.contains("evaluations to find one as fast (median)"), "{line}");
    assert!(study["insight"]["importance"].is_null());
    assert_eq!(study["insight"]["random"]["basis"], "whole_space");
    assert_eq!(study["insight"]["random"]["chance_as_good"], 1.0);
}

#[test]
fn json_has_the_record_in_its_result_and_no_line() {
    let (stdout, study) =
        sweep("stencil__invented.json", &["--strategy", "random", "--budget", "40", "--seed", "1", "--json"]);
    let last: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "result");
    assert_eq!(last["insight"]["best"], study["insight"]["best"]);
}
