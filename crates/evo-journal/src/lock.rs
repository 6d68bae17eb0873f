//! One writer for a study: a lock file that the operating system releases when its holder dies.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};

use super::error::JournalError;
use super::own_folder::OwnFolder;

/// Holds a study until dropped.
#[derive(Debug)]
pub struct StudyLock {
    _file: File,
}

impl StudyLock {
    /// Takes `folder/lock`, or says who holds it.
    pub fn take(folder: &OwnFolder) -> Result<StudyLock, JournalError> {
        let path = folder.place("lock");
        JournalError::refuse_irregular(folder, "lock")?;
        // Not truncated: until the lock is ours, the number in the file is somebody else's.
        let open = folder.edit_or_create("lock");
        let mut file = open.map_err(|error| JournalError::io("open", &path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "?".into() } else { holder.trim().to_string() };
                return Err(JournalError::Locked { path: folder.path().to_path_buf(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(JournalError::io("lock", &path, error)),
        }
        // The number is only for messages. The lock itself belongs to the open file, so a number left behind
        // by a dead process blocks nobody.
        let note = file.set_len(0).and_then(|()| file.rewind());
        note.and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(|error| JournalError::io("write", &path, error))?;
        Ok(StudyLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_until_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = OwnFolder::open(folder.path()).unwrap();
        let first = StudyLock::take(&folder).unwrap();
        let error = StudyLock::take(&folder).unwrap_err().to_string();
        assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
        drop(first);
        StudyLock::take(&folder).unwrap();
    }
}
