//! Which folder a study lives in.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::journal::error::JournalError;
use crate::journal::lock::StudyLock;
use crate::journal::own_file;
use crate::journal::reader;
use crate::journal::replay::History;
use crate::kernel::label::{LABEL_HINT, is_label};

/// Where a study should live.
#[derive(Clone, Copy, Debug)]
pub struct StudyRequest<'a> {
    /// The evidence folder.
    pub out: &'a Path,
    /// A name that the user gave.
    pub name: Option<&'a str>,
    /// The name otherwise; gets a number where it is taken.
    pub default_name: &'a str,
    /// Continue where an earlier run ended, if there is one.
    pub resume: bool,
}

/// Why a study cannot be opened.
#[derive(Debug, Error)]
pub enum StudyError {
    /// Trouble with its journal or lock.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Without `--resume` a study is not added to.
    #[error("study `{}` has a journal already", path.display())]
    Taken { path: PathBuf },
    /// Files cannot be made in the evidence folder.
    #[error("cannot write to `{}`", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    /// The name cannot be a folder's.
    #[error("`{name}` is not a name for a study")]
    Name { name: String },
}

impl StudyError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            StudyError::Journal(error) => return error.hint(),
            StudyError::Taken { .. } => {
                "continue it with `--resume`, or choose another name with `--study` or another folder with `--out`"
            }
            StudyError::Unwritable { .. } => "choose another folder with `--out`",
            StudyError::Name { .. } => LABEL_HINT,
        };
        Some(hint.to_string())
    }
}

impl StudyRequest<'_> {
    /// Whether the request can be met, as far as that can be told without writing anything; worth
    /// knowing before compilers and devices are started.
    pub fn check(&self) -> Result<(), StudyError> {
        if let Some(name) = self.name {
            check_name(name)?;
            let path = self.out.join(name);
            if !self.resume && path.join("journal.jsonl").exists() {
                return Err(match StudyLock::take(&path) {
                    Err(locked @ JournalError::Locked { .. }) => locked.into(),
                    _ => StudyError::Taken { path },
                });
            }
        }
        check_writable(self.out)
    }
}

fn check_name(name: &str) -> Result<(), StudyError> {
    if is_label(name) { Ok(()) } else { Err(StudyError::Name { name: name.to_string() }) }
}

/// Checks, without leaving anything behind, that files can be made in `folder`, which may not exist yet.
pub fn check_writable(folder: &Path) -> Result<(), StudyError> {
    let fail = |source: io::Error| StudyError::Unwritable { path: folder.to_path_buf(), source };
    let absolute = std::path::absolute(folder).map_err(fail)?;
    for ancestor in absolute.ancestors() {
        match std::fs::metadata(ancestor) {
            Ok(found) if !found.is_dir() => {
                return Err(fail(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder")));
            }
            Ok(_) => return probe(ancestor).map_err(fail),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(())
}

/// Writes a page into a file without a name: finds missing rights, read-only mounts and full disks.
fn probe(folder: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&[0; 4096])?;
    // Some file systems report a full disk only when the data is written out.
    file.sync_data()
}

/// The folder and the lock on it. Without `--resume` it has no journal.
pub fn find(request: &StudyRequest<'_>) -> Result<(PathBuf, StudyLock), StudyError> {
    let Some(name) = request.name else {
        return if request.resume { latest(request) } else { fresh(request) };
    };
    check_name(name)?;
    let path = request.out.join(name);
    let lock = take(&path)?;
    if !request.resume && path.join("journal.jsonl").exists() {
        return Err(StudyError::Taken { path });
    }
    Ok((path, lock))
}

fn take(path: &Path) -> Result<StudyLock, JournalError> {
    own_file::check_folder(path).map_err(|error| JournalError::io("open", path, error))?;
    std::fs::create_dir_all(path).map_err(|error| JournalError::io("create", path, error))?;
    StudyLock::take(path)
}

/// The seed of the study that a request resumes; `None` where there is nothing to resume.
pub fn resumed_seed(request: &StudyRequest<'_>) -> Option<u64> {
    let with_journal = |path: &PathBuf| path.join("journal.jsonl").exists();
    let folder = match request.name {
        _ if !request.resume => return None,
        Some(name) => request.out.join(name),
        None => family(request).take_while(with_journal).last()?,
    };
    let journal = reader::read(&folder.join("journal.jsonl")).ok()?;
    History::replay(journal).header.map(|header| header.seed)
}

/// `name`, `name-2`, `name-3`, …
fn family<'a>(request: &'a StudyRequest<'_>) -> impl Iterator<Item = PathBuf> + 'a {
    (1u32..).map(|number| match number {
        1 => request.out.join(request.default_name),
        _ => request.out.join(format!("{}-{number}", request.default_name)),
    })
}

/// The first of the family that has no journal and that nobody holds.
fn fresh(request: &StudyRequest<'_>) -> Result<(PathBuf, StudyLock), StudyError> {
    for path in family(request) {
        if path.join("journal.jsonl").exists() {
            continue;
        }
        match take(&path) {
            // Another process may have begun a study between the test and the lock.
            Ok(lock) if !path.join("journal.jsonl").exists() => return Ok((path, lock)),
            Ok(_) | Err(JournalError::Locked { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("numbers do not end")
}

/// The last of the family that has a journal, or a fresh one.
fn latest(request: &StudyRequest<'_>) -> Result<(PathBuf, StudyLock), StudyError> {
    let with_journal = family(request).take_while(|path| path.join("journal.jsonl").exists()).last();
    match with_journal {
        Some(path) => Ok((path.clone(), take(&path)?)),
        None => fresh(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_are_numbered_and_resume_takes_the_last() {
        let out = tempfile::tempdir().unwrap();
        let request = |resume| StudyRequest { out: out.path(), name: None, default_name: "k-host", resume };
        let begin = |resume| {
            let (path, lock) = find(&request(resume)).unwrap();
            std::fs::write(path.join("journal.jsonl"), "").unwrap();
            drop(lock);
            path.file_name().unwrap().to_string_lossy().into_owned()
        };
        assert_eq!([begin(false), begin(false), begin(true)], ["k-host", "k-host-2", "k-host-2"]);
    }

    #[test]
    fn a_named_study_is_not_begun_twice() {
        let out = tempfile::tempdir().unwrap();
        let request =
            |resume| StudyRequest { out: out.path(), name: Some("mine"), default_name: "x", resume };
        let (path, lock) = find(&request(false)).unwrap();
        assert!(matches!(find(&request(true)), Err(StudyError::Journal(JournalError::Locked { .. }))));
        std::fs::write(path.join("journal.jsonl"), "").unwrap();
        drop(lock);
        assert!(matches!(find(&request(false)), Err(StudyError::Taken { .. })));
        assert!(find(&request(true)).is_ok());
    }

    #[test]
    fn unwritable_places_are_known_before_anything_is_written() {
        assert!(matches!(check_writable(Path::new("/dev/null/x")), Err(StudyError::Unwritable { .. })));
        assert!(matches!(check_writable(Path::new("/proc/evo")), Err(StudyError::Unwritable { .. })));
        let out = tempfile::tempdir().unwrap();
        check_writable(&out.path().join("a/b/c")).unwrap();
        assert!(!out.path().join("a").exists());
    }
}
