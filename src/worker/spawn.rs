//! Starts worker processes so that they die with us.
//!
//! A worker leads a process group of its own (one signal ends it with its children; Ctrl-C at the
//! terminal does not reach it) and asks the kernel for SIGKILL when its parent dies. That "parent" is
//! the *thread* that started it, so all workers are started by one thread that never ends.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::{io, thread};

type Order = (Command, Sender<io::Result<Child>>);

/// Starts a command with piped stdio in its own process group; it is killed when this process ends,
/// however it ends.
pub fn spawn(words: &[String]) -> io::Result<Child> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the worker command is empty"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    die_with_parent(&mut command);
    let (answer, answered) = channel();
    let gone = || io::Error::other("the thread that starts workers is gone");
    let spawner = spawner().lock().map_err(|_| gone())?;
    spawner.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

/// The one thread that starts workers.
fn spawner() -> &'static Mutex<Sender<Order>> {
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (send, orders) = channel::<Order>();
        thread::Builder::new()
            .name("spawner".into())
            .spawn(move || {
                for (mut command, answer) in orders {
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("the system can start one thread");
        Mutex::new(send)
    })
}

fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let set = move || {
        // SAFETY: prctl and getppid are async-signal-safe and take no pointers here.
        let orphaned = unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::getppid() as u32 != parent
        };
        // The parent may have died before the request was made; then no signal would ever come.
        if orphaned { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    };
    // SAFETY: the closure runs between fork and exec and only makes the two system calls above.
    unsafe {
        command.pre_exec(set);
    }
}
