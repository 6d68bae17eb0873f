//! Compiling variants in processes that can be killed.

pub mod cache;
pub mod confined;
pub mod diagnose;
mod entries;
pub mod error;
pub mod farm;
mod host_half;
pub mod hostcxx;
pub mod image;
pub mod includes;
pub mod instructions;
mod lines;
pub mod locate;
pub mod nvrtc;
pub mod occupancy;
pub mod search_path;
mod serve;
mod standard;
pub mod strong;
pub mod toolbox;

pub use error::CompileSetupError;
pub use evo_device::host::tokens::{CudaTokenKind, tokenize};
pub use farm::{
    CompileFarm, FULL_CACHE_HINT, FarmOptions, VariantOutcome, WarmCompiler, compile_one, full_cache,
    own_kernels, with_constants,
};
pub use lines::SourceLines;
pub use serve::run as serve;

/// A folder with these files, by name and text.
#[cfg(test)]
pub(crate) fn folder_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    root
}

/// `None`, and a line that says so, where there is no NVRTC.
#[cfg(test)]
pub(crate) fn nvrtc_for(what: &str) -> Option<nvrtc::Nvrtc> {
    use std::io::Write;
    let library = locate::locate(&toolbox::Toolbox::from_env());
    let library = library.inspect_err(|error| {
        // Not `eprintln!`, which a passing test keeps to itself.
        let _ = writeln!(std::io::stderr(), "skipped: {what}: it needs NVRTC: {error}");
    });
    library.ok().map(|library| library.load().unwrap())
}
