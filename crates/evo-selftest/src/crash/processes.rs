//! The processes of a run, as `/proc` has them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Victim;

/// A process and when it started, which tells it from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId {
    pub pid: u32,
    started: u64,
}

#[derive(Debug)]
struct ProcessSeen {
    id: ProcessId,
    parent: u32,
    zombie: bool,
    arguments: Vec<String>,
}

/// Every process below `root`, by what it is to evo.
pub fn descendants(root: u32) -> Vec<(ProcessId, Victim)> {
    let all: Vec<ProcessSeen> = numbers().into_iter().filter_map(look).collect();
    let mut found: Vec<(ProcessId, Victim)> = Vec::new();
    let mut parents = vec![root];
    // Breadth first; a process has one parent, so nobody is met twice.
    while let Some(parent) = parents.pop() {
        for one in all.iter().filter(|one| one.parent == parent && !one.zombie) {
            parents.push(one.id.pid);
            found.push((one.id, kind(&one.arguments)));
        }
    }
    found
}

/// Those of `ids` that still run.
pub fn running(ids: &BTreeSet<ProcessId>) -> Vec<u32> {
    let is_there = |id: &&ProcessId| look(id.pid).is_some_and(|one| one.id == **id && !one.zombie);
    ids.iter().filter(is_there).map(|id| id.pid).collect()
}

/// Processes that were started with the marker in their environment, which compilers inherit.
pub fn marked(marker: &Path) -> Vec<u32> {
    let marker = marker.as_os_str().as_encoded_bytes();
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(marker.len()).any(|window| window == marker)
    };
    let own = std::process::id();
    numbers().into_iter().filter(|pid| *pid != own && carries(pid)).collect()
}

fn kind(arguments: &[String]) -> Victim {
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match words.as_slice() {
        ["worker", "--compile", ..] => Victim::CompileWorker,
        ["worker", ..] => Victim::DeviceWorker,
        _ => Victim::Compiler,
    }
}

fn numbers() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn look(pid: u32) -> Option<ProcessSeen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, `)` and spaces too.
    let words: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let arguments = arguments.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(ProcessSeen {
        // The fields of proc(5): state, parent, and the start as the 22nd of the whole line.
        id: ProcessId { pid, started: words.get(19)?.parse().ok()? },
        parent: words.get(1)?.parse().ok()?,
        zombie: words[0] == "Z",
        arguments: arguments.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn workers_are_told_from_compilers() {
        let kind_of = |line: &str| kind(&line.split(' ').map(String::from).collect::<Vec<_>>());
        assert_eq!(kind_of("evo worker"), Victim::DeviceWorker);
        assert_eq!(kind_of("evo worker --compile host"), Victim::CompileWorker);
        assert_eq!(kind_of("/usr/lib/gcc/cc1plus -quiet worker"), Victim::Compiler);
    }

    #[test]
    fn a_child_is_found_and_missed() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let own = descendants(std::process::id()).into_iter().find(|(id, _)| id.pid == child.id());
        let ids = BTreeSet::from([own.unwrap().0]);
        assert_eq!(running(&ids), [child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(running(&ids).is_empty());
    }
}
