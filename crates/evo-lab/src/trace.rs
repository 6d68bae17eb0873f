//! Writes traces: what searches asked for on recorded spaces, one line of JSON per run. The auto-tuning
//! community's scorers read this form, and so does `trace_reader`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One run of one search on one space, as a line of a trace.
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

/// A trace file that cannot be written.
#[derive(Debug, Error)]
#[error("cannot write the trace `{}`", path.display())]
pub struct TraceError {
    path: PathBuf,
    source: io::Error,
}

/// A trace file being written, compressed if its name ends in `.gz`.
pub struct TraceWriter {
    path: PathBuf,
    out: Out,
}

enum Out {
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
}

impl TraceWriter {
    /// Creates the file, empty.
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
            // Not left to `drop`, which would swallow the error of a full disk.
            Out::Compressed(out) => out.finish().and_then(|mut out| out.flush()),
        };
        flushed.map_err(|source| TraceError { path: self.path, source })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn line(overhead_ms: &[f64]) -> TraceLine {
        TraceLine {
            tool: "random".to_string(),
            dataset: "stencil__invented".to_string(),
            run: 3,
            evals: vec![812, 95],
            overhead_ms: overhead_ms.to_vec(),
        }
    }

    const TEXT: &str = "{\"tool\":\"random\",\"dataset\":\"stencil__invented\",\"run\":3,\"evals\":[812,95],\"overhead_ms\":[0.5,1.25]}\n\
         {\"tool\":\"random\",\"dataset\":\"stencil__invented\",\"run\":3,\"evals\":[812,95]}\n";

    #[test]
    fn traces_are_lines_and_compressed_on_request() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["trace.jsonl", "trace.jsonl.gz"] {
            let path = folder.path().join(name);
            let mut writer = TraceWriter::create(&path).unwrap();
            writer.write(&line(&[0.5, 1.25])).unwrap();
            writer.write(&line(&[])).unwrap();
            writer.finish().unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let mut text = String::new();
            if name.ends_with(".gz") {
                flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
            } else {
                text = String::from_utf8(bytes).unwrap();
            }
            assert_eq!(text, TEXT);
        }
        let read: Vec<TraceLine> = TEXT.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, [line(&[0.5, 1.25]), line(&[])]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = TraceWriter::create(Path::new("/nonexistent/trace.jsonl")).err().expect("refused");
        assert_eq!(error.to_string(), "cannot write the trace `/nonexistent/trace.jsonl`");
    }
}
