//! What a tool leaves running outside of its process group: a daemon in a session of its own. The kill of the group does
//! not reach it, and its parent is no longer known, but it has inherited its environment. A mark in there tells whose it
//! is, unless it was removed on purpose.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// The variable with the marks of all runs that a process belongs to.
const VARIABLE: &str = "EVO_TOOL_RUN";

/// Looks at all processes until none is left: one that forks meanwhile is found the next time.
const ROUNDS: usize = 100;

/// A mark on a command and on all that it starts. Dropping it kills what is left of them.
#[derive(Debug)]
pub struct RunMark(String);

impl RunMark {
    /// Marks a command before it starts.
    pub fn put_on(command: &mut Command) -> RunMark {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Relaxed: the numbers need only differ.
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}-{}", getpid().as_raw_nonzero(), time.as_nanos());
        // evo may itself be what a tool of another evo runs.
        let mut all = std::env::var_os(VARIABLE).unwrap_or_default();
        if !all.is_empty() {
            all.push(",");
        }
        all.push(&mark);
        command.env(VARIABLE, all);
        RunMark(mark)
    }

    /// Kills every process with the mark that is there now. How many there were.
    fn kill(&self) -> usize {
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Pid::from_raw).filter(|pid| self.kill_one(*pid)).count()
    }

    fn kill_one(&self, pid: Pid) -> bool {
        // Opened before the mark is read, so that the signal goes to the process that had it.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        let variables = environment.split(|byte| *byte == 0);
        let marks = variables
            .filter_map(|variable| variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))
            .flat_map(|value| value.split(|byte| *byte == b','));
        let is_marked = marks.into_iter().any(|mark| mark == self.0.as_bytes());
        is_marked && pidfd_send_signal(&process, Signal::KILL).is_ok()
    }
}

impl Drop for RunMark {
    fn drop(&mut self) {
        for _ in 0..ROUNDS {
            if self.kill() == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_its_group_and_session_is_found_by_its_mark() {
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sh -c 'setsid sleep 601 & sleep 601' > /dev/null 2>&1 & exit 0"]);
        let (mark, other) = (RunMark::put_on(&mut command), RunMark::put_on(&mut Command::new("true")));
        assert!(command.status().unwrap().success());
        // The first of them to appear.
        while mark.kill() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(other.kill(), 0, "another run's");
        drop(mark);
    }
}
