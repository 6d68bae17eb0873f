//! Files of checksummed lines that are numbered from 1: what was judged, one line each. Whoever appends holds the
//! folder's lock; a torn last line is cut off, and a damaged one is left out with a note.

use std::io::{self, Seek, SeekFrom};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::JournalError;
use super::line;
use super::own_folder::OwnFolder;
use crate::disk;

pub trait NumberedLine: Serialize + DeserializeOwned {
    const FILE: &'static str;
    /// Raised by any change that an older reader would misread.
    const FORMAT: u32;

    fn format(&self) -> u32;

    fn number(&self) -> u64;

    fn stamp(&mut self, format: u32, number: u64);
}

#[derive(Clone, Debug, PartialEq)]
pub struct NumberedLines<T> {
    pub lines: Vec<T>,
    /// What could not be read.
    pub notes: Vec<String>,
    /// Where the last whole line ends.
    length: u64,
    is_open: bool,
}

pub fn read<T: NumberedLine>(folder: &OwnFolder) -> Result<NumberedLines<T>, JournalError> {
    let path = folder.place(T::FILE);
    let mut found = NumberedLines { lines: Vec::new(), notes: Vec::new(), length: 0, is_open: false };
    let bytes = match folder.read(T::FILE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(JournalError::io("read", &path, error)),
    };
    for (at, chunk) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let whole = chunk.strip_suffix(b"\n");
        match (line::decode::<T>(whole.unwrap_or(chunk)), whole) {
            (Ok(one), _) if one.format() > T::FORMAT => {
                return Err(JournalError::Newer { path, found: one.format(), known: T::FORMAT });
            }
            (Ok(one), _) => found.lines.push(one),
            (Err(_), None) => {
                found.notes.push(format!("the last line of `{}` is torn and left out", path.display()));
                break;
            }
            (Err(why), Some(_)) => {
                found.notes.push(format!("line {} of `{}` is left out: {why}", at + 1, path.display()));
            }
        }
        found.length += chunk.len() as u64;
        found.is_open = whole.is_none();
    }
    Ok(found)
}

/// On return the line is on the disk; after an error the file ends with the line before. A torn last line is cut off.
pub fn append<T: NumberedLine>(folder: &OwnFolder, mut one: T) -> Result<T, JournalError> {
    let before = read::<T>(folder)?;
    one.stamp(T::FORMAT, before.lines.iter().map(T::number).max().unwrap_or(0).saturating_add(1));
    let path = folder.place(T::FILE);
    let fail = |error: io::Error| JournalError::io("write", &path, error);
    let line = line::encode(&one).map_err(|error| fail(error.into()))?;
    let line = if before.is_open { format!("\n{line}") } else { line };
    let mut file = folder.edit_or_create(T::FILE).map_err(fail)?;
    file.set_len(before.length).and_then(|()| file.seek(SeekFrom::End(0))).map_err(fail)?;
    if let Err(error) = disk::write_all(&mut file, line.as_bytes()).and_then(|()| disk::sync_data(&file)) {
        let _ = file.set_len(before.length);
        return Err(fail(error));
    }
    Ok(one)
}
