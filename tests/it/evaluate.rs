//! `evo evaluate` beside another one, and ended from outside; what it decides is told by sessions.

use std::process::Stdio;

use evo::journal::iterations::Iteration;
use evo::journal::line::{NumberedLines, numbered};
use evo::journal::own_folder::OwnFolder;
use serde_json::json;

use crate::support::BRIEF;
use crate::support::answer::{self, ended, holds};
use crate::support::stage::{Ran, Stage};

fn words(more: &str) -> String {
    format!("evaluate scale.toml {more} {BRIEF} --device host")
}

pub(crate) fn history(stage: &Stage) -> NumberedLines<Iteration> {
    numbered(&OwnFolder::open(&stage.at("evidence/scale-host")).unwrap()).unwrap()
}

#[test]
fn parallel_calls_take_turns_and_a_torn_line_is_left_out() {
    let stage = Stage::of("scale_slow").scripted();
    stage.write("evidence/scale-host/iterations.jsonl", "{\"crc\":\"00");
    let words = words("--json");
    let start = || stage.evo(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = 0;
    let mut numbers = [start(), start()].map(|call| {
        let answer = ended(&Ran::of(&words, &call.wait_with_output().unwrap()), "0", "pass", true);
        notes += answer["notes"].as_array().unwrap().len();
        answer["number"].as_u64().unwrap()
    });
    numbers.sort_unstable();
    assert_eq!((numbers, notes), ([1, 2], 1), "the first one tells of the torn line");
    assert_eq!(history(&stage).notes, Vec::<String>::new());
}

#[test]
fn an_end_from_outside_leaves_an_answer_and_finished_lines() {
    let stage = Stage::of("scale_slow").scripted();
    // Its own rival is as fast as it is, and gives no reason to take its place.
    let own = stage.run(&words("--require accepted --json"));
    ended(&own, "1", "fail", true);
    own.says(&["`--require accepted` does not hold: same machine code and launches"]);
    let late = stage.answers(&words("FAULT=2 --time-limit 3s"), 1, "not_run");
    let expected = json!({
        "error.code": "timed_out", "limits.hit": "total", "error.hint": "~ --time-limit", "result.score": null,
    });
    holds(&late, &expected);
    // The shorter of two limits is the one that is named.
    let total = stage.answers(&words("FAULT=2 --limit total=3s"), 1, "not_run");
    holds(&total, &json!({ "error.message": "~ limit of 3 s", "error.hint": "~ --limit total=TIME" }));
    answer::interrupted_at_work(&stage, &words("FAULT=2 --json"), "evidence/scale-host/iterations.lock");
    // The call that its limit cut off has left what it knew, the one that a signal ended has not.
    let history = history(&stage);
    let verdicts: Vec<&str> = history.lines.iter().map(|one| one.verdict.as_str()).collect();
    assert_eq!((verdicts, history.lines[1].correct), (vec!["pass", "interrupted", "interrupted"], false));
}
