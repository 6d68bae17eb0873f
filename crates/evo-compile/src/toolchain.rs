//! The two compilers behind one call, as a compile worker sees them.

use std::path::PathBuf;

use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::Verdict;
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::error::CompileSetupError;
use super::hostcxx::{HostCompiler, HostToolchain};
use super::image::Compiled;
use super::nvrtc::NvrtcLibrary;
use super::toolbox::Toolbox;
use super::{hostcxx, nvrtc};

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
                let host = HostToolchain::prepare(compiler, &setup.cache, &setup.scratch, setup.is_confined)?;
                let (name, fingerprint) = (compiler.name(), host.fingerprint.clone());
                Toolchain { name, fingerprint, compile: Box::new(move |source| host.compile(source)) }
            }
        })
    }
}
