//! Appends records, one write each. `append` syncs, so that an appended record survives a power cut.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::error::JournalError;
use super::line;
use super::own_folder::OwnFolder;
use super::reader::JOURNAL;
use super::record::JournalRecord;
use crate::disk;

#[derive(Debug)]
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    length: u64,
}

impl JournalWriter {
    pub fn create(folder: &OwnFolder) -> Result<JournalWriter, JournalError> {
        let path = folder.place(JOURNAL);
        // Never over an existing file, whose evaluations would be lost.
        let file = folder.create_new(JOURNAL).map_err(|error| JournalError::io("create", &path, error))?;
        Ok(JournalWriter { file, path, length: 0 })
    }

    /// Cut to `length`, where its last whole line ends.
    pub fn append_after(folder: &OwnFolder, length: u64) -> Result<JournalWriter, JournalError> {
        let path = folder.place(JOURNAL);
        JournalError::refuse_irregular(folder, JOURNAL)?;
        let fail = |error| JournalError::io("open", &path, error);
        let mut file = folder.edit(JOURNAL).map_err(fail)?;
        // Cuts off a torn line. The reader has told how far whole lines reach.
        file.set_len(length).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        let mut writer = JournalWriter { file, path, length };
        writer.end_line()?;
        Ok(writer)
    }

    /// On return the record is on the disk. After an error the file ends with the record before.
    pub fn append(&mut self, record: &JournalRecord) -> Result<(), JournalError> {
        self.append_unsynced(record)?;
        // One sync per record: the search uses a verdict at once, so it must not be lost while later records
        // depend on it. The data alone is enough, and it includes the new length of the file.
        disk::sync_data(&self.file).map_err(|error| JournalError::io("sync", &self.path, error))
    }

    /// The record survives the death of this process, and the next `append` syncs it too.
    pub fn append_unsynced(&mut self, record: &JournalRecord) -> Result<(), JournalError> {
        let line = line::encode(record);
        let line = line.map_err(|error| JournalError::io("write", &self.path, error.into()))?;
        self.write(line.as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        if let Err(error) = disk::write_all(&mut self.file, bytes) {
            // A part of the line may be there; without it the journal is whole. Failing here changes
            // nothing for the reader, who repairs a torn last line anyway.
            let _ = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::End(0)));
            return Err(JournalError::io("write", &self.path, error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), JournalError> {
        let Some(before) = self.length.checked_sub(1) else { return Ok(()) };
        let mut last = [0];
        let read = self.file.read_exact_at(&mut last, before);
        read.map_err(|error| JournalError::io("read", &self.path, error))?;
        if last == *b"\n" { Ok(()) } else { self.write(b"\n") }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_full_disk_is_told_apart() {
        let path = Path::new("/dev/full");
        let file = File::options().write(true).open(path).expect("Linux has /dev/full");
        let mut writer = JournalWriter { file, path: path.to_path_buf(), length: 0 };
        let error =
            writer.append(&JournalRecord::Note { at: String::new(), message: String::new(), at_ms: None });
        let error = error.unwrap_err();
        assert!(matches!(error, JournalError::DiskFull { .. }));
        insta::assert_snapshot!(error, @"no space left on the device that holds `/dev/full`");
        insta::assert_snapshot!(
            error.hint().unwrap(),
            @"everything before this record is safe; make room and run the same command again, a sweep with `--resume`"
        );
    }
}
