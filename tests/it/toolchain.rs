//! The compilers that tests need, fetched once: NVRTC and the CUDA headers from PyPI.
//!
//! Where they cannot be fetched (no network, no pip), the tests that need them are skipped and say so, unless
//! `EVO_REQUIRE_NVRTC=1`: then they fail, which is what continuous integration asks for. Set `EVO_NVRTC_DIR`
//! to use a toolkit that is there already.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use evo::compile::toolbox::Toolbox;

use crate::python;
use crate::skip::skipped;

/// What is installed: exact versions, so that tests mean the same next year.
const PACKAGES: &[&str] = &[
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
];

/// Whether the test at work cannot have NVRTC and must be skipped; says so. Fails the test instead where
/// `EVO_REQUIRE_NVRTC=1`.
pub fn lacks_nvrtc() -> bool {
    let Err(reason) = nvrtc() else { return false };
    let missing = format!(
        "it needs NVRTC and the CUDA headers, which cannot be installed: {reason}; they come from PyPI ({}); \
         or set EVO_NVRTC_DIR",
        PACKAGES.join(" ")
    );
    assert!(std::env::var_os("EVO_REQUIRE_NVRTC").is_none_or(|value| value != "1"), "{missing}");
    skipped(&missing);
    true
}

/// The folder for `EVO_NVRTC_DIR`, installed if it is not there yet.
///
/// # Panics
/// It cannot be installed; tests ask `lacks_nvrtc` first.
pub fn nvrtc_dir() -> &'static Path {
    nvrtc().as_ref().unwrap_or_else(|reason| panic!("no NVRTC: {reason}"))
}

/// The same, or why it cannot be had.
pub fn nvrtc() -> &'static Result<PathBuf, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOLDER.get_or_init(|| match std::env::var_os("EVO_NVRTC_DIR").filter(|value| !value.is_empty()) {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => install(),
    })
}

/// An environment with the fetched NVRTC and this build's `evo` as the worker.
pub fn toolbox() -> Toolbox {
    Toolbox { nvrtc_dir: Some(nvrtc_dir().to_path_buf()), ..host_toolbox() }
}

/// The same without NVRTC, for tests of the host compiler.
pub fn host_toolbox() -> Toolbox {
    Toolbox { program: Some(PathBuf::from(crate::PROGRAM)), ..Toolbox::from_env() }
}

fn install() -> Result<PathBuf, String> {
    let library = python::installed(&["--no-deps"], PACKAGES)?.join("nvidia/cu13/lib");
    if library.is_dir() { Ok(library) } else { Err(format!("no `{}` after installing", library.display())) }
}
