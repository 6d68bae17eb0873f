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
    stage: OutStage,
    /// Whole lines, or whole items of an open object, that are not written yet.
    pending: Vec<u8>,
    flushed: Instant,
    is_gone: bool,
}

#[derive(Debug)]
enum OutStage {
    /// Nothing, or lines of a stream.
    Lines,
    /// An object that is written while it is made: the fields that it has, and what closes the last of them.
    Open { own: String, closer: &'static str },
    /// The one object is out.
    Ended,
}

impl JsonOut {
    pub fn new() -> JsonOut {
        JsonOut { stage: OutStage::Lines, pending: Vec::new(), flushed: Instant::now(), is_gone: false }
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.stage, OutStage::Ended)
    }

    /// Writes whole lines, or whole items of an open object; soon, not at once.
    pub fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.has_ended() {
            return Ok(());
        }
        self.pending.extend_from_slice(text);
        if self.pending.len() >= BUFFER || self.flushed.elapsed() > PATIENCE { self.flush() } else { Ok(()) }
    }

    /// Begins an object that is written while it is made. `head` is its text so far, `own` a small object with the
    /// same keys, and `closer` what closes the value that stands open.
    pub fn open(&mut self, head: &str, own: String, closer: &'static str) -> io::Result<()> {
        self.write(printable(head).as_bytes())?;
        self.stage = OutStage::Open { own, closer };
        Ok(())
    }

    /// Writes the object, unless one is out already. A reader that has left is not an error.
    pub fn end(&mut self, facts: &CommandEnvelope, own: &str) -> io::Result<()> {
        let text = match std::mem::replace(&mut self.stage, OutStage::Ended) {
            OutStage::Ended => return Ok(()),
            OutStage::Lines => envelope::object(facts, own)?,
            OutStage::Open { own, closer } => envelope::closing(facts, &own, closer)?,
        };
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
