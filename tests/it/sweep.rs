//! `evo sweep` and `leaderboard` as programs, on the host device with a small kernel: the board, seeds, and ends from
//! outside. Sessions have the rest.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::process::{Child, Stdio};

use evo::journal::reader;
use evo::journal::replay::History;
use rustix::process::Signal;
use serde_json::json;

use crate::json_schema;
use crate::support::BRIEF;
use crate::support::answer::{self, holds};
use crate::support::processes::{send, wait};
use crate::support::stage::{Ran, Stage};

pub const KERNEL: &str = include_str!("../data/kernels/scale/scale.cu");

pub const NAIVE: &str = include_str!("../data/kernels/scale/naive.cu");

pub const SPACE: &str = include_str!("../data/kernels/scale/scale.toml");

/// A folder with the kernel, and its study `s`.
pub struct Bench(Stage);

impl Deref for Bench {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl Bench {
    pub fn new() -> Bench {
        Bench(Stage::of("scale"))
    }

    /// `sweep scale.toml --device host` with more words, in study `s`.
    pub fn sweep(&self, words: &str) -> Ran {
        self.run(&sweep(words))
    }

    pub fn start(&self, words: &str) -> Child {
        self.evo(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub fn verdicts(&self) -> BTreeMap<String, String> {
        let history = History::replay(reader::read(&self.at("evidence/s/journal.jsonl")).unwrap());
        let pair = |one: &evo_protocol::evaluation::Evaluation| {
            (one.configuration.to_string(), one.verdict.kind.to_string())
        };
        let verdicts: BTreeMap<String, String> = history.evaluations.iter().map(pair).collect();
        assert_eq!(verdicts.len(), history.evaluations.len(), "a configuration was evaluated twice");
        verdicts
    }

    /// Waits until the journal holds this many evaluations, or the sweep is at its end.
    pub fn wait_for(&self, evaluations: usize, child: &mut Child) {
        let path = self.at("evidence/s/journal.jsonl");
        let kept = || fs::read_to_string(&path).unwrap_or_default();
        let count = || kept().matches("\"kind\":\"evaluation\"").count();
        wait("evaluations", || count() >= evaluations || child.try_wait().unwrap().is_some());
    }
}

/// `sweep scale.toml --device host` with more words, in study `s`.
pub fn sweep(words: &str) -> String {
    format!("sweep scale.toml --device host --study s {BRIEF} {words}")
}

/// What the space's ten valid points must give.
pub fn expected() -> BTreeMap<String, String> {
    let mut expected = BTreeMap::new();
    for (block, vec) in [(32, 1), (32, 2), (32, 4), (64, 1), (64, 2)] {
        for (factor, verdict) in [(2, "pass"), (3, "wrong_answer")] {
            expected.insert(format!("BLOCK={block} VEC={vec} FACTOR={factor}"), verdict.to_string());
        }
    }
    expected
}

/// Pass and too slow are both answers of a correct variant; which one depends on the clock.
pub fn right_or_wrong(verdicts: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let merge = |verdict: String| if verdict == "too_slow" { "pass".to_string() } else { verdict };
    verdicts.into_iter().map(|(name, verdict)| (name, merge(verdict))).collect()
}

#[test]
fn a_sweep_ends_with_a_ranked_table_and_a_leaderboard() {
    let bench = Bench::new();
    let ran = bench.sweep("--finalists 1").ends(0);
    assert_eq!(right_or_wrong(bench.verdicts()), expected());
    assert!(ran.out.starts_with("scale on "), "{ran}");
    ran.says(&["\nexport   evo export scale.toml @champion --study "]);
    bench.sweep("--resume --finalists 0 --verbose").says(&["\nmore: `evo explain wrong_answer:"]);
    let board = bench.json("evidence/leaderboard.json");
    let expected = json!({
        "version": 2, "sections.0.kernel": "scale", "sections.0.champion.configuration.FACTOR": 2,
        "sections.0.champion.gates.full_shapes": "pass",
    });
    holds(&board, &expected);
    for file in ["study.json", "gen-000.json", "results.csv"] {
        assert!(bench.at("evidence/s").join(file).exists(), "{file}");
    }
    let journal = bench.read("evidence/s/journal.jsonl");
    assert!(journal.contains("each sampled for 100 ms at most, as asked for"), "{journal}");
    let expected = json!({
        "header.verdict_version": evo_protocol::verdict::VERDICT_VERSION,
        "runs.0.device_at_start": "is object", "runs.0.device_at_end": "is object",
    });
    holds(&bench.json("evidence/s/study.json"), &expected);
    let shown = bench.answers("leaderboard", 0, "pass");
    assert!(board.as_object().unwrap().iter().all(|(name, value)| shown[name] == *value), "{shown}");
    let schema = answer::schema("leaderboard-file");
    assert_eq!(json_schema::fault(&schema, &board), None, "{board}");
    assert_eq!(json_schema::unlisted(&schema, &schema, &board, "leaderboard"), None);
    bench.run("leaderboard").ends(0).says(&["scale on "]);
    fs::remove_file(bench.at("evidence/leaderboard.json")).unwrap();
    let rebuilt = bench.answers("leaderboard --rebuild", 0, "pass");
    assert_eq!(rebuilt["sections"], board["sections"]);
    // The same study again is refused, another file under its name even more so; going on with it is not.
    bench.sweep("").ends(2).says(&["has a journal already"]);
    bench.edit("scale.toml", "[32, 64]", "[32, 64, 96]");
    bench.sweep("--resume --finalists 0 --budget 1").ends(0).says(&["parameter `BLOCK`: new 96"]);
}

#[test]
fn seeds_are_random_and_a_named_one_repeats_a_run() {
    let bench = Bench::new();
    let swept = |study: &str, more: &str| {
        let fixed = "sweep scale.toml --device host --finalists 0 --budget 1";
        let ran = bench.run(&format!("{fixed} --study {study} {more}")).ends(0);
        let study = bench.json(&format!("evidence/{study}/study.json"));
        let seed = study["header"]["seed"].as_u64().unwrap();
        ran.says(&[&format!(", seed {seed}\n")]);
        seed
    };
    let (a, b) = (swept("a", ""), swept("b", ""));
    assert_ne!(a, b);
    assert_eq!(swept("a", "--resume"), a, "a resumed study keeps its seed");
    assert_eq!(swept("c", "--seed 5"), 5);
    let seeds = ["", "--seed 5"].map(|more| {
        let shown = bench.run(&format!("test-one scale.toml --device host {BRIEF} {more}")).out;
        shown.lines().next().unwrap().rsplit_once(", seed ").unwrap().1.parse::<u64>().unwrap()
    });
    assert!(seeds[0] != a && seeds[0] != b && seeds[1] == 5, "{seeds:?}");
}

#[test]
fn kill_9_and_resume_give_the_same_verdicts() {
    let bench = Bench::new();
    for evaluations in [1, 4, 7] {
        let mut child = bench.start(&sweep("--resume=or-begin --finalists 0"));
        bench.wait_for(evaluations, &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let before = bench.verdicts();
    bench.sweep("--resume --finalists 0").ends(0);
    let after = bench.verdicts();
    assert_eq!(right_or_wrong(after.clone()), expected());
    assert!(before.iter().all(|(name, verdict)| after[name] == *verdict), "a verdict was lost or changed");
}

#[test]
fn a_second_sweep_into_the_same_study_is_refused() {
    let bench = Bench::new();
    let mut first = bench.start(&sweep("--finalists 0"));
    bench.wait_for(1, &mut first);
    let second = bench.sweep("--resume");
    first.kill().unwrap();
    first.wait().unwrap();
    second.ends(2).says(&[&format!("in use by process {}", first.id())]);
}

#[test]
fn ctrl_c_ends_in_order_with_exit_code_5() {
    let bench = Bench::new();
    let mut child = bench.start(&sweep("--finalists 0"));
    bench.wait_for(1, &mut child);
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let journal = bench.read("evidence/s/journal.jsonl");
    assert!(journal.lines().last().unwrap().contains("\"reason\":\"interrupted\""), "{journal}");
    bench.sweep("--resume --finalists 0").ends(0);
    assert_eq!(right_or_wrong(bench.verdicts()), expected());
}
