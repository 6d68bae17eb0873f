//! A tool around a device worker.

use std::io;

use super::arguments::ToolArguments;
use super::probe::FoundTool;
use crate::process::worker_program;

/// The command of a device worker that runs under a tool. The worker's protocol has the standard streams, so the tool's
/// arguments must send everything that it writes to files.
///
/// # Errors
/// This program's own path cannot be found, or a path is not text.
pub fn wrapped_worker(tool: &FoundTool, arguments: &ToolArguments) -> io::Result<Vec<String>> {
    let program = worker_program()?.into_os_string();
    let words = std::iter::once(tool.path.clone().into_os_string()).chain(arguments.words().iter().cloned());
    let words = words.chain([program, "worker".into()]);
    let text = |word: std::ffi::OsString| {
        word.into_string().map_err(|word| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` is not UTF-8", word.to_string_lossy()))
        })
    };
    words.map(text).collect()
}
