//! The processes of a run, as `/proc` has them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use evo::cli::selftest::{ProcessLine, processes};

use super::Victim;

/// A process and when it started, which tells it from a later one with the same number.
pub type ProcessId = (u32, u64);

fn running_now() -> Vec<ProcessLine> {
    processes().into_iter().filter(|process| process.state != 'Z').collect()
}

/// Every process below `root`, by what it is to evo.
pub fn descendants(root: u32) -> Vec<(ProcessId, Victim)> {
    let all = running_now();
    let mut found: Vec<(ProcessId, Victim)> = Vec::new();
    let mut parents = vec![root];
    // A process has one parent, so nobody is met twice.
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            let arguments = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            found.push(((process.pid, process.started), kind(&String::from_utf8_lossy(&arguments))));
        }
    }
    found
}

pub fn running(ids: &BTreeSet<ProcessId>) -> Vec<u32> {
    let now = running_now();
    now.iter()
        .filter(|process| ids.contains(&(process.pid, process.started)))
        .map(|process| process.pid)
        .collect()
}

/// Processes that were started with the marker in their environment, which compilers inherit.
pub fn marked(marker: &Path) -> Vec<u32> {
    let marker = marker.as_os_str().as_encoded_bytes();
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(marker.len()).any(|window| window == marker)
    };
    let this = std::process::id();
    processes().iter().map(|process| process.pid).filter(|pid| *pid != this && carries(pid)).collect()
}

/// What a process is by its arguments, which end with a zero byte each.
fn kind(arguments: &str) -> Victim {
    match arguments.split('\0').skip(1).collect::<Vec<_>>()[..] {
        ["worker", "--compile", ..] => Victim::CompileWorker,
        ["worker", ..] => Victim::DeviceWorker,
        _ => Victim::Compiler,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn workers_are_told_from_compilers() {
        let kind_of = |line: &str| kind(&line.replace(' ', "\0"));
        assert_eq!(kind_of("evo worker"), Victim::DeviceWorker);
        assert_eq!(kind_of("evo worker --compile host"), Victim::CompileWorker);
        assert_eq!(kind_of("/usr/lib/gcc/cc1plus -quiet worker"), Victim::Compiler);
    }

    #[test]
    fn a_child_is_found_and_missed() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let found = descendants(std::process::id()).into_iter().find(|(id, _)| id.0 == child.id());
        let ids = BTreeSet::from([found.unwrap().0]);
        assert_eq!(running(&ids), [child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(running(&ids).is_empty());
    }
}
