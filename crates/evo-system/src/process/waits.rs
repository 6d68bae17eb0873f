//! How long the threads of a process, and of what it started, have waited for a processor.
//!
//! On a busy machine a deadline of wall time would hold against a child that it hardly ran. What sleeps, is stuck, or
//! computes without end on a processor of its own does not wait in a run queue, and gets no more time.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Threads that are looked at: a child that starts more gets no time for them.
const THREADS_MAX: usize = 4096;

#[derive(Debug)]
pub struct ProcessorWaits {
    root: u32,
    before: HashMap<u32, u64>,
}

impl ProcessorWaits {
    pub fn begin(root: u32) -> ProcessorWaits {
        ProcessorWaits { root, before: waits(root) }
    }

    /// A thread that is younger counts from its start, one that has ended not at all; zero where the system keeps no
    /// count.
    pub fn longest(&self) -> Duration {
        let since = |(thread, waited): (u32, u64)| {
            waited.saturating_sub(self.before.get(&thread).copied().unwrap_or(0))
        };
        Duration::from_nanos(waits(self.root).into_iter().map(since).max().unwrap_or(0))
    }
}

/// Nanoseconds since each thread began: the second number of its `schedstat` (Linux,
/// Documentation/scheduler/sched-stats.rst).
fn waits(root: u32) -> HashMap<u32, u64> {
    let (mut found, mut processes) = (HashMap::new(), vec![root]);
    while let Some(process) = processes.pop() {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let Some(number) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if found.len() == THREADS_MAX {
                return found;
            }
            let text = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let waited = text("schedstat").split_whitespace().nth(1).and_then(|word| word.parse().ok());
            found.insert(number, waited.unwrap_or(0));
            processes.extend(text("children").split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Instant;

    use rustix::process::{Pid, Signal, kill_process_group};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    #[test]
    fn what_computes_beside_others_waits_and_what_sleeps_does_not() {
        if fs::read("/proc/thread-self/schedstat").is_err() {
            eprintln!("skipped: this system keeps no count of waits for a processor");
            return;
        }
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let mut spinner = Command::new("sh");
        spinner.args(["-c", "while :; do :; done & while :; do :; done"]).process_group(0);
        // Both loops on one processor, of however many this test may use.
        let allowed = sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)).unwrap());
        let own = std::thread::spawn(move || {
            sched_setaffinity(None, &one).unwrap();
            spinner.spawn().unwrap()
        });
        let spinner = own.join().unwrap();
        let counts = [sleeper.id(), spinner.id()].map(ProcessorWaits::begin);
        let until = Instant::now() + Duration::from_secs(30);
        while counts[1].longest() < Duration::from_millis(100) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let found = counts.map(|count| count.longest());
        kill_process_group(Pid::from_child(&spinner), Signal::KILL).unwrap();
        sleeper.kill().unwrap();
        for mut child in [sleeper, spinner] {
            child.wait().unwrap();
        }
        assert!(found[1] >= Duration::from_millis(100), "{found:?}");
        assert!(found[0] < found[1], "{found:?}");
    }

    #[test]
    fn a_process_that_is_gone_has_waited_for_nothing() {
        assert_eq!(ProcessorWaits::begin(u32::MAX - 1).longest(), Duration::ZERO);
    }
}
