//! Commands that time candidates take turns on a device. A test that holds the device's lock makes them wait, changes
//! what they were given, and lets them go on.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::evaluate::history;
use crate::support::BRIEF;
use crate::support::answer::{ended, holds};
use crate::support::processes::send;
use crate::support::stage::{Ran, Stage};

/// The device, held by this test.
fn hold(stage: &Stage) -> File {
    stage.write("evidence/.device-host.lock", "");
    let lock = File::options().write(true).open(stage.at("evidence/.device-host.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// A command that has said that it waits.
struct Waiting {
    words: String,
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Waiting {
    #[track_caller]
    fn begin(stage: &Stage, words: &str) -> Waiting {
        let words = format!("{words} --device host --json");
        let mut command = stage.evo(&words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut told = String::new();
        while !told.contains("note: waiting for another command that times on `host`") {
            let before = told.len();
            stderr.read_line(&mut told).unwrap();
            assert!(told.len() > before, "it ended: {told}");
        }
        Waiting { words, child, stderr }
    }

    fn end(mut self) -> Ran {
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.stderr.read_to_string(&mut err).unwrap();
        Ran { words: self.words, code: self.child.wait().unwrap().code(), out, err }
    }
}

#[test]
fn one_device_is_waited_for_whatever_the_kernel_and_the_command() {
    let stage = Stage::of("scale_slow").scripted();
    stage.write("other.toml", &stage.read("scale.toml").replace("name = \"scale\"", "name = \"other\""));
    let lock = hold(&stage);
    let judged = Waiting::begin(&stage, "evaluate other.toml WORK=1");
    for words in ["gate scale.toml --init", "bench scale.toml"] {
        let mut waiting = Waiting::begin(&stage, words);
        assert_eq!(waiting.child.try_wait().unwrap(), None, "{words}");
        send(&waiting.child, Signal::INT);
        ended(&waiting.end(), "5", "interrupted", true);
    }
    drop(lock);
    judged.end().ends(0);
    assert!(!stage.at("evo-baseline.json").exists());
}

#[test]
fn a_launch_file_is_read_once() {
    let stage = Stage::of("scale_slow").scripted();
    stage.write("mine.cu", &stage.read("scale.cu").replace("WORK", "1"));
    let launch = r#"{ "scale": { "grid": ["ceil_div(N, 64)"], "block": [64] } }"#;
    stage.write("mine.json", launch);
    let lock = hold(&stage);
    let words = format!("evaluate scale.toml --source mine.cu --launch mine.json {BRIEF}");
    let waiting = Waiting::begin(&stage, &words);
    stage.write("mine.json", "not what was judged");
    fs::remove_file(stage.at("mine.cu")).unwrap();
    drop(lock);
    waiting.end().ends(0);
    let line = history(&stage).lines.remove(0);
    assert_eq!(line.candidate.launch.as_deref(), Some(launch));
}

#[test]
fn of_two_baselines_that_are_made_at_once_one_stays() {
    let stage = Stage::of("scale_slow").scripted();
    let lock = hold(&stage);
    let both = [(); 2].map(|()| Waiting::begin(&stage, "gate scale.toml --init"));
    drop(lock);
    let mut ends = both.map(Waiting::end);
    ends.sort_by_key(|ran| ran.code);
    ended(&ends[0], "0", "pass", true);
    let refused = ended(&ends[1], "2", "error", true);
    holds(&refused, &json!({ "error.message": "~ is there already" }));
    assert!(stage.at("evo-baseline.json").is_file());
}
