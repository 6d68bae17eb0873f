//! Which folder a study lives in.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::studies::instead_of;
use evo_journal::budget::StopReason;
use evo_journal::error::JournalError;
use evo_journal::lock::StudyLock;
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::{self, JOURNAL};
use evo_journal::record::StudyHeader;
use evo_journal::replay::History;
use evo_kernel::label::{LABEL_HINT, is_label};

#[derive(Clone, Copy, Debug)]
pub struct StudyRequest<'a> {
    pub out: &'a Path,
    pub name: Option<&'a str>,
    /// The name otherwise; gets a number where it is taken.
    pub default_name: &'a str,
    pub wish: StudyWish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyWish {
    Begin,
    /// A study of its own, unless the last of the default name has evaluated all that there is: another one would hold
    /// the same once more.
    BeginUnlessComplete,
    /// Continue where an earlier run ended. A name that the user gave has to be that of a study.
    Resume,
    /// The same, and a new study where there is none of that name.
    ResumeOrBegin,
}

impl StudyWish {
    pub fn resumes(self) -> bool {
        matches!(self, StudyWish::Resume | StudyWish::ResumeOrBegin)
    }
}

#[derive(Debug, Error)]
pub enum StudyError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Without `--resume` a study is not added to.
    #[error("study `{}` has a journal already", path.display())]
    Taken { path: PathBuf },
    #[error("there is no study `{name}` to resume in `{}`", out.display())]
    Missing { name: String, out: PathBuf, hint: String },
    #[error("cannot write to `{}`", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("`{name}` is not a name for a study")]
    Name { name: String },
}

impl StudyError {
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            StudyError::Journal(error) => return error.hint(),
            StudyError::Taken { .. } => {
                "continue it with `--resume`, or choose another name with `--study` or another folder with `--out`"
            }
            StudyError::Missing { hint, .. } => hint,
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
            self.check_name(name)?;
            let begun = OwnFolder::open(self.out).ok().and_then(|out| begun(&out, name));
            if let Some(folder) = begun.filter(|_| !self.wish.resumes()) {
                return Err(match StudyLock::take(&folder) {
                    Err(locked @ JournalError::Locked { .. }) => locked.into(),
                    _ => StudyError::Taken { path: folder.path().to_path_buf() },
                });
            }
        }
        check_writable(self.out)
    }

    fn check_name(&self, name: &str) -> Result<(), StudyError> {
        if !is_label(name) {
            return Err(StudyError::Name { name: name.to_string() });
        }
        match self.wish == StudyWish::Resume && is_absent(self.out, name) {
            true => Err(missing(self.out, name)),
            false => Ok(()),
        }
    }

    /// The last study of the default name's family, while each of them has a journal.
    fn last_begun(&self, out: &OwnFolder) -> Option<(String, OwnFolder)> {
        family(self).map_while(|name| begun(out, &name).map(|folder| (name, folder))).last()
    }
}

/// Whether no study has this name. What is there and cannot be opened is not absent: opening it says why.
fn is_absent(out: &Path, name: &str) -> bool {
    let has_begun = |out: OwnFolder| out.folder(name).map(|folder| folder.exists(JOURNAL));
    match std::fs::symlink_metadata(out.join(name)) {
        Err(_) => true,
        Ok(_) => OwnFolder::open(out).is_ok_and(|out| has_begun(out).is_ok_and(|has| !has)),
    }
}

/// The refusal of a name that no study has, with one that may have been meant.
fn missing(out: &Path, name: &str) -> StudyError {
    let begin = "`--resume=or-begin` begins a study where there is none";
    let hint = match instead_of(name, OwnFolder::open(out).ok().as_ref(), "there") {
        Some(near) if near.ends_with('?') => format!("{near} {begin}"),
        Some(others) => format!("{others}; {begin}"),
        None => begin.to_string(),
    };
    StudyError::Missing { name: name.to_string(), out: out.to_path_buf(), hint }
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

#[derive(Debug)]
pub struct FoundStudy {
    pub out: OwnFolder,
    pub folder: OwnFolder,
    pub name: String,
    /// Held as long as the study is open.
    _lock: StudyLock,
}

/// Finds or makes the study's folder. Without `--resume` it has no journal.
pub fn find(request: &StudyRequest<'_>) -> Result<FoundStudy, StudyError> {
    let out = OwnFolder::create(request.out);
    let out = out.map_err(|error| JournalError::io("create", request.out, error))?;
    let Some(name) = request.name else {
        return match request.last_begun(&out).filter(|_| request.wish.resumes()) {
            Some((name, _)) => Ok(take(&out, name)?),
            None => fresh(request, &out),
        };
    };
    request.check_name(name)?;
    let found = take(&out, name.to_string())?;
    if !request.wish.resumes() && found.folder.exists(JOURNAL) {
        return Err(StudyError::Taken { path: found.folder.path().to_path_buf() });
    }
    Ok(found)
}

fn take(out: &OwnFolder, name: String) -> Result<FoundStudy, JournalError> {
    let folder = out.create_folder(&name);
    let folder = folder.map_err(|error| JournalError::io("open", &out.place(&name), error))?;
    let lock = StudyLock::take(&folder)?;
    Ok(FoundStudy { out: out.clone(), folder, name, _lock: lock })
}

/// The last study of the default name, if it has evaluated all that a run with this header could.
pub(super) fn complete(request: &StudyRequest<'_>, header: &StudyHeader) -> Option<FoundStudy> {
    if request.wish != StudyWish::BeginUnlessComplete || request.name.is_some() {
        return None;
    }
    let out = OwnFolder::open(request.out).ok()?;
    let (name, folder) = request.last_begun(&out)?;
    let history = History::replay(reader::read_in(&folder).ok()?);
    let before = history.header.as_ref()?;
    let is_same = before.space_hash == header.space_hash
        && before.conditions == header.conditions
        && before.device.name == header.device.name
        && (&before.problems, &before.checked) == (&header.problems, &header.checked);
    let is_done = history.ends.last()?.reason == StopReason::SpaceExhausted && history.not_final.is_empty();
    // A study that somebody works on is not joined.
    if is_same && is_done { take(&out, name).ok() } else { None }
}

/// The last run's header of the study that a request resumes, and how many evaluations it has; `None` where there is nothing
/// to resume.
pub fn resumed(request: &StudyRequest<'_>) -> Option<(StudyHeader, u64)> {
    if !request.wish.resumes() {
        return None;
    }
    let out = OwnFolder::open(request.out).ok()?;
    let folder = match request.name {
        Some(name) => begun(&out, name)?,
        None => request.last_begun(&out)?.1,
    };
    let history = History::replay(reader::read_in(&folder).ok()?);
    let done = history.evaluations.iter().filter(|one| one.is_counted()).count();
    Some((history.header?, done as u64))
}

fn begun(out: &OwnFolder, name: &str) -> Option<OwnFolder> {
    out.folder(name).ok().filter(|folder| folder.exists(JOURNAL))
}

/// `name`, `name-2`, `name-3`, …
fn family(request: &StudyRequest<'_>) -> impl Iterator<Item = String> {
    let name = request.default_name.to_string();
    (1u32..).map(move |number| match number {
        1 => name.clone(),
        _ => format!("{name}-{number}"),
    })
}

/// The first of the family that has no journal and that nobody holds.
fn fresh(request: &StudyRequest<'_>, out: &OwnFolder) -> Result<FoundStudy, StudyError> {
    for name in family(request) {
        if begun(out, &name).is_some() {
            continue;
        }
        match take(out, name) {
            // Another process may have begun a study between the test and the lock.
            Ok(found) if !found.folder.exists(JOURNAL) => return Ok(found),
            Ok(_) | Err(JournalError::Locked { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_are_numbered_and_resume_takes_the_last() {
        let out = tempfile::tempdir().unwrap();
        let request = |wish| StudyRequest { out: out.path(), name: None, default_name: "k-host", wish };
        let begin = |wish| {
            let found = find(&request(wish)).unwrap();
            std::fs::write(found.folder.place(JOURNAL), "").unwrap();
            found.name
        };
        let names = [StudyWish::Begin, StudyWish::Begin, StudyWish::Resume].map(begin);
        assert_eq!(names, ["k-host", "k-host-2", "k-host-2"]);
    }

    #[test]
    fn a_named_study_is_not_begun_twice() {
        let out = tempfile::tempdir().unwrap();
        let request = |wish| StudyRequest { out: out.path(), name: Some("mine"), default_name: "x", wish };
        let found = find(&request(StudyWish::Begin)).unwrap();
        let locked = find(&request(StudyWish::ResumeOrBegin)).unwrap_err();
        assert!(matches!(locked, StudyError::Journal(JournalError::Locked { .. })));
        std::fs::write(found.folder.place(JOURNAL), "").unwrap();
        drop(found);
        assert!(matches!(find(&request(StudyWish::Begin)), Err(StudyError::Taken { .. })));
        assert!(find(&request(StudyWish::Resume)).is_ok());
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
