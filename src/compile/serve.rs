//! The loop inside a compile worker: requests on stdin, outcomes on stdout, one JSON object a line.
//!
//! The worker is its farm's to kill. Should the farm die first, the worker ends its whole process group,
//! so that no compiler it started goes on: by a signal from the kernel, and by the end of stdin.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use evo_protocol::binary::{Binary, CompileOutcome, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Verdict, VerdictKind};
use rustix::process::{self, Resource, Rlimit, Signal};

use super::cache::Cache;
use super::toolchain::Toolchain;
use super::wire::{self, Answer, Order, Setup};
use crate::compile::compiled::Compiled;

/// Compilers yield to the device's lane and to the engine, which are few and must not wait.
const NICENESS: i32 = 5;

/// Serves until stdin ends. Errors are of the pipes: there is nobody left to answer.
pub fn run() -> io::Result<()> {
    let mut answers = take_stdout()?;
    let busy = Arc::new(AtomicBool::new(false));
    follow_parent()?;
    let (sender, orders) = mpsc::channel();
    let watched = Arc::clone(&busy);
    std::thread::spawn(move || read_orders(&sender, &watched));
    let setup = match orders.recv() {
        Ok(Order::Setup(setup)) => setup,
        Ok(Order::Compile(_)) => return Err(io::Error::other("the first line is no setup")),
        Err(_) => return Ok(()),
    };
    match prepare(&setup) {
        Ok((toolchain, cache)) => {
            let ready = Answer::Ready {
                toolchain: toolchain.name().to_string(),
                fingerprint: toolchain.fingerprint().clone(),
            };
            send(&mut answers, &ready)?;
            serve(&orders, &mut answers, &busy, &Bench { setup: &setup, toolchain, cache })
        }
        Err(message) => send(&mut answers, &Answer::Refused { message }),
    }
}

/// Everything a worker works with.
struct Bench<'setup> {
    setup: &'setup Setup,
    toolchain: Toolchain,
    cache: Cache,
}

fn serve(
    orders: &Receiver<Order>,
    answers: &mut File,
    busy: &AtomicBool,
    bench: &Bench<'_>,
) -> io::Result<()> {
    for order in orders {
        let Order::Compile(request) = order else { return Err(io::Error::other("set up twice")) };
        busy.store(true, Ordering::SeqCst);
        let outcome = bench.compile(&request.source);
        busy.store(false, Ordering::SeqCst);
        send(answers, &Answer::Done { outcome })?;
    }
    Ok(())
}

impl Bench<'_> {
    fn compile(&self, source: &KernelSource) -> CompileOutcome {
        let Compiled { bytes, code_hash, resources, mut log, log_truncated, compile_ms } =
            self.toolchain.compile(source, &self.setup.arch)?;
        let extension = match self.setup.kind {
            DeviceKind::Cuda => "cubin",
            DeviceKind::Host | DeviceKind::Replay => "so",
        };
        let (hash, path) = self.cache.store(&bytes, extension).map_err(|error| {
            let message = format!("cannot write the compile cache `{}`: {error}", self.setup.cache.display());
            Verdict::new(VerdictKind::HarnessError, message).with_cause("cache")
        })?;
        if log_truncated {
            log.push_str("\n[log_truncated]");
        }
        let toolchain = self.toolchain.name().to_string();
        Ok(Binary { hash, code_hash, path, resources, toolchain, compile_ms, cached: false, log })
    }
}

fn prepare(setup: &Setup) -> Result<(Toolchain, Cache), String> {
    if setup.version != wire::VERSION {
        return Err(format!(
            "compile worker speaks version {}, farm speaks {}",
            wire::VERSION,
            setup.version
        ));
    }
    // A limit that cannot be set is a limit that the machine sets lower already.
    let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    if setup.memory_bytes > 0 {
        let bytes = Some(setup.memory_bytes);
        let _ = process::setrlimit(Resource::As, Rlimit { current: bytes, maximum: bytes });
    }
    let _ = process::nice(NICENESS);
    let cache = Cache::open(&setup.cache).map_err(|error| error.to_string())?;
    let toolchain = Toolchain::open(&setup.found, &setup.arch, &setup.cache, &setup.scratch);
    Ok((toolchain.map_err(|error| error.to_string())?, cache))
}

/// Keeps stdout for answers; whatever a compiler library prints goes to stderr.
fn take_stdout() -> io::Result<File> {
    let own = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    // SAFETY: both descriptors are open; nothing in this process owns stdout as a file.
    if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(File::from(own))
}

fn send(answers: &mut File, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    answers.write_all(&line)
}

/// Asks the kernel for a signal when the farm's thread dies, and ends the group on it.
fn follow_parent() -> io::Result<()> {
    if !leads_its_group() {
        return Ok(());
    }
    // SAFETY: the handler makes one system call, which is safe in a signal handler.
    unsafe {
        signal_hook::low_level::register(libc::SIGTERM, || {
            let _ = process::kill_current_process_group(Signal::KILL);
        })?;
    }
    process::set_parent_process_death_signal(Some(Signal::TERM))?;
    Ok(())
}

/// Only a group of our own may be killed as a whole, not that of a shell in which a person tries this.
fn leads_its_group() -> bool {
    process::getpgrp() == process::getpid()
}

fn read_orders(orders: &Sender<Order>, busy: &AtomicBool) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(order) => {
                if orders.send(order).is_err() {
                    return;
                }
            }
            Err(error) => {
                eprintln!("compile worker: cannot read an order: {error}");
                break;
            }
        }
    }
    // A worker at rest ends by itself, now that the channel closes.
    if busy.load(Ordering::SeqCst) && leads_its_group() {
        let _ = process::kill_current_process_group(Signal::KILL);
    }
}
