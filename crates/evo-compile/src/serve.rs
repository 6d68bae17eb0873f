//! Inside a compile worker: a setup, then one source after another; and what passes between it and the farm.

use std::io;

use evo_protocol::binary::{Binary, CompileOutcome, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::error::CompileSetupError;
use super::toolchain::{Toolchain, WorkerSetup};
use evo_system::process::{Orphaned, ParentLink};

/// Raised by any change that an older peer would misread.
pub const WIRE_VERSION: u32 = 6;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompileOrder {
    Setup(Box<WorkerSetup>),
    Compile(Box<KernelSource>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompileAnswer {
    Ready { toolchain: String, fingerprint: ContentHash },
    Refused { message: String, hint: Option<String> },
    Done { outcome: CompileOutcome },
}

/// Errors are of the pipes: there is nobody left to answer.
pub fn run() -> io::Result<()> {
    let link = ParentLink::take_over(WIRE_VERSION, Orphaned::EndsGroup)?;
    let mut bench: Option<CompileBench> = None;
    link.serve(|order| match (order, &bench) {
        (CompileOrder::Setup(setup), None) => Some(match CompileBench::prepare(*setup) {
            Ok(prepared) => {
                let Toolchain { name, fingerprint, .. } = &bench.insert(prepared).toolchain;
                CompileAnswer::Ready { toolchain: name.clone(), fingerprint: fingerprint.clone() }
            }
            Err(error) => CompileAnswer::Refused { message: error.to_string(), hint: error.hint() },
        }),
        (CompileOrder::Compile(source), Some(bench)) => {
            Some(CompileAnswer::Done { outcome: bench.compile(&source) })
        }
        (CompileOrder::Setup(_), Some(_)) | (CompileOrder::Compile(_), None) => {
            eprintln!("compile worker: the first order is the setup, and the only one");
            None
        }
    })
}

struct CompileBench {
    setup: WorkerSetup,
    toolchain: Toolchain,
    cache: Cache,
}

impl CompileBench {
    fn prepare(setup: WorkerSetup) -> Result<CompileBench, CompileSetupError> {
        let cache = Cache::open(&setup.cache)?;
        let toolchain = setup.found.prepare(&setup)?;
        Ok(CompileBench { setup, toolchain, cache })
    }

    fn compile(&self, source: &KernelSource) -> CompileOutcome {
        let (bytes, binary) = (self.toolchain.compile)(source)?;
        let extension = match self.setup.kind {
            DeviceKind::Cuda => "cubin",
            DeviceKind::Host | DeviceKind::Replay => "so",
        };
        let (hash, path) = self.cache.store(&bytes, extension).map_err(|error| {
            let error = CompileSetupError::cache(&self.setup.cache, error);
            let verdict = Verdict::new(VerdictKind::HarnessError, error.with_cause());
            // Only a full disk fails every variant after this one. Other trouble is met once more, in a fresh worker.
            verdict.with_cause(if error.is_full() { Cause::Cache } else { Cause::Machine })
        })?;
        Ok(Binary { hash, path, toolchain: self.toolchain.name.clone(), ..binary })
    }
}
