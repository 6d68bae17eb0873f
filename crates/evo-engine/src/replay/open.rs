//! Opens a recording: reads the file, unpacks it, finds the reader for its format.

use std::io::Read;
use std::path::{Path, PathBuf};

use evo_space::genome::ContentHash;
use evo_space::space::SearchSpace;
use flate2::read::MultiGzDecoder;

use super::error::{RecordingError, RecordingFault};
use super::finish::finish;
use super::readers;
use super::recording::Recording;

/// The first bytes of a gzip stream.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A recording, unpacked. The largest public ones have some ten megabytes.
const TEXT_MAX: u64 = 512 << 20;

impl Recording {
    /// Reads a recording, compressed or not, or the folder of a study. The format is recognized by the content.
    ///
    /// # Errors
    ///
    /// The file cannot be read, has no known format, or contradicts itself.
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        Recording::open_with(path, None)
    }

    /// The same on a space of the caller's. Rows outside it are left out, and a notice says how many.
    ///
    /// # Errors
    ///
    /// As for [`Recording::open`], or if none of the rows is in the space.
    pub fn open_in(path: &Path, space: SearchSpace) -> Result<Recording, RecordingError> {
        Recording::open_with(path, Some(space))
    }

    /// Reads the text of a recording; `stem` is the file's name without `.json`.
    ///
    /// # Errors
    ///
    /// The text has no known format, or contradicts itself.
    pub fn of_text(text: &str, stem: &str) -> Result<Recording, RecordingFault> {
        Recording::read(text, stem, None)
    }

    fn read(text: &str, stem: &str, space: Option<SearchSpace>) -> Result<Recording, RecordingFault> {
        // The hash is of the text, so that a recording is the same whether or not it is compressed.
        readers::read(text, stem).and_then(|draft| finish(draft, space, ContentHash::of(text.as_bytes())))
    }

    fn open_with(path: &Path, space: Option<SearchSpace>) -> Result<Recording, RecordingError> {
        let file = if path.is_dir() { path.join("journal.jsonl") } else { path.to_path_buf() };
        let text = read_text(&file)?;
        let stem = stem(&file);
        let content = |fault| RecordingError::Content { path: file, fault };
        Recording::read(&text, &stem, space).map_err(content)
    }
}

/// The file's name without `.json` and `.gz`, for formats that do not name kernel and GPU.
fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".json").unwrap_or(name).to_string()
}

fn too_large(path: &Path) -> RecordingError {
    let fault = RecordingFault::new(format!("it is larger than {} MiB", TEXT_MAX >> 20))
        .with_hint("split the recording, or keep the rows that matter");
    RecordingError::Content { path: path.to_path_buf(), fault }
}

fn read_text(path: &Path) -> Result<String, RecordingError> {
    let own = || PathBuf::from(path);
    let read = |source| RecordingError::Read { path: own(), source };
    let mut bytes = Vec::new();
    let file = evo_system::regular::open(path).map_err(read)?;
    file.take(TEXT_MAX + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > TEXT_MAX {
        return Err(too_large(path));
    }
    // A gzip file may have several members, as when a tool appends to it.
    let bytes = if bytes.starts_with(&GZIP_MAGIC) {
        let mut unpacked = Vec::new();
        // A few kilobytes of gzip can unpack to as many gigabytes.
        let result = MultiGzDecoder::new(bytes.as_slice()).take(TEXT_MAX + 1).read_to_end(&mut unpacked);
        result.map_err(|source| RecordingError::Compressed { path: own(), source })?;
        if unpacked.len() as u64 > TEXT_MAX {
            return Err(too_large(path));
        }
        unpacked
    } else {
        bytes
    };
    String::from_utf8(bytes).map_err(|_| RecordingError::Content {
        path: own(),
        fault: RecordingFault::new("it is not text")
            .with_hint("recordings are JSON, plain or compressed by gzip"),
    })
}
