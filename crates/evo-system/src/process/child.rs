//! One child process from its start to its end: signals for its whole group, and a reaping that counts its
//! memory.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::spawn::spawn;
use crate::lock;

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
pub(super) struct Remains {
    /// Absent when the child could not be reaped.
    pub status: Option<ExitStatus>,
    /// Largest resident size of the child or of a process that it waited for, bytes.
    pub memory_peak: u64,
}

/// A child that leads its own process group. Dropping it kills the group and reaps the child.
#[derive(Debug)]
pub(super) struct ChildProcess {
    process: Child,
    pid: Pid,
    group: ProcessGroup,
    remains: Option<Remains>,
}

impl ChildProcess {
    pub fn start(command: Command, group: ProcessGroup) -> io::Result<ChildProcess> {
        let process = spawn(command)?;
        let pid = Pid::from_raw(process.id() as i32).ok_or_else(|| io::Error::other("it has no number"))?;
        *lock(&group.0) = Some(pid);
        Ok(ChildProcess { process, pid, group, remains: None })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.process.stdin.take(), self.process.stdout.take(), self.process.stderr.take())
    }

    /// The process is left to be reaped later: its number must stay taken until its group has been killed.
    pub fn has_exited(&self) -> bool {
        if self.remains.is_some() {
            return true;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error counts as an end too: the child is then no longer ours to wait for.
        !matches!(rustix::process::waitid(WaitId::Pid(self.pid), options), Ok(None))
    }

    pub fn wait(&self, until: Instant) {
        // Polled, because a blocking wait has no deadline.
        while !self.has_exited() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn bury(&mut self) -> Remains {
        if let Some(remains) = self.remains {
            return remains;
        }
        // The lock is held across the kill, so that no other thread signals the number once it is free again.
        let mut group = lock(&self.group.0);
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        // From here on nothing else may send signals to this number. A handle that already serves the next
        // child keeps it.
        if *group == Some(self.pid) {
            *group = None;
        }
        // Released before the wait, which may take as long as `REAP_LIMIT`.
        drop(group);
        let remains = reap(self.pid);
        *self.remains.insert(remains)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.bury();
    }
}

fn reap(pid: Pid) -> Remains {
    let until = Instant::now() + REAP_LIMIT;
    loop {
        match wait_with_usage(pid.as_raw_nonzero().get(), libc::WNOHANG) {
            Ok(Some((status, memory_peak))) => return Remains { status: Some(status), memory_peak },
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_micros(500)),
            Ok(None) | Err(_) => return Remains::default(),
        }
    }
}

/// Waits for a child: its status, and the largest resident size of it or of a process that it waited for, bytes. The
/// standard library tells the status alone.
pub fn wait_measured(child: Child) -> io::Result<(ExitStatus, u64)> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    loop {
        match wait_with_usage(pid, 0) {
            Ok(Some(end)) => return Ok(end),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// `wait4`, which reports the peak of memory, bytes, and with `WNOHANG` can be given up.
fn wait_with_usage(pid: i32, options: i32) -> io::Result<Option<(ExitStatus, u64)>> {
    let mut status = 0;
    // SAFETY: all-zero is a valid `rusage`, a plain structure of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: two live structures; the process is our child and nothing else waits for it.
    let reaped = unsafe { libc::wait4(pid, &mut status, options, &mut usage) };
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
