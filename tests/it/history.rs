//! `evo history`, `evo summary` and `evo restore` on the host device, with kernels whose variants differ by far.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::scale::stage_with;
use crate::support::{self, BRIEF, DECISIVE, answer};

/// `y = 2 x`, after `WORK` steps that change nothing.
const TEMPLATE: &str = include_str!("../data/kernels/scale_template/scale.cu.j2");

const HEAD: &str = include_str!("../data/kernels/scale_template/head.toml");

fn stage() -> TempDir {
    let head = HEAD.replace("source = \"scale.cu\"", "template = \"scale.cu.j2\"");
    stage_with("scale.cu.j2", TEMPLATE, &head)
}

#[track_caller]
fn check(folder: &Path, words: &str, code: i32, status: &str) -> Value {
    let command = words.split(' ').next().unwrap();
    let brief = if command == "evaluate" { DECISIVE } else { "" };
    let output = support::evo(folder, &format!("{words} {brief} --json")).output().unwrap();
    let object = answer::judged(command, words, &output, code, status);
    if object["error"].is_null() && command != "evaluate" {
        answer::hold_nulls(&object);
    }
    object
}

fn text(folder: &Path, words: &str) -> String {
    let output = support::evo(folder, words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A candidate's place in the record: hashes of its source and its code.
fn hashes(object: &Value, folder: &Path) -> (Value, String) {
    let number = object["number"].as_u64().unwrap();
    let lines = fs::read_to_string(folder.join("evidence/scale-host/iterations.jsonl")).unwrap();
    let line = lines.lines().nth(number as usize - 1).unwrap();
    let record: Value = serde_json::from_str::<Value>(line).unwrap()["record"].take();
    assert_eq!(record["number"], number);
    let code = record["candidate"]["code_hash"].as_str().unwrap().to_string();
    (record["candidate"]["source_hash"].clone(), code)
}

#[test]
fn what_was_tried_is_listed_and_can_be_had_back() {
    let folder = stage();
    let root = folder.path();
    let first = check(root, "evaluate scale.toml WORK=80 --against WORK=500 --device host", 0, "pass");
    assert_eq!(first["result"]["decision"], "keep", "{first}");
    fs::write(
        root.join("mine.cu"),
        TEMPLATE.replace("<{ BLOCK }>", "32").replace("<{ WORK }>", "1").replace("<{ FACTOR }>", "2"),
    )
    .unwrap();
    fs::write(root.join("mine.json"), r#"{ "scale": { "grid": ["ceil_div(N, 32)"], "block": [32] } }"#)
        .unwrap();
    let words = "evaluate scale.toml BLOCK=32 --source mine.cu --launch mine.json --hypothesis fewer_steps --device host";
    let second = check(root, words, 0, "pass");
    assert_eq!(second["result"]["decision"], "keep", "{second}");
    fs::remove_file(root.join("mine.cu")).unwrap();
    fs::remove_file(root.join("mine.json")).unwrap();
    let wrong = check(root, "evaluate scale.toml FACTOR=1 --device host", 1, "fail");
    assert_eq!(wrong["result"]["verdict"], "wrong_answer");
    let slow = check(root, "evaluate scale.toml WORK=500 --device host", 0, "pass");
    assert_eq!(slow["result"]["decision"], "revert", "{slow}");

    let history = check(root, "history", 0, "pass");
    let entries = history["result"]["entries"].as_array().unwrap();
    let seen = |name: &str| entries.iter().map(|entry| entry[name].to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(seen("number"), "1 2 3 4");
    assert_eq!(seen("decision"), r#""keep" "keep" "reject" "revert""#);
    assert_eq!(seen("is_best"), "true true false false");
    assert_eq!(entries[1]["hypothesis"], "fewer_steps");
    assert!(entries[1]["change_ratio"].as_f64().unwrap() < 0.7, "{history}");
    assert!(entries[1]["problems"]["p"]["p50_ns"].as_f64().unwrap() > 0.0, "{history}");
    assert!(
        entries[2]["problems"].as_object().is_some_and(|own| own.values().all(|own| own["p50_ns"].is_null()))
    );
    assert_eq!(history["result"]["standing"][0]["best"]["number"], 2);
    assert!(text(root, "history scale").contains("best so far: evaluation 2"));

    let summary = check(root, "summary scale", 0, "pass");
    let result = &summary["result"];
    assert_eq!(
        (&result["best"]["number"], result["last_decisions"].as_array().unwrap().len()),
        (&2.into(), 4)
    );
    assert!(
        result["open_findings"][0].as_str().unwrap().contains("evaluation 4 asks to go back"),
        "{summary}"
    );
    assert_eq!(result["tried_and_failed"].as_array().unwrap().len(), 2, "{summary}");
    assert!(text(root, "summary").lines().count() <= 40);

    // A source of its own, by all three files; a configuration, by its own file.
    for (name, original, files) in [
        ("@best", &second, "--config back/config.json --source back/kernel.cu --launch back/launch.json"),
        ("@iteration-1", &first, "--config back/config.json"),
    ] {
        let restored = check(root, &format!("restore {name} --to back --force"), 0, "pass");
        let again = restored["result"]["again"].as_str().unwrap();
        assert_eq!(again, format!("evo evaluate scale.toml {files}"), "{restored}");
        let judged =
            check(root, &format!("evaluate scale.toml {files} --against WORK=500 --device host"), 0, "pass");
        assert_eq!(hashes(&judged, root), hashes(original, root), "{name}");
    }
    // The source alone with its launches is the same code: parameters stand there with their values.
    check(root, "restore scale.toml @iteration-1 --to other", 0, "pass");
    let words = "evaluate scale.toml --source other/kernel.cu --launch other/launch.json --device host";
    let judged = check(root, words, 0, "pass");
    assert_eq!(hashes(&judged, root).1, hashes(&first, root).1);
}

#[test]
fn what_names_nothing_is_refused_and_nothing_is_written() {
    let folder = stage();
    let root = folder.path();
    assert_eq!(check(root, "history", 2, "error")["error"]["code"], "bad_file");
    assert_eq!(check(root, "summary", 2, "error")["error"]["code"], "bad_file");
    fs::create_dir(root.join("evidence")).unwrap();
    let empty = check(root, "history", 0, "pass");
    assert_eq!(empty["result"]["entries"], Value::Array(Vec::new()));
    check(root, "summary", 2, "error");
    check(root, "restore @best --to back", 2, "error");
    check(root, "evaluate scale.toml --device host", 0, "pass");
    for (words, told) in [
        ("history scael", "did you mean `scale`?"),
        ("restore @best --to back", "nothing was accepted"),
        ("restore @previous --to back", "there is no study of `scale`"),
        ("restore @iteration-17 --to back", "no evaluation 17 of `evo evaluate`"),
        ("restore @1 --to back", "evaluation 1 of `evo evaluate` is `@iteration-1`"),
        ("restore @champion --to back", "there is no study of `scale`"),
        ("restore @@1 --to back", "there is no candidate `@@1`"),
        ("restore 17 --to back", "takes one name"),
        ("restore missing.toml @iteration-1 --to back", "missing.toml"),
        ("restore @iteration-1", "--to"),
        ("restore @iteration-1 --to scale.toml", "is not a folder"),
        ("restore @iteration-1 --to .", "is there and has"),
        ("restore @iteration-1 --to back --device cuda", "nothing to restore"),
    ] {
        let answer = check(root, words, 2, "error");
        let error = &answer["error"];
        let all = format!("{} {}", error["message"].as_str().unwrap(), error["hint"]);
        assert!(all.contains(told), "`{words}`: {all}");
        assert!(!root.join("back").exists(), "`{words}`");
    }
    // Links are neither followed nor kept, and nothing stands in the way of a file.
    symlink(root.join("away"), root.join("link")).unwrap();
    check(root, "restore @iteration-1 --to link --force", 2, "error");
    fs::create_dir(root.join("away")).unwrap();
    for link in ["link", "link/", "link//."] {
        check(root, &format!("restore @iteration-1 --to {link} --force"), 2, "error");
    }
    assert_eq!(fs::read_dir(root.join("away")).unwrap().count(), 0);
    fs::create_dir(root.join("back")).unwrap();
    fs::write(root.join("theirs"), "theirs").unwrap();
    symlink(root.join("theirs"), root.join("back/kernel.cu")).unwrap();
    check(root, "restore @iteration-1 --to back", 2, "error");
    check(root, "restore @iteration-1 --to back --force", 0, "pass");
    assert_eq!(fs::read_to_string(root.join("theirs")).unwrap(), "theirs");
    assert!(fs::read_to_string(root.join("back/kernel.cu")).unwrap().contains("scale"));
    fs::remove_file(root.join("back/launch.json")).unwrap();
    fs::create_dir(root.join("back/launch.json")).unwrap();
    // All three or none.
    fs::write(root.join("back/config.json"), "theirs").unwrap();
    check(root, "restore @iteration-1 --to back --force", 2, "error");
    assert_eq!(fs::read_to_string(root.join("back/config.json")).unwrap(), "theirs");
    // An edit of the kernel is another candidate.
    fs::write(root.join("scale.cu.j2"), TEMPLATE.replace("int at", "int  at")).unwrap();
    let edited = check(root, "restore @iteration-1 --to edited", 2, "error");
    assert!(edited["error"]["message"].as_str().unwrap().contains("edited since"), "{edited}");
    let forced = check(root, "restore @iteration-1 --to edited --force", 0, "pass");
    assert_eq!(forced["result"]["source_changed"], true);
}

#[test]
fn the_champion_of_before_belongs_to_its_kernel_too() {
    let folder = stage();
    let root = folder.path();
    text(root, &format!("sweep scale.toml --device host --seed 1 {BRIEF}"));
    let path = root.join("evidence/leaderboard.json");
    let mut board: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let history = board["sections"][0]["history"].as_array_mut().unwrap();
    history.push(history[0].clone());
    fs::write(&path, board.to_string()).unwrap();
    check(root, "restore scale.toml @previous --to back", 0, "pass");
    fs::write(root.join("scale.cu.j2"), TEMPLATE.replace("int at", "int  at")).unwrap();
    let edited = check(root, "restore scale.toml @previous --to edited", 2, "error");
    assert!(edited["error"]["message"].as_str().unwrap().contains("edited since"), "{edited}");
}

#[test]
fn damaged_lines_are_noted_and_the_rest_is_shown() {
    let folder = stage();
    let root = folder.path();
    check(root, "evaluate scale.toml --device host", 0, "pass");
    let path = root.join("evidence/scale-host/iterations.jsonl");
    let line = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{}{line}{}", line.replacen("\"number\":1", "\"number\":9", 1), &line[..50]))
        .unwrap();
    fs::write(root.join("evidence/scale-host/incumbent.json"), "{").unwrap();
    fs::write(root.join("evidence/scale-host/gates.jsonl"), "garbage\n").unwrap();
    fs::create_dir(root.join("evidence/other")).unwrap();
    symlink(root.join("evidence/scale-host"), root.join("evidence/linked")).unwrap();
    let history = check(root, "history", 0, "pass");
    assert_eq!(history["result"]["entries"].as_array().unwrap().len(), 1, "{history}");
    let notes = history["result"]["notes"].to_string();
    for told in
        ["line 1 of", "the checksum does not match", "torn", "gates.jsonl", "incumbent.json", "is a link"]
    {
        assert!(notes.contains(told), "no `{told}` in {notes}");
    }
    // Only reading: the lines are as they were.
    assert!(fs::read_to_string(&path).unwrap().ends_with(&line[..50]));
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_eq!(check(root, "history", 2, "error")["error"]["code"], "bad_file");
}

#[test]
fn an_evaluation_that_a_limit_ended_did_not_fail() {
    let folder = crate::support::scale::stage();
    let root = folder.path();
    check(root, "evaluate scale.toml FAULT=2 --time-limit 2s --device host", 1, "not_run");
    let summary = check(root, "summary", 0, "pass");
    let result = &summary["result"];
    assert_eq!(result["tried_and_failed"], serde_json::json!([]), "{summary}");
    let open = result["open_findings"][0].as_str().unwrap();
    assert!(open.starts_with("evaluation 1 was not judged to its end"), "{open}");
}

#[test]
fn one_number_means_one_evaluation() {
    let folder = crate::support::scale::stage();
    let root = folder.path();
    let head = crate::support::scale::HEAD.replace("values = [0, 1, 2]", "values = [0]");
    fs::write(root.join("scale.toml"), crate::support::scale::space(&head)).unwrap();
    check(root, "evaluate scale.toml WORK=500 --device host", 0, "pass");
    // No study is there yet.
    let none = check(root, "test scale.toml @1 --device host", 2, "error");
    assert!(none["error"]["message"].as_str().unwrap().starts_with("there is no study of `scale`"), "{none}");
    let words = format!("sweep scale.toml --device host --budget 2 --seed 3 --finalists 1 {BRIEF}");
    assert!(support::evo(root, &words).output().unwrap().status.success());
    // In every command the number is that of a study.
    let tested = check(root, "test scale.toml @1 --device host", 0, "pass");
    let restored = check(root, "restore @1 --to back", 0, "pass");
    assert_eq!((&restored["result"]["kind"], &restored["result"]["number"]), (&"study".into(), &1.into()));
    assert_eq!(restored["result"]["configuration"], tested["candidate"]["configuration"]);
    let restored = check(root, "restore @iteration-1 --to again", 0, "pass");
    assert_eq!(restored["result"]["kind"], "evaluation", "{restored}");
    assert_eq!(restored["result"]["configuration"]["WORK"], 500, "{restored}");
}
