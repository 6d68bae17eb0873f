//! The common form of every recording: a space, and what each recorded configuration gave and cost.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::draft::Draft;
use super::error::{Fault, RecordingError};
use super::tuning_data;
use crate::genome::Genome;
use crate::space::space::SearchSpace;
use crate::verdict::{VerdictClass, VerdictKind};

/// The first bytes of a gzip stream.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// One kernel on one GPU, some or all of its configurations measured.
#[derive(Debug)]
pub struct Recording {
    /// `kernel__gpu`.
    pub name: String,
    pub kernel: String,
    pub gpu: String,
    pub space: SearchSpace,
    /// Nanoseconds in one unit of the file's objective.
    pub unit_ns: f64,
    /// Whether every valid point of the space has a row.
    pub exhaustive: bool,
    pub(super) rows: Vec<Row>,
    pub(super) genomes: Vec<Genome>,
    pub(super) lookup: Lookup,
}

/// What one configuration gave and cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Position in the file, counted from 0.
    pub number: usize,
    pub class: VerdictClass,
    /// What became of it, as close as the file tells.
    pub kind: VerdictKind,
    /// Nanoseconds; none when it failed.
    pub objective_ns: Option<f64>,
    pub cost: Cost,
}

/// What one evaluation took, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub compile_ms: f64,
    pub validate_ms: f64,
    /// Sum of the benchmark runs; 0 when there were none.
    pub runs_ms: f64,
    /// Overhead of the tuner that recorded it; no part of an evaluation.
    pub framework_ms: f64,
}

impl Cost {
    /// What asking for it the first time takes: compiling, validation, runs.
    pub fn total_ms(&self) -> f64 {
        self.compile_ms + self.validate_ms + self.runs_ms
    }
}

/// From a point to its row.
#[derive(Debug)]
pub(super) enum Lookup {
    /// Row numbers are canonical indices of the space.
    Canonical,
    Map(HashMap<Genome, u32>),
}

impl Recording {
    /// Reads a recording, compressed or not; its content tells the format.
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        let text = read_text(path)?;
        let content = |fault| RecordingError::Content { path: path.to_path_buf(), fault };
        draft_of(&text).and_then(Draft::finish).map_err(content)
    }

    /// The row of a point; `None` if it was not recorded.
    pub fn row(&self, genome: &Genome) -> Option<&Row> {
        let number = match &self.lookup {
            Lookup::Canonical => usize::try_from(self.space.index_of(genome)?).ok()?,
            Lookup::Map(map) => *map.get(genome)? as usize,
        };
        self.rows.get(number)
    }

    /// All rows in the order of the file.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The point of a row, by the row's number, which must be below `rows().len()`.
    pub fn genome(&self, number: usize) -> Genome {
        self.genomes[number].clone()
    }
}

fn read_text(path: &Path) -> Result<String, RecordingError> {
    let bytes = fs::read(path).map_err(|source| RecordingError::Read { path: path.to_path_buf(), source })?;
    let bytes = if bytes.starts_with(&GZIP_MAGIC) {
        let mut unpacked = Vec::new();
        let result = MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked);
        result.map_err(|source| RecordingError::Compressed { path: path.to_path_buf(), source })?;
        unpacked
    } else {
        bytes
    };
    String::from_utf8(bytes).map_err(|_| RecordingError::Content {
        path: path.to_path_buf(),
        fault: Fault::new("it is not text").with_hint("recordings are JSON, plain or compressed by gzip"),
    })
}

fn draft_of(text: &str) -> Result<Draft, Fault> {
    tuning_data::read(text)
}
