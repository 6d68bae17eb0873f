//! Pipes, devices and folders where files belong are refused, and never opened; files that are views of the
//! journal never stop a run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::processes::wait;
use crate::support::stage::Ran;
use crate::sweep::{Bench, sweep};

fn make_pipe(bench: &Bench, name: &str) {
    let path = bench.at(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
}

/// The end of a command that must not wait for anything.
fn ends(bench: &Bench, words: &str) -> Ran {
    let mut child = bench.evo(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait(words, || child.try_wait().unwrap().is_some());
    Ran::of(words, &child.wait_with_output().unwrap())
}

const SWEEP: &str =
    "sweep scale.toml --device host --study s --strategy exhaustive --finalists 1 --resume=or-begin";

#[test]
fn a_pipe_where_a_file_belongs_is_refused_with_place_and_hint() {
    let refused = |bench: &Bench, words: &str, place: &str, hint: &str| {
        ends(bench, words).ends(2).says(&[place, "a named pipe, not a file", hint]);
    };
    for file in ["evidence/s/journal.jsonl", "evidence/s/lock"] {
        let bench = Bench::new();
        make_pipe(&bench, file);
        refused(&bench, SWEEP, file, "hint: move it away");
    }
    let bench = Bench::new();
    for (file, words, hint) in [
        ("evidence/leaderboard.json", "leaderboard", "hint: move it away"),
        ("pipe.toml", "space pipe.toml", "hint: write the space to a file first"),
        ("pipe.json", "sweep --device replay:pipe.json", "hint: `replay:` takes a file"),
    ] {
        make_pipe(&bench, file);
        refused(&bench, words, file, hint);
    }
}

#[test]
fn views_that_cannot_be_written_warn_and_stop_nothing() {
    let bench = Bench::new();
    let study = bench.at("evidence/s");
    make_pipe(&bench, "evidence/s/gen-000.json");
    make_pipe(&bench, "evidence/leaderboard.json");
    for folder in ["study.json", "results.csv"] {
        fs::create_dir(study.join(folder)).unwrap();
    }
    let said = ["gen-000.json` is a", "study.json` is a", "results.csv` is a", "leaderboard.json` is a"];
    ends(&bench, SWEEP).ends(0).says(&said);
    assert_eq!(bench.verdicts().len(), 10);
    // Once they are out of the way, a run without an evaluation writes them.
    for file in ["study.json", "results.csv"] {
        fs::remove_dir(study.join(file)).unwrap();
    }
    fs::remove_file(study.join("gen-000.json")).unwrap();
    fs::remove_file(bench.at("evidence/leaderboard.json")).unwrap();
    ends(&bench, SWEEP).ends(0);
    for file in ["s/study.json", "s/results.csv", "leaderboard.json"] {
        assert!(bench.at("evidence").join(file).is_file(), "{file}");
    }
}

/// Puts links to one file outside into the evidence folder; gives the file.
fn plant(bench: &Bench, names: &[&str]) -> PathBuf {
    let theirs = bench.at("theirs.txt");
    fs::write(&theirs, "theirs").unwrap();
    for name in names {
        let place = bench.at("evidence").join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(&theirs, place).unwrap();
    }
    theirs
}

#[test]
fn a_link_in_the_output_folder_is_never_followed() {
    for name in ["s/journal.jsonl", "s/lock"] {
        let bench = Bench::new();
        let theirs = plant(&bench, &[name]);
        let ran = ends(&bench, SWEEP);
        assert_ne!(ran.code, Some(0), "{name}: {ran}");
        ran.says(&[name, "it is a link"]);
        assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs", "{name}");
    }
    // Views are replaced where nothing of them is read. The leaderboard is read.
    let bench = Bench::new();
    let views = ["s/study.json", "s/results.csv", "s/gen-000.json"];
    let theirs = plant(&bench, &[&views[..], &[".leaderboard.lock"]].concat());
    ends(&bench, SWEEP).ends(0).says(&[".leaderboard.lock`: it is a link"]);
    for name in views {
        assert!(bench.at("evidence").join(name).symlink_metadata().unwrap().is_file(), "{name}");
    }
    fs::remove_file(bench.at("evidence/.leaderboard.lock")).unwrap();
    symlink(&theirs, bench.at("evidence/leaderboard.json")).unwrap();
    ends(&bench, "leaderboard --rebuild").says(&["leaderboard.json`: it is a link"]);
    assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
}

#[test]
fn a_link_in_the_place_of_the_running_study_gets_nothing() {
    let bench = Bench::new();
    let mut child = bench.start(&sweep("--strategy exhaustive --finalists 1 --jobs 1"));
    bench.wait_for(1, &mut child);
    let [evidence, moved, theirs] = ["evidence", "moved", "theirs"].map(|name| bench.at(name));
    fs::create_dir_all(theirs.join("s")).unwrap();
    fs::rename(&evidence, &moved).unwrap();
    symlink(&theirs, &evidence).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_dir(theirs.join("s")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
    for file in ["s/study.json", "s/results.csv", "s/gen-000.json", "leaderboard.json"] {
        assert!(moved.join(file).is_file(), "{file}");
    }
    // A study that is a link is not resumed.
    fs::remove_file(&evidence).unwrap();
    fs::create_dir(&evidence).unwrap();
    symlink(moved.join("s"), evidence.join("s")).unwrap();
    let before = fs::read(moved.join("s/journal.jsonl")).unwrap();
    ends(&bench, SWEEP).ends(2).says(&["evidence/s`: it is a link"]);
    assert_eq!(fs::read(moved.join("s/journal.jsonl")).unwrap(), before);
}
