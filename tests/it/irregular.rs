//! Pipes, devices and folders where files belong are refused, and never opened; files that are views of the
//! journal never stop a run.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::sweep::{Bench, sweep, text};

fn make_pipe(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The end of a command that must not wait for anything.
fn ends(bench: &Bench, words: &str) -> Output {
    let mut child = bench.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > patience {
            child.kill().unwrap();
            panic!("{words:?} waits for the other end of a pipe");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

const SWEEP: &str =
    "sweep scale.toml --device host --study s --strategy exhaustive --finalists 1 --resume=or-begin";

#[test]
fn a_pipe_where_a_file_belongs_is_refused_with_place_and_hint() {
    let refused = |bench: &Bench, words: &str, place: &str, hint: &str| {
        let output = ends(bench, words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        for expected in [place, "a named pipe, not a file", hint] {
            assert!(said.contains(expected), "{words:?} lacks `{expected}`: {said}");
        }
    };
    for file in ["evidence/s/journal.jsonl", "evidence/s/lock"] {
        let bench = Bench::new();
        make_pipe(&bench.path().join(file));
        refused(&bench, SWEEP, file, "hint: move it away");
    }
    let bench = Bench::new();
    make_pipe(&bench.path().join("evidence/leaderboard.json"));
    refused(&bench, "leaderboard", "evidence/leaderboard.json", "hint: move it away");
    make_pipe(&bench.path().join("pipe.toml"));
    refused(&bench, "space pipe.toml", "pipe.toml", "hint: write the space to a file first");
    make_pipe(&bench.path().join("pipe.json"));
    refused(&bench, "sweep --device replay:pipe.json", "pipe.json", "hint: `replay:` takes a file");
}

#[test]
fn views_that_cannot_be_written_warn_and_stop_nothing() {
    let bench = Bench::new();
    let study = bench.path().join("evidence/s");
    make_pipe(&study.join("gen-000.json"));
    make_pipe(&bench.path().join("evidence/leaderboard.json"));
    for folder in ["study.json", "results.csv"] {
        std::fs::create_dir(study.join(folder)).unwrap();
    }
    let output = ends(&bench, SWEEP);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for file in ["gen-000.json", "study.json", "results.csv", "leaderboard.json"] {
        assert!(said.contains(&format!("{file}` is a")), "nothing is said of {file}: {said}");
    }
    assert_eq!(bench.verdicts().len(), 10);
    // Once they are out of the way, a run without an evaluation writes them.
    for file in ["study.json", "results.csv"] {
        std::fs::remove_dir(study.join(file)).unwrap();
    }
    std::fs::remove_file(study.join("gen-000.json")).unwrap();
    std::fs::remove_file(bench.path().join("evidence/leaderboard.json")).unwrap();
    assert_eq!(ends(&bench, SWEEP).status.code(), Some(0));
    for file in ["s/study.json", "s/results.csv", "leaderboard.json"] {
        assert!(bench.path().join("evidence").join(file).is_file(), "{file}");
    }
}

/// Puts links to one file outside into the evidence folder; gives the file.
fn plant(bench: &Bench, names: &[&str]) -> PathBuf {
    let theirs = bench.path().join("theirs.txt");
    std::fs::write(&theirs, "theirs").unwrap();
    for name in names {
        let place = bench.path().join("evidence").join(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(&theirs, place).unwrap();
    }
    theirs
}

#[test]
fn a_link_in_the_output_folder_is_never_followed() {
    for name in ["s/journal.jsonl", "s/lock"] {
        let bench = Bench::new();
        let theirs = plant(&bench, &[name]);
        let output = ends(&bench, SWEEP);
        let said = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{name}: {said}");
        assert!(said.contains(name) && said.contains("it is a link"), "{name}: {said}");
        assert_eq!(std::fs::read_to_string(theirs).unwrap(), "theirs", "{name}");
    }
    // Views are replaced where nothing of them is read. The leaderboard is read.
    let bench = Bench::new();
    let views = ["s/study.json", "s/results.csv", "s/gen-000.json"];
    let theirs = plant(&bench, &[&views[..], &[".leaderboard.lock"]].concat());
    let output = ends(&bench, SWEEP);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(".leaderboard.lock`: it is a link"), "{said}");
    for name in views {
        assert!(bench.path().join("evidence").join(name).symlink_metadata().unwrap().is_file(), "{name}");
    }
    std::fs::remove_file(bench.path().join("evidence/.leaderboard.lock")).unwrap();
    symlink(&theirs, bench.path().join("evidence/leaderboard.json")).unwrap();
    let output = ends(&bench, "leaderboard --rebuild");
    assert!(text(&output.stderr).contains("leaderboard.json`: it is a link"), "{output:?}");
    assert_eq!(std::fs::read_to_string(theirs).unwrap(), "theirs");
}

#[test]
fn a_link_in_the_place_of_the_running_study_gets_nothing() {
    let bench = Bench::new();
    let mut child = bench.start(&sweep("--strategy exhaustive --finalists 1 --jobs 1"));
    bench.wait_for(1, &mut child);
    let [evidence, moved, theirs] = ["evidence", "moved", "theirs"].map(|name| bench.path().join(name));
    std::fs::create_dir_all(theirs.join("s")).unwrap();
    std::fs::rename(&evidence, &moved).unwrap();
    symlink(&theirs, &evidence).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(theirs.join("s")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 1);
    for file in ["s/study.json", "s/results.csv", "s/gen-000.json", "leaderboard.json"] {
        assert!(moved.join(file).is_file(), "{file}");
    }
    // A study that is a link is not resumed.
    std::fs::remove_file(&evidence).unwrap();
    std::fs::create_dir(&evidence).unwrap();
    symlink(moved.join("s"), evidence.join("s")).unwrap();
    let before = std::fs::read(moved.join("s/journal.jsonl")).unwrap();
    let output = ends(&bench, SWEEP);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("evidence/s`: it is a link"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(moved.join("s/journal.jsonl")).unwrap(), before);
}
