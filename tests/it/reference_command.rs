//! References by command beside variants, caches and an end of evo; their answers and mistakes are told by sessions.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::skip::has_programs;
use crate::support::answer::holds;
use crate::support::processes::{wait, wait_for_ends};
use crate::support::stage::{Ran, Stage};

const TEST_ONE: &str = "test-one scale.toml --device host --seed 1 --level quick --limit sampling=100ms";

/// The example, where there is Python for the reference, with another one in the place of its own.
fn stage(reference: Option<(&str, &str)>) -> Option<Stage> {
    let stage = has_programs(&["python3"], "the reference of this test").then(|| Stage::of(EXAMPLE))?;
    if let Some((script, more)) = reference {
        let own = "reference = { command = [\"python3\", \"ref.py\"], serve = true }";
        let table = format!("reference = {{ command = [\"python3\", \"own.py\"]{more} }}");
        stage.write("own.py", script).edit("scale.toml", own, &table);
    }
    Some(stage)
}

const EXAMPLE: &str = "examples/reference_command";

#[test]
fn no_process_of_a_variant_is_there_while_a_command_runs() {
    let Some(stage) = stage(None) else { return };
    let spy = include_str!("../data/kernels/mix/spy.py");
    stage.edit("ref.py", "import sys\n", &format!("import sys\n{spy}"));
    stage.edit("ref.py", "def answer(case):\n", "def answer(case):\n    look()\n");
    stage.run(TEST_ONE).ends(0);
    let seen = stage.read("seen");
    // The first question comes before any variant is loaded: what is there then is the fork server alone.
    let alone = seen.lines().next().unwrap();
    assert!(seen.lines().count() > 50 && alone != "0", "{seen}");
    assert!(seen.lines().all(|line| line == alone), "an executor was there: {seen}");
}

#[test]
fn every_type_is_handed_over_and_answers_are_kept() {
    if !has_programs(&["python3"], "the reference of this test") {
        return;
    }
    let stage = Stage::of("mix");
    let asked = || {
        let words = "test-one mix.toml --device host --seed 5 --level quick --limit sampling=100ms";
        let output = stage.evo(words).env("EVO_CACHE_DIR", stage.at("cache")).output().unwrap();
        Ran::of(words, &output).ends(0);
        let asked = fs::read_to_string(stage.at("asked")).unwrap_or_default();
        let _ = fs::remove_file(stage.at("asked"));
        asked.lines().count()
    };
    let first = asked();
    assert!(first > 10, "asked {first} times");
    assert_eq!(asked(), 0, "all answers are kept");
    stage.write("mix.py", &(stage.read("mix.py") + "\n# edited\n"));
    assert_eq!(asked(), first, "after an edit");
    let left: Vec<_> = fs::read_dir(stage.at("cache/reference")).unwrap().flatten().collect();
    assert!(left.is_empty(), "files of a command are left: {left:?}");
}

/// With what it started in a session of its own.
#[test]
fn a_command_dies_with_evo() {
    let waits = "import os, subprocess, time\n\
                 daemon = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n\
                 open('pid', 'w').write(f'{os.getpid()} {daemon.pid} .')\ntime.sleep(1000)\n";
    let Some(stage) = stage(Some((waits, ""))) else { return };
    let mut evo = stage.evo(TEST_ONE).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pids = || fs::read_to_string(stage.at("pid")).unwrap_or_default();
    wait("the command starts", || pids().ends_with('.'));
    evo.kill().unwrap();
    evo.wait().unwrap();
    wait_for_ends(pids().trim_end_matches(" ."));
}

/// Whoever asked for an answer in time is told that the time was too short, and not that evo is broken.
#[test]
fn a_command_that_hangs_does_not_hold_up_an_answer() {
    // SIGTERM does not end it either.
    let hangs = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)\n";
    let Some(stage) = stage(Some((hangs, ", timeout_s = 200"))) else { return };
    let began = Instant::now();
    let late = stage.answers("evaluate scale.toml --device host --time-limit 3s", 1, "not_run");
    assert!(began.elapsed() < Duration::from_secs(18), "{:?}", began.elapsed());
    holds(&late, &json!({ "error.code": "timed_out" }));
}
