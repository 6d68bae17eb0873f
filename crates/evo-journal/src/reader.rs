//! Reads a journal whatever happened to it, and keeps what is damaged in it where a person finds it.

use std::path::{Path, PathBuf};

use super::error::JournalError;
use super::line::{self, Lines, Rejected};
use super::own_folder::OwnFolder;
use super::record::JournalRecord;

pub type Journal = Lines<JournalRecord>;

pub const JOURNAL: &str = "journal.jsonl";

/// Only the last name of the path must not be a link.
pub fn read(path: &Path) -> Result<Journal, JournalError> {
    let fail = |error| JournalError::io("read", path, error);
    let folder = OwnFolder::open(path.parent().unwrap_or(Path::new(""))).map_err(fail)?;
    read_named(&folder, path.file_name().and_then(|name| name.to_str()).unwrap_or_default())
}

pub fn read_in(folder: &OwnFolder) -> Result<Journal, JournalError> {
    read_named(folder, JOURNAL)
}

/// Damage is believed when two reads agree on it: whoever continues the journal cuts a torn line off.
fn read_named(folder: &OwnFolder, name: &str) -> Result<Journal, JournalError> {
    JournalError::refuse_irregular(folder, name)?;
    let fail = |error| JournalError::io("read", &folder.place(name), error);
    let mut last: Option<Vec<u8>> = None;
    for _ in 0..READS {
        let bytes = folder.read(name).map_err(fail)?;
        let journal = parse(&bytes);
        let is_whole = !journal.torn && journal.rejected.is_empty();
        if is_whole || last.as_ref() == Some(&bytes) {
            return Ok(journal);
        }
        last = Some(bytes);
    }
    Err(fail(std::io::Error::other("it reads differently each time")))
}

const READS: usize = 5;

pub fn parse(bytes: &[u8]) -> Journal {
    line::parse(bytes)
}

/// Writes them to `journal.rejected`, each after a line that names it; the journal itself is never rewritten. Gives
/// the file's path and the lines that the file did not hold yet.
pub fn set_aside<'a>(
    folder: &OwnFolder,
    rejected: &'a [Rejected],
) -> Result<(PathBuf, Vec<&'a Rejected>), JournalError> {
    let name = "journal.rejected";
    // Without an older file, or with one that cannot be read, every line is new.
    let older = folder.read(name).unwrap_or_default();
    let (mut bytes, mut rest, mut fresh) = (Vec::new(), older.as_slice(), Vec::new());
    for damaged in rejected {
        let head = format!("line {}: {}\n", damaged.line, damaged.reason);
        let block = [head.as_bytes(), &damaged.bytes, b"\n"].concat();
        // A resume must not report damage again that an earlier resume has already reported.
        match rest.strip_prefix(block.as_slice()) {
            Some(after) => rest = after,
            None => fresh.push(damaged),
        }
        bytes.extend(block);
    }
    if bytes != older {
        // By a rename, which never opens what lies there.
        write_view(folder, name, &bytes, true)?;
    }
    Ok((folder.place(name), fresh))
}

/// Writes a file that follows from the journal. A pipe, a device or a folder of that name is refused: somebody may have
/// made it for a reason.
pub fn write_view(folder: &OwnFolder, name: &str, bytes: &[u8], synced: bool) -> Result<(), JournalError> {
    JournalError::refuse_irregular(folder, name)?;
    folder.replace(name, bytes, synced).map_err(|error| JournalError::io("write", &folder.place(name), error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evo_space::genome::Configuration;
    use evo_space::value::Value;
    use proptest::prelude::*;

    use super::*;
    use crate::line::{LineWriter, encode};
    use crate::own_folder::temporary;

    fn record() -> impl Strategy<Value = JournalRecord> {
        let values = (".{0,6}", any::<i64>(), any::<bool>());
        let started = (any::<u64>(), values, any::<Option<u32>>(), any::<Option<u64>>());
        let started = started.prop_map(|(number, (text, integer, flag), lane, at_ms)| {
            let values =
                [("A", Value::Int(integer)), ("text", Value::text(text)), ("flag", Value::Bool(flag))];
            let configuration = values.map(|(name, value)| (Arc::<str>::from(name), value)).to_vec();
            JournalRecord::Started { number, configuration: Configuration::new(configuration), lane, at_ms }
        });
        let note = ("[^\u{0}]{0,30}", ".{0,9}");
        let note = note.prop_map(|(message, at)| JournalRecord::Note { at, message, at_ms: None });
        prop_oneof![started, note]
    }

    fn text_of(records: &[JournalRecord]) -> Vec<u8> {
        records.iter().flat_map(|record| encode(record).unwrap().into_bytes()).collect()
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(records in prop::collection::vec(record(), 0..8)) {
            let (_root, folder) = temporary();
            let mut writer = LineWriter::create(&folder, JOURNAL).unwrap();
            for record in &records {
                writer.append(record).unwrap();
            }
            let journal = read_in(&folder).unwrap();
            prop_assert_eq!(journal.records, records);
            prop_assert!(journal.rejected.is_empty() && !journal.torn);
        }

        #[test]
        fn a_cut_anywhere_loses_one_record_at_most(
            records in prop::collection::vec(record(), 1..6), share in 0.0..1.0f64
        ) {
            let bytes = text_of(&records);
            let cut = (bytes.len() as f64 * share) as usize;
            let whole = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            let journal = parse(&bytes[..cut]);
            prop_assert!(journal.records.len() >= whole && journal.records.len() <= whole + 1);
            prop_assert_eq!(&journal.records[..], &records[..journal.records.len()]);
            prop_assert!(journal.rejected.is_empty());

            // Appending after the repair gives a journal without a scar.
            let (_root, folder) = temporary();
            std::fs::write(folder.place(JOURNAL), &bytes[..cut]).unwrap();
            let mut writer = LineWriter::append_after(&folder, JOURNAL, journal.length).unwrap();
            writer.append(&records[0]).unwrap();
            let again = read_in(&folder).unwrap();
            prop_assert_eq!(again.records.len(), journal.records.len() + 1);
            prop_assert!(again.rejected.is_empty() && !again.torn);
        }

        #[test]
        fn a_flipped_byte_sets_its_line_aside(
            records in prop::collection::vec(record(), 2..6), share in 0.0..1.0f64, flip in 1..=255u8
        ) {
            let mut bytes = text_of(&records);
            let place = ((bytes.len() - 1) as f64 * share) as usize;
            let hits_newline = bytes[place] == b'\n';
            bytes[place] ^= flip;
            let journal = parse(&bytes);
            // A flip may also only make white space of the envelope, or join or split lines.
            let lost = records.len() - journal.records.len();
            let limit = if hits_newline { 2 } else { 1 };
            prop_assert!(lost <= limit);
            for record in &journal.records {
                prop_assert!(records.contains(record));
            }
        }
    }

    #[test]
    fn rejected_lines_are_named() {
        let records =
            [1, 2, 3].map(|n| JournalRecord::Note { at: n.to_string(), message: "abc".into(), at_ms: None });
        let text = String::from_utf8(text_of(&records)).unwrap().replacen("\"2\"", "\"7\"", 1);
        let journal = parse(text.as_bytes());
        assert_eq!(journal.records, [records[0].clone(), records[2].clone()]);
        assert_eq!(
            (journal.rejected[0].line, &*journal.rejected[0].reason),
            (2, "the checksum does not match")
        );
        let (_root, folder) = temporary();
        let fresh = |rejected: &[Rejected]| -> Vec<usize> {
            set_aside(&folder, rejected).unwrap().1.iter().map(|one| one.line).collect()
        };
        assert_eq!(fresh(&journal.rejected), [2]);
        let kept = std::fs::read_to_string(folder.place("journal.rejected")).unwrap();
        assert!(kept.starts_with("line 2: the checksum does not match\n{\"crc\""), "{kept}");
        // Each line is new once, wherever the next one is.
        let damaged = |line| Rejected { line, reason: "torn".into(), bytes: b"{".to_vec() };
        let mut rejected = journal.rejected;
        assert_eq!(fresh(&rejected), [0; 0]);
        rejected.push(damaged(4));
        assert_eq!(fresh(&rejected), [4]);
        rejected.insert(0, damaged(1));
        assert_eq!(fresh(&rejected), [1]);
        assert_eq!(fresh(&rejected), [0; 0]);
    }
}
