//! `examples/agent_loop`: one round of a program that writes kernels, as the README shows it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::skip::has_programs;
use crate::support::cache;
use crate::support::kernels::data;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/agent_loop");

fn round(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("bash");
    command.arg(Path::new(EXAMPLE).join("agent_loop.sh")).args(words).current_dir(folder);
    command.env("EVO", data("brief_evo.sh")).env("EVO_TEST_PROGRAM", env!("CARGO_BIN_EXE_evo"));
    command.env("EVO_CACHE_DIR", cache()).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn check(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{told}");
    assert_eq!(told, "");
    text
}

#[test]
fn a_better_source_is_kept_and_a_worse_one_is_not() {
    if !has_programs(&["bash", "jq"], "the script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let text = check(&round(root, &[]), 0);
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    assert!(readme.contains(&format!("$ examples/agent_loop/agent_loop.sh\n{text}```\n")), "{text}");
    // The slow source of the space, beside the one that was kept.
    let slow = Path::new(EXAMPLE).join("rows.cu");
    let text = check(&round(root, &[slow.to_str().unwrap()]), 1);
    assert!(text.contains("evaluate  fail, exit code 1\n  revert: slower by more than"), "{text}");
    assert!(text.ends_with("  best: evaluation 1, add up each row once\n"), "{text}");
}

#[test]
fn a_round_ends_where_it_cannot_go_on() {
    if !has_programs(&["bash", "jq"], "the script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let source = fs::read_to_string(Path::new(EXAMPLE).join("faster.cu")).unwrap();
    fs::write(root.join("wrong.cu"), source.replace("row[at] * scale", "row[at]")).unwrap();
    let text = check(&round(root, &["wrong.cu"]), 1);
    assert!(text.contains("test      fail, exit code 1\n  wrong_answer"), "{text}");
    fs::write(root.join("broken.cu"), source.replace("__syncthreads", "__syncthread")).unwrap();
    let text = check(&round(root, &["broken.cu"]), 1);
    assert!(text.ends_with("build     fail, exit code 1\n"), "{text}");
    let text = check(&round(root, &["missing.cu"]), 2);
    assert!(text.contains("build     error, exit code 2: cannot read the source"), "{text}");
    let text = check(&round(root, &["wrong.cu", "nowhere"]), 2);
    assert!(text.starts_with("preflight error, exit code 2: "), "{text}");
    assert!(!root.join("evidence").exists());
}

#[test]
fn the_script_is_short() {
    let script = fs::read_to_string(Path::new(EXAMPLE).join("agent_loop.sh")).unwrap();
    assert!(script.lines().count() <= 40, "{}", script.lines().count());
}
