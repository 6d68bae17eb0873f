//! Where executors come from: one clean process, fenced in, that forks each of them.
//!
//! The fork server is this program started anew, so it holds nothing of the worker's: no answers, no environment, no
//! descriptors. It has one thread and never runs a kernel, so each executor begins as the first one did, whatever
//! earlier variants made of theirs. Where the system allows it the fork server is the first process of a namespace: when
//! it ends, the kernel ends everything in there.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use evo_protocol::device::DeviceInfo;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use super::clock::ProcessorTimes;
use super::executor;
use super::fences::{self, FenceReport};
use super::wire::{RoomMessage, RoomSocket};
use crate::host::machine;

/// What a worker without fences has in its environment: by it the parent finds what variants leave in sessions of their own.
const RUN_MARK: &str = "EVO_TOOL_RUN";

/// The descriptor of an executor's socket, behind the three that every process has.
const EXECUTOR_SOCKET: i32 = 3;

#[derive(Clone, Debug)]
pub struct RoomOptions {
    /// A program that calls [`serve`] when it gets these arguments.
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ForkOrder {
    /// Starts an executor on the socket that comes along.
    Spawn,
    /// Ends an executor, after it has had so long to end by itself, and tells how it ended.
    Reap { pid: i32, grace_ms: u64 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ForkReply {
    Ready {
        report: FenceReport,
    },
    Spawned {
        pid: i32,
    },
    /// As `waitpid` says it; absent if it had to be killed.
    Reaped {
        status: Option<i32>,
    },
    Failed {
        why: String,
    },
}

#[derive(Debug)]
pub struct ForkServer {
    socket: RoomSocket,
    process: Child,
    report: FenceReport,
}

impl ForkServer {
    /// Starts one. The calling thread must live as long: the fork server ends with it.
    pub fn start(options: &RoomOptions) -> io::Result<ForkServer> {
        let (socket, theirs) = RoomSocket::pair()?;
        let mut command = Command::new(&options.program);
        command.args(&options.arguments).env_clear().stdin(Stdio::from(theirs.into_descriptor()));
        // For libraries that only the user's environment leads to; the executors lose it again, and the mark too, which
        // stays where the kernel looks for it.
        for name in ["LD_LIBRARY_PATH", RUN_MARK] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // What kernels print must not mix with what this process prints on its standard output.
        command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        // SAFETY: the closure makes one system call between fork and exec.
        unsafe { command.pre_exec(|| fences::die_with_parent(None)) };
        let process = command.spawn()?;
        // The command holds a copy of the fork server's end: with it here, its death would go unnoticed.
        drop(command);
        let mut server = ForkServer { socket, process, report: FenceReport::default() };
        match server.receive()?.parse()? {
            ForkReply::Ready { report } => server.report = report,
            other => return Err(strange(&other)),
        }
        Ok(server)
    }

    /// An executor: our end of the socket to it, its number in the fork server's namespace, and its times.
    pub fn spawn(&self) -> io::Result<(RoomSocket, i32, ProcessorTimes)> {
        let (socket, theirs) = RoomSocket::pair()?;
        self.socket.send(&ForkOrder::Spawn, &[theirs.as_fd()])?;
        let message = self.receive()?;
        let times = message.descriptors.first().map(|pidfd| ProcessorTimes::of_process(pidfd.as_fd()));
        match message.parse()? {
            ForkReply::Spawned { pid } => Ok((socket, pid, times.unwrap_or_default())),
            other => Err(strange(&other)),
        }
    }

    /// Ends an executor that may have `grace` to end by itself. Gives how it did, nothing if it did not.
    pub fn reap(&self, pid: i32, grace: Duration) -> io::Result<Option<i32>> {
        let grace_ms = grace.as_millis() as u64;
        self.socket.send(&ForkOrder::Reap { pid, grace_ms }, &[])?;
        match self.receive()?.parse()? {
            ForkReply::Reaped { status } => Ok(status),
            other => Err(strange(&other)),
        }
    }

    fn receive(&self) -> io::Result<RoomMessage> {
        let message = self.socket.receive()?;
        message.ok_or_else(|| io::Error::other("the fork server of executors has ended"))
    }
}

fn strange(reply: &ForkReply) -> io::Error {
    io::Error::other(format!("the fork server says {reply:?}"))
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn fences(options: &RoomOptions) -> io::Result<FenceReport> {
    ForkServer::start(options).map(|server| server.report.clone())
}

/// Serves until the worker is gone: the socket is this process's standard input. Without `sandbox` only the addresses
/// are apart.
pub fn serve(sandbox: bool) -> io::Result<()> {
    fences::close_descriptors_from(3);
    fences::clear_environment();
    // While files can be written.
    fences::end_first();
    // SAFETY: the worker made standard input its socket, and nobody else in this process uses it.
    let socket = RoomSocket::of(unsafe { OwnedFd::from_raw_fd(0) });
    // Looked at before files are out of reach; executors need not look again.
    let info = machine::describe();
    let threads = machine::cores().min(machine::blocks_max());
    let report = match sandbox {
        true => fences::enter(info.memory_bytes, machine::cores() as u64)?,
        false => FenceReport::default(),
    };
    socket.send(&ForkReply::Ready { report: report.clone() }, &[])?;
    while let Some(mut message) = socket.receive()? {
        let mut handle = None;
        let reply = match message.parse()? {
            ForkOrder::Spawn => match message.descriptors.pop() {
                None => ForkReply::Failed { why: "an executor needs a socket".to_string() },
                // SAFETY: this process has one thread, so its child may go on as if it were alone.
                Some(descriptor) => match unsafe { libc::fork() } {
                    -1 => ForkReply::Failed { why: io::Error::last_os_error().to_string() },
                    0 => become_executor(descriptor, &info, threads, report.system_calls),
                    pid => {
                        // It leads to the child from any namespace; nothing before Linux 5.3.
                        handle = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
                        ForkReply::Spawned { pid }
                    }
                },
            },
            ForkOrder::Reap { pid, grace_ms } => {
                ForkReply::Reaped { status: reap(pid, Duration::from_millis(grace_ms)) }
            }
        };
        let beside: Vec<BorrowedFd<'_>> = handle.iter().map(AsFd::as_fd).collect();
        socket.send(&reply, &beside)?;
    }
    Ok(())
}

fn become_executor(descriptor: OwnedFd, info: &DeviceInfo, threads: usize, fenced: bool) -> ! {
    let lived = || -> io::Result<()> {
        fences::die_with_parent(Some(()))?;
        // The folders of libraries, which the loader has taken in.
        // SAFETY: this process has one thread, so nobody reads the environment meanwhile.
        unsafe { libc::clearenv() };
        let given = descriptor.into_raw_fd();
        // SAFETY: dup2 touches no memory. The fork server's own socket goes too: an executor reaches only its worker.
        if given != EXECUTOR_SOCKET && unsafe { libc::dup2(given, EXECUTOR_SOCKET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        fences::close_descriptors_from(EXECUTOR_SOCKET.cast_unsigned() + 1);
        // SAFETY: the descriptors are this process's, and from here on the second is this value's.
        let socket = unsafe {
            libc::close(0);
            RoomSocket::of(OwnedFd::from_raw_fd(EXECUTOR_SOCKET))
        };
        executor::run(socket, info, threads, fenced)
    };
    let code = match lived() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("the executor: {error}");
            70
        }
    };
    // SAFETY: ends the process without running what a variant may have registered.
    unsafe { libc::_exit(code) }
}

fn reap(pid: i32, grace: Duration) -> Option<i32> {
    let until = Instant::now() + grace;
    let mut status = 0;
    loop {
        // SAFETY: waits for a child of this process and writes to a live integer.
        match unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } {
            0 if Instant::now() < until => std::thread::sleep(Duration::from_micros(200)),
            0 => break,
            found => return (found == pid).then_some(status),
        }
    }
    // SAFETY: the child has not been reaped, so the number is still its own.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, &mut status, 0);
    }
    None
}
