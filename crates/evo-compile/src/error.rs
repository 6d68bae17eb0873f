//! Errors before any variant is compiled: no compiler, no cache folder, no worker.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use evo_system::process::EXHAUSTED_HINT;

pub const NVRTC_HINT: &str = "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl, \
or set CUDA_HOME or EVO_NVRTC_DIR";

/// Why compiling cannot start at all. A variant that fails is a `Verdict` instead.
#[derive(Debug, Error)]
pub enum CompileSetupError {
    #[error("no NVRTC library found; looked at:{}", list(.looked_at))]
    NoNvrtc { looked_at: Vec<String> },
    #[error("no C++ compiler found; tried:{}", list(.tried))]
    NoHostCompiler { tried: Vec<String> },
    #[error("cannot use {what}: {reason}")]
    Unusable { what: String, reason: String },
    #[error("`{toolchain}` does not compile for `{arch}`; it knows {known}")]
    UnknownArch { toolchain: String, arch: String, known: String },
    #[error("cannot write the compile cache `{}`", .path.display())]
    Cache {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("EVO_CACHE_BYTES=`{value}` is not a number of bytes")]
    CacheLimit { value: String },
    #[error("cannot start a compile worker (`{program}`): {reason}")]
    Worker { program: String, reason: String },
    #[error("cannot start {what}")]
    Exhausted {
        what: String,
        #[source]
        source: io::Error,
    },
    /// A compile worker says why it cannot serve, in the words of one of the errors above.
    #[error("{message}")]
    Refused { message: String, hint: Option<String> },
    #[error("evo's own device helper kernels do not compile for `{arch}`: {message}")]
    Support { arch: String, message: String },
}

impl CompileSetupError {
    pub(crate) fn cache(path: &Path, source: io::Error) -> CompileSetupError {
        CompileSetupError::Cache { path: path.to_path_buf(), source }
    }

    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            CompileSetupError::NoNvrtc { .. } | CompileSetupError::Unusable { .. } => NVRTC_HINT,
            CompileSetupError::NoHostCompiler { .. } => "install g++ (`apt install g++`) or set CXX",
            CompileSetupError::Cache { .. } => "set EVO_CACHE_DIR to a folder with free space that you own",
            CompileSetupError::CacheLimit { .. } => "write a whole number, such as 10737418240 for 10 GiB",
            CompileSetupError::Exhausted { .. } => EXHAUSTED_HINT,
            CompileSetupError::Refused { hint, .. } => return hint.clone(),
            CompileSetupError::UnknownArch { .. }
            | CompileSetupError::Worker { .. }
            | CompileSetupError::Support { .. } => return None,
        };
        Some(hint.to_string())
    }

    pub fn is_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, CompileSetupError::Cache { source, .. } if full.contains(&source.kind()))
    }

    pub fn with_cause(&self) -> String {
        match self {
            CompileSetupError::Cache { source, .. } | CompileSetupError::Exhausted { source, .. } => {
                format!("{self}: {source}")
            }
            _ => self.to_string(),
        }
    }

    pub fn with_hint(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}\nhint: {hint}"),
            None => self.to_string(),
        }
    }
}

fn list(places: &[String]) -> String {
    places.iter().map(|place| format!("\n  {place}")).collect()
}
