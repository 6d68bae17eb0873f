//! The two compilers behind one call, as a compile worker sees them.

use std::path::Path;

use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::Verdict;
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::error::CompileSetupError;
use super::hostcxx::{self, HostCompiler, HostToolchain};
use super::nvrtc::{self, Nvrtc, NvrtcLibrary};
use super::toolbox::Toolbox;
use crate::compile::compiled::Compiled;

/// A compiler that was found; travels to workers so that each need not search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// NVRTC.
    Nvrtc(NvrtcLibrary),
    /// A C++ compiler.
    Host(HostCompiler),
}

impl Found {
    /// Finds the compiler for a kind of device.
    pub fn locate(kind: DeviceKind, toolbox: &Toolbox) -> Result<Found, CompileSetupError> {
        match kind {
            DeviceKind::Cuda => nvrtc::locate_with(toolbox).map(Found::Nvrtc),
            DeviceKind::Host => hostcxx::locate_with(toolbox).map(Found::Host),
            DeviceKind::Replay => Err(CompileSetupError::Refused("a replay compiles nothing".to_string())),
        }
    }
}

/// A compiler ready for work.
pub enum Toolchain {
    /// NVRTC, loaded.
    Nvrtc(Box<Nvrtc>),
    /// A C++ compiler with its header folder prepared.
    Host(HostToolchain),
}

impl Toolchain {
    /// Loads or prepares the compiler for `arch`. `cache` holds what can be prepared once for all.
    pub fn open(
        found: &Found,
        arch: &str,
        cache: &Path,
        scratch: &Path,
    ) -> Result<Toolchain, CompileSetupError> {
        match found {
            Found::Nvrtc(library) => {
                let nvrtc = library.load()?;
                nvrtc.check_arch(arch)?;
                Ok(Toolchain::Nvrtc(Box::new(nvrtc)))
            }
            Found::Host(compiler) => Ok(Toolchain::Host(HostToolchain::prepare(compiler, cache, scratch)?)),
        }
    }

    /// Compiler and version, such as `nvrtc 13.0`.
    pub fn name(&self) -> &str {
        match self {
            Toolchain::Nvrtc(nvrtc) => nvrtc.toolchain(),
            Toolchain::Host(host) => host.toolchain(),
        }
    }

    /// Name of everything that decides its output beside source, options and target.
    pub fn fingerprint(&self) -> &ContentHash {
        match self {
            Toolchain::Nvrtc(nvrtc) => nvrtc.fingerprint(),
            Toolchain::Host(host) => host.fingerprint(),
        }
    }

    /// Compiles one source; a refusal is a verdict.
    pub fn compile(&self, source: &KernelSource, arch: &str) -> Result<Compiled, Box<Verdict>> {
        match self {
            Toolchain::Nvrtc(nvrtc) => nvrtc.compile(source, arch),
            Toolchain::Host(host) => host.compile(source),
        }
    }
}
