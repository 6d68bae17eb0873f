//! The two compilers behind one call, as a compile worker sees them.

use evo_protocol::binary::{EntryResources, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::Verdict;
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::error::CompileSetupError;
use super::hostcxx::{HostCompiler, HostToolchain};
use super::nvrtc::NvrtcLibrary;
use super::serve::WorkerSetup;
use super::toolbox::Toolbox;
use super::{hostcxx, nvrtc};

/// Travels to workers so that each need not search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundCompiler {
    Nvrtc(NvrtcLibrary),
    Host(HostCompiler),
}

/// What a compiler made of one source, before it is kept in the cache.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub bytes: Vec<u8>,
    pub code_hash: ContentHash,
    pub resources: Vec<EntryResources>,
    pub log: String,
    pub log_truncated: bool,
    pub compile_ms: f64,
}

type Compile = dyn Fn(&KernelSource) -> Result<Compiled, Box<Verdict>>;

pub struct Toolchain {
    pub name: String,
    pub fingerprint: ContentHash,
    pub compile: Box<Compile>,
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
    pub fn identity(&self) -> Option<&ContentHash> {
        match self {
            FoundCompiler::Nvrtc(_) => None,
            FoundCompiler::Host(host) => Some(&host.identity),
        }
    }

    pub fn prepare(&self, setup: &WorkerSetup) -> Result<Toolchain, CompileSetupError> {
        Ok(match self {
            FoundCompiler::Nvrtc(library) => {
                let mut nvrtc = library.load()?;
                nvrtc.check_arch(&setup.arch)?;
                nvrtc.is_confined = setup.is_confined;
                let (name, fingerprint) = (nvrtc.toolchain.clone(), nvrtc.fingerprint.clone());
                let arch = setup.arch.clone();
                Toolchain { name, fingerprint, compile: Box::new(move |source| nvrtc.compile(source, &arch)) }
            }
            FoundCompiler::Host(compiler) => {
                let host = HostToolchain::prepare(compiler, setup)?;
                let (name, fingerprint) = (compiler.name(), host.fingerprint.clone());
                Toolchain { name, fingerprint, compile: Box::new(move |source| host.compile(source)) }
            }
        })
    }
}
