//! A tool around a device worker.

use std::ffi::OsString;
use std::io;

use super::arguments::ToolArguments;
use super::probe::FoundTool;

/// The worker's protocol has the standard streams, so the tool's arguments must send everything that it writes to
/// files.
pub fn wrapped_worker(
    tool: &FoundTool,
    arguments: &ToolArguments,
    worker: &[String],
) -> io::Result<Vec<String>> {
    let words = std::iter::once(tool.path.clone().into_os_string()).chain(arguments.words().iter().cloned());
    let text = |word: OsString| {
        word.into_string().map_err(|word| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` is not UTF-8", word.to_string_lossy()))
        })
    };
    let mut command = words.map(text).collect::<Result<Vec<String>, _>>()?;
    command.extend_from_slice(worker);
    Ok(command)
}
