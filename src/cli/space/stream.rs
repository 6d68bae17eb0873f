//! Lines to stdout while they are made: nothing is held back, and a reader may leave at any time.

use std::io::{self, BufWriter, Write};

use num_bigint::BigUint;

use super::integers::grouped;
use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::output;

const MANY_LINES: u128 = 1_000_000;

const BUFFER: usize = 1 << 16;

/// A reader that has left (`| head`) is not an error and ends the writing. Each write must be whole lines, or whole
/// items of an open object, because with `--json` the call may end between any two.
pub fn stream(call: &Call, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    if call.is_json() {
        return output::written(write(&mut CallWriter(call)));
    }
    let mut stdout = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    output::written(write(&mut stdout).and_then(|()| stdout.flush()))
}

struct CallWriter<'a>(&'a Call);

impl Write for CallWriter<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write(text).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn announce(count: &BigUint, what: &str, at_most: bool) {
    if *count > BigUint::from(MANY_LINES) {
        let at_most = if at_most { "at most " } else { "" };
        eprintln!("note: {at_most}{} {what} come; `--limit N` prints the first N", grouped(count));
    }
}
