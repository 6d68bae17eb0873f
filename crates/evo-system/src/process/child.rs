//! One child process from its start to its end: its three streams, signals for its whole group, and a reaping that counts
//! its memory.
//!
//! One loop serves the streams, without threads: neither a child that does not read nor one that does not write can block
//! us, and what it prints on stderr is logged on the way.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::log::CappedLog;
use super::spawn::spawn;
use crate::lock;

/// A longer line is not the protocol: ten thousand samples, the most that a worker sends, take some 200 KB.
const LINE_MAX: usize = 256 << 10;
/// Bytes of one read: what a pipe holds.
const ROOM: usize = 64 << 10;
/// What a dead child's pipe can hold (`/proc/sys/fs/pipe-max-size`); more comes from a process that left the group
/// and goes on printing.
const PIPE_MAX: usize = 1 << 20;
/// How often a silent child is checked for being alive (a grandchild may hold its output open).
pub(super) const PULSE: Duration = Duration::from_millis(50);
/// Once its outputs are closed: it is about to end.
const CLOSED_PULSE: Duration = Duration::from_millis(1);
/// A SIGKILLed process that is not gone after this long is stuck in the driver.
const REAP_LIMIT: Duration = Duration::from_secs(10);

/// Shared with threads that may have to end the child, which is reaped only after its number has left the group: a
/// number in here cannot have passed to another process.
#[derive(Clone, Debug, Default)]
pub struct ProcessGroup(Arc<Mutex<Option<Pid>>>);

impl ProcessGroup {
    /// With everything it started; the child's owner reaps it.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = *lock(&self.0) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reaped {
    /// Absent when the child could not be reaped.
    pub status: Option<ExitStatus>,
    /// Largest resident size of the child or of a process that it waited for, bytes.
    pub memory_peak: u64,
}

#[derive(Debug, PartialEq)]
pub enum Incoming {
    Line(Vec<u8>),
    Nothing,
    /// The child closed its stdout, or is gone; a last line without an end is lost with it.
    End,
    Overlong,
}

#[derive(Debug)]
struct Output {
    /// Non-blocking. Absent once it has ended: `poll` would report it at once every time and never wait again.
    stream: Option<File>,
    /// Made once: a worker tells its phase thousands of times a second, and clearing the room for each took longer
    /// than reading it.
    room: Box<[u8]>,
}

impl Output {
    fn new(stream: Option<impl Into<OwnedFd>>) -> io::Result<Output> {
        let stream = stream.ok_or_else(|| io::Error::other("a pipe to the child is missing"))?;
        let stream = File::from(stream.into());
        rustix::io::ioctl_fionbio(&stream, true)?;
        Ok(Output { stream: Some(stream), room: vec![0; ROOM].into() })
    }

    fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.stream.as_ref().map(|stream| PollFd::new(stream, PollFlags::IN))
    }

    /// One buffer at most, so that a flood cannot keep the caller from its deadline.
    fn read(&mut self) -> &[u8] {
        let Some(stream) = &mut self.stream else { return &[] };
        match stream.read(&mut self.room) {
            Ok(length) if length > 0 => return &self.room[..length],
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            // Ended, or broken for good.
            Ok(_) | Err(_) => self.stream = None,
        }
        &[]
    }
}

/// A child that leads its own process group. Dropping it kills the group and reaps the child.
#[derive(Debug)]
pub struct RunningChild {
    pid: Pid,
    group: ProcessGroup,
    reaped: Option<Reaped>,
    stdin: Option<ChildStdin>,
    outbox: Vec<u8>,
    stdout: Output,
    stderr: Output,
    /// Of stderr.
    pub(super) log: CappedLog,
    /// Of stdout, where nobody reads its lines.
    pub(super) printed: Option<CappedLog>,
    inbox: Vec<u8>,
    /// Bytes of `inbox` known to hold no line end.
    scanned: usize,
    line_max: usize,
}

impl RunningChild {
    /// `log` takes its stderr; from here on `group` can end it.
    pub fn start(
        mut command: Command,
        stdin: Stdio,
        group: ProcessGroup,
        log: CappedLog,
    ) -> io::Result<RunningChild> {
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = spawn(command)?;
        let pid = Pid::from_child(&process);
        *lock(&group.0) = Some(pid);
        let outputs = Output::new(process.stdout.take()).and_then(|stdout| {
            let stdin = process.stdin.take();
            stdin.iter().try_for_each(|stdin| rustix::io::ioctl_fionbio(stdin, true))?;
            Ok((stdin, stdout, Output::new(process.stderr.take())?))
        });
        let (stdin, stdout, stderr) = outputs.inspect_err(|_| _ = end_group(&group, pid))?;
        Ok(RunningChild {
            pid,
            group,
            reaped: None,
            stdin,
            outbox: Vec::new(),
            stdout,
            stderr,
            log,
            printed: None,
            inbox: Vec::new(),
            scanned: 0,
            line_max: LINE_MAX,
        })
    }

    #[must_use]
    pub fn with_line_max(mut self, line_max: usize) -> RunningChild {
        self.line_max = line_max;
        self
    }

    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    pub fn log(&self) -> &CappedLog {
        &self.log
    }

    pub fn interrupt(&self) {
        self.group.signal(Signal::INT);
    }

    pub(super) fn terminate(&self) {
        self.group.signal(Signal::TERM);
    }

    /// Writes as much as the pipe takes at once; the rest goes out while waiting.
    pub(super) fn send(&mut self, line: &[u8]) {
        self.outbox.extend_from_slice(line);
        self.outbox.push(b'\n');
        self.write_some();
    }

    pub(super) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line of its stdout, where it is there by `until`.
    pub fn receive(&mut self, until: Instant) -> Incoming {
        loop {
            match self.take_line() {
                Some(line) if line.len() <= self.line_max => return Incoming::Line(line),
                None if self.inbox.len() <= self.line_max => {}
                _ => return Incoming::Overlong,
            }
            if self.stdout.stream.is_none() {
                return Incoming::End;
            }
            let left = until.saturating_duration_since(Instant::now());
            // One last look: an answer that is already in the pipe is not late.
            if left.is_zero() && self.read_stdout() == 0 {
                // Something that it started may hold its stdout open beyond its end. What it wrote before still counts.
                let is_over = self.has_exited() && !self.has_input();
                return if is_over { Incoming::End } else { Incoming::Nothing };
            }
            self.serve_streams(left);
        }
    }

    pub(super) fn has_input(&mut self) -> bool {
        self.read_stderr();
        self.read_stdout();
        !self.inbox.is_empty()
    }

    pub(super) fn discard_lines(&mut self) {
        self.read_stderr();
        loop {
            let read = self.read_stdout();
            while self.take_line().is_some() {}
            if read == 0 {
                return;
            }
        }
    }

    /// Complete ones that have not been received.
    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let complete = self.inbox.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        self.inbox[..complete].split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        // A long line arrives in pieces. Each piece is scanned once, so that the work stays linear.
        let Some(offset) = self.inbox[self.scanned..].iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.inbox.len();
            return None;
        };
        let rest = self.inbox.split_off(self.scanned + offset + 1);
        let mut line = std::mem::replace(&mut self.inbox, rest);
        line.pop();
        self.scanned = 0;
        Some(line)
    }

    /// Waits until a stream is ready, for `left` at most, and reads and writes what is there.
    pub(super) fn serve_streams(&mut self, left: Duration) {
        let mut ends: Vec<PollFd<'_>> =
            self.stdout.poll_fd().into_iter().chain(self.stderr.poll_fd()).collect();
        let left = if ends.is_empty() { left.min(CLOSED_PULSE) } else { left };
        // A pipe with room is always ready: waiting for it with nothing to write would never wait.
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.outbox.is_empty()) {
            ends.push(PollFd::new(stdin, PollFlags::OUT));
        }
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        // An interrupted poll only means another turn of the caller's loop.
        let _ = poll(&mut ends, Some(&timeout));
        self.write_some();
        // Before stdout: what a child printed before its answer then counts as printed before it.
        self.read_stderr();
        self.read_stdout();
    }

    fn write_some(&mut self) {
        let Some(stdin) = &mut self.stdin else { return self.outbox.clear() };
        let mut written = 0;
        while written < self.outbox.len() {
            match stdin.write(&self.outbox[written..]) {
                Ok(count) if count > 0 => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The reader is gone; its death shows on stdout.
                _ => {
                    self.stdin = None;
                    return self.outbox.clear();
                }
            }
        }
        self.outbox.drain(..written);
    }

    fn read_stdout(&mut self) -> usize {
        // Bounded, so that a child that never ends its line cannot fill our memory.
        if self.inbox.len() > self.line_max {
            return 0;
        }
        let bytes = self.stdout.read();
        match &mut self.printed {
            Some(printed) => printed.push(bytes),
            None => self.inbox.extend_from_slice(bytes),
        }
        bytes.len()
    }

    fn read_stderr(&mut self) -> usize {
        let bytes = self.stderr.read();
        self.log.push(bytes);
        bytes.len()
    }

    /// What is in the pipes and will not be waited for.
    pub(super) fn read_rest(&mut self) {
        let mut read = 0;
        while read < PIPE_MAX {
            match self.read_stderr() + self.read_stdout() {
                0 => return,
                length => read += length,
            }
        }
    }

    /// The process is left to be reaped later: its number must stay taken until its group has been killed.
    pub(super) fn has_exited(&self) -> bool {
        if self.reaped.is_some() {
            return true;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error counts as an end too: the child is then no longer ours to wait for.
        !matches!(rustix::process::waitid(WaitId::Pid(self.pid), options), Ok(None))
    }

    /// Waits for `grace`, and kills its group then. Its status where it left by itself.
    pub fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + grace;
        // Polled, because a blocking wait has no deadline.
        while !self.has_exited() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Asked before the kill, after which every end looks like a death by SIGKILL.
        let by_itself = self.has_exited();
        let status = self.kill().status;
        self.read_rest();
        status.filter(|_| by_itself)
    }

    /// With everything that it started in its group.
    pub(super) fn kill(&mut self) -> Reaped {
        *self.reaped.get_or_insert_with(|| end_group(&self.group, self.pid))
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        self.kill();
    }
}

fn end_group(group: &ProcessGroup, pid: Pid) -> Reaped {
    // The lock is held across the kill, so that no other thread signals the number once it is free again.
    let mut member = lock(&group.0);
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    // From here on nothing else may send signals to this number. A handle that already serves the next child keeps it.
    if *member == Some(pid) {
        *member = None;
    }
    // Released before the wait, which may take as long as `REAP_LIMIT`.
    drop(member);
    let until = Instant::now() + REAP_LIMIT;
    loop {
        match wait_with_usage(pid, libc::WNOHANG) {
            Ok(Some((status, memory_peak))) => return Reaped { status: Some(status), memory_peak },
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_micros(500)),
            Ok(None) | Err(_) => return Reaped::default(),
        }
    }
}

/// Waits for a child: its status, and the largest resident size of it or of a process that it waited for, bytes. The
/// standard library tells the status alone.
pub fn wait_measured(child: Child) -> io::Result<(ExitStatus, u64)> {
    loop {
        match wait_with_usage(Pid::from_child(&child), 0) {
            Ok(Some(end)) => return Ok(end),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// `wait4`, which reports the peak of memory, bytes, and with `WNOHANG` can be given up.
fn wait_with_usage(pid: Pid, options: i32) -> io::Result<Option<(ExitStatus, u64)>> {
    let mut status = 0;
    // SAFETY: all-zero is a valid `rusage`, a plain structure of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: two live structures; the process is our child and nothing else waits for it.
    let reaped = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &mut status, options, &mut usage) };
    match reaped {
        ..0 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        // Linux counts `ru_maxrss` in KiB.
        1.. => {
            let peak = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
            Ok(Some((ExitStatus::from_raw(status), peak)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::signal::is_ignored;

    const PATIENT: Duration = Duration::from_secs(30);

    fn sh(script: &str) -> RunningChild {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let log = CappedLog::of_end(1000);
        RunningChild::start(command, Stdio::null(), ProcessGroup::default(), log).unwrap().with_line_max(100)
    }

    fn next(child: &mut RunningChild) -> Incoming {
        child.receive(Instant::now() + PATIENT)
    }

    fn line(text: &str) -> Incoming {
        Incoming::Line(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_come_one_by_one_and_the_status_last() {
        let mut child = sh("cat; echo one; echo said >&2; sleep 0.1; echo two; exit 3");
        assert_eq!(
            [next(&mut child), next(&mut child), next(&mut child)],
            [line("one"), line("two"), Incoming::End]
        );
        assert_eq!(child.end(PATIENT).and_then(|status| status.code()), Some(3));
        assert_eq!(child.log().text(), "said\n");
        // A line without an end is given up.
        assert_eq!(next(&mut sh("yes | tr -d '\\n'")), Incoming::Overlong);
    }

    #[test]
    fn an_interrupt_is_a_request_and_the_end_is_not() {
        if is_ignored(libc::SIGINT) {
            // A shell cannot trap what was ignored when it began, as it is for jobs in the background.
            eprintln!("skipped: SIGINT is ignored here");
            return;
        }
        let mut polite = sh("trap 'echo left; exit 5' INT; echo up; sleep 600 & wait");
        assert_eq!(next(&mut polite), line("up"));
        polite.interrupt();
        assert_eq!(next(&mut polite), line("left"));
        assert_eq!(polite.end(PATIENT).and_then(|status| status.code()), Some(5));
        let mut deaf = sh("trap '' INT; echo up; exec sleep 600");
        assert_eq!(next(&mut deaf), line("up"));
        deaf.interrupt();
        assert_eq!(deaf.end(Duration::from_millis(500)), None);
    }
}
