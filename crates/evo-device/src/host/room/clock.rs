//! Times that an executor tells, compared with the worker's own clock.
//!
//! Samples are taken where the kernel runs, so that a call costs what it costs, and a variant that rewrites its
//! executor could tell any number. It cannot tell samples that last longer than the whole request took. What the
//! threads on both ends waited for a processor is known ([`ProcessorTimes`]) and taken off, so that a busy machine does
//! not look like a kernel that hides what it costs, and no more is believed to be done than the process ran: the host of
//! a guest delays it where no wait is counted. A variant could make its thread wait by keeping every processor busy with
//! its own threads, but those run only while a sample is taken. A shared machine delays some requests all the same, so a
//! share of many requests counts.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::{Verdict, VerdictKind};

const WINDOW: usize = 24;

/// So many of them with an excess are a lie: a shared machine delays some requests. On a busy one a clock that runs slow
/// shows in some requests only, because what was waited within the samples is taken off as well.
const LONG_MAX: usize = 8;

/// An excess below this is what messages and wake-ups take.
const EXCESS_MIN: Duration = Duration::from_millis(1);

/// An excess below this share of the samples says nothing.
const EXCESS_SHARE: f64 = 0.25;

/// How much longer than a request its samples may seem: what clocks of one machine differ by.
const ROUNDING: Duration = Duration::from_micros(5);

#[derive(Clone, Copy, Debug)]
pub struct RequestTime {
    /// By the worker's clock.
    pub whole: Duration,
    /// Of that, what the threads on both ends waited for a processor. It may have been within the samples.
    pub waited: Duration,
    /// What the executor ran for on all its threads, `None` where nobody counts.
    pub ran: Option<Duration>,
}

#[derive(Debug, Default)]
pub struct ClockCheck {
    /// What a request took beyond its samples and waits, as far as its process ran, and its samples, nanoseconds.
    requests: VecDeque<(f64, f64)>,
}

impl ClockCheck {
    pub fn add(
        &mut self,
        samples: &[f64],
        batch: u32,
        asked: u32,
        time: RequestTime,
    ) -> Result<(), DeviceError> {
        let forged = |message: String| {
            DeviceError::plain(VerdictKind::TimingEscape, message).with_cause("forged_time").sticky()
        };
        let plausible = |time: &f64| time.is_finite() && *time >= 0.0;
        if samples.len() != asked as usize || !samples.iter().all(plausible) {
            return Err(forged("the times of the samples are not numbers of their kind".into()));
        }
        let told = samples.iter().sum::<f64>() * f64::from(batch);
        let (taken, waited) = (time.whole.as_nanos() as f64, time.waited.as_nanos() as f64);
        let ran = time.ran.map(|ran| ran.as_nanos() as f64);
        let forged = |message| {
            let error = forged(message).with("told_ns", told).with("taken_ns", taken);
            error.with("waited_ns", waited).with("ran_ns", ran)
        };
        if told > taken + ROUNDING.as_nanos() as f64 {
            return Err(forged("the samples last longer than the request for them took".into()));
        }
        if self.requests.len() == WINDOW {
            self.requests.pop_front();
        }
        let done = (taken - waited).min(ran.unwrap_or(f64::INFINITY));
        self.requests.push_back((done - told, told));
        let long = |(excess, told): &(f64, f64)| {
            *excess > EXCESS_MIN.as_nanos() as f64 && *excess > EXCESS_SHARE * told
        };
        if self.requests.iter().filter(|request| long(request)).count() >= LONG_MAX {
            let message = format!(
                "the samples are much shorter than {LONG_MAX} of the last {} requests for them",
                self.requests.len()
            );
            // A machine can delay every one of several requests where nobody counts waits, as a guest whose host is busy.
            return Err(forged(message).with(Verdict::IN_DOUBT, true));
        }
        Ok(())
    }
}

/// How long a thread has waited for a processor and a process has run, by the system's own count.
///
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

    fn request(whole: u64, waited: u64, ran: Option<u64>) -> RequestTime {
        let ms = Duration::from_millis;
        RequestTime { whole: ms(whole), waited: ms(waited), ran: ran.map(ms) }
    }

    /// Which of a hundred requests, each for ten samples of two calls, is refused, and how.
    fn refused(sample: f64, time: impl Fn(usize) -> RequestTime) -> Option<(usize, Verdict)> {
        let mut check = ClockCheck::default();
        (0..100).find_map(|number| {
            let refused = check.add(&[sample; 10], 2, 10, time(number)).err()?;
            Some((number, refused.verdict()))
        })
    }

    #[test]
    fn times_that_cannot_be_are_refused_at_once() {
        for wrong in [f64::NAN, -1.0, f64::INFINITY, 2e6] {
            let (number, verdict) = refused(wrong, |_| request(20, 0, None)).unwrap();
            assert!(number == 0 && !verdict.is_in_doubt(), "{wrong}");
        }
        let missing = ClockCheck::default().add(&[1.0], 1, 2, request(1000, 0, None));
        assert_eq!(missing.unwrap_err().verdict().label(), "timing_escape:forged_time");
    }

    #[test]
    fn samples_that_are_too_short_are_found_out_and_have_to_be_seen_again() {
        assert!(refused(10.0, |_| request(1, 0, None)).is_none());
        // All samples of a request together last 10 ms.
        for (every, (whole, waited, ran), found) in [
            (1, (20, 0, None), true),
            // A lie shows in a third of the requests, and less is the machine.
            (3, (90, 0, None), true),
            (4, (90, 0, None), false),
            // Waits for a processor are not held against a variant.
            (1, (30, 18, None), false),
            (1, (30, 10, None), true),
            // The host of a guest had the processor.
            (1, (30, 0, Some(11)), false),
            (1, (30, 0, Some(25)), true),
            // Four threads at work, and the wait was somewhere among them.
            (1, (30, 18, Some(100)), false),
            (1, (30, 10, Some(100)), true),
        ] {
            let time = |number: usize| match number.is_multiple_of(every) {
                true => request(whole, waited, ran),
                false => request(11, 0, None),
            };
            let refused = refused(0.5e6, time).map(|(number, verdict)| (number, verdict.is_in_doubt()));
            let expected = found.then_some(((LONG_MAX - 1) * every, true));
            assert_eq!(refused, expected, "every {every}: {whole} {waited} {ran:?}");
        }
    }

    #[test]
    fn waits_grow_where_threads_share_a_processor() {
        let waits = ProcessorTimes::of_this_thread();
        if waits.waits.is_none() {
            return eprintln!("skipped: this system keeps no count of waits for a processor");
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
