//! evo's output folder, held open. Every file of a study and of the leaderboard is opened below the handle and never
//! through a link: somebody else may have made a link there, or may put one in the place of a folder while evo
//! runs, and evo would read or write wherever it leads. Only the output folder itself may be reached through links.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use serde::Serialize;

use crate::disk;
use evo_system::regular;

/// How the names of files begin that are being written.
const UNFINISHED: &str = ".evo-";

#[derive(Clone, Debug)]
pub struct OwnFolder {
    handle: Arc<OwnedFd>,
    path: PathBuf,
}

impl OwnFolder {
    pub fn open(path: &Path) -> io::Result<OwnFolder> {
        // A relative path without a folder in it, as the parent of `journal.jsonl`.
        let place = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let handle = rustix::fs::open(place, FOLDER | OFlags::CLOEXEC, Mode::empty())?;
        Ok(OwnFolder { handle: Arc::new(handle), path: path.to_path_buf() })
    }

    pub fn create(path: &Path) -> io::Result<OwnFolder> {
        std::fs::create_dir_all(path)?;
        OwnFolder::open(path)
    }

    pub fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn folder(&self, name: &str) -> io::Result<OwnFolder> {
        let handle = self.open_file(name, FOLDER)?;
        Ok(OwnFolder { handle: Arc::new(handle), path: self.place(name) })
    }

    pub fn create_folder(&self, name: &str) -> io::Result<OwnFolder> {
        self.create_new_folder(name).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => self.folder(name),
            _ => Err(error),
        })
    }

    pub fn create_new_folder(&self, name: &str) -> io::Result<OwnFolder> {
        check_name(name)?;
        rustix::fs::mkdirat(&self.handle, name, Mode::from_raw_mode(0o777))?;
        self.folder(name)
    }

    /// In their order, since a folder has none of its own and what is computed must not depend on one. Names that are not
    /// text are none of evo's.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = Dir::read_from(&self.handle)?;
        let name = |entry: rustix::fs::DirEntry| entry.file_name().to_str().ok().map(String::from);
        let names = entries.filter_map(|entry| entry.map(name).transpose()).collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<String> = names.into_iter().filter(|name| name != "." && name != "..").collect();
        names.sort();
        Ok(names)
    }

    pub fn exists(&self, name: &str) -> bool {
        self.kind(name).is_some()
    }

    /// A link is none.
    pub fn has_file(&self, name: &str) -> bool {
        self.kind(name) == Some(FileType::RegularFile)
    }

    pub(crate) fn has_link(&self, name: &str) -> bool {
        self.kind(name) == Some(FileType::Symlink)
    }

    /// `a named pipe`; `None` for a file, a link, and where there is nothing.
    pub fn irregular(&self, name: &str) -> Option<&'static str> {
        self.kind(name).filter(|kind| *kind != FileType::Symlink).and_then(regular::word)
    }

    /// `None` where there is nothing.
    pub fn read_any(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self.read(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        disk::read(&mut self.regular(name, OFlags::RDONLY)?)
    }

    /// `None` where the file has more than `limit` bytes.
    pub fn read_at_most(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let mut file = self.regular(name, OFlags::RDONLY)?;
        // Asked of the open file: the name may lead to another one by now.
        if file.metadata()?.len() > limit { Ok(None) } else { disk::read(&mut file).map(Some) }
    }

    pub fn read_start(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.regular(name, OFlags::RDONLY)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Seconds since 1970 of the last write, and bytes.
    pub fn age(&self, name: &str) -> io::Result<(i64, u64)> {
        let found = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((found.st_mtime, found.st_size.try_into().unwrap_or(0)))
    }

    /// Files, not links. What cannot be removed stays.
    pub fn remove_files(&self, is_wanted: impl Fn(&str) -> bool) {
        for name in self.names().unwrap_or_default().iter().filter(|name| is_wanted(name)) {
            if self.has_file(name) {
                self.remove(name);
            }
        }
    }

    pub fn edit_or_create(&self, name: &str) -> io::Result<File> {
        self.regular(name, OFlags::RDWR | OFlags::CREATE)
    }

    pub fn create_new(&self, name: &str) -> io::Result<File> {
        self.regular(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// A file or link of the new name is gone then.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
    }

    /// All or nothing; `synced` waits for the disk. A link is replaced, and what it led to stays.
    pub fn replace(&self, name: &str, bytes: &[u8], synced: bool) -> io::Result<()> {
        // In the same folder, because a rename is atomic only within one file system.
        let unfinished = format!("{UNFINISHED}{:016x}", RandomState::new().hash_one(name));
        let mut file = self.create_new(&unfinished)?;
        // Synced before the rename: otherwise a power cut could leave the new name on an empty file.
        let written = disk::write_all(&mut file, bytes)
            .and_then(|()| if synced { disk::sync_all(&file) } else { Ok(()) })
            .and_then(|()| disk::rename(&self.handle, &unfinished, name));
        if written.is_err() {
            self.remove(&unfinished);
        }
        written
    }

    /// As JSON that people can read, waiting for the disk.
    pub fn replace_json(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.replace(name, format!("{}\n", serde_json::to_string_pretty(value)?).as_bytes(), true)
    }

    /// For whoever holds the lock under which files are written.
    pub fn sweep_unfinished(&self) {
        self.remove_files(|name| name.starts_with(UNFINISHED));
    }

    fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.handle, name, AtFlags::empty());
    }

    fn kind(&self, name: &str) -> Option<FileType> {
        let found = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(found.st_mode))
    }

    fn regular(&self, name: &str, flags: OFlags) -> io::Result<File> {
        self.irregular(name).map_or(Ok(()), |what| Err(regular::refused(what)))?;
        // Not waiting for the other end, should a pipe have taken the file's place since.
        let file = File::from(self.open_file(name, flags | OFlags::NONBLOCK)?);
        match regular::word(FileType::from_raw_mode(file.metadata()?.mode())) {
            None => Ok(file),
            Some(what) => Err(regular::refused(what)),
        }
    }

    /// There is one name, so no link can be on the way to it.
    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        check_name(name)?;
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let opened = rustix::fs::openat(&self.handle, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode);
        opened.map_err(|error| match self.has_link(name) {
            true => io::Error::other("it is a link, which evo does not follow in its output folder"),
            false => error.into(),
        })
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Refuses paths: a name stays in its folder.
fn check_name(name: &str) -> io::Result<()> {
    if matches!(name, "" | "." | "..") || name.contains('/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is not a name of a file")));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) fn temporary() -> (tempfile::TempDir, OwnFolder) {
    let root = tempfile::tempdir().unwrap();
    let folder = OwnFolder::open(root.path()).unwrap();
    (root, folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::leaderboard_file;
    use crate::line::LineWriter;
    use crate::lock::StudyLock;
    use crate::reader::{self, JOURNAL};

    #[test]
    fn links_in_the_output_folder_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let secret = root.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let out = OwnFolder::create(&root.path().join("out")).unwrap();
        for name in ["journal.jsonl", "lock", "leaderboard.json", ".leaderboard.lock", "view", ".evo-1"] {
            symlink(&secret, out.place(name)).unwrap();
        }
        assert!(out.read("journal.jsonl").unwrap_err().to_string().contains("it is a link"));
        assert!(reader::read_in(&out).is_err() && reader::read(&out.place("journal.jsonl")).is_err());
        assert!(LineWriter::create(&out, JOURNAL).is_err());
        assert!(LineWriter::append_after(&out, JOURNAL, 0).is_err());
        assert!(StudyLock::take(&out).is_err());
        assert!(leaderboard_file::load(&out).is_err());
        assert!(leaderboard_file::merge(&out, Vec::new(), "").is_err());
        // A view is replaced, and what the link led to stays.
        out.replace("view", b"{}", true).unwrap();
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
        assert_eq!(out.read("view").unwrap(), b"{}");
        out.sweep_unfinished();
        assert!(out.exists(".evo-1"), "only files are swept");
    }

    #[test]
    fn folders_are_opened_where_they_are_and_not_through_links() {
        let root = tempfile::tempdir().unwrap();
        let out = OwnFolder::create(&root.path().join("out")).unwrap();
        let study = out.create_folder("study").unwrap();
        symlink(study.path(), out.place("link")).unwrap();
        for name in ["link", "..", "study/..", "/", ""] {
            assert!(out.folder(name).is_err() && out.create_folder(name).is_err(), "`{name}`");
        }
        // The output folder itself may be reached through one.
        symlink(out.path(), root.path().join("way")).unwrap();
        assert!(OwnFolder::open(&root.path().join("way")).is_ok());
        // What is written follows the folder, not its name.
        std::fs::rename(study.path(), out.place("moved")).unwrap();
        std::fs::create_dir(root.path().join("theirs")).unwrap();
        symlink(root.path().join("theirs"), study.path()).unwrap();
        study.replace("view", b"{}", false).unwrap();
        assert_eq!(std::fs::read(out.place("moved").join("view")).unwrap(), b"{}");
        assert_eq!(std::fs::read_dir(root.path().join("theirs")).unwrap().count(), 0);
    }
}
