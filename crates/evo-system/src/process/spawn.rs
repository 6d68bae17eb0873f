//! Starting processes so that they die with us.
//!
//! A child leads a process group of its own (one signal ends it with its children; Ctrl-C at the terminal
//! does not reach it) and asks the kernel for SIGKILL when its parent dies. To the kernel, that parent is the
//! *thread* that started the child, so one thread that never ends starts all of them.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::{env, io, thread};

use rustix::process::{Resource, Rlimit, Signal};

use crate::lock;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Address space of each process, bytes; 0 for no limit.
    pub memory_bytes: u64,
    /// What each process may write to in memory, bytes; 0 for no limit. It does not include the program's own code.
    pub data_bytes: u64,
    pub niceness: i32,
}

pub fn limit(command: &mut Command, limits: ResourceLimits) {
    let apply = move || {
        // The hard limit too, so that the child cannot raise its own again.
        let exactly = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
        // Setting a limit fails only where the machine has set a lower one already, which is as good.
        let _ = rustix::process::setrlimit(Resource::Core, exactly(0));
        if limits.memory_bytes > 0 {
            let _ = rustix::process::setrlimit(Resource::As, exactly(limits.memory_bytes));
        }
        if limits.data_bytes > 0 {
            let _ = rustix::process::setrlimit(Resource::Data, exactly(limits.data_bytes));
        }
        if limits.niceness != 0 {
            let _ = rustix::process::nice(limits.niceness);
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes only the system calls above.
    unsafe {
        command.pre_exec(apply);
    }
}

/// In bytes; 0 for none.
pub fn memory_limit() -> u64 {
    rustix::process::getrlimit(Resource::As).current.unwrap_or(0)
}

/// `$EVO_WORKER_PROGRAM`, otherwise this program.
pub fn worker_program() -> io::Result<PathBuf> {
    match env::var_os("EVO_WORKER_PROGRAM").filter(|value| !value.is_empty()) {
        Some(program) => Ok(PathBuf::from(program)),
        None => env::current_exe(),
    }
}

pub fn spawn(mut command: Command) -> io::Result<Child> {
    command.process_group(0);
    die_with_parent(&mut command);
    let (answer, answered) = channel();
    let gone = || io::Error::other("the thread that starts processes is gone");
    spawner()?.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

type SpawnRequest = (Command, Sender<io::Result<Child>>);

/// Where the system starts no thread, the next caller tries again.
fn spawner() -> io::Result<Sender<SpawnRequest>> {
    static SPAWNER: Mutex<Option<Sender<SpawnRequest>>> = Mutex::new(None);
    let mut spawner = lock(&SPAWNER);
    if let Some(running) = &*spawner {
        return Ok(running.clone());
    }
    let (send, requests) = channel::<SpawnRequest>();
    thread::Builder::new().name("spawner".into()).spawn(move || {
        for (mut command, answer) in requests {
            let _ = answer.send(command.spawn());
        }
    })?;
    Ok(spawner.insert(send).clone())
}

pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory)
}

pub const EXHAUSTED_HINT: &str =
    "this user may start no more processes and threads, or memory is used up: see `ulimit -u` and `free`";

fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let request = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the request was made; then no signal would ever come.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: the closure runs between fork and exec and makes only the two system calls above.
    unsafe {
        command.pre_exec(request);
    }
}
