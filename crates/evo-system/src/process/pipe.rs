//! Lines over a child's stdin and stdout with a deadline, without threads: neither a child that does not read
//! nor one that does not write can block us, and what it prints on stderr is logged on the way.

use std::io::{self, ErrorKind, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::log::{CappedLog, LoggedStream};

/// A longer line is not the protocol: ten thousand samples, the most that a worker sends, take some 200 KB.
pub const LINE_MAX: usize = 256 << 10;

/// Bytes of one read: what a pipe holds.
const ROOM: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct LinePipe {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    pub stderr: LoggedStream,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    /// Made once: a worker tells its phase thousands of times a second, and clearing the room for each took longer
    /// than reading it.
    room: Box<[u8]>,
    /// Bytes of `inbox` known to hold no line end.
    scanned: usize,
    ended: bool,
    line_max: usize,
}

#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    Line(Vec<u8>),
    /// The child closed its stdout; a last line without an end is lost with it.
    End,
    Nothing,
    Overlong,
}

impl LinePipe {
    pub fn new(
        (stdin, stdout, stderr): (ChildStdin, ChildStdout, ChildStderr),
        log: CappedLog,
    ) -> io::Result<LinePipe> {
        rustix::io::ioctl_fionbio(&stdin, true)?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        let stderr = LoggedStream::new(stderr, log)?;
        let (outbox, inbox) = (Vec::new(), Vec::new());
        Ok(LinePipe {
            stdin: Some(stdin),
            stdout,
            stderr,
            outbox,
            inbox,
            room: vec![0; ROOM].into(),
            scanned: 0,
            ended: false,
            line_max: LINE_MAX,
        })
    }

    pub fn set_line_max(&mut self, line_max: usize) {
        self.line_max = line_max;
    }

    /// Writes as much as the pipe takes at once; the rest goes out while waiting.
    pub fn send(&mut self, line: &[u8]) {
        self.outbox.extend_from_slice(line);
        self.outbox.push(b'\n');
        self.write_some();
    }

    pub fn close(&mut self) {
        self.stdin = None;
    }

    pub fn has_input(&mut self) -> bool {
        self.stderr.read_some();
        self.read_some();
        !self.inbox.is_empty()
    }

    pub fn discard_lines(&mut self) {
        self.stderr.read_some();
        loop {
            let is_news = self.read_some();
            while self.take_line().is_some() {}
            if !is_news {
                return;
            }
        }
    }

    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let complete = self.inbox.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        self.inbox[..complete].split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
    }

    pub fn receive(&mut self, until: Instant) -> Incoming {
        loop {
            match self.take_line() {
                Some(line) if line.len() <= self.line_max => return Incoming::Line(line),
                Some(_) => return Incoming::Overlong,
                None => {}
            }
            if self.inbox.len() > self.line_max {
                return Incoming::Overlong;
            }
            if self.ended {
                return Incoming::End;
            }
            let left = until.saturating_duration_since(Instant::now());
            // One last look: an answer that is already in the pipe is not late.
            if left.is_zero() && !self.read_some() {
                return Incoming::Nothing;
            }
            self.wait(left);
            self.write_some();
            // Before stdout: what a child printed before its answer then counts as printed before it.
            self.stderr.read_some();
            self.read_some();
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        // A long line arrives in pieces. Each piece is scanned once, so that the work stays linear.
        let Some(offset) = self.inbox[self.scanned..].iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.inbox.len();
            return None;
        };
        let end = self.scanned + offset;
        let rest = self.inbox.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.inbox, rest);
        line.pop();
        self.scanned = 0;
        Some(line)
    }

    fn wait(&self, left: Duration) {
        let mut ends = vec![PollFd::new(&self.stdout, PollFlags::IN)];
        ends.extend(self.stderr.poll_fd());
        // A pipe with room is always ready: waiting for it with nothing to write would never wait.
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.outbox.is_empty()) {
            ends.push(PollFd::new(stdin, PollFlags::OUT));
        }
        wait_for(&mut ends, left);
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

    /// Whether there was anything.
    fn read_some(&mut self) -> bool {
        let before = self.inbox.len();
        // Bounded, so that a child that never ends its line cannot fill our memory.
        while !self.ended && self.inbox.len() <= self.line_max {
            match self.stdout.read(&mut self.room) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.inbox.extend_from_slice(&self.room[..count]);
                    // The pipe is empty now. Whether it has ended as well shows when it is waited for.
                    if count < self.room.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.ended = true,
            }
        }
        self.inbox.len() > before
    }
}

pub(super) fn wait_for(ends: &mut [PollFd<'_>], left: Duration) {
    let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    // An interrupted poll only means another turn of the caller's loop.
    let _ = poll(ends, Some(&timeout));
}
