//! Starting one compile worker: its settings, its greeting, and the error when no greeting comes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceKind;
use evo_space::genome::ContentHash;

use super::cache::Cache;
use super::diagnose;
use super::error::CompileSetupError;
use super::options::FarmOptions;
use super::serve::{CompileAnswer, CompileOrder, WIRE_VERSION};
use super::toolbox::Toolbox;
use super::toolchain::{FoundCompiler, WorkerSetup};
use evo_system::process::{
    self, CappedLog, Conversation, Death, DeathHow, PATIENCE, ProcessGroup, ResourceLimits,
};
use evo_system::scratch::ScratchFolder;

/// Longest wait until a worker is set up. The first one on a machine precompiles the host header, and all of them
/// may start at once on a busy machine.
const SETUP_DEADLINE: Duration = Duration::from_secs(60);

const ANSWER_MAX: usize = 4 << 20;

pub struct CompileProcess {
    conversation: Conversation<CompileOrder, CompileAnswer>,
    // Removed when the worker is gone.
    _scratch: ScratchFolder,
}

impl CompileProcess {
    /// Waits for `limit`, and for as long as the worker waits for a processor.
    pub fn ask(&mut self, order: &CompileOrder, limit: Duration) -> Result<CompileAnswer, Box<Death>> {
        // The log of a death is about this order alone.
        self.conversation.clear_log();
        self.conversation.ask_patiently(order, limit, PATIENCE).map_err(Box::new)
    }
}

#[derive(Clone)]
pub struct WorkerStarter {
    pub program: PathBuf,
    pub options: FarmOptions,
    pub found: FoundCompiler,
    pub cache: Cache,
}

impl WorkerStarter {
    /// With the name and the fingerprint of its toolchain. `group` can end the worker from the start.
    pub fn start(
        &self,
        group: &ProcessGroup,
    ) -> Result<(CompileProcess, String, ContentHash), CompileSetupError> {
        let failed = |reason: String| CompileSetupError::Worker {
            program: self.program.display().to_string(),
            reason,
        };
        let scratch = self.cache.scratch()?;
        let setup = WorkerSetup {
            kind: self.options.kind,
            arch: self.options.arch.clone(),
            found: self.found.clone(),
            cache: self.options.cache.clone(),
            scratch: scratch.path().to_path_buf(),
            is_confined: self.options.checks.include(GateCheck::IncludePaths),
        };
        let mut command = Command::new(&self.program);
        command.args(["worker", "--compile", self.options.kind.as_str()]);
        // A thread's own arena takes 64 MiB of addresses at a time, which count towards the limit and are hardly used: a
        // compiler would run out of memory long before it had used what it may.
        command.env("MALLOC_ARENA_MAX", "1");
        let memory_bytes = self.options.memory_bytes;
        // Compilers yield to the device's lane and to the engine, which are few and must not wait. On the host device kernels
        // are timed on the compilers' own cores, where a compiler beside a timed thread gets a tenth.
        let niceness = if self.options.kind == DeviceKind::Host { 10 } else { 5 };
        process::limit(&mut command, ResourceLimits { memory_bytes, niceness, ..ResourceLimits::default() });
        let log = CappedLog::new(diagnose::LOG_MAX);
        let conversation = Conversation::start(command, WIRE_VERSION, group.clone(), log)
            .map_err(|source| match process::is_exhausted(&source) {
                true => CompileSetupError::Exhausted { what: "a compile worker".to_string(), source },
                false => failed(source.to_string()),
            })?
            .with_line_max(ANSWER_MAX);
        let mut process = CompileProcess { conversation, _scratch: scratch };
        match process.ask(&CompileOrder::Setup(Box::new(setup)), SETUP_DEADLINE) {
            Ok(CompileAnswer::Ready { toolchain, fingerprint }) => Ok((process, toolchain, fingerprint)),
            Ok(CompileAnswer::Refused { message, hint }) => Err(CompileSetupError::Refused { message, hint }),
            Ok(CompileAnswer::Done { .. }) => Err(failed("it answers out of turn".to_string())),
            Err(death) => Err(failed(match &death.how {
                DeathHow::Deadline { limit } => format!("not ready within {} s", limit.as_secs()),
                DeathHow::Exit(status) => format!("{status}: {}", death.log.text().trim()),
                found => format!("its answer cannot be read: {found}"),
            })),
        }
    }
}

pub fn worker_program(toolbox: &Toolbox) -> Result<PathBuf, CompileSetupError> {
    let named = toolbox.program.clone().map_or_else(process::worker_program, Ok);
    named.map_err(|error| CompileSetupError::Worker {
        program: "evo".to_string(),
        reason: format!("cannot tell where this program is: {error}"),
    })
}
