//! evo's own kernels (helpers of the CUDA device, built-in references), compiled once per target and kept in the cache.

use std::path::{Path, PathBuf};

use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;

use super::error::CompileSetupError;
use super::farm;
use super::options::FarmOptions;
use super::toolbox::Toolbox;

#[derive(Clone, Debug)]
pub struct OwnKernels {
    pub file_name: &'static str,
    pub text: String,
    /// Entry points; needed on the host only.
    pub entries: Vec<String>,
}

pub fn kernels(
    kind: DeviceKind,
    arch: &str,
    kernels: OwnKernels,
    cache: &Path,
) -> Result<PathBuf, CompileSetupError> {
    kernels_with(&Toolbox::from_env(), kind, arch, kernels, cache)
}

pub fn kernels_with(
    toolbox: &Toolbox,
    kind: DeviceKind,
    arch: &str,
    kernels: OwnKernels,
    cache: &Path,
) -> Result<PathBuf, CompileSetupError> {
    let options = FarmOptions { cache: cache.to_path_buf(), jobs: 1, ..FarmOptions::new(kind, arch) };
    let source = KernelSource::plain(kernels.file_name, kernels.text, kernels.entries);
    match farm::compile_one_with(&options, toolbox, source)? {
        Ok(binary) => Ok(binary.path),
        Err(verdict) => Err(CompileSetupError::Support {
            arch: arch.to_string(),
            message: format!("{}: {}", verdict.label(), verdict.message),
        }),
    }
}
