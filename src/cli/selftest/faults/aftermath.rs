//! What a fault must leave as it was: the good variant that is judged after each, right at full depth and as fast as before;
//! and no process, file or open descriptor, read from `/proc` and the cache folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;

use crate::cli::selftest::bench::SelftestBench;
use crate::cli::{CliError, Result};
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::Lane;
use crate::timing::stats::median;

const FIRST_RUNS: usize = 5;
/// A neighbor may take this many times as long as the slowest of the first runs. Generous, because other
/// programs use the machine too: a fault that stays behind costs a process or a context, which shows as far
/// more.
const TIMES_SLOWEST: f64 = 3.0;
/// A slow neighbor is timed again: what comes from outside passes.
const TRIES: usize = 6;
const PAUSE: Duration = Duration::from_millis(100);

pub struct GoodNeighbor {
    /// Everything up to a screening.
    pub timed: Job,
    /// Every gate at full depth, nothing timed.
    gates: Job,
    /// What the full evaluation measured, as a sweep's incumbent.
    pub standing: Standing,
    first_ns: Vec<f64>,
}

impl GoodNeighbor {
    /// Evaluates the good variant in full, then times it a few times.
    pub fn begin(bench: &mut SelftestBench<'_>) -> Result<GoodNeighbor> {
        let good = bench.configuration(&[]);
        let failed = |text: String| CliError::harness(format!("the good variant fails: {text}"));
        let timed = bench.job(&good, false)?.map_err(|verdict| failed(verdict.message.clone()))?;
        let result = bench.lane.evaluate(&timed, &Standing::default());
        if !result.verdict.is_pass() {
            return Err(failed(format!("{}: {}", result.verdict.label(), result.verdict.message)));
        }
        let gates = timed.gates_only();
        let hot = result.measurements.iter().filter(|measured| measured.mode == TimingMode::Hot);
        let problems = hot.map(|measured| (measured.problem.clone(), measured.p50_ns)).collect();
        let standing = Standing { problems, objective_ns: result.objective_ns, ..Standing::default() };
        let mut neighbor = GoodNeighbor { timed, gates, standing, first_ns: Vec::new() };
        for _ in 0..FIRST_RUNS {
            let time = neighbor.time(&mut bench.lane).map_err(failed)?;
            neighbor.first_ns.push(time);
        }
        Ok(neighbor)
    }

    /// Median, fastest and slowest of the first runs, nanoseconds.
    pub fn first(&self) -> (f64, f64, f64) {
        let fastest = self.first_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = self.first_ns.iter().copied().fold(0.0, f64::max);
        (median(&self.first_ns), fastest, slowest)
    }

    /// Its time over the median before any fault. The error says why the good variant is not what it was.
    pub fn judge(&self, lane: &mut Lane) -> Result<f64, String> {
        let result = lane.evaluate(&self.gates, &Standing::default());
        if !result.verdict.is_pass() {
            return Err(format!("{}: {}", result.verdict.label(), result.verdict.message));
        }
        let (median, _, slowest) = self.first();
        let mut best = f64::INFINITY;
        for _ in 0..TRIES {
            best = best.min(self.time(lane)?);
            if best <= TIMES_SLOWEST * slowest {
                return Ok(best / median);
            }
            std::thread::sleep(PAUSE);
        }
        Err(format!("it takes {:.2}× its time", best / median))
    }

    /// The time of a screening, nanoseconds. It runs against an incumbent that nothing can beat, so that it ends
    /// after its first samples, as it does for most variants of a sweep.
    fn time(&self, lane: &mut Lane) -> Result<f64, String> {
        let problems = self.standing.problems.keys().map(|name| (name.clone(), 1.0)).collect();
        let result = lane.evaluate(&self.timed, &Standing::new(problems, 1.0));
        let verdict = result.verdict;
        let seen = verdict.evidence.get("measured_ns").and_then(serde_json::Value::as_f64);
        match (verdict.kind, seen) {
            (VerdictKind::TooSlow, Some(seen)) => Ok(seen),
            _ => Err(format!("{}: {}", verdict.label(), verdict.message)),
        }
    }
}

const CHILDREN_MAX: usize = 2;
/// Libraries may open some of their own late; a leak in each row is more.
const DESCRIPTORS_MORE: usize = 8;
/// Dying takes a moment, and a compiler's folder goes after its process.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct LeftoverWatch {
    /// The compile cache, which belongs to this self-test alone.
    cache: PathBuf,
    /// Process groups of all workers so far.
    groups: BTreeSet<u32>,
    descriptors: usize,
}

impl LeftoverWatch {
    /// Begins while the lane is up and nothing is under way.
    pub fn begin(cache: &Path) -> LeftoverWatch {
        let mut watch = LeftoverWatch { cache: cache.to_path_buf(), groups: BTreeSet::new(), descriptors: 0 };
        // The first look tells what is normal.
        watch.descriptors = descriptors();
        watch.look();
        watch
    }

    pub fn find(&mut self) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.look();
            if found.is_empty() || Instant::now() >= until {
                return found;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    fn look(&mut self) -> Vec<String> {
        let own = std::process::id();
        let all = processes();
        let children: Vec<&ProcessLine> = all.iter().filter(|process| process.parent == own).collect();
        let mut found = Vec::new();
        if children.len() > CHILDREN_MAX {
            found.push(format!("{} child processes instead of {CHILDREN_MAX}", children.len()));
        }
        let zombies = children.iter().filter(|child| child.state == 'Z');
        found.extend(zombies.map(|zombie| format!("zombie {}", zombie.pid)));
        // What a dead worker started has its group, whoever is its parent now.
        let is_led = |group: u32| children.iter().any(|child| child.group == group);
        let orphans =
            all.iter().filter(|process| self.groups.contains(&process.group) && !is_led(process.group));
        found.extend(orphans.map(|orphan| format!("process {} of a dead worker", orphan.pid)));
        let own_group = rustix::process::getpgrp().as_raw_pid() as u32;
        self.groups.extend(children.iter().map(|child| child.group).filter(|group| *group != own_group));
        found.extend(scratch(&self.cache).iter().map(|path| format!("`{}`", path.display())));
        let open = descriptors();
        if open > self.descriptors + DESCRIPTORS_MORE {
            found.push(format!("{} open descriptors more", open - self.descriptors));
        }
        found
    }
}

/// A process, as `/proc/PID/stat` has it.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessLine {
    pub pid: u32,
    pub state: char,
    pub parent: u32,
    pub group: u32,
    /// When, which tells it from a later one with the same number.
    pub started: u64,
}

pub fn processes() -> Vec<ProcessLine> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let stat = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    entries.flatten().filter_map(stat).filter_map(|line| parse(&line)).collect()
}

/// `pid (name) state parent group …` and the start as the 22nd; a name may hold anything, `)` and spaces too.
fn parse(line: &str) -> Option<ProcessLine> {
    let (pid, rest) = line.split_once(" (")?;
    let mut words = rest.rsplit_once(") ")?.1.split(' ');
    Some(ProcessLine {
        pid: pid.parse().ok()?,
        state: words.next()?.chars().next()?,
        parent: words.next()?.parse().ok()?,
        group: words.next()?.parse().ok()?,
        started: words.nth(16)?.parse().ok()?,
    })
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// What lies in the folders in which compilers work.
pub fn scratch(cache: &Path) -> Vec<PathBuf> {
    let folders = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    folders(cache).flat_map(|version| folders(&version.join("tmp")).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn names_of_processes_hold_anything() {
        let line = "17 (a) b (c) S 4 9 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 99";
        assert_eq!(parse(line), Some(ProcessLine { pid: 17, state: 'S', parent: 4, group: 9, started: 777 }));
        assert_eq!(parse("17 sleep"), None);
    }

    #[test]
    fn files_and_processes_that_stay_are_found() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("v1/tmp/worker-x");
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(scratch(cache.path()), [folder]);
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let own = std::process::id();
        assert!(processes().iter().any(|process| process.pid == child.id() && process.parent == own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!processes().iter().any(|process| process.pid == child.id()));
    }
}
