//! Starting one compile worker: its settings, its greeting, and what is wrong when it does not greet.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use evo_space::genome::ContentHash;

use super::cache::Cache;
use super::child::{CompileChild, Group, Loss};
use super::error::CompileSetupError;
use super::options::FarmOptions;
use super::toolbox::Toolbox;
use super::toolchain::Found;
use super::wire::{self, Answer, Order, Setup};

/// Longest wait until a worker is set up; for the first one it includes precompiling the host header.
const SETUP_DEADLINE: Duration = Duration::from_secs(60);

/// A worker that is ready.
pub struct Worker {
    pub child: CompileChild,
    pub toolchain: String,
    pub fingerprint: ContentHash,
}

/// Everything needed to start a worker.
#[derive(Clone)]
pub struct Starter {
    pub program: PathBuf,
    pub options: FarmOptions,
    pub found: Found,
    pub cache: Cache,
}

impl Starter {
    /// Starts a worker in `group` and waits until its compiler is loaded.
    pub fn start(&self, group: &Group) -> Result<Worker, CompileSetupError> {
        let failed = |reason: String| CompileSetupError::Worker {
            program: self.program.display().to_string(),
            reason,
        };
        let scratch = self.cache.scratch()?;
        let setup = Setup {
            version: wire::VERSION,
            kind: self.options.kind,
            arch: self.options.arch.clone(),
            found: self.found.clone(),
            cache: self.options.cache.clone(),
            scratch: scratch.path().to_path_buf(),
            memory_bytes: self.options.memory_bytes,
        };
        let mut child =
            CompileChild::start(&self.program, self.options.kind, group, scratch).map_err(failed)?;
        match child.ask(&Order::Setup(Box::new(setup)), Instant::now() + SETUP_DEADLINE) {
            Ok(Answer::Ready { toolchain, fingerprint }) => Ok(Worker { child, toolchain, fingerprint }),
            Ok(Answer::Refused { message }) => Err(CompileSetupError::Refused(message)),
            Ok(Answer::Done { .. }) => Err(failed("it answers out of turn".to_string())),
            Err(Loss::Deadline) => Err(failed(format!("not ready within {} s", SETUP_DEADLINE.as_secs()))),
            Err(Loss::Garbled(reason)) => Err(failed(format!("its answer cannot be read: {reason}"))),
            Err(Loss::Closed) => Err(failed(match child.end() {
                Some(death) => format!("{}: {}", death.status, death.log.trim()),
                None => "it is gone".to_string(),
            })),
        }
    }
}

/// The program that becomes a worker: this one, unless the environment names another.
pub fn worker_program(toolbox: &Toolbox) -> Result<PathBuf, CompileSetupError> {
    match &toolbox.program {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().map_err(|error| CompileSetupError::Worker {
            program: "evo".to_string(),
            reason: format!("cannot tell where this program is: {error}"),
        }),
    }
}
