//! Which program is started as a worker.

use std::path::PathBuf;
use std::{env, io};

/// `$EVO_WORKER_PROGRAM`, otherwise this program.
pub fn worker_program() -> io::Result<PathBuf> {
    match env::var_os("EVO_WORKER_PROGRAM").filter(|value| !value.is_empty()) {
        Some(program) => Ok(PathBuf::from(program)),
        None => env::current_exe(),
    }
}
