//! A pool for whoever compiles one source after another and waits for each: `compile_one` costs a process start and
//! the loading of a compiler each time.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evo_protocol::binary::{CompileOutcome, KernelSource};
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::error::CompileSetupError;
use super::farm::{CompileFarm, OnDone};
use super::options::FarmOptions;

/// Sources at once: the one that is waited for, and one that is compiled ahead of its turn.
const JOBS: usize = 2;

pub struct WarmCompiler {
    farm: CompileFarm,
    answers: Mutex<WarmAnswers>,
}

struct WarmAnswers {
    receiver: Receiver<(u64, CompileOutcome)>,
    last: u64,
}

impl std::fmt::Debug for WarmCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WarmCompiler").field("toolchain", &self.farm.toolchain()).finish_non_exhaustive()
    }
}

impl WarmCompiler {
    pub fn start(options: &FarmOptions) -> Result<WarmCompiler, CompileSetupError> {
        let (sender, receiver) = mpsc::channel();
        let on_done: OnDone = Box::new(move |ticket, outcome| {
            let _ = sender.send((ticket, outcome));
        });
        let options = FarmOptions { jobs: options.jobs.clamp(1, JOBS), ..options.clone() };
        let farm = CompileFarm::start(options, on_done)?;
        Ok(WarmCompiler { farm, answers: Mutex::new(WarmAnswers { receiver, last: 0 }) })
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
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.last += 1;
        self.farm.submit(answers.last, source.clone());
    }

    fn once(&self, source: &KernelSource, limit: Option<Duration>) -> CompileOutcome {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.last += 1;
        let ticket = answers.last;
        self.farm.submit(ticket, source.clone());
        let began = std::time::Instant::now();
        loop {
            let answer = match limit {
                None => answers.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(limit) => answers.receiver.recv_timeout(limit.saturating_sub(began.elapsed())),
            };
            match answer {
                Ok((own, outcome)) if own == ticket => return outcome,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.farm.cancel();
                    let seconds = limit.unwrap_or_default().as_secs_f64();
                    let message = format!("the compiler did not finish within {seconds:.1} s");
                    return Err(Box::new(Verdict::new(VerdictKind::CompileTimeout, message)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "the compile farm ended early";
                    return Err(Box::new(Verdict::new(VerdictKind::HarnessError, message)));
                }
            }
        }
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
