//! The two compilers behind one call, as a compile worker sees them.

use std::path::Path;

use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::Verdict;
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::compiled::Compiled;
use super::error::CompileSetupError;
use super::hostcxx::{HostCompiler, HostToolchain};
use super::nvrtc::{Nvrtc, NvrtcLibrary};
use super::toolbox::Toolbox;
use super::{hostcxx, nvrtc};

/// Travels to workers so that each need not search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundCompiler {
    Nvrtc(NvrtcLibrary),
    Host(HostCompiler),
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
}

impl FoundCompiler {
    /// A C++ compiler's arguments and environment, which its name and version do not tell.
    pub fn identity(&self) -> Option<&ContentHash> {
        match self {
            FoundCompiler::Nvrtc(_) => None,
            FoundCompiler::Host(host) => Some(&host.identity),
        }
    }
}

pub enum Toolchain {
    Nvrtc(Box<Nvrtc>),
    Host(Box<HostToolchain>),
}

impl Toolchain {
    /// `cache` holds headers that are prepared once for all workers.
    pub fn open(
        found: &FoundCompiler,
        arch: &str,
        cache: &Path,
        scratch: &Path,
    ) -> Result<Toolchain, CompileSetupError> {
        match found {
            FoundCompiler::Nvrtc(library) => {
                let nvrtc = library.load()?;
                nvrtc.check_arch(arch)?;
                Ok(Toolchain::Nvrtc(Box::new(nvrtc)))
            }
            FoundCompiler::Host(compiler) => {
                Ok(Toolchain::Host(Box::new(HostToolchain::prepare(compiler, cache, scratch)?)))
            }
        }
    }

    #[must_use]
    pub fn trusting(self) -> Toolchain {
        match self {
            Toolchain::Host(host) => Toolchain::Host(Box::new(host.trusting())),
            Toolchain::Nvrtc(nvrtc) => Toolchain::Nvrtc(Box::new(nvrtc.trusting())),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Toolchain::Nvrtc(nvrtc) => &nvrtc.toolchain,
            Toolchain::Host(host) => &host.name,
        }
    }

    pub fn fingerprint(&self) -> &ContentHash {
        match self {
            Toolchain::Nvrtc(nvrtc) => &nvrtc.fingerprint,
            Toolchain::Host(host) => &host.fingerprint,
        }
    }

    pub fn compile(&self, source: &KernelSource, arch: &str) -> Result<Compiled, Box<Verdict>> {
        match self {
            Toolchain::Nvrtc(nvrtc) => nvrtc.compile(source, arch),
            Toolchain::Host(host) => host.compile(source),
        }
    }
}
