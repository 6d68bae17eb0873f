//! How long threads have waited for a processor and a process has run, by the system's own count.
//!
//! A worker subtracts waits from what a request took, and believes that no more was done in it than its process ran,
//! so that a busy machine does not look like a kernel that hides what it costs. The host of a guest delays it where no
//! wait is counted. A variant could make its thread wait by keeping every processor busy with its own threads, but
//! those run only while a sample is taken.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// `waits` is a thread's file `schedstat`, where this system keeps one: nanoseconds on a processor, nanoseconds
/// waiting for one, slices (Linux, Documentation/scheduler/sched-stats.rst). `clock` is the clock of the processor time
/// of a process, all its threads together.
#[derive(Debug, Default)]
pub struct ProcessorTimes {
    waits: Option<File>,
    clock: Option<libc::clockid_t>,
}

impl ProcessorTimes {
    /// Of the process of a pidfd, with the waits of its first thread.
    pub fn of_process(pidfd: BorrowedFd<'_>) -> ProcessorTimes {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()));
        let Some(own) = info.ok().and_then(|text| number_in(&text)) else { return ProcessorTimes::default() };
        let mut clock = 0;
        // SAFETY: writes a number where `clock` is.
        let is_there = unsafe { libc::clock_getcpuclockid(own.cast_signed(), &raw mut clock) } == 0;
        let waits = File::open(format!("/proc/{own}/schedstat")).ok();
        ProcessorTimes { waits, clock: is_there.then_some(clock) }
    }

    pub fn of_this_thread() -> ProcessorTimes {
        ProcessorTimes { waits: File::open("/proc/thread-self/schedstat").ok(), clock: None }
    }

    /// Until now, since the thread began; zero where nobody counts.
    pub fn waited(&self) -> Duration {
        let mut text = [0; 96];
        let read = self.waits.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let words = std::str::from_utf8(&text[..read]).unwrap_or_default();
        let waited = words.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        Duration::from_nanos(waited.unwrap_or(0))
    }

    /// Until now, since the process began; `None` where nobody counts.
    pub fn ran(&self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes a time where `time` is.
        let read = unsafe { libc::clock_gettime(self.clock?, &raw mut time) };
        (read == 0).then(|| Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32))
    }
}

/// The number in a line `Pid: 17`; a process that has ended has -1, one of another namespace 0.
fn number_in(fdinfo: &str) -> Option<u32> {
    let line = fdinfo.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::process::Command;
    use std::time::Instant;

    use rustix::process::{PidfdFlags, pidfd_open};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    #[test]
    fn waits_grow_where_threads_share_a_processor() {
        let waits = ProcessorTimes::of_this_thread();
        if waits.waits.is_none() {
            eprintln!("skipped: this system keeps no count of waits for a processor");
            return;
        }
        // All on one processor, of however many this test may use.
        let allowed = sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)).unwrap());
        sched_setaffinity(None, &one).unwrap();
        let before = waits.waited();
        std::thread::scope(|scope| {
            let until = Instant::now() + Duration::from_millis(300);
            let spin = move || while Instant::now() < until {};
            scope.spawn(spin);
            scope.spawn(spin);
            spin();
        });
        assert!(waits.waited() > before, "three threads on one processor, and none waited");
    }

    #[test]
    fn a_process_that_sleeps_does_not_run() {
        let ran_in = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            let times = ProcessorTimes::of_process(pidfd_open(pid, PidfdFlags::empty()).unwrap().as_fd());
            std::thread::sleep(Duration::from_millis(300));
            let ran = times.ran();
            child.kill().and_then(|()| child.wait()).unwrap();
            ran.expect("Linux counts this everywhere")
        };
        assert!(ran_in("while :; do :; done") > ran_in("exec sleep 9"));
    }

    #[test]
    fn what_is_not_there_counts_nothing() {
        assert_eq!(ProcessorTimes::default().waited(), Duration::ZERO);
        assert_eq!(ProcessorTimes::default().ran(), None);
        assert_eq!(number_in("pos:\t0\nPid:\t-1\nNSpid:\t-1\n"), None);
        assert_eq!(number_in("pos:\t0\nPid:\t17\nNSpid:\t17\t2\n"), Some(17));
    }
}
