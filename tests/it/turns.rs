//! Commands that time candidates take turns on a device. A test that holds the device's lock makes them wait, changes
//! what they were given, and lets them go on.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::evaluate::history;
use crate::support::scale::{HEAD, SOURCE, space, stage};
use crate::support::{DECISIVE, answer, evo};

/// The device, held by this test.
fn hold(root: &Path) -> File {
    fs::create_dir_all(root.join("evidence")).unwrap();
    let lock = File::create(root.join("evidence/.device-host.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// A command that has said that it waits.
struct Waiting {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Waiting {
    #[track_caller]
    fn begin(command: &mut Command) -> Waiting {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut told = String::new();
        while !told.contains("note: waiting for another command that times on `host`") {
            let before = told.len();
            stderr.read_line(&mut told).unwrap();
            assert!(told.len() > before, "it ended: {told}");
        }
        Waiting { child, stderr }
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), stdout)
    }
}

#[test]
fn one_device_is_waited_for_whatever_the_kernel_and_the_command() {
    let folder = stage();
    let root = folder.path();
    fs::write(root.join("other.toml"), space(&HEAD.replace("name = \"scale\"", "name = \"other\""))).unwrap();
    let lock = hold(root);
    let judged = Waiting::begin(&mut evo(root, "evaluate other.toml WORK=1 --device host --json"));
    for words in ["gate scale.toml --init --device host --json", "bench scale.toml --device host --json"] {
        let mut waiting = Waiting::begin(&mut evo(root, words));
        assert_eq!(waiting.child.try_wait().unwrap(), None, "{words}");
        kill_process(Pid::from_child(&waiting.child), Signal::INT).unwrap();
        let (code, stdout) = waiting.end();
        let command = words.split(' ').next().unwrap();
        let object = answer::object(command, words, stdout.as_bytes());
        assert_eq!((code, &object["status"]), (Some(5), &"interrupted".into()), "{object}");
    }
    drop(lock);
    let (code, stdout) = judged.end();
    assert_eq!(code, Some(0), "{stdout}");
    assert!(!root.join("evo-baseline.json").exists());
}

#[test]
fn a_launch_file_is_read_once() {
    let folder = stage();
    let root = folder.path();
    fs::write(root.join("mine.cu"), SOURCE.replace("WORK", "1")).unwrap();
    let launch = r#"{ "scale": { "grid": ["ceil_div(N, 64)"], "block": [64] } }"#;
    fs::write(root.join("mine.json"), launch).unwrap();
    let lock = hold(root);
    let words =
        format!("evaluate scale.toml --source mine.cu --launch mine.json --device host --json {DECISIVE}");
    let waiting = Waiting::begin(&mut evo(root, &words));
    fs::write(root.join("mine.json"), "not what was judged").unwrap();
    fs::remove_file(root.join("mine.cu")).unwrap();
    drop(lock);
    let (code, stdout) = waiting.end();
    assert_eq!(code, Some(0), "{stdout}");
    let line = history(root).lines.remove(0);
    assert_eq!(line.candidate.launch.as_deref(), Some(launch));
}

#[test]
fn of_two_baselines_that_are_made_at_once_one_stays() {
    let folder = stage();
    let root = folder.path();
    let lock = hold(root);
    let words = "gate scale.toml --init --device host --json";
    let both = [(); 2].map(|()| Waiting::begin(&mut evo(root, words)));
    drop(lock);
    let mut ends: Vec<(Option<i32>, Value)> = both
        .into_iter()
        .map(Waiting::end)
        .map(|(code, stdout)| (code, answer::object("gate", words, stdout.as_bytes())))
        .collect();
    ends.sort_by_key(|(code, _)| *code);
    assert_eq!((ends[0].0, ends[1].0), (Some(0), Some(2)), "{ends:?}");
    let error = &ends[1].1["error"];
    assert!(error["message"].as_str().unwrap().contains("is there already"), "{error}");
    assert!(root.join("evo-baseline.json").is_file());
}
