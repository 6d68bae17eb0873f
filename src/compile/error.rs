//! Our own trouble before any variant is compiled: no compiler, no cache folder, no worker.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why compiling cannot start at all. A variant that fails is a `Verdict` instead.
#[derive(Debug, Error)]
pub enum CompileSetupError {
    /// NVRTC is nowhere to be found.
    #[error("no NVRTC library found; looked at:{}\nhint: {hint}", list(.looked_at))]
    NoNvrtc { looked_at: Vec<String>, hint: String },
    /// No C++ compiler answers.
    #[error("no C++ compiler found; tried:{}\nhint: {hint}", list(.tried))]
    NoHostCompiler { tried: Vec<String>, hint: String },
    /// A compiler is there and cannot be used.
    #[error("cannot use {what}: {reason}{}", hint_line(.hint))]
    Unusable { what: String, reason: String, hint: String },
    /// The toolchain does not know the target.
    #[error("`{toolchain}` does not compile for `{arch}`; it knows {known}")]
    UnknownArch { toolchain: String, arch: String, known: String },
    /// The cache folder cannot be written.
    #[error("cannot write the compile cache `{}`\nhint: set EVO_CACHE_DIR to a folder with free space that you own", .path.display())]
    Cache {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A compile worker does not start or dies before it is ready.
    #[error("cannot start a compile worker (`{program}`): {reason}")]
    Worker { program: String, reason: String },
    /// A compile worker says why it cannot serve, in the words of one of the errors above.
    #[error("{0}")]
    Refused(String),
    /// One of evo's own helper kernels does not compile.
    #[error("evo's own device helper kernels do not compile for `{arch}`: {message}")]
    Support { arch: String, message: String },
}

impl CompileSetupError {
    pub(crate) fn cache(path: &Path, source: io::Error) -> CompileSetupError {
        CompileSetupError::Cache { path: path.to_path_buf(), source }
    }
}

fn list(places: &[String]) -> String {
    places.iter().map(|place| format!("\n  {place}")).collect()
}

fn hint_line(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_places_and_a_way_out() {
        let error = CompileSetupError::NoNvrtc {
            looked_at: vec!["/usr/local/cuda/lib64".to_string(), "python3's site-packages".to_string()],
            hint: "pip install nvidia-cuda-nvrtc".to_string(),
        };
        insta::assert_snapshot!(error.to_string(), @r"
        no NVRTC library found; looked at:
          /usr/local/cuda/lib64
          python3's site-packages
        hint: pip install nvidia-cuda-nvrtc
        ");
    }
}
