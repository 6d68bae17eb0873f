//! The loop of `examples/mutator`: a program proposes sources and evo judges them, from the request for the task to the
//! source that won.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::skip::has_programs;
use crate::support::cache;
use crate::support::kernels::data;
use crate::support::stage::Stage;

fn run(folder: &Path, program: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.current_dir(folder).args(words).env("EVO_CACHE_DIR", cache()).stdin(Stdio::null());
    command.env("EVO", data("brief_evo.sh")).env("EVO_TEST_PROGRAM", env!("CARGO_BIN_EXE_evo"));
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_example_finds_the_planted_mistake_and_its_cure_is_confirmed() {
    if !has_programs(&["python3"], "the example is a Python program") {
        return;
    }
    let folder = Stage::of("examples/mutator");
    let evo = env!("CARGO_BIN_EXE_evo");
    let sweep =
        ["sweep", "rows.toml", "--device", "host", "--budget", "3", "--seed", "5", "--finalists", "0"];
    assert_eq!(run(folder.path(), evo, &sweep).status.code(), Some(0));
    let words =
        ["loop.py", "rows.toml", "--device", "host", "--seed", "5", "--rounds", "2", "--proposals", "3"];
    let output = run(folder.path(), "python3", &words);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", text(&output.stderr));
    assert!(told.contains("every other element: wrong_answer"), "{told}");
    assert!(told.contains("once per block: accepted, "), "{told}");
    assert!(told.contains("evo restore rows.toml @iteration-1 --to FOLDER"), "{told}");

    // The winner is the incumbent, with its source and the thought behind it.
    let output =
        run(folder.path(), evo, &["restore", "rows.toml", "@iteration-1", "--to", "won", "--device", "host"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let source = folder.read("won/kernel.cu");
    assert!(source.contains("__shared__ float parts[BLOCK]"), "{source}");
    let log = folder.read("evidence/scale_rows-host/iterations.jsonl");
    assert!(log.contains("add up their row together"), "the thought is the hypothesis: {log}");

    // What the search learned is told, and nothing that a candidate's author must not know.
    let exchange = folder.read("evidence/mutator.jsonl");
    let here = folder.path().display().to_string();
    for secret in ["\"seed\": 5", "atol", "rtol", "naive", "expected_output", here.as_str()] {
        assert!(!exchange.contains(secret), "{secret}: {exchange}");
    }
    let task = exchange.lines().nth(1).unwrap();
    let task = serde_json::from_str::<Value>(task).unwrap()["message"].clone();
    assert_eq!(task["schema"], "evo.evaluate.task", "{task}");
    assert_eq!(task["known"]["evaluations"], 3, "{task}");
    assert!(task["known"]["best_configuration"]["BLOCK"].is_number(), "{task}");
}
