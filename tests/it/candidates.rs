//! Candidates of studies by their names; other names are sessions (`sessions.rs`).

use std::fs::{self, File};

use evo::study::{NameError, StudySearch};
use serde_json::{Value, json};

use crate::support::BRIEF;
use crate::support::answer::holds;
use crate::support::stage::Stage;

/// The object that `evo render` prints of a candidate.
fn rendered(stage: &Stage, words: &str) -> Value {
    stage.answers(&format!("render blur.toml {words}"), 0, "pass")
}

/// Exit code 2 and these words on one screen.
#[track_caller]
fn refused(stage: &Stage, words: &str, expected: &[&str]) {
    let ran = stage.run(&format!("render blur.toml {words}")).ends(2).says(expected);
    let is_one_screen = ran.err.starts_with("error") && ran.err.lines().count() < 25;
    assert!(is_one_screen && ran.err.contains("hint: ") && ran.out.is_empty(), "{ran}");
}

#[test]
fn studies_are_asked_without_disturbing_them() {
    let stage = Stage::of("examples/box_blur");
    stage.run(&format!("sweep blur.toml --device host --budget 3 --seed 3 --finalists 1 {BRIEF}")).ends(0);
    let journal = stage.at("evidence/box_blur-host/journal.jsonl");
    let before = fs::read(&journal).unwrap();
    let lock = File::options().write(true).open(stage.at("evidence/box_blur-host/lock")).unwrap();
    lock.lock().unwrap();
    let champion = rendered(&stage, "@champion");
    assert_eq!(champion["candidate"]["from"], "box_blur-host");
    let number = champion["candidate"]["number"].as_u64().unwrap();
    let again = rendered(&stage, &format!("@{number} --study evidence/box_blur-host"));
    assert_eq!(again["text"], champion["text"]);
    let by_hash = |key: &str| format!("@{}", &champion["candidate"][key].as_str().unwrap()[..10]);
    for key in ["hash", "source_hash"] {
        let found = rendered(&stage, &by_hash(key));
        holds(&found, &json!({ "text": champion["text"], "candidate.number": number }));
    }
    refused(&stage, "@99", &["study `box_blur-host` has no evaluation 99", "0 to 2"]);
    refused(&stage, "@previous", &["no previous champion"]);
    refused(&stage, "@17 --study box_blur-hots", &["did you mean `box_blur-host`?"]);
    hashes_and_boards_are_asked(&stage);
    // The kernel was edited since.
    stage.write("blur.cu", &(stage.read("blur.cu") + "\n// edited\n"));
    assert_eq!(rendered(&stage, "@champion")["candidate"]["source_changed"], true);
    refused(&stage, &by_hash("source_hash"), &["had another source", "edited since"]);
    // Another space of the same kernel's name, and another kernel.
    let space = stage.read("blur.toml");
    stage.edit("blur.toml", "ROWS = [1, 2, 4, 8]", "LINES = [1]");
    stage.edit("blur.toml", "BLOCK_Y * ROWS", "BLOCK_Y * LINES");
    let told = ["is not a point of this space", "no parameter `ROWS`", "no value for `LINES`"];
    refused(&stage, "@champion", &told);
    stage.write("blur.toml", &space.replace("\"box_blur\"", "\"other\""));
    refused(&stage, "@0 --study box_blur-host", &["is of another kernel", "`box_blur`", "`other`"]);
    assert_eq!(fs::read(&journal).unwrap(), before, "journals are only read");
}

/// Prefixes that several candidates share, the champion before the present one, and a board that cannot be read.
fn hashes_and_boards_are_asked(stage: &Stage) {
    let out = stage.at("evidence");
    let search = StudySearch { out: &out, study: None, kernel: "box_blur", device: None };
    let NameError::Refused { text, hint } = search.hash("").unwrap_err() else {
        panic!("a journal that is not readable")
    };
    let told = "`@` is ambiguous: 3 candidates match\n  configuration ";
    assert!(text.starts_with(told) && hint == "give more digits" && text.lines().count() == 4, "{text}");
    // As if another variant had been the champion before.
    let board = "evidence/leaderboard.json";
    let (kept, mut object) = (stage.read(board), stage.json(board));
    let other = rendered(stage, "16 4");
    let mut former = object["sections"][0]["history"][0].clone();
    former["configuration"] = other["configuration"].clone();
    object["sections"][0]["history"].as_array_mut().unwrap().insert(0, former);
    stage.write(board, &object.to_string());
    let previous = rendered(stage, "@previous");
    holds(&previous, &json!({ "candidate.kind": "previous", "text": other["text"] }));
    stage.write(board, "{");
    refused(stage, "@champion", &["cannot be read", "evo leaderboard --rebuild"]);
    stage.write(board, &kept);
}

#[test]
fn what_render_prints_can_be_handed_back() {
    let stage = Stage::of("examples/box_blur");
    let own = rendered(&stage, "64")["text"].as_str().unwrap().to_string();
    // With a byte order mark, as some editors save it.
    stage.write("back.cu", &format!("\u{feff}{own}"));
    let back = rendered(&stage, "--source back.cu 64")["text"].as_str().unwrap().to_string();
    // Behind the header and the line that names the file.
    let body = |text: &str| {
        assert_eq!(text.matches("end of evo header").count(), 1, "{text}");
        text.split_once("#line 1 ").unwrap().1.split_once('\n').unwrap().1.to_string()
    };
    assert_eq!(body(&back), body(&own));
    stage.write("edited.cu", &own.replace("sum / 9.0f", "sum * (1.0f / 9.0f)"));
    stage.run("build blur.toml 64 --device host --source edited.cu").ends(0);
}
