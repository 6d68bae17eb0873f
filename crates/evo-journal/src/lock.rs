//! Locks that the operating system releases when their holder dies: one writer for a study, and one command at a time
//! that times candidates on a device.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};

use super::error::JournalError;
use super::own_folder::OwnFolder;

#[derive(Debug)]
pub struct StudyLock {
    _file: File,
}

impl StudyLock {
    pub fn take(folder: &OwnFolder) -> Result<StudyLock, JournalError> {
        let fail = |action| move |error| JournalError::io(action, &folder.place("lock"), error);
        // Not truncated: until the lock is ours, the number in the file is somebody else's.
        let mut file = lock_file(folder, "lock")?;
        if let Err(error) = file.try_lock() {
            let TryLockError::WouldBlock = error else { return Err(fail("lock")(error.into())) };
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            let holder = if text.trim().is_empty() { "?" } else { text.trim() }.to_string();
            return Err(JournalError::Locked { path: folder.path().to_path_buf(), holder });
        }
        // The number is only for messages. The lock itself belongs to the open file, so a number left behind
        // by a dead process blocks nobody.
        let note = file.set_len(0).and_then(|()| file.rewind());
        note.and_then(|()| writeln!(file, "{}", std::process::id())).map_err(fail("write"))?;
        Ok(StudyLock { _file: file })
    }
}

/// The file that a lock is on, locked; nobody reads it. `on_wait` is called where somebody else has the lock.
pub(crate) fn locked(folder: &OwnFolder, name: &str, on_wait: impl FnOnce()) -> Result<File, JournalError> {
    let file = lock_file(folder, name)?;
    let taken = match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            on_wait();
            file.lock()
        }
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    };
    taken.map_err(|error| JournalError::io("lock", &folder.place(name), error))?;
    Ok(file)
}

fn lock_file(folder: &OwnFolder, name: &str) -> Result<File, JournalError> {
    JournalError::refuse_irregular(folder, name)?;
    folder.edit_or_create(name).map_err(|error| JournalError::io("open", &folder.place(name), error))
}

/// For commands that time candidates, whatever their kernel: two at once would disturb each other's times.
#[derive(Debug)]
pub struct DeviceTurn {
    _file: File,
}

impl DeviceTurn {
    /// `on_wait` is called where another command has the device. `device` is as a command line names it: `host`,
    /// `cuda:0`.
    pub fn take(out: &OwnFolder, device: &str, on_wait: impl FnOnce()) -> Result<DeviceTurn, JournalError> {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name = format!(".device-{}.lock", device.chars().map(plain).collect::<String>());
        Ok(DeviceTurn { _file: locked(out, &name, on_wait)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_folder::temporary;

    #[test]
    fn the_second_is_refused_until_the_first_is_gone() {
        let (_root, folder) = temporary();
        let first = StudyLock::take(&folder).unwrap();
        let error = StudyLock::take(&folder).unwrap_err().to_string();
        assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
        drop(first);
        StudyLock::take(&folder).unwrap();
    }

    #[test]
    fn a_device_has_one_turn_at_a_time_whatever_the_kernel() {
        let (_root, folder) = temporary();
        let turn = |device: &str| DeviceTurn::take(&folder, device, || panic!("`{device}` is free"));
        let first = turn("cuda:0").unwrap();
        let _other = turn("cuda:1").unwrap();
        let (told, waits) = std::sync::mpsc::channel();
        let second = {
            let folder = folder.clone();
            let on_wait = move || told.send(()).unwrap();
            std::thread::spawn(move || DeviceTurn::take(&folder, "cuda:0", on_wait).is_ok())
        };
        waits.recv().unwrap();
        assert!(!second.is_finished());
        drop(first);
        assert!(second.join().unwrap());
    }
}
