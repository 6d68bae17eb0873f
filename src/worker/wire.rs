//! The child's end of the protocol: frames on the real stdout, everything else it prints elsewhere.
//!
//! At the start the real stdout moves to a private descriptor and descriptor 1 becomes a copy of
//! stderr, so that no kernel's `printf` and no library can ever write between two frames.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Stdin, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use evo_protocol::worker::{Frame, PROTOCOL_VERSION, Phase, Request, Response};
use rustix::event::{PollFd, PollFlags, poll};

/// The number of the request being served: a fault handler needs it without a lock.
pub static REQUEST: AtomicU64 = AtomicU64::new(0);

/// After stdin is closed, work under way has this long before the process ends regardless.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);

/// Frames in, frames out.
#[derive(Debug)]
pub struct Wire {
    input: BufReader<Stdin>,
    output: File,
}

impl Wire {
    /// Takes over stdin and stdout, and ends the process when the parent goes away.
    pub fn take_over() -> io::Result<Wire> {
        let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
        redirect_stdout()?;
        die_with_parent();
        Ok(Wire { input: BufReader::new(io::stdin()), output: File::from(output) })
    }

    /// The descriptor of the frames, for a fault handler.
    pub fn descriptor(&self) -> i32 {
        self.output.as_raw_fd()
    }

    /// The next request; `None` once stdin is closed.
    pub fn receive(&mut self) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let frame: Frame<Request> = serde_json::from_str(&line).map_err(io::Error::other)?;
        if frame.v != PROTOCOL_VERSION {
            let message = format!(
                "the parent speaks version {} of the protocol, this worker {PROTOCOL_VERSION}",
                frame.v
            );
            return Err(io::Error::other(message));
        }
        REQUEST.store(frame.id, Ordering::SeqCst);
        Ok(Some(frame.body))
    }

    /// Sends a frame with the current request's number, in one write.
    pub fn send(&mut self, body: &Response) -> io::Result<()> {
        let frame = Frame { v: PROTOCOL_VERSION, id: REQUEST.load(Ordering::SeqCst), body };
        let mut line = serde_json::to_vec(&frame).map_err(io::Error::other)?;
        line.push(b'\n');
        self.output.write_all(&line)
    }

    /// Says where the child is. A parent that no longer listens shows at the answer.
    pub fn phase(&mut self, phase: Phase, detail: &str) {
        let _ = self.send(&Response::Phase { phase, detail: detail.to_string() });
    }
}

/// Makes descriptor 1 a copy of descriptor 2.
fn redirect_stdout() -> io::Result<()> {
    let _ = io::stdout().flush();
    // SAFETY: dup2 on the two standard descriptors touches no memory; Rust's stdout keeps writing to
    // descriptor 1, which stays open throughout.
    if unsafe { libc::dup2(2, 1) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A worker started on this machine dies by signal with its parent; one at the end of an `ssh` or
/// `srun` sees its stdin close, and ends even in the middle of a launch.
fn die_with_parent() {
    // The parent's own request to the kernel covers the usual case; this one covers other starters.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let watch = || {
        // SAFETY: descriptor 0 is open for the life of the process; the copy is never closed twice.
        let stdin = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(0) });
        loop {
            let mut ends = [PollFd::new(&*stdin, PollFlags::empty())];
            let polled = poll(&mut ends, None);
            if polled.is_ok() && ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                thread::sleep(ORPHAN_GRACE);
                // SAFETY: `_exit` ends the process without running destructors, which could wait for
                // a kernel that never ends.
                unsafe { libc::_exit(0) };
            }
        }
    };
    let _ = thread::Builder::new().name("stdin watch".into()).spawn(watch);
}
