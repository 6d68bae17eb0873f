//! A GPU's candidate on the host device: the same source, compiled for the processor so that every access is seen, at
//! small shapes. What was found counts as `inspect::twin` says.

use std::fmt;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use evo_device::host::room;
use evo_protocol::device::DeviceKind;
use evo_space::genome::Configuration;

use super::device_lane;
use super::error::CliError;
use super::judge::{AskedCandidate, compile};
use super::one_args::SandboxMode;
use super::session::{self, DeviceSetup};
use crate::engine::ports::{JobOrder, Recipe};
use crate::inspect::sanitize::SanitizerLook;
use crate::inspect::twin::{HostLook, TwinAnswer};
use crate::kernel::spec::SpaceFile;
use crate::supervise::job::Standing;
use crate::supervise::lane::LaneLimits;

/// The name of its device on a command line.
const HOST: &str = "host";

/// The host device beside a GPU. `F` holds a space file with a kernel.
pub struct HostTwin<F> {
    file: F,
    setup: DeviceSetup,
    seed: u64,
}

impl<F> fmt::Debug for HostTwin<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostTwin").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl<F: Deref<Target = SpaceFile> + Send + Sync> HostTwin<F> {
    /// For a device of this kind; none where it has none, or the space file does not want it.
    pub fn beside(kind: DeviceKind, file: F, sandbox: SandboxMode, seed: u64) -> Option<HostTwin<F>> {
        (kind == DeviceKind::Cuda).then(|| HostTwin::wanted(file, sandbox, seed)).flatten()
    }

    /// For any device; none where the space file does not want it.
    pub fn wanted(file: F, sandbox: SandboxMode, seed: u64) -> Option<HostTwin<F>> {
        let is_wanted = file.kernel.as_ref().is_some_and(|kernel| kernel.check.has_host_twin);
        // Without a C++ compiler its look says so.
        let setup = session::setup(HOST, None).ok().filter(|_| is_wanted)?.fenced(sandbox);
        Some(HostTwin { file, setup, seed })
    }

    /// Why the source may not run here: who asked for a GPU did not ask for native code, unless `--sandbox off` says so.
    fn unfenced(&self) -> Result<Option<String>, CliError> {
        if self.setup.sandbox == SandboxMode::Off {
            return Ok(None);
        }
        let rooms = device_lane::rooms(self.setup.sandbox)?;
        let report = room::fences(&rooms)?;
        Ok((!report.keeps_in()).then(|| {
            format!("its fences do not hold here ({report}), and `--sandbox off` would do without them")
        }))
    }

    fn judged(&self, configuration: &Configuration, limit: Duration) -> Result<TwinAnswer, CliError> {
        let until = Some(Instant::now() + limit);
        let setup = DeviceSetup { until, ..self.setup.clone() };
        if let Some(why) = self.unfenced()? {
            return Ok(TwinAnswer::Silent(why));
        }
        let kernel = session::kernel_of(&self.file)?;
        let limits = LaneLimits { step_max: setup.step_max, ..LaneLimits::default() };
        let mut lane = device_lane::lane_within(&setup, None, Some(kernel), limits)?;
        // Its own problems may be far too large for a processor; shapes are derived without them too.
        let recipe = session::recipe(kernel, &[], &setup, &lane, self.seed)?;
        let refused = |label: String| TwinAnswer::Silent(format!("it cannot be run there: {label}"));
        let prepared = match recipe.prepare(configuration) {
            Ok(prepared) => prepared,
            Err(own) => return Ok(refused(format!("{}: {}", own.verdict.label(), own.verdict.message))),
        };
        let Some(instrumented) = recipe.instrumented(&prepared) else {
            return Ok(TwinAnswer::Silent("there is no instrumented build".to_string()));
        };
        let (plain, watched) = thread::scope(|scope| {
            let watched = scope.spawn(|| compile(&setup, &instrumented));
            let plain = compile(&setup, &prepared);
            (plain, watched.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let binaries = match plain? {
            Ok(binaries) => binaries,
            Err(own) => {
                let first = own.message.lines().next().unwrap_or_default();
                return Ok(refused(format!("{}: {first}", own.label())));
            }
        };
        let variant_hash = configuration.hash();
        let order = JobOrder { number: 0, label: configuration.to_string(), variant_hash, deep: None };
        let mut job = match recipe.job(&prepared, &binaries, order) {
            Ok(job) => job.watched(),
            Err(own) => return Ok(refused(format!("{}: {}", own.verdict.label(), own.verdict.message))),
        };
        if job.tiny.is_empty() {
            return Ok(TwinAnswer::Silent(format!("no small shape: {}", job.tiny_notes.absent)));
        }
        recipe.add_instrumented(&mut job, &watched?);
        Ok(TwinAnswer::of(&lane.evaluate(&job, &Standing::default())))
    }
}

impl<F: Deref<Target = SpaceFile> + Send + Sync> HostLook for HostTwin<F> {
    fn look(&self, configuration: &Configuration, limit: Duration) -> TwinAnswer {
        // Whatever keeps the host from an answer says nothing about the candidate.
        self.judged(configuration, limit).unwrap_or_else(|error| TwinAnswer::Silent(error.to_string()))
    }
}

/// Looks at a candidate by tool while its twin is looked at; each waits for processes of its own.
pub fn look_beside<T: HostLook>(
    twin: Option<&T>,
    asked: &AskedCandidate,
    limit: Duration,
    by_tool: impl FnOnce() -> SanitizerLook,
) -> SanitizerLook {
    thread::scope(|scope| {
        let seen = twin.map(|twin| scope.spawn(move || twin.look(&asked.candidate.configuration, limit)));
        let look = by_tool();
        let twin = seen.map(|seen| seen.join().unwrap_or_else(|panic| resume_unwind(panic)));
        look.beside(twin)
    })
}
