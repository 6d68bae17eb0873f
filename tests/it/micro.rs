//! `evo micro` as a program, and sweeps that begin with its ranking: on the host device with a small kernel, and on a
//! recording with planted rankings, one that helps and one that misleads.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use evo::journal::reader;
use evo::journal::replay::History;
use evo_protocol::evaluation::Evaluation;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::json_schema;
use crate::support::answer::{self, holds};
use crate::support::processes::send;
use crate::support::stage::{Ran, Stage};

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stencil__invented.json")
}

/// Standard error, and the insight of the page on standard output.
fn said(ran: &Ran) -> String {
    let page = ran.out.replace("\n  ", " ");
    let insight = page.lines().find(|line| line.starts_with("insight")).unwrap_or_default();
    format!("{}{insight}\n", ran.err)
}

/// Sweeps the invented recording; what is said, and the evaluations in their order.
fn replay(stage: &Stage, study: &str, words: &str) -> (String, Vec<Evaluation>) {
    let fixed = "--budget 64 --pop 32 --seed 1 --no-prior --verbose";
    let device = format!("replay:{}", recording().display());
    let ran = stage.run(&format!("sweep --device {device} {fixed} --study {study} {words}")).ends(0);
    let journal = reader::read(&stage.at(&format!("evidence/{study}/journal.jsonl"))).unwrap();
    (said(&ran), History::replay(journal).evaluations)
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

const RANKING: &str = "evidence/micro_best.json";

/// A folder with this ranking.
fn planted<'v>(list: impl Iterator<Item = &'v (f64, Value)>) -> Stage {
    let stage = Stage::empty();
    stage.write(RANKING, &list.map(|(_, one)| one.clone()).collect::<Value>().to_string());
    stage
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
    let rows = fastest_first(20);
    let (stderr, evaluations) = replay(&planted(rows.iter()), "helped", "--strategy evolve");
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
    let stage = planted(fastest_first(20).iter().rev());
    let (stderr, evaluations) = replay(&stage, "misled", "--strategy evolve");
    let told = "the micro ranking does not hold here, and the rest of it was dropped (Spearman -1.00 over 8";
    assert!(stderr.contains(told), "{stderr}");
    assert_eq!(seeds(&evaluations), 8);
    let expected = json!({ "measured": 8, "spearman": -1.0, "dropped": true });
    holds(&stage.json("evidence/misled/study.json"), &json!({ "insight.micro": expected }));
}

#[test]
fn without_a_ranking_a_search_is_what_it_was() {
    // What a strategy that learns proposes depends on how many are in flight, and so on the clock.
    let (_, expected) = replay(&Stage::empty(), "s", "--strategy random");
    let configurations = |all: &[Evaluation]| -> BTreeSet<(u64, String, String)> {
        all.iter().map(|one| (one.number, one.configuration.to_string(), one.origin.clone())).collect()
    };
    // Left out by a flag, damaged, of another program, of another kernel.
    let stage = planted(fastest_first(20).iter());
    let (stderr, evaluations) = replay(&stage, "flag", "--strategy random --no-micro");
    assert!(!stderr.contains("micro"), "{stderr}");
    assert_eq!(configurations(&evaluations), configurations(&expected));
    for (study, text, reason) in [
        ("cut", "[{\"BLOCK_X\": 8", "it is damaged"),
        ("other", "{\"schema\":\"evo.leaderboard\"}", "it is neither of schema `evo.micro` nor a list"),
        ("foreign", "[{\"TILE_M\": 8}]", "none of its 1 entries is a configuration of this space"),
        ("empty", "", "it is damaged"),
    ] {
        stage.write(RANKING, text);
        let (stderr, evaluations) = replay(&stage, study, "--strategy random");
        assert!(stderr.contains(&format!("is ignored: {reason}")), "{stderr}");
        assert_eq!(configurations(&evaluations), configurations(&expected), "{study}");
    }
}

#[test]
fn a_space_is_ranked_and_the_next_sweep_begins_with_it() {
    let stage = Stage::of("scale");
    let words = "micro scale.toml --device host --budget 20 --seed 3 --top 3";
    let object = stage.answers(words, 0, "pass");
    let file = stage.json(RANKING);
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
    let folders = fs::read_dir(stage.at("evidence")).unwrap();
    assert!(folders.flatten().all(|one| !one.path().is_dir()), "a study was left behind");

    let fixed = "sweep scale.toml --device host --finalists 0 --limit sampling=100ms";
    let stderr =
        said(&stage.run(&format!("{fixed} --study s --budget 8 --seed 4 --strategy random --verbose")));
    assert!(stderr.contains("generation 0 takes up to"), "{stderr}");
    let told = "of the micro ranking were measured, too few to compare (8 are needed)";
    assert!(stderr.contains(told), "{stderr}");

    // After an edit of the kernel the ranking says nothing about it any more.
    stage.write("scale.cu", &(stage.read("scale.cu") + "\n// edited\n"));
    let told = "is ignored: the space, the kernel's source or the compiler has changed";
    stage.run(&format!("{fixed} --study t --budget 1")).says(&[told]);
}

#[test]
fn where_nothing_passes_no_ranking_takes_the_place_of_an_older_one() {
    let stage = Stage::of("scale");
    stage.edit("scale.cu", "FACTOR *", "7.0f *");
    stage.run("micro scale.toml --device host --budget 20 --seed 3").ends(1);
    assert!(!stage.at(RANKING).exists());
}

#[test]
fn an_interrupt_keeps_what_was_ranked() {
    let stage = Stage::empty();
    let mut command = stage.evo("micro gemm --device host --budget 60s --seed 1");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for _ in lines.map_while(Result::ok).filter(|line| line.contains("· pass")) {
        send(&child, Signal::INT);
    }
    assert_eq!(child.wait().unwrap().code(), Some(5));
    holds(&stage.json(RANKING), &json!({ "ranked": "#> 0" }));
}
