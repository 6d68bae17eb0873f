//! Traces: what searches asked for on recorded spaces, a line of JSON per run, as the community's scorers
//! and ours read them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One run of one search on one space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceLine {
    /// The search: the strategy's name.
    pub tool: String,
    /// The space: `kernel__gpu`.
    pub dataset: String,
    /// Counted from 0.
    pub run: u64,
    /// Row numbers of the space's file in the order in which they were asked for.
    pub evals: Vec<u32>,
    /// The search's own time before each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overhead_ms: Vec<f64>,
}

/// The file system said no.
#[derive(Debug, Error)]
#[error("cannot write the trace `{}`", path.display())]
pub struct TraceError {
    path: PathBuf,
    source: io::Error,
}

/// A trace file that is being written, compressed if its name ends in `.gz`.
pub struct TraceWriter {
    path: PathBuf,
    out: Out,
}

enum Out {
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
}

impl TraceWriter {
    /// Makes the file, empty.
    pub fn create(path: &Path) -> Result<TraceWriter, TraceError> {
        let file = File::create(path).map_err(|source| TraceError { path: path.into(), source })?;
        let plain = BufWriter::new(file);
        let compressed = path.extension().is_some_and(|extension| extension == "gz");
        let out = if compressed {
            Out::Compressed(GzEncoder::new(plain, Compression::default()))
        } else {
            Out::Plain(plain)
        };
        Ok(TraceWriter { path: path.into(), out })
    }

    /// Adds a run.
    pub fn write(&mut self, line: &TraceLine) -> Result<(), TraceError> {
        let mut text = serde_json::to_vec(line).expect("numbers and strings have a JSON form");
        text.push(b'\n');
        let written = match &mut self.out {
            Out::Plain(out) => out.write_all(&text),
            Out::Compressed(out) => out.write_all(&text),
        };
        written.map_err(|source| TraceError { path: self.path.clone(), source })
    }

    /// Completes the file.
    pub fn finish(self) -> Result<(), TraceError> {
        let flushed = match self.out {
            Out::Plain(mut out) => out.flush(),
            Out::Compressed(out) => out.finish().and_then(|mut out| out.flush()),
        };
        flushed.map_err(|source| TraceError { path: self.path, source })
    }
}
