//! Lines to stdout while they are made: nothing is held back, and a reader may leave at any time.

use std::io::{self, BufWriter, ErrorKind, Write};

use num_bigint::BigUint;

use super::MANY_LINES;
use super::summary::grouped;
use crate::cli::exit_code::UsageError;

/// Bytes that go out at once.
const BUFFER: usize = 1 << 16;

/// Lets `write` write to stdout; a reader that has left (`| head`) is no error and ends the writing.
pub fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut stdout = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(UsageError(format!("cannot write to stdout: {error}")).into())
        }
        _ => Ok(()),
    }
}

/// Says how many lines come, if that is more than anybody expects.
pub fn announce(count: &BigUint, what: &str, at_most: bool) {
    if *count > BigUint::from(MANY_LINES) {
        let at_most = if at_most { "at most " } else { "" };
        eprintln!("note: {at_most}{} {what} come; `--limit N` prints the first N", grouped(count));
    }
}
