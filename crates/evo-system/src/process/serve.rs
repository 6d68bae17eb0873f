//! The worker's side: the loop that answers requests, and the end of a worker whose parent is gone.
//!
//! At the start the real stdout moves to a private descriptor and descriptor 1 becomes a copy of stderr, so
//! that no kernel's `printf` and no compiler library can ever write between two frames.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Stdin, Write};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use evo_protocol::worker::Frame;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{self, Signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::lock;

/// A fault handler needs the number of the request without a lock.
pub static REQUEST: AtomicU64 = AtomicU64::new(0);

/// After stdin is closed, work under way has this long before the worker ends regardless.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphaned {
    Exits,
    /// With its whole process group, so that no compiler it started goes on. Only a worker that leads its
    /// group does so, not one in the group of a shell in which a person tries it.
    EndsGroup,
}

#[derive(Debug)]
pub struct ParentLink<Q, R> {
    input: BufReader<Stdin>,
    output: Arc<Mutex<File>>,
    descriptor: i32,
    version: u32,
    lease: Option<String>,
    types: PhantomData<fn(R) -> Q>,
}

impl<Q: DeserializeOwned, R: Serialize> ParentLink<Q, R> {
    /// Ends the process when the parent goes away.
    pub fn take_over(version: u32, orphaned: Orphaned) -> io::Result<ParentLink<Q, R>> {
        let _ = io::stdout().flush();
        // Close-on-exec, so that no process that the worker starts can hold or write the protocol's pipe.
        let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
        // SAFETY: dup2 on the two standard descriptors touches no memory; Rust's stdout keeps writing to
        // descriptor 1, which stays open throughout.
        if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let leads_group = process::getpgrp() == process::getpid();
        die_with_parent(orphaned == Orphaned::EndsGroup && leads_group)?;
        let (input, output) = (BufReader::new(io::stdin()), File::from(output));
        let descriptor = output.as_raw_fd();
        let output = Arc::new(Mutex::new(output));
        Ok(ParentLink { input, output, descriptor, version, lease: None, types: PhantomData })
    }

    /// Every frame carries the nonce from now on, and a thread sends `beat` at this pace, whatever the other threads
    /// do.
    pub fn begin_lease(&mut self, nonce: String, pace: Duration, beat: &R) -> io::Result<()> {
        let beat = serde_json::to_value(beat).map_err(io::Error::other)?;
        let (output, version, lease) = (Arc::clone(&self.output), self.version, Some(nonce.clone()));
        self.lease = Some(nonce);
        let send = move || {
            loop {
                let frame = Frame {
                    v: version,
                    id: REQUEST.load(Ordering::SeqCst),
                    lease: lease.clone(),
                    body: &beat,
                };
                if write_frame(&output, &frame).is_err() {
                    return;
                }
                thread::sleep(pace);
            }
        };
        thread::Builder::new().name("signs of life".into()).spawn(send).map(drop)
    }

    /// Answers requests until stdin ends or there is no answer. An error means that a pipe to the parent is broken, so
    /// no answer can be sent.
    pub fn serve(mut self, mut answer: impl FnMut(Q) -> Option<R>) -> io::Result<()> {
        while let Some(request) = self.receive()? {
            let Some(response) = answer(request) else { break };
            self.send(&response)?;
        }
        Ok(())
    }

    /// For a fault handler.
    pub fn descriptor(&self) -> i32 {
        self.descriptor
    }

    /// `None` once stdin is closed.
    pub fn receive(&mut self) -> io::Result<Option<Q>> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let frame: Frame<Q> = serde_json::from_str(&line).map_err(io::Error::other)?;
        if frame.v != self.version {
            let (theirs, own) = (frame.v, self.version);
            let message = format!("the parent speaks version {theirs} of the protocol, this worker {own}");
            return Err(io::Error::other(message));
        }
        REQUEST.store(frame.id, Ordering::SeqCst);
        Ok(Some(frame.body))
    }

    pub fn send(&mut self, body: &R) -> io::Result<()> {
        let (id, lease) = (REQUEST.load(Ordering::SeqCst), self.lease.clone());
        write_frame(&self.output, &Frame { v: self.version, id, lease, body })
    }
}

/// In one write, which no other thread's can interrupt.
fn write_frame<T: Serialize>(output: &Mutex<File>, frame: &Frame<T>) -> io::Result<()> {
    let mut line = serde_json::to_vec(frame).map_err(io::Error::other)?;
    line.push(b'\n');
    lock(output).write_all(&line)
}

/// A worker started on this machine dies by a signal from the kernel with its parent; one at the end of an
/// `ssh` or `srun` sees its stdin close, and ends even in the middle of a launch.
fn die_with_parent(with_group: bool) -> io::Result<()> {
    // The parent asked the kernel for SIGKILL on our behalf when it started us, which would leave our
    // children alive.
    let signal = if with_group { Signal::TERM } else { Signal::KILL };
    if with_group {
        // SAFETY: the handler makes one system call, which is safe in a signal handler.
        unsafe { signal_hook::low_level::register(libc::SIGTERM, end_group)? };
    }
    process::set_parent_process_death_signal(Some(signal))?;
    let watch = move || {
        let stdin = io::stdin();
        loop {
            // No events are asked for: a hang-up is reported all the same, and reading here would take
            // requests away from `receive`.
            let mut ends = [PollFd::new(&stdin, PollFlags::empty())];
            let polled = poll(&mut ends, None);
            if polled.is_ok() && ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                thread::sleep(ORPHAN_GRACE);
                if with_group {
                    end_group();
                }
                // SAFETY: `_exit` ends the process without running destructors, which could wait for a kernel
                // that never ends.
                unsafe { libc::_exit(0) };
            }
        }
    };
    thread::Builder::new().name("stdin watch".into()).spawn(watch).map(drop)
}

fn end_group() {
    let _ = process::kill_current_process_group(Signal::KILL);
}
