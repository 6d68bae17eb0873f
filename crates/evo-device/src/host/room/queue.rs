//! How long threads have waited for a processor, by the system's own count.
//!
//! A worker subtracts it from what a request took, so that a busy machine does not look like a kernel that hides what
//! it costs. A variant could make its thread wait by keeping every processor busy with its own threads, but those run
//! only while a sample is taken.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The waits of a thread: its file `schedstat`, where this system keeps one: nanoseconds on a processor, nanoseconds
/// waiting for one, slices (Linux, Documentation/scheduler/sched-stats.rst).
#[derive(Debug, Default)]
pub struct RunQueueWaits(Option<File>);

impl RunQueueWaits {
    /// Of the first thread of the process of a pidfd. Its number in this process's namespace stands in `fdinfo`.
    pub fn of_process(pidfd: BorrowedFd<'_>) -> RunQueueWaits {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()));
        let number = info.ok().and_then(|text| number_in(&text));
        RunQueueWaits(number.and_then(|own| File::open(format!("/proc/{own}/schedstat")).ok()))
    }

    pub fn of_this_thread() -> RunQueueWaits {
        RunQueueWaits(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Until now, since the thread began; zero where nobody counts.
    pub fn until_now(&self) -> Duration {
        let mut text = [0; 96];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let words = std::str::from_utf8(&text[..read]).unwrap_or_default();
        let waited = words.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        Duration::from_nanos(waited.unwrap_or(0))
    }
}

/// The number in a line `Pid: 17`; a process that has ended has -1, one of another namespace 0.
fn number_in(fdinfo: &str) -> Option<u32> {
    let line = fdinfo.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    #[test]
    fn waits_grow_where_threads_share_a_processor() {
        let waits = RunQueueWaits::of_this_thread();
        if waits.0.is_none() {
            eprintln!("skipped: this system keeps no count of waits for a processor");
            return;
        }
        // All on one processor, of however many this test may use.
        let allowed = sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)).unwrap());
        sched_setaffinity(None, &one).unwrap();
        let before = waits.until_now();
        std::thread::scope(|scope| {
            let until = Instant::now() + Duration::from_millis(300);
            let spin = move || while Instant::now() < until {};
            scope.spawn(spin);
            scope.spawn(spin);
            spin();
        });
        assert!(waits.until_now() > before, "three threads on one processor, and none waited");
    }

    #[test]
    fn what_is_not_there_counts_nothing() {
        assert_eq!(RunQueueWaits(None).until_now(), Duration::ZERO);
        assert_eq!(number_in("pos:\t0\nPid:\t-1\nNSpid:\t-1\n"), None);
        assert_eq!(number_in("pos:\t0\nPid:\t17\nNSpid:\t17\t2\n"), Some(17));
    }
}
