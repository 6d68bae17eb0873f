//! The CUDA device's own helper kernels, compiled once per target and kept in the cache.

use std::path::{Path, PathBuf};

use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;
use evo_space::genome::ContentHash;

use super::error::CompileSetupError;
use super::farm;
use super::options::FarmOptions;
use super::toolbox::Toolbox;

/// The file of `text` compiled for `arch`.
pub fn cubin(arch: &str, text: &'static str, cache: &Path) -> Result<PathBuf, CompileSetupError> {
    cubin_with(&Toolbox::from_env(), arch, text, cache)
}

/// The same with the environment given.
pub fn cubin_with(
    toolbox: &Toolbox,
    arch: &str,
    text: &str,
    cache: &Path,
) -> Result<PathBuf, CompileSetupError> {
    let options =
        FarmOptions { cache: cache.to_path_buf(), jobs: 1, ..FarmOptions::new(DeviceKind::Cuda, arch) };
    let source = KernelSource {
        text: text.to_string(),
        options: Vec::new(),
        entries: Vec::new(),
        file_name: "evo_support.cu".to_string(),
        variant_hash: ContentHash::of(text.as_bytes()),
        instrumented: false,
    };
    match farm::compile_one_with(&options, toolbox, source)? {
        Ok(binary) => Ok(binary.path),
        Err(verdict) => Err(CompileSetupError::Support {
            arch: arch.to_string(),
            message: format!("{}: {}", verdict.label(), verdict.message),
        }),
    }
}
