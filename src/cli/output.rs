//! Data goes to stdout, talk to stderr, so that people and pipes are both served.

use std::io::{self, Write};

use evo_space::printable::printable;

use super::error::CliError;

/// Writes to stdout, with what a terminal would obey written out; a reader that has left (`| head`) is not an error.
pub fn stdout(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(printable(text).as_bytes()).and_then(|()| stdout.flush()))
}

/// What writing to stdout came to; a reader that has left is not an error.
pub fn written(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::harness(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// One line of talk on stderr. Nobody listening is not an error.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable(text));
}
