//! Processes that tests start, what these start, and waiting for either.

use std::fs;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Waits until something is so; longer than anything here takes on a busy machine.
#[track_caller]
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(300);
    while !is_so() {
        assert!(Instant::now() < give_up, "in five minutes: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a child.
pub fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Whether a process is there and goes on: a zombie that nobody has reaped does not.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

/// Waits until none of these processes goes on; they are numbers in a text.
#[track_caller]
pub fn wait_for_ends(pids: &str) {
    assert!(!pids.trim().is_empty(), "no process was named");
    for pid in pids.split_whitespace().map(|pid| pid.parse().unwrap()) {
        wait(&format!("{pid} ends"), || !is_running(pid));
    }
}

/// Processes that a process started, whichever thread of it.
pub fn children(of: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists.collect::<String>().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The same with what they started in turn.
pub fn descendants(of: u32) -> Vec<u32> {
    let mut found = children(of);
    let mut at = 0;
    while at < found.len() {
        found.extend(children(found[at]));
        at += 1;
    }
    found
}

/// How many processes have a text in their command lines.
pub fn mentioning(text: &str) -> usize {
    let lines = fs::read_dir("/proc").unwrap().flatten();
    let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).replace('\0', " ").contains(text)).count()
}
