//! Scratch folders: made again where they are missing, locked while they are in use, and swept once nobody holds
//! them.
//!
//! Locks belong to open files, so the kernel gives them back however a process ends, and a folder that is not
//! locked has no owner. Every sweep takes a lock on the whole place, which makers share: a folder that has been
//! made and is not locked yet cannot be met.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// The locks of other machines' processes may not be visible here.
const FOREIGN_AGE: Duration = Duration::from_secs(24 * 3600);

// Not the names of before there were locks (`worker-`, `entry-`): an older evo may be using those.
const FOLDER_PREFIX: &str = "scratch-";
const ENTRY_PREFIX: &str = "part-";

/// Nobody sweeps it until it is dropped.
#[derive(Debug)]
pub struct ScratchFolder {
    // Before the folder: fields are dropped in order, and a folder that is still locked is not swept.
    folder: TempDir,
    _lock: Option<File>,
}

impl ScratchFolder {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

#[derive(Clone, Debug)]
pub struct ScratchPlace {
    root: PathBuf,
}

impl ScratchPlace {
    pub fn new(root: PathBuf) -> ScratchPlace {
        ScratchPlace { root }
    }

    pub fn folder(&self) -> io::Result<ScratchFolder> {
        let _turn = self.shared_turn()?;
        let folder = tempfile::Builder::new().prefix(FOLDER_PREFIX).tempdir_in(&self.root)?;
        // A file system without locks is swept by age alone.
        let lock = File::open(folder.path()).ok().filter(|file| file.try_lock().is_ok());
        Ok(ScratchFolder { folder, _lock: lock })
    }

    /// Written under another name and renamed, so that readers see all of it or none.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Held to the end: a sweep removes every file of this kind that it meets.
        let _turn = self.shared_turn()?;
        if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
            fs::create_dir_all(folder)?;
        }
        let mut file = tempfile::Builder::new().prefix(ENTRY_PREFIX).tempfile_in(&self.root)?;
        file.write_all(bytes)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    }

    /// A full disk may still let empty files be made.
    pub fn probe(&self) -> io::Result<()> {
        fs::create_dir_all(&self.root)?;
        // Without a name, so that nothing is left of it however this process ends.
        tempfile::tempfile_in(&self.root)?.write_all(&[0u8; 4096])
    }

    pub fn sweep(&self) {
        let Ok(turn) = File::options().write(true).open(self.turn_path()) else { return };
        // Somebody is making something: the next start sweeps.
        if turn.try_lock().is_err() {
            return;
        }
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let is_ours = match name.starts_with(FOLDER_PREFIX) {
                true => File::open(&path).is_ok_and(|folder| folder.try_lock().is_ok()),
                false => name.starts_with(ENTRY_PREFIX),
            };
            if is_ours || is_old(&entry) {
                let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            }
        }
    }

    /// Beside the place, which holds nothing but what is being made.
    fn turn_path(&self) -> PathBuf {
        self.root.with_extension("lock")
    }

    fn shared_turn(&self) -> io::Result<File> {
        fs::create_dir_all(&self.root)?;
        let mut options = File::options();
        let turn = options.write(true).create(true).truncate(false).open(self.turn_path())?;
        // Where locks do not work, no sweep gets one either.
        let _ = turn.lock_shared();
        Ok(turn)
    }
}

fn is_old(entry: &fs::DirEntry) -> bool {
    let modified = entry.metadata().and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    age.is_some_and(|age| age > FOREIGN_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_sweep_takes_what_nobody_holds() {
        let root = tempfile::tempdir().unwrap();
        let place = ScratchPlace::new(root.path().join("tmp"));
        let held = place.folder().unwrap();
        fs::write(held.path().join("unit.cpp"), "x").unwrap();
        // As a killed process leaves it: the folder is there and its lock is gone.
        let abandoned = place.folder().unwrap();
        let ScratchFolder { folder, _lock } = abandoned;
        let left = folder.keep();
        drop(_lock);
        fs::write(root.path().join("tmp/part-1"), "half").unwrap();
        fs::write(root.path().join("tmp/mine"), "not evo's").unwrap();
        place.sweep();
        assert!(!left.exists() && held.path().join("unit.cpp").exists());
        let own = held.path().file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(names(&root.path().join("tmp")), ["mine".to_string(), own]);
        drop(held);
        assert_eq!(names(&root.path().join("tmp")), ["mine"]);
    }

    #[test]
    fn a_place_that_was_removed_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let place = ScratchPlace::new(root.path().join("a/tmp"));
        place.sweep();
        let target = root.path().join("a/objects/x.so");
        place.write(&target, b"code").unwrap();
        fs::remove_dir_all(root.path().join("a")).unwrap();
        place.write(&target, b"again").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"again");
        fs::remove_dir_all(root.path().join("a")).unwrap();
        assert!(place.folder().unwrap().path().is_dir());
    }

    #[test]
    fn nobody_sweeps_while_something_is_made() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("tmp");
        let place = ScratchPlace::new(folder.clone());
        let turn = place.shared_turn().unwrap();
        fs::write(folder.join("part-1"), "half").unwrap();
        place.sweep();
        assert_eq!(names(&folder), ["part-1"]);
        drop(turn);
        place.sweep();
        assert!(names(&folder).is_empty());
    }
}
