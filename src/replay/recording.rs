//! The common form of every recording: a space, and what each recorded configuration gave and cost.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use evo_protocol::verdict::{VerdictClass, VerdictKind};
use evo_space::genome::{ContentHash, Genome};
use evo_space::space::SearchSpace;
use flate2::read::MultiGzDecoder;

use super::error::{Fault, RecordingError};
use super::format::{self, Format};

/// The first bytes of a gzip stream.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// One kernel on one GPU, some or all of its configurations measured.
#[derive(Debug)]
pub struct Recording {
    /// `kernel__gpu`.
    pub name: String,
    pub kernel: String,
    pub gpu: String,
    /// The problem size in words such as `4096 4096`; empty if the file does not tell.
    pub problem: String,
    pub format: Format,
    pub space: SearchSpace,
    /// Nanoseconds in one unit of the file's objective.
    pub unit_ns: f64,
    /// Whether every valid point of the space has a row.
    pub exhaustive: bool,
    /// Hash of the file's text.
    pub content: ContentHash,
    /// What a person should know about how the file was read.
    pub notices: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) genomes: Vec<Genome>,
    pub(super) lookup: Lookup,
}

/// What one configuration gave and cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Position in the file, counted from 0; rows that were left out do not count.
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
    /// Reads a recording, compressed or not, or a study's folder; its content tells the format.
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        Recording::open_with(path, None)
    }

    /// The same on a space of the caller's: rows outside it are left out, and a notice counts them.
    pub fn open_in(path: &Path, space: SearchSpace) -> Result<Recording, RecordingError> {
        Recording::open_with(path, Some(space))
    }

    fn open_with(path: &Path, space: Option<SearchSpace>) -> Result<Recording, RecordingError> {
        let file = if path.is_dir() { path.join("journal.jsonl") } else { path.to_path_buf() };
        let text = read_text(&file)?;
        let stem = stem(&file);
        let content = |fault| RecordingError::Content { path: file, fault };
        format::read(&text, &stem)
            .and_then(|draft| draft.finish(space, ContentHash::of(text.as_bytes())))
            .map_err(content)
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

/// The file's name without `.json` and `.gz`, for formats that do not name kernel and GPU.
fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".json").unwrap_or(name).to_string()
}

fn read_text(path: &Path) -> Result<String, RecordingError> {
    let own = || PathBuf::from(path);
    let bytes = fs::read(path).map_err(|source| RecordingError::Read { path: own(), source })?;
    let bytes = if bytes.starts_with(&GZIP_MAGIC) {
        let mut unpacked = Vec::new();
        let result = MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked);
        result.map_err(|source| RecordingError::Compressed { path: own(), source })?;
        unpacked
    } else {
        bytes
    };
    String::from_utf8(bytes).map_err(|_| RecordingError::Content {
        path: own(),
        fault: Fault::new("it is not text").with_hint("recordings are JSON, plain or compressed by gzip"),
    })
}
