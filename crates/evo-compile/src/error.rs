//! Errors before any variant is compiled: no compiler, no cache folder, no worker.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use evo_system::process::EXHAUSTED_HINT;

/// Why compiling cannot start at all. A variant that fails is a `Verdict` instead. The text says what is wrong; the way out is
/// `hint`.
#[derive(Debug, Error)]
pub enum CompileSetupError {
    /// NVRTC is nowhere to be found.
    #[error("no NVRTC library found; looked at:{}", list(.looked_at))]
    NoNvrtc { looked_at: Vec<String>, hint: &'static str },
    /// No C++ compiler answers.
    #[error("no C++ compiler found; tried:{}", list(.tried))]
    NoHostCompiler { tried: Vec<String>, hint: &'static str },
    /// A compiler is there and cannot be used.
    #[error("cannot use {what}: {reason}")]
    Unusable { what: String, reason: String, hint: &'static str },
    /// The toolchain does not know the target.
    #[error("`{toolchain}` does not compile for `{arch}`; it knows {known}")]
    UnknownArch { toolchain: String, arch: String, known: String },
    /// The cache folder cannot be written.
    #[error("cannot write the compile cache `{}`", .path.display())]
    Cache {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// `EVO_CACHE_BYTES` is not a number.
    #[error("EVO_CACHE_BYTES=`{value}` is not a number of bytes")]
    CacheLimit { value: String },
    /// A compile worker does not start or dies before it is ready.
    #[error("cannot start a compile worker (`{program}`): {reason}")]
    Worker { program: String, reason: String },
    /// The machine starts no process or thread.
    #[error("cannot start {what}")]
    Exhausted {
        what: String,
        #[source]
        source: io::Error,
    },
    /// A compile worker says why it cannot serve, in the words of one of the errors above.
    #[error("{message}")]
    Refused { message: String, hint: Option<String> },
    /// One of evo's own helper kernels does not compile.
    #[error("evo's own device helper kernels do not compile for `{arch}`: {message}")]
    Support { arch: String, message: String },
}

impl CompileSetupError {
    pub(crate) fn cache(path: &Path, source: io::Error) -> CompileSetupError {
        CompileSetupError::Cache { path: path.to_path_buf(), source }
    }

    /// How to fix it, if that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            CompileSetupError::NoNvrtc { hint, .. }
            | CompileSetupError::NoHostCompiler { hint, .. }
            | CompileSetupError::Unusable { hint, .. } => *hint,
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

    /// Whether a disk or a quota is used up.
    pub fn is_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, CompileSetupError::Cache { source, .. } if full.contains(&source.kind()))
    }

    /// The text with its cause, without the hint.
    pub fn with_cause(&self) -> String {
        match self {
            CompileSetupError::Cache { source, .. } | CompileSetupError::Exhausted { source, .. } => {
                format!("{self}: {source}")
            }
            _ => self.to_string(),
        }
    }

    /// The text with the hint on a line of its own, for places that show nothing else.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_places_and_a_way_out() {
        let error = CompileSetupError::NoNvrtc {
            looked_at: vec!["/usr/local/cuda/lib64".to_string(), "python3's site-packages".to_string()],
            hint: "pip install nvidia-cuda-nvrtc",
        };
        insta::assert_snapshot!(error.with_hint(), @r"
        no NVRTC library found; looked at:
          /usr/local/cuda/lib64
          python3's site-packages
        hint: pip install nvidia-cuda-nvrtc
        ");
    }
}
