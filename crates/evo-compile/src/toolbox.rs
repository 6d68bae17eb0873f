//! The environment variables that choose compilers, read once, so that tests need not change their process.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    /// `$EVO_NVRTC_DIR`: the folder of libnvrtc, or one above it.
    pub nvrtc_dir: Option<PathBuf>,
    /// `$EVO_CUDA_INCLUDE`: the folder of cuda_fp16.h.
    pub cuda_include: Option<PathBuf>,
    /// `$CUDA_HOME`, `$CUDA_PATH`: toolkits, in that order.
    pub cuda_homes: Vec<PathBuf>,
    /// `$CXX`: the host compiler, with arguments if need be.
    pub cxx: Option<String>,
    /// Include folders of `$CPATH`, `$CPLUS_INCLUDE_PATH` and `$C_INCLUDE_PATH`, which C++ compilers read.
    pub include_folders: Vec<PathBuf>,
    /// Started as a compile worker instead of what `process::worker_program` names.
    pub program: Option<PathBuf>,
}

impl Toolbox {
    /// What this process's environment says. Empty variables count as unset.
    pub fn from_env() -> Toolbox {
        let all = |names: &[&str]| names.iter().filter_map(|name| variable(name)).collect::<Vec<_>>();
        let include = all(&["CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"]);
        Toolbox {
            nvrtc_dir: variable("EVO_NVRTC_DIR").map(PathBuf::from),
            cuda_include: variable("EVO_CUDA_INCLUDE").map(PathBuf::from),
            cuda_homes: all(&["CUDA_HOME", "CUDA_PATH"]).into_iter().map(PathBuf::from).collect(),
            cxx: variable("CXX").and_then(|text| text.into_string().ok()),
            include_folders: include.iter().flat_map(env::split_paths).collect(),
            program: None,
        }
    }
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
