//! A pool for whoever compiles one source after another and waits for each: `compile_one` costs a process start and
//! the loading of a compiler each time.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use evo_protocol::binary::{CompileOutcome, KernelSource};
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::error::CompileSetupError;
use super::farm::{CompileFarm, FarmOptions};

/// Sources at once: the one that is waited for, and one that is compiled ahead of its turn.
const JOBS: usize = 2;

pub struct WarmCompiler {
    farm: CompileFarm,
    /// Held by who waits for a source: giving it up cancels all.
    turn: Mutex<()>,
}

impl std::fmt::Debug for WarmCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WarmCompiler").field("toolchain", &self.farm.toolchain()).finish_non_exhaustive()
    }
}

impl WarmCompiler {
    pub fn start(options: &FarmOptions) -> Result<WarmCompiler, CompileSetupError> {
        let options = FarmOptions { jobs: options.jobs.clamp(1, JOBS), ..options.clone() };
        Ok(WarmCompiler { farm: CompileFarm::start(options)?, turn: Mutex::new(()) })
    }

    /// `limit` comes beside the pool's own.
    pub fn compile(&self, source: &KernelSource, limit: Option<Duration>) -> CompileOutcome {
        let first = self.once(source, limit);
        // What may be the machine's doing is asked once more, in a fresh worker.
        match first.as_ref().is_err_and(|verdict| verdict.is_trouble() || verdict.is_in_doubt()) {
            true => self.once(source, limit),
            false => first,
        }
    }

    /// The cache will have the answer then.
    pub fn compile_ahead(&self, source: &KernelSource) {
        let _turn = evo_system::lock(&self.turn);
        self.farm.submit(source.clone(), drop);
    }

    fn once(&self, source: &KernelSource, limit: Option<Duration>) -> CompileOutcome {
        let _turn = evo_system::lock(&self.turn);
        let (sender, receiver) = mpsc::channel();
        self.farm.submit(source.clone(), move |outcome| drop(sender.send(outcome)));
        receiver.recv_timeout(limit.unwrap_or(Duration::MAX)).unwrap_or_else(|error| {
            let (kind, message) = match error {
                RecvTimeoutError::Timeout => {
                    self.farm.cancel();
                    let seconds = limit.unwrap_or_default().as_secs_f64();
                    let message = format!("the compiler did not finish within {seconds:.1} s");
                    (VerdictKind::CompileTimeout, message)
                }
                RecvTimeoutError::Disconnected => {
                    (VerdictKind::HarnessError, "the compile farm ended early".to_string())
                }
            };
            Err(Box::new(Verdict::new(kind, message)))
        })
    }
}

pub fn compile_one(options: &FarmOptions, source: KernelSource) -> Result<CompileOutcome, CompileSetupError> {
    let options = FarmOptions { jobs: 1, ..options.clone() };
    Ok(WarmCompiler::start(&options)?.compile(&source, None))
}

/// evo's own kernels (helpers of the CUDA device, built-in references) for a farm's target, kept in its cache.
pub fn own_kernels(farm: &FarmOptions, source: KernelSource) -> Result<PathBuf, CompileSetupError> {
    let (cache, toolbox) = (farm.cache.clone(), farm.toolbox.clone());
    let options = FarmOptions { cache, toolbox, ..FarmOptions::new(farm.kind, &farm.arch) };
    match compile_one(&options, source)? {
        Ok(binary) => Ok(binary.path),
        Err(verdict) => Err(CompileSetupError::Support {
            arch: farm.arch.clone(),
            message: format!("{}: {}", verdict.label(), verdict.message),
        }),
    }
}
