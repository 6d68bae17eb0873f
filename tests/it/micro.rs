//! `evo micro` as a program, and sweeps that begin with its ranking: on the host device with a small kernel, and on a
//! recording with planted rankings, one that helps and one that misleads.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use evo::journal::reader;
use evo::journal::replay::History;
use evo_protocol::evaluation::Evaluation;
use serde_json::{Value, json};

use crate::json_schema;
use crate::support::answer;
use crate::sweep::Bench;

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stencil__invented.json")
}

/// Standard error, and the insight of the page on standard output.
fn said(output: &Output) -> String {
    let page = String::from_utf8_lossy(&output.stdout).replace("\n  ", " ");
    let insight = page.lines().find(|line| line.starts_with("insight")).unwrap_or_default();
    format!("{}{insight}\n", String::from_utf8_lossy(&output.stderr))
}

/// Sweeps the invented recording in `folder`; stderr and the evaluations in their order.
fn replay(folder: &Path, study: &str, words: &[&str]) -> (String, Vec<Evaluation>) {
    let device = format!("replay:{}", recording().display());
    let fixed = [
        "sweep",
        "--device",
        &device,
        "--budget",
        "64",
        "--pop",
        "32",
        "--seed",
        "1",
        "--no-prior",
        "--verbose",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    let output =
        command.current_dir(folder).args(fixed).args(["--study", study]).args(words).output().unwrap();
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let journal = reader::read(&folder.join("evidence").join(study).join("journal.jsonl")).unwrap();
    (stderr, History::replay(journal).evaluations)
}

/// Configurations of the recording with their times, the fastest first; only every so many.
fn fastest_first(step: usize) -> Vec<(f64, Value)> {
    let text = fs::read_to_string(recording()).unwrap();
    let data: Value = serde_json::from_str(&text).unwrap();
    let mut rows: Vec<(f64, Value)> = Vec::new();
    for at in 0..data["size"].as_u64().unwrap() as usize {
        let Some(time) = data["rows"]["objective"][at].as_f64() else { continue };
        let pair = |parameter: &Value| {
            let name = parameter["name"].as_str().unwrap().to_string();
            let position = data["rows"]["config"][&name][at].as_u64().unwrap() as usize;
            (name, parameter["values"][position].clone())
        };
        let configuration: serde_json::Map<String, Value> =
            data["params"].as_array().unwrap().iter().map(pair).collect();
        rows.push((time, Value::Object(configuration)));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows.into_iter().step_by(step).collect()
}

fn plant(folder: &Path, list: &[Value]) {
    fs::create_dir_all(folder.join("evidence")).unwrap();
    fs::write(folder.join("evidence/micro_best.json"), json!(list).to_string()).unwrap();
}

fn seeds(evaluations: &[Evaluation]) -> usize {
    evaluations.iter().filter(|one| one.origin == "micro").count()
}

/// Position of the first evaluation that is as fast as the recording's best.
fn found(evaluations: &[Evaluation], best_ms: f64) -> Option<usize> {
    evaluations.iter().position(|one| one.objective_ns.is_some_and(|time| time <= best_ms * 1e6 * 1.001))
}

#[test]
fn a_ranking_that_helps_begins_the_search_and_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let rows = fastest_first(20);
    let list: Vec<Value> = rows.iter().map(|(_, one)| one.clone()).collect();
    plant(folder.path(), &list);
    let (stderr, evaluations) = replay(folder.path(), "helped", &["--strategy", "evolve"]);
    let told = "generation 0 takes up to 16 configurations from `evidence/micro_best.json` (a list of";
    assert!(stderr.contains(told), "{stderr}");
    assert!(stderr.contains("the micro ranking agrees (Spearman 1.00 over 8 configurations)"), "{stderr}");
    // At most half of generation 0, and fewer where the ninth had to wait for the first eight.
    assert!((9..=16).contains(&seeds(&evaluations)), "{}", seeds(&evaluations));
    let generations: Vec<u32> =
        evaluations.iter().filter(|one| one.origin == "micro").map(|one| one.generation).collect();
    assert!(generations.iter().all(|one| *one == 0), "{generations:?}");
    assert_eq!(found(&evaluations, rows[0].0), Some(1), "right behind the default");
}

#[test]
fn a_ranking_that_misleads_is_dropped_after_eight_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let rows = fastest_first(20);
    let list: Vec<Value> = rows.iter().rev().map(|(_, one)| one.clone()).collect();
    plant(folder.path(), &list);
    let (stderr, evaluations) = replay(folder.path(), "misled", &["--strategy", "evolve"]);
    let told = "the micro ranking does not hold here, and the rest of it was dropped (Spearman -1.00 over 8";
    assert!(stderr.contains(told), "{stderr}");
    assert_eq!(seeds(&evaluations), 8);
    let study = fs::read_to_string(folder.path().join("evidence/misled/study.json")).unwrap();
    let study: Value = serde_json::from_str(&study).unwrap();
    let expected = json!({ "measured": 8, "spearman": -1.0, "dropped": true });
    assert_eq!(study["insight"]["micro"], expected);
}

#[test]
fn without_a_ranking_a_search_is_what_it_was() {
    let plain = tempfile::tempdir().unwrap();
    // What a strategy that learns proposes depends on how many are in flight, and so on the clock.
    let random = ["--strategy", "random"];
    let (_, expected) = replay(plain.path(), "s", &random);
    let configurations = |all: &[Evaluation]| -> BTreeSet<(u64, String, String)> {
        all.iter().map(|one| (one.number, one.configuration.to_string(), one.origin.clone())).collect()
    };
    // Left out by a flag, damaged, of another program, of another kernel.
    let folder = tempfile::tempdir().unwrap();
    let list: Vec<Value> = fastest_first(20).into_iter().map(|(_, one)| one).collect();
    plant(folder.path(), &list);
    let (stderr, evaluations) = replay(folder.path(), "flag", &["--strategy", "random", "--no-micro"]);
    assert!(!stderr.contains("micro"), "{stderr}");
    assert_eq!(configurations(&evaluations), configurations(&expected));
    let path = folder.path().join("evidence/micro_best.json");
    for (study, text, reason) in [
        ("cut", "[{\"BLOCK_X\": 8", "it is damaged"),
        ("other", "{\"schema\":\"evo.leaderboard\"}", "it is neither of schema `evo.micro` nor a list"),
        ("foreign", "[{\"TILE_M\": 8}]", "none of its 1 entries is a configuration of this space"),
        ("empty", "", "it is damaged"),
    ] {
        fs::write(&path, text).unwrap();
        let (stderr, evaluations) = replay(folder.path(), study, &random);
        assert!(stderr.contains(&format!("is ignored: {reason}")), "{stderr}");
        assert_eq!(configurations(&evaluations), configurations(&expected), "{study}");
    }
}

fn micro(bench: &Bench, words: &str) -> Output {
    bench.run(&format!("micro scale.toml --device host --budget 20 --seed 3 {words}"))
}

#[test]
fn a_space_is_ranked_and_the_next_sweep_begins_with_it() {
    let bench = Bench::new();
    let output = micro(&bench, "--json --top 3");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((object["schema"].as_str(), object["status"].as_str()), (Some("evo.micro"), Some("pass")));
    let path = bench.path().join("evidence/micro_best.json");
    let file: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(json_schema::fault(&answer::schema("micro-best"), &file), None);
    let keys: Vec<&String> = file.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["schema", "kernel", "device", "space_hash", "problem", "tried", "ranked"]);
    let rows = file["ranked"].as_array().unwrap();
    // Of the six variants some are too far behind the best to be ranked.
    assert!((1..=3).contains(&rows.len()), "{file}");
    assert_eq!(file["ranked"], object["ranked"]);
    // A wrong answer does not pass the small shapes, however fast it is.
    assert!(rows.iter().all(|row| row["configuration"]["FACTOR"] == 2), "{file}");
    let times: Vec<f64> = rows.iter().map(|row| row["ns_per_work"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    // Nothing else is left: neither a study nor a leaderboard.
    let folders = fs::read_dir(bench.path().join("evidence")).unwrap();
    assert!(folders.flatten().all(|one| !one.path().is_dir()), "a study was left behind");

    let output = bench.sweep("--budget 8 --finalists 0 --seed 4 --strategy random --verbose");
    let stderr = said(&output);
    assert!(stderr.contains("generation 0 takes up to"), "{stderr}");
    assert!(
        stderr.contains("of the micro ranking were measured, too few to compare (8 are needed)"),
        "{stderr}"
    );

    // After an edit of the kernel the ranking says nothing about it any more.
    let kernel = bench.path().join("scale.cu");
    fs::write(&kernel, fs::read_to_string(&kernel).unwrap() + "\n// edited\n").unwrap();
    let output = bench.run("sweep scale.toml --device host --study t --budget 1 --finalists 0");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("is ignored: the space, the kernel's source or the compiler has changed"),
        "{stderr}"
    );
}

#[test]
fn where_nothing_passes_no_ranking_takes_the_place_of_an_older_one() {
    let bench = Bench::new();
    let kernel = bench.path().join("scale.cu");
    fs::write(&kernel, fs::read_to_string(&kernel).unwrap().replace("FACTOR *", "7.0f *")).unwrap();
    let output = micro(&bench, "");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!bench.path().join("evidence/micro_best.json").exists());
}

#[test]
fn an_interrupt_keeps_what_was_ranked() {
    let bench = Bench::new();
    let mut command = bench.command("micro gemm --device host --budget 60s --seed 1");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        if line.contains("· pass") {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let file = fs::read_to_string(bench.path().join("evidence/micro_best.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    assert!(!file["ranked"].as_array().unwrap().is_empty(), "{file}");
}
