//! One compile worker as its farm sees it: started, asked, and killed with everything it started.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use evo_protocol::device::DeviceKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::diagnose;
use super::drain::Drain;
use super::wire::{Answer, Order};

/// The process group of a running worker, shared with whoever may have to end it. A group in here is
/// never reaped, so its number cannot have passed to somebody else.
pub type Group = Arc<Mutex<Option<Pid>>>;

/// Why a worker gave no answer.
#[derive(Debug)]
pub enum Loss {
    /// The deadline passed.
    Deadline,
    /// It closed its side: it died, or is about to.
    Closed,
    /// It wrote what is no answer.
    Garbled(String),
}

/// How a worker ended.
#[derive(Debug)]
pub struct Death {
    pub status: ExitStatus,
    /// Largest resident size, bytes.
    pub memory_peak: u64,
    /// What it printed last.
    pub log: String,
}

/// A running worker.
pub struct CompileChild {
    group: Group,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    pending: Vec<u8>,
    log: Drain,
    // Removed when the worker is gone.
    _scratch: TempDir,
}

/// The number under which the kernel knows the calling thread's child.
fn pid_of(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

impl CompileChild {
    /// Starts a worker in a process group of its own.
    pub fn start(
        program: &Path,
        kind: DeviceKind,
        group: &Group,
        scratch: TempDir,
    ) -> Result<CompileChild, String> {
        let mut child = Command::new(program)
            .args(["worker", "--compile", kind.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| error.to_string())?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("its pipes are missing".to_string());
        };
        *group.lock().unwrap_or_else(PoisonError::into_inner) = pid_of(child.id());
        Ok(CompileChild {
            group: Arc::clone(group),
            stdin,
            stdout,
            stderr: Some(stderr),
            pending: Vec::new(),
            log: Drain::new(diagnose::LOG_MAX),
            _scratch: scratch,
        })
    }

    /// Sends an order and waits for its answer.
    pub fn ask(&mut self, order: &Order, deadline: Instant) -> Result<Answer, Loss> {
        self.log.clear();
        let mut line = serde_json::to_vec(order).map_err(|error| Loss::Garbled(error.to_string()))?;
        line.push(b'\n');
        // The worker reads in a thread of its own, so this cannot block for long.
        self.stdin.write_all(&line).map_err(|_| Loss::Closed)?;
        let line = self.next_line(deadline)?;
        serde_json::from_slice(&line).map_err(|error| Loss::Garbled(error.to_string()))
    }

    /// Ends the worker with its whole group and says how it ended.
    pub fn end(mut self) -> Option<Death> {
        let (status, memory_peak) = self.kill_and_reap()?;
        if let Some(mut stderr) = self.stderr.take() {
            self.drain_rest(&mut stderr);
        }
        Some(Death { status, memory_peak, log: self.log.text() })
    }

    fn next_line(&mut self, deadline: Instant) -> Result<Vec<u8>, Loss> {
        let mut buffer = [0u8; 16 * 1024];
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let rest = self.pending.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.pending, rest));
            }
            let (answered, talked) = self.wait_readable(deadline)?;
            if talked {
                self.read_stderr(&mut buffer);
            }
            if answered {
                match self.stdout.read(&mut buffer) {
                    Ok(0) | Err(_) => return Err(Loss::Closed),
                    Ok(length) => self.pending.extend_from_slice(&buffer[..length]),
                }
            }
        }
    }

    /// Waits until stdout or stderr can be read; no longer than the deadline.
    fn wait_readable(&self, deadline: Instant) -> Result<(bool, bool), Loss> {
        let left = deadline.checked_duration_since(Instant::now()).ok_or(Loss::Deadline)?;
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let mut watched = vec![PollFd::new(&self.stdout, PollFlags::IN)];
        watched.extend(self.stderr.as_ref().map(|stderr| PollFd::new(stderr, PollFlags::IN)));
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) => Err(Loss::Deadline),
            Ok(_) => {
                let ready =
                    |index: usize| watched.get(index).is_some_and(|entry| !entry.revents().is_empty());
                Ok((ready(0), ready(1)))
            }
            Err(rustix::io::Errno::INTR) => Ok((false, false)),
            Err(_) => Err(Loss::Closed),
        }
    }

    fn read_stderr(&mut self, buffer: &mut [u8]) {
        let Some(stderr) = &mut self.stderr else { return };
        match stderr.read(buffer) {
            Ok(0) | Err(_) => self.stderr = None,
            Ok(length) => self.log.push(&buffer[..length]),
        }
    }

    /// Reads what a dead worker left in the pipe, without waiting for somebody who escaped its group.
    fn drain_rest(&mut self, stderr: &mut ChildStderr) {
        let mut buffer = [0u8; 16 * 1024];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        while poll(&mut [PollFd::new(stderr, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0) {
            match stderr.read(&mut buffer) {
                Ok(length) if length > 0 => self.log.push(&buffer[..length]),
                _ => return,
            }
        }
    }

    fn kill_and_reap(&mut self) -> Option<(ExitStatus, u64)> {
        let mut slot = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let group = slot.take()?;
        let _ = kill_process_group(group, Signal::KILL);
        drop(slot);
        let mut status = 0;
        // SAFETY: all-zero is a valid `rusage`, a plain structure of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: two live structures; the process is our child and nobody else waits for it.
        let reaped = unsafe { libc::wait4(group.as_raw_nonzero().get(), &mut status, 0, &mut usage) };
        let kilobytes = u64::try_from(usage.ru_maxrss).unwrap_or(0);
        (reaped > 0).then(|| (ExitStatus::from_raw(status), kilobytes * 1024))
    }
}

impl Drop for CompileChild {
    fn drop(&mut self) {
        self.kill_and_reap();
    }
}

/// Ends a worker from another thread; its own thread reaps it.
pub fn kill(group: &Group) {
    if let Some(group) = *group.lock().unwrap_or_else(PoisonError::into_inner) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
