//! Running a tool to its end.
//!
//! A tool that misses its deadline is asked to end (SIGTERM), so that it can remove its temporary files, and
//! killed when it does not. Whatever it started ends with it.

use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::child::{PULSE, ProcessGroup, RunningChild};
use super::log::CappedLog;
use super::spawn::{ResourceLimits, limit};
use super::strays::RunMark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    pub deadline: Duration,
    pub grace: Duration,
    pub output_bytes: usize,
    /// Whether what it leaves running in sessions of their own is killed after its end.
    pub ends_strays: bool,
}

impl RunLimits {
    /// 5 s between SIGTERM and SIGKILL, and 1 MiB of each output. Nothing that the tool starts goes on.
    pub fn new(deadline: Duration) -> RunLimits {
        RunLimits { deadline, grace: Duration::from_secs(5), output_bytes: 1 << 20, ends_strays: true }
    }
}

#[derive(Clone, Debug)]
pub struct Ended {
    /// Absent when it could not be reaped.
    pub status: Option<ExitStatus>,
    pub timed_out: bool,
    pub stdout: CappedLog,
    pub stderr: CappedLog,
}

impl Ended {
    pub fn succeeded(&self) -> bool {
        !self.timed_out && self.status.is_some_and(|status| status.success())
    }
}

/// With an empty stdin. Errors when the command cannot be started; whatever happens then is in `Ended`.
pub fn run(command: Command, limits: &RunLimits) -> io::Result<Ended> {
    run_reading(command, Stdio::null(), limits)
}

pub fn run_reading(mut command: Command, stdin: Stdio, limits: &RunLimits) -> io::Result<Ended> {
    limit(&mut command, ResourceLimits::default());
    // Dropped after the kill of the group.
    let _mark = limits.ends_strays.then(|| RunMark::put_on(&mut command));
    let log = || CappedLog::new(limits.output_bytes);
    let mut until = Instant::now() + limits.deadline;
    let mut child = RunningChild::start(command, stdin, ProcessGroup::default(), log())?;
    // A pipe that nobody writes to must end.
    child.close_stdin();
    child.printed = Some(log());
    let mut timed_out = false;
    while !child.has_exited() {
        let left = until.saturating_duration_since(Instant::now());
        // SIGTERM did not help within the grace time; `kill` below sends SIGKILL.
        if left.is_zero() && timed_out {
            break;
        }
        if left.is_zero() {
            timed_out = true;
            until += limits.grace;
            child.terminate();
        } else {
            child.serve_streams(left.min(PULSE));
        }
    }
    // Also after a regular end: the kill reaches whatever the tool left running in its group.
    let status = child.kill().status;
    child.read_rest();
    let (stdout, stderr) = (child.printed.take().unwrap_or_else(log), child.log.clone());
    Ok(Ended { status, timed_out, stdout, stderr })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn sh(script: &str, limits: &RunLimits) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limits).unwrap()
    }

    fn patient() -> RunLimits {
        RunLimits::new(Duration::from_secs(60))
    }

    fn short(deadline_ms: u64, grace_ms: u64) -> RunLimits {
        let [deadline, grace] = [deadline_ms, grace_ms].map(Duration::from_millis);
        RunLimits { deadline, grace, ..patient() }
    }

    #[test]
    fn outputs_and_status_come_back() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $WORD; pwd; echo err >&2; cat; exit 3"]);
        command.env("WORD", "out").current_dir("/proc");
        let ended = run(command, &patient()).unwrap();
        assert_eq!((ended.stdout.text().as_str(), ended.stderr.text().as_str()), ("out\n/proc\n", "err\n"));
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
        assert!(!ended.succeeded() && !ended.timed_out);
        assert!(sh("true", &patient()).succeeded());
        assert!(run(Command::new("/nonexistent/tool"), &patient()).is_err());
    }

    #[test]
    fn floods_are_capped() {
        let limits = RunLimits { output_bytes: 900, ..patient() };
        let ended = sh("yes | head -c 3000000; yes no | head -c 3000000 >&2; echo end", &limits);
        assert!(ended.succeeded());
        assert_eq!((ended.stdout.total(), ended.stderr.total()), (3_000_004, 3_000_000));
        assert!(ended.stdout.text().len() < 1000 && ended.stdout.text().ends_with("end\n"));
    }

    #[test]
    fn a_late_tool_is_asked_to_end_before_it_is_killed() {
        let polite = sh("trap 'echo tidied; exit 7' TERM; echo up; sleep 60 & wait", &short(500, 60_000));
        assert!(polite.timed_out && !polite.succeeded());
        assert_eq!(polite.status.and_then(|status| status.code()), Some(7));
        assert_eq!(polite.stdout.text(), "up\ntidied\n");
        let began = Instant::now();
        let deaf = sh("trap '' TERM; sleep 60", &short(300, 200));
        assert_eq!(deaf.status.and_then(|status| status.signal()), Some(libc::SIGKILL));
        assert!(deaf.timed_out && began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_a_tool_started_ends_with_it() {
        // The tool ends at once; its child holds the pipe open and would go on for ten minutes.
        let began = Instant::now();
        let ended = sh("sleep 600 & echo $!", &patient());
        assert!(ended.succeeded() && began.elapsed() < Duration::from_secs(30));
        assert!(is_gone(ended.stdout.text().trim().parse().unwrap()));
    }

    #[test]
    fn a_daemon_that_a_tool_leaves_ends_with_it_unless_it_may_stay() {
        let script = "setsid sleep 602 > /dev/null 2>&1 & echo $!";
        let pid = |ended: &Ended| ended.stdout.text().trim().parse::<u32>().unwrap();
        assert!(is_gone(pid(&sh(script, &patient()))));
        // A subshell with a session of its own before the tool ends, or the kill of the group would reach it.
        let stays = "setsid sleep 602 > /dev/null 2>&1 & p=$!; sleep 0.5; echo $p";
        let left = pid(&sh(stays, &RunLimits { ends_strays: false, ..patient() }));
        assert!(is_running(left));
        let number = rustix::process::Pid::from_raw(left.cast_signed()).unwrap();
        rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
    }

    fn is_gone(pid: u32) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        while is_running(pid) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        !is_running(pid)
    }

    /// Whether a process is there and no zombie: what adopts orphans here may never reap them.
    fn is_running(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }
}
