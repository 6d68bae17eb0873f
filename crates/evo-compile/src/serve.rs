//! Inside a compile worker: a setup, then one source after another; and what passes between it and the farm.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use evo_protocol::binary::{Binary, CompileOutcome, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::error::CompileSetupError;
use super::hostcxx::{self, HostCompiler, HostToolchain};
use super::image::Compiled;
use super::nvrtc::{self, NvrtcLibrary};
use super::toolbox::Toolbox;
use evo_system::process::{Orphaned, ParentLink};

/// Raised by any change that an older peer would misread.
pub const WIRE_VERSION: u32 = 6;

/// Travels to workers so that each need not search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundCompiler {
    Nvrtc(NvrtcLibrary),
    Host(HostCompiler),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSetup {
    pub kind: DeviceKind,
    pub arch: String,
    pub found: FoundCompiler,
    /// Holds headers that are prepared once for all workers, too.
    pub cache: PathBuf,
    pub scratch: PathBuf,
    /// Whether sources open include folders only: always, except in the self-test of the gates.
    pub is_confined: bool,
}

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

impl FoundCompiler {
    pub fn locate(kind: DeviceKind, toolbox: &Toolbox) -> Result<FoundCompiler, CompileSetupError> {
        match kind {
            DeviceKind::Cuda => nvrtc::locate(toolbox).map(FoundCompiler::Nvrtc),
            DeviceKind::Host => hostcxx::locate(toolbox).map(FoundCompiler::Host),
            DeviceKind::Replay => Err(CompileSetupError::Refused {
                message: "a replay compiles nothing".to_string(),
                hint: None,
            }),
        }
    }

    /// A C++ compiler's arguments and environment, which its name and version do not tell.
    pub fn identity(&self) -> &str {
        match self {
            FoundCompiler::Nvrtc(_) => "",
            FoundCompiler::Host(host) => host.identity.as_str(),
        }
    }
}

/// Errors are of the pipes: there is nobody left to answer.
pub fn run() -> io::Result<()> {
    let link = ParentLink::take_over(WIRE_VERSION, Orphaned::EndsGroup)?;
    let mut bench: Option<CompileBench> = None;
    link.serve(|order| match (order, &bench) {
        (CompileOrder::Setup(setup), None) => Some(match CompileBench::prepare(*setup) {
            Ok(prepared) => {
                let CompileBench { toolchain, fingerprint, .. } = bench.insert(prepared);
                CompileAnswer::Ready { toolchain: toolchain.clone(), fingerprint: fingerprint.clone() }
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

type Compile = dyn Fn(&KernelSource) -> Result<Compiled, Box<Verdict>>;

/// The two compilers behind one call.
struct CompileBench {
    setup: WorkerSetup,
    toolchain: String,
    fingerprint: ContentHash,
    compile: Box<Compile>,
    cache: Cache,
}

impl CompileBench {
    fn prepare(setup: WorkerSetup) -> Result<CompileBench, CompileSetupError> {
        let cache = Cache::open(&setup.cache)?;
        let (toolchain, fingerprint, compile): (_, _, Box<Compile>) = match &setup.found {
            FoundCompiler::Nvrtc(library) => {
                let (mut nvrtc, arch) = (library.load()?, setup.arch.clone());
                nvrtc.check_arch(&arch)?;
                nvrtc.is_confined = setup.is_confined;
                let (name, fingerprint) = (nvrtc.toolchain.clone(), nvrtc.fingerprint.clone());
                (name, fingerprint, Box::new(move |source| nvrtc.compile(source, &arch)))
            }
            FoundCompiler::Host(compiler) => {
                let host = HostToolchain::prepare(compiler, &setup.cache, &setup.scratch, setup.is_confined)?;
                let fingerprint = host.fingerprint.clone();
                (compiler.name(), fingerprint, Box::new(move |source| host.compile(source)))
            }
        };
        Ok(CompileBench { setup, toolchain, fingerprint, compile, cache })
    }

    fn compile(&self, source: &KernelSource) -> CompileOutcome {
        let start = Instant::now();
        let (bytes, binary) = (self.compile)(source)?;
        let compile_ms = start.elapsed().as_secs_f64() * 1e3;
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
        Ok(Binary { hash, path, toolchain: self.toolchain.clone(), compile_ms, ..binary })
    }
}
