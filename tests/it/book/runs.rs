//! The pages' own commands, run as a reader types them, in a folder that has what the page says to save.
//!
//! Only the effort differs: budgets and times of sampling are cut down, because a test machine runs several of these
//! side by side.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::markdown::{Fence, pages, root, split};
use crate::skip::has_programs;
use crate::support::{BRIEF, cache};

/// Pages that run commands, each with the page whose files it starts from. Every one has a test below.
const PAGES: &[(&str, Option<&str>)] = &[
    ("docs/guide/checking.md", None),
    ("docs/guide/from_kernel_tuner.md", Some(TUTORIAL)),
    ("docs/guide/from_loops.md", Some(TUTORIAL)),
    ("docs/guide/from_triton.md", None),
    ("docs/guide/numbers.md", Some(TUTORIAL)),
    ("docs/guide/templates.md", None),
    (TUTORIAL, None),
    ("docs/guide/verdicts.md", Some(TUTORIAL)),
];
const TUTORIAL: &str = "docs/guide/tutorial.md";

/// A command line with less effort.
fn brief(line: &str) -> String {
    let mut line = line.replace("--budget 90s", "--budget 4 --finalists 1");
    for timed in ["evo test-one", "evo benchmark", "evo evaluate", "evo sweep", "evo serve"] {
        line = line.replace(timed, &format!("{timed} {BRIEF}"));
    }
    line
}

/// Saves a file that the page shows, or edits it.
fn save(folder: &Path, page: &str, fence: &Fence<'_>) {
    let Some(name) = fence.value("file") else { return };
    let path = folder.join(name);
    if fence.words[0] != "diff" {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        return fs::write(path, fence.lines.join("\n") + "\n").unwrap();
    }
    let side = |mark: char| -> String {
        let lines = fence.lines.iter().filter(|line| line.starts_with([' ', mark]));
        lines.map(|line| format!("{}\n", &line[1..])).collect()
    };
    let (old, text) = (side('-'), fs::read_to_string(&path).unwrap());
    let place = format!("{page}:{}", fence.number);
    assert_eq!(text.matches(&old).count(), 1, "{place}: `{name}` has not just one such place:\n{text}");
    fs::write(path, text.replace(&old, &side('+'))).unwrap();
}

/// The commands of a fence, each with what the page shows of its output.
fn commands<'a>(fence: &'a Fence<'_>) -> Vec<(String, Vec<&'a str>)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for line in &fence.lines {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command.to_string(), Vec::new())),
            (None, Some((command, _))) if command.ends_with('\\') => *command += &format!("\n{line}"),
            (None, Some((_, output))) => output.push(line),
            (None, None) => panic!("output without a command: {line}"),
        }
    }
    found
}

/// A text without its numbers and with single spaces: times and widths differ from run to run.
fn words(text: &str) -> String {
    let mut found = String::new();
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter };
        let is_again = |last: char| letter == last && " 0".contains(last);
        let is_point = letter == '.' && found.ends_with('0');
        if !is_point && !found.chars().last().is_some_and(is_again) {
            found.push(letter);
        }
    }
    found.trim().to_string()
}

fn run(folder: &Path, page: &str, fence: &Fence<'_>) {
    let is_known = |word: &&str| ["same"].contains(word) || word.starts_with("exit=");
    let place = format!("{page}:{}", fence.number);
    assert!(fence.words[2..].iter().all(is_known), "{place}: {:?}", fence.words);
    let code: i32 = fence.value("exit").map_or(0, |code| code.parse().unwrap());
    let commands = commands(fence);
    let last = commands.len() - 1;
    let own = Path::new(env!("CARGO_BIN_EXE_evo")).parent().unwrap();
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    for (at, (line, shown)) in commands.iter().enumerate() {
        let mut command = Command::new("bash");
        command.args(["-c", &brief(line)]).current_dir(folder).stdin(Stdio::null());
        command.env("PATH", &path).env("EVO_CACHE_DIR", cache()).env("COLUMNS", "100");
        let output = command.output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let expected = if at == last { code } else { 0 };
        let place = format!("{place}: $ {line}");
        assert_eq!(output.status.code(), Some(expected), "{place}\n{stdout}{stderr}");
        if fence.words.contains(&"same") {
            assert_eq!(words(&stdout), words(&shown.join("\n")), "{place}");
        }
    }
}

/// Goes through a page in a folder of its own, which has the files of the page that it starts from.
#[track_caller]
fn follow(page: &str) -> Option<tempfile::TempDir> {
    if !has_programs(&["bash", "jq"], "the book") {
        return None;
    }
    let before = PAGES.iter().find(|(own, _)| *own == page).unwrap().1;
    let folder = tempfile::tempdir().unwrap();
    let text = |page: &str| fs::read_to_string(root().join(page)).unwrap();
    if let Some(before) = before {
        split(&text(before)).0.iter().for_each(|fence| save(folder.path(), before, fence));
    }
    let text = text(page);
    let (fences, _) = split(&text);
    assert!(fences.iter().any(|fence| fence.words.get(1) == Some(&"run")), "{page} runs nothing");
    for fence in &fences {
        save(folder.path(), page, fence);
        if fence.words.get(1) == Some(&"run") {
            run(folder.path(), page, fence);
        }
    }
    Some(folder)
}

#[test]
fn the_tutorial_leads_to_a_confirmed_winner() {
    let Some(folder) = follow(TUTORIAL) else { return };
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let board: serde_json::Value = serde_json::from_str(&read("evidence/leaderboard.json")).unwrap();
    let sections = board["sections"].as_array().unwrap();
    assert_eq!(sections.len(), 2, "{board}");
    assert!(sections.iter().all(|section| section["champion"]["objective_ns"].is_number()), "{board}");
    assert!(read("best/kernel.cu").contains("smooth(const float* x"));
}

#[test]
fn the_page_on_checks() {
    follow("docs/guide/checking.md");
}

#[test]
fn the_page_on_numbers() {
    follow("docs/guide/numbers.md");
}

#[test]
fn the_page_on_templates() {
    follow("docs/guide/templates.md");
}

#[test]
fn the_page_on_verdicts() {
    follow("docs/guide/verdicts.md");
}

#[test]
fn the_pages_for_users_of_other_tools() {
    follow("docs/guide/from_kernel_tuner.md");
    follow("docs/guide/from_loops.md");
    follow("docs/guide/from_triton.md");
}

#[test]
fn all_pages_with_commands_are_tested() {
    let is_run = |text: &str| split(text).0.iter().any(|fence| fence.words.get(1) == Some(&"run"));
    let pages: BTreeSet<String> =
        pages().into_iter().filter(|page| is_run(&page.text)).map(|page| page.path).collect();
    assert_eq!(pages, PAGES.iter().map(|(page, _)| page.to_string()).collect());
}

#[test]
fn outputs_are_compared_without_numbers() {
    assert_eq!(words("ready in   0.4 ms"), words("ready in 12.75 ms"));
    assert_ne!(words("12 points"), words("12 joints"));
    assert_eq!(words("a 1.5 b"), "a 0 b");
}
