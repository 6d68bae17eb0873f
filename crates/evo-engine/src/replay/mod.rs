//! Recorded spaces: the result and the cost of every configuration of a kernel on a GPU, read from files.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use evo_protocol::verdict::{VerdictClass, VerdictKind};
use evo_protocol::words;
use evo_search::strategy::PriorStudy;
use evo_space::genome::{ContentHash, Genome};
use evo_space::space::SearchSpace;
use flate2::read::MultiGzDecoder;
use indexmap::IndexSet;
use thiserror::Error;

pub mod device;
mod finish;
mod journal;
mod readers;

#[cfg(test)]
mod tests;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A recording, unpacked. The largest public ones have some ten megabytes.
const TEXT_MAX: u64 = 512 << 20;

/// Measurements of one kernel on one GPU: of all its configurations, or of some.
#[derive(Debug)]
pub struct Recording {
    /// `kernel__gpu`.
    pub name: String,
    pub kernel: String,
    pub gpu: String,
    /// The problem size as text, such as `4096 4096`; empty if the file does not say.
    pub problem: String,
    pub format: Format,
    pub space: SearchSpace,
    pub exhaustive: bool,
    pub content: ContentHash,
    /// What a person should know about how the file was read.
    pub notices: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Of the rows, in their order.
    pub(super) points: IndexSet<Genome>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Position in the file, counted from 0; rows that were left out do not count.
    pub number: usize,
    pub class: VerdictClass,
    /// The verdict, as precisely as the file tells.
    pub kind: VerdictKind,
    pub objective_ns: Option<f64>,
    pub cost: Cost,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub compile_ms: f64,
    pub validate_ms: f64,
    pub runs_ms: f64,
    /// Overhead of the tuner that recorded it. It does not count as part of the evaluation.
    pub framework_ms: f64,
}

impl Cost {
    /// The cost of the first evaluation of a configuration: compiling, validation, runs.
    pub fn total_ms(&self) -> f64 {
        self.compile_ms + self.validate_ms + self.runs_ms
    }
}

impl Recording {
    pub fn row(&self, genome: &Genome) -> Option<&Row> {
        self.rows.get(self.points.get_index_of(genome)?)
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub fn genome(&self, number: usize) -> Genome {
        self.points[number].clone()
    }

    /// The outcomes of these rows, by number, as points of another space with the same parameters. Rows with values
    /// that the other space does not have are left out.
    pub fn study(&self, rows: impl Iterator<Item = usize>, space: &SearchSpace) -> PriorStudy {
        let outcome = |row: &Row| {
            let configuration = self.space.configuration(&self.genome(row.number));
            Some((space.genome(&configuration)?, row.objective_ns))
        };
        PriorStudy { outcomes: rows.filter_map(|number| outcome(self.rows().get(number)?)).collect() }
    }

    /// Reads a recording, compressed or not, or the folder of a study. The format is recognized by the content.
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        Recording::open_in(path, None)
    }

    /// The same on a space of the caller's, if there is one. Rows outside it are left out, and a notice says how many.
    pub fn open_in(path: &Path, space: Option<SearchSpace>) -> Result<Recording, RecordingError> {
        let file = if path.is_dir() { path.join("journal.jsonl") } else { path.to_path_buf() };
        let text = read_text(&file)?;
        let content = |fault| RecordingError::Content { path: file.clone(), fault };
        Recording::of_text(&text, &stem(&file), space).map_err(content)
    }

    pub fn of_text(text: &str, stem: &str, space: Option<SearchSpace>) -> Result<Recording, RecordingFault> {
        // The hash is of the text, so that a recording is the same whether or not it is compressed.
        let content = ContentHash::of(text.as_bytes());
        readers::read_any(text, stem).and_then(|draft| finish::finish(draft, space, content))
    }
}

fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".json").unwrap_or(name).to_string()
}

fn read_text(path: &Path) -> Result<String, RecordingError> {
    let own = || PathBuf::from(path);
    let unusable = |cause: String, hint: &str| {
        let fault = RecordingFault::new(cause).with_hint(hint);
        RecordingError::Content { path: own(), fault }
    };
    let within = |bytes: Vec<u8>| match bytes.len() as u64 > TEXT_MAX {
        true => {
            let cause = format!("it is larger than {} MiB", TEXT_MAX >> 20);
            Err(unusable(cause, "split the recording, or keep the rows that matter"))
        }
        false => Ok(bytes),
    };
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        from.take(TEXT_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let file = evo_system::regular::open(path).and_then(|mut file| read(&mut file));
    let mut bytes = within(file.map_err(|source| RecordingError::Read { path: own(), source })?)?;
    // A gzip file may have several members, as when a tool appends to it, and a few kilobytes of it can unpack to as
    // many gigabytes.
    if bytes.starts_with(&GZIP_MAGIC) {
        let unpacked = read(&mut MultiGzDecoder::new(bytes.as_slice()));
        bytes = within(unpacked.map_err(|source| RecordingError::Compressed { path: own(), source })?)?;
    }
    let hint = "recordings are JSON, plain or compressed by gzip";
    String::from_utf8(bytes).map_err(|_| unusable("it is not text".to_string(), hint))
}

words! {
    Format {
        TuningData = "tuning-data/1",
        KernelTunerCache = "Kernel Tuner cache",
        T4 = "T4 results",
        Journal = "evo journal",
    }
}

#[derive(Debug, Error)]
pub enum RecordingError {
    #[error("cannot read the recording `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot unpack the recording `{}`: {source}", path.display())]
    Compressed { path: PathBuf, source: io::Error },
    /// Well-formed or not, its content is not a recording.
    #[error("cannot use the recording `{}`: {}", path.display(), fault)]
    Content { path: PathBuf, fault: RecordingFault },
}

impl RecordingError {
    pub fn hint(&self) -> Option<&str> {
        match self {
            RecordingError::Read { .. } => {
                Some("`replay:` takes a file, or the folder of a study with its journal")
            }
            RecordingError::Compressed { .. } => Some("the file may be cut off; fetch it again"),
            RecordingError::Content { fault, .. } => fault.hint.as_deref(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Error)]
#[error("{}{cause}", place(row))]
pub struct RecordingFault {
    pub row: Option<String>,
    /// Lower case, present tense.
    pub cause: String,
    pub hint: Option<String>,
}

impl RecordingFault {
    pub fn new(cause: impl Into<String>) -> RecordingFault {
        RecordingFault { row: None, cause: cause.into(), hint: None }
    }

    pub fn with_hint(self, hint: impl Into<String>) -> RecordingFault {
        RecordingFault { hint: Some(hint.into()), ..self }
    }

    pub fn in_row(self, row: impl ToString) -> RecordingFault {
        RecordingFault { row: Some(row.to_string()), ..self }
    }
}

fn place(row: &Option<String>) -> String {
    row.as_ref().map(|row| format!("row {row}: ")).unwrap_or_default()
}
