//! Files of records, one a line: `{"crc":"…","record":{…}}` with a checksum over the record's own text.
//!
//! The text is kept as it was written (`RawValue`), so the check covers every byte that carries meaning. A torn last
//! line is left out and its position reported, a damaged line in the middle is set aside, and everything else is used.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::JournalError;
use super::own_folder::OwnFolder;
use crate::disk;

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    crc: &'a str,
    #[serde(borrow)]
    record: &'a RawValue,
}

/// With its newline.
pub fn encode(record: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::value::to_raw_value(record)?;
    let mut line = serde_json::to_string(&Envelope { crc: &checksum(text.get()), record: &text })?;
    line.push('\n');
    Ok(line)
}

/// `line` has no newline.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_string())?;
    let envelope: Envelope<'_> =
        serde_json::from_str(text).map_err(|error| format!("not a record: {error}"))?;
    // Valid JSON is not proof: a flipped digit in a time would still parse, and would rank.
    if checksum(envelope.record.get()) != envelope.crc {
        return Err("the checksum does not match".to_string());
    }
    serde_json::from_str(envelope.record.get()).map_err(|error| format!("not a known record: {error}"))
}

fn checksum(text: &str) -> String {
    // 64 bits are plenty against accidents, which are all that this guards against, and keep lines short.
    blake3::hash(text.as_bytes()).to_hex().as_str()[..16].to_string()
}

#[derive(Debug)]
pub struct Lines<T> {
    pub records: Vec<T>,
    pub rejected: Vec<Rejected>,
    /// Bytes up to the end of the last whole line; anything beyond is torn.
    pub length: u64,
    pub torn: bool,
}

#[derive(Debug, PartialEq)]
pub struct Rejected {
    pub line: usize,
    pub reason: String,
    pub bytes: Vec<u8>,
}

impl<T> Default for Lines<T> {
    fn default() -> Lines<T> {
        Lines { records: Vec::new(), rejected: Vec::new(), length: 0, torn: false }
    }
}

pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Lines<T> {
    let mut lines = Lines::default();
    for (at, chunk) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let whole = chunk.strip_suffix(b"\n");
        match (decode(whole.unwrap_or(chunk)), whole) {
            // A last line that lost only its newline passes its checksum, so it counts; the writer adds the
            // newline.
            (Ok(record), _) => lines.records.push(record),
            // Without a newline the line was cut off: the process died while it wrote. The writer truncates
            // the file here, so that the next record does not continue half a line.
            (Err(_), None) => {
                lines.torn = true;
                return lines;
            }
            // One damaged line must not cost a study: the lines after it are whole and have checksums of
            // their own.
            (Err(reason), Some(line)) => {
                lines.rejected.push(Rejected { line: at + 1, reason, bytes: line.to_vec() });
            }
        }
        lines.length += chunk.len() as u64;
    }
    lines
}

/// Appends records, one write each. `append` syncs, so that an appended record survives a power cut.
#[derive(Debug)]
pub struct LineWriter {
    file: File,
    path: PathBuf,
    length: u64,
}

impl LineWriter {
    pub fn create(folder: &OwnFolder, name: &str) -> Result<LineWriter, JournalError> {
        let path = folder.place(name);
        // Never over an existing file, whose evaluations would be lost.
        let file = folder.create_new(name).map_err(|error| JournalError::io("create", &path, error))?;
        Ok(LineWriter { file, path, length: 0 })
    }

    /// Cut to `length`, where its last whole line ends.
    pub fn append_after(folder: &OwnFolder, name: &str, length: u64) -> Result<LineWriter, JournalError> {
        let path = folder.place(name);
        JournalError::refuse_irregular(folder, name)?;
        let fail = |error| JournalError::io("open", &path, error);
        let mut file = folder.edit_or_create(name).map_err(fail)?;
        // Cuts off a torn line. The reader has told how far whole lines reach.
        file.set_len(length).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        let mut writer = LineWriter { file, path, length };
        if let Some(before) = length.checked_sub(1) {
            let mut last = [0];
            let read = writer.file.read_exact_at(&mut last, before);
            read.map_err(|error| JournalError::io("read", &writer.path, error))?;
            // A line that lost its newline only counts.
            if last != *b"\n" {
                writer.write(b"\n")?;
            }
        }
        Ok(writer)
    }

    /// On return the record is on the disk. After an error the file ends with the record before.
    pub fn append(&mut self, record: &impl Serialize) -> Result<(), JournalError> {
        let before = self.length;
        self.append_unsynced(record)?;
        // One sync per record: the search uses a verdict at once, so it must not be lost while later records
        // depend on it. The data alone is enough, and it includes the new length of the file.
        disk::sync_data(&self.file).map_err(|error| self.cut(before, "sync", error))
    }

    /// The record survives the death of this process, and the next `append` syncs it too.
    pub fn append_unsynced(&mut self, record: &impl Serialize) -> Result<(), JournalError> {
        let line = encode(record).map_err(|error| JournalError::io("write", &self.path, error.into()))?;
        self.write(line.as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        disk::write_all(&mut self.file, bytes).map_err(|error| self.cut(self.length, "write", error))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// A part of the line may be there; without it the file is whole. Failing here changes nothing for the reader, who
    /// repairs a torn last line anyway.
    fn cut(&mut self, length: u64, action: &'static str, error: io::Error) -> JournalError {
        self.length = length;
        let _ = self.file.set_len(length).and_then(|()| self.file.seek(SeekFrom::End(0)));
        JournalError::io(action, &self.path, error)
    }
}

/// One of a file whose lines are numbered from 1: what was judged, one line each. Whoever appends holds the folder's lock.
pub trait NumberedLine: Serialize + DeserializeOwned {
    const FILE: &'static str;
    /// Raised by any change that an older reader would misread.
    const FORMAT: u32;

    /// Its format and its number.
    fn stamp(&mut self) -> (&mut u32, &mut u64);
}

#[derive(Clone, Debug, PartialEq)]
pub struct NumberedLines<T> {
    pub lines: Vec<T>,
    pub notes: Vec<String>,
    /// Where the last whole line ends.
    pub(crate) length: u64,
}

/// A damaged line is left out with a note, and nothing is there where there is no file.
pub fn numbered<T: NumberedLine>(folder: &OwnFolder) -> Result<NumberedLines<T>, JournalError> {
    let path = folder.place(T::FILE);
    let bytes = folder.read_any(T::FILE).map_err(|error| JournalError::io("read", &path, error))?;
    let mut found = parse::<T>(&bytes.unwrap_or_default());
    if let Some(newer) = found.records.iter_mut().map(|line| *line.stamp().0).find(|own| *own > T::FORMAT) {
        return Err(JournalError::Newer { path, found: newer, known: T::FORMAT });
    }
    let left_out = found.rejected.iter();
    let left_out = left_out.map(|damaged| {
        format!("line {} of `{}` is left out: {}", damaged.line, path.display(), damaged.reason)
    });
    let torn = found.torn.then(|| format!("the last line of `{}` is torn and left out", path.display()));
    let notes = left_out.chain(torn).collect();
    Ok(NumberedLines { lines: found.records, notes, length: found.length })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_full_disk_is_told_apart() {
        let path = Path::new("/dev/full");
        let file = File::options().write(true).open(path).expect("Linux has /dev/full");
        let mut writer = LineWriter { file, path: path.to_path_buf(), length: 0 };
        let error = writer.append(&"").unwrap_err();
        assert!(matches!(error, JournalError::DiskFull { .. }));
        insta::assert_snapshot!(error, @"no space left on the device that holds `/dev/full`");
        insta::assert_snapshot!(
            error.hint().unwrap(),
            @"everything before this record is safe; make room and run the same command again, a sweep with `--resume`"
        );
    }
}
