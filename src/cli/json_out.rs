//! stdout of a command with `--json`: lines of a stream, then one object; or one object alone. Whoever ends it, the
//! command itself or the thread that watches for signals, it ends once, and never in the middle of a line.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use evo_protocol::envelope::CommandEnvelope;
use evo_space::text::printable;

use crate::report::envelope;

/// Bytes that are held back at most.
const BUFFER: usize = 1 << 16;

/// Lines are held back for no longer than this: often enough for a person, seldom enough for a fast stream.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct JsonOut {
    /// The one object is out.
    has_ended: bool,
    /// Whole lines that are not written yet.
    pending: Vec<u8>,
    flushed: Instant,
    is_gone: bool,
}

impl JsonOut {
    pub fn new() -> JsonOut {
        JsonOut { has_ended: false, pending: Vec::new(), flushed: Instant::now(), is_gone: false }
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Writes whole lines; soon, not at once.
    pub fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.has_ended {
            return Ok(());
        }
        self.pending.extend_from_slice(text);
        if self.pending.len() >= BUFFER || self.flushed.elapsed() > PATIENCE { self.flush() } else { Ok(()) }
    }

    /// Writes the object, unless one is out already. A reader that has left is not an error.
    pub fn end(&mut self, facts: &CommandEnvelope, own: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(());
        }
        let text = envelope::object(facts, own)?;
        self.pending.extend_from_slice(printable(&text).as_bytes());
        self.pending.push(b'\n');
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.flushed = Instant::now();
        let pending = std::mem::take(&mut self.pending);
        if self.is_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&pending).and_then(|()| stdout.flush());
        self.is_gone = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        written
    }
}
