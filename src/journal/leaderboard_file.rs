//! `leaderboard.json` on disk: other sections are kept, writing is all or nothing, and a file that
//! cannot be read is put aside, never overwritten.

use std::path::{Path, PathBuf};

use evo_protocol::leaderboard::{Leaderboard, LeaderboardSection, VERSION};
use serde_json::Value;

use super::champion::{self, Succession};
use super::error::JournalError;
use super::own_file;
use super::rank::NOISY;
use crate::disk;

/// What merging did beside writing.
#[derive(Debug)]
pub struct Merged {
    pub path: PathBuf,
    /// What became of each section, in order.
    pub placements: Vec<Succession>,
    /// Where an unreadable older file went.
    pub put_aside: Option<PathBuf>,
}

/// Reads the board in a folder; `None` if there is none.
pub fn load(folder: &Path) -> Result<Option<Result<Leaderboard, String>>, JournalError> {
    let path = folder.join("leaderboard.json");
    JournalError::refuse_irregular(&path)?;
    let text = match own_file::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::io("read", &path, error)),
    };
    Ok(Some(parse(&text)))
}

/// Reads the text of a board of this version or an older one, or says why it is none.
pub fn parse(text: &[u8]) -> Result<Leaderboard, String> {
    let mut value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let version = value["version"].as_u64().ok_or("it names no version")?;
    if version > u64::from(VERSION) {
        return Err(format!("version {version} is newer than this evo's {VERSION}"));
    }
    if version < 2 {
        from_first_version(&mut value);
    }
    let mut board: Leaderboard = serde_json::from_value(value).map_err(|error| error.to_string())?;
    for section in &mut board.sections {
        if section.history.is_empty() {
            section.history = vec![champion::change(section, None)];
        }
    }
    Ok(board)
}

/// Brings a file of version 1 to today's form. Its times followed from the paired runs and its samples stood
/// beside them; today one measurement gives all numbers of a row.
fn from_first_version(board: &mut Value) {
    board["version"] = VERSION.into();
    for section in board["sections"].as_array_mut().into_iter().flatten() {
        section["space_hash"] = section["study"]["space_hash"].clone();
        let ranking = section["ranking"].as_str().unwrap_or_default().to_string();
        let (champion, others) = (section["champion"].take(), section["runners_up"].take());
        let others = others.as_array().cloned().unwrap_or_default();
        let mut entries: Vec<Value> = std::iter::once(champion).chain(others).collect();
        for entry in &mut entries {
            if entry["measured_ns"].is_number() {
                entry["objective_ns"] = entry["measured_ns"].clone();
            }
            entry.as_object_mut().and_then(|entry| entry.remove("measured_ns"));
            entry["noisy"] = is_noisy(entry, &ranking).into();
        }
        section["champion"] = entries.remove(0);
        section["runners_up"] = entries.into();
    }
}

/// Whether an entry of a file scatters widely in the timing mode that ranks, as `rank::is_noisy` has it.
fn is_noisy(entry: &Value, ranking: &str) -> bool {
    let modes = entry["results"].as_array().into_iter().flatten().map(|result| &result["modes"][ranking]);
    let times = modes.filter_map(|mode| Some((mode["p50_ns"].as_f64()?, mode["p90_ns"].as_f64()?)));
    times.into_iter().any(|(p50, p90)| p90 > NOISY * p50)
}

/// Merges sections into `folder/leaderboard.json`. Two sweeps that end at once take turns.
pub fn merge(folder: &Path, sections: Vec<LeaderboardSection>, now: &str) -> Result<Merged, JournalError> {
    let path = folder.join("leaderboard.json");
    // Before the file is read: a section that another sweep adds in between would be lost.
    let _turn = turn(folder)?;
    let (mut board, put_aside) = match load(folder)? {
        None => (Leaderboard::empty(now.to_string()), None),
        Some(Ok(board)) => (board, None),
        Some(Err(_)) => (Leaderboard::empty(now.to_string()), Some(put_aside(&path)?)),
    };
    board.updated_at = now.to_string();
    let placements = sections.into_iter().map(|section| champion::merge(&mut board, section)).collect();
    write_json(&path, &board)?;
    Ok(Merged { path, placements, put_aside })
}

/// Writes a whole board in the place of what is there; an unreadable file is put aside.
pub fn replace(folder: &Path, board: &Leaderboard) -> Result<Merged, JournalError> {
    let path = folder.join("leaderboard.json");
    let _turn = turn(folder)?;
    let put_aside = match load(folder)? {
        Some(Err(_)) => Some(put_aside(&path)?),
        Some(Ok(_)) | None => None,
    };
    write_json(&path, board)?;
    Ok(Merged { path, placements: Vec::new(), put_aside })
}

/// Held while the file is read and replaced.
fn turn(folder: &Path) -> Result<std::fs::File, JournalError> {
    let path = folder.join(".leaderboard.lock");
    JournalError::refuse_irregular(&path)?;
    let file = std::fs::File::create(&path).map_err(|error| JournalError::io("create", &path, error))?;
    // A file of its own: a lock on `leaderboard.json` would be lost when the rename replaces that file.
    file.lock().map_err(|error| JournalError::io("lock", &path, error))?;
    sweep_unfinished(folder);
    Ok(file)
}

/// Renames an unreadable file to the first free `leaderboard.unreadable-N.json`.
fn put_aside(path: &Path) -> Result<PathBuf, JournalError> {
    let free = (1..).map(|n| path.with_file_name(format!("leaderboard.unreadable-{n}.json")));
    let target = free.into_iter().find(|path| !path.exists()).expect("numbers do not end");
    std::fs::rename(path, &target).map_err(|error| JournalError::io("rename", path, error))?;
    Ok(target)
}

/// Removes what killed processes left of views that they were writing to a folder. For whoever holds the lock under
/// which they are written.
pub fn sweep_unfinished(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        if is_unfinished && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// How the names of files begin that are being written.
const UNFINISHED: &str = ".evo-";

/// Writes a value as pretty JSON: a temporary file in the same folder, sync, rename.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), JournalError> {
    let fail = |error| JournalError::io("write", path, error);
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| fail(error.into()))?;
    text.push(b'\n');
    write_atomically(path, &text)
}

/// Replaces a file's contents, all or nothing. What lies at the path is never opened.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
    replace_with(path, bytes, true)
}

/// The same without waiting for the disk, for files that can be made again.
pub fn write_view(path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
    replace_with(path, bytes, false)
}

fn replace_with(path: &Path, bytes: &[u8], synced: bool) -> Result<(), JournalError> {
    // A rename would put the file in the place of a pipe that somebody made there for a reason.
    JournalError::refuse_irregular(path)?;
    let fail = |error| JournalError::io("write", path, error);
    let folder = path.parent().unwrap_or(Path::new("."));
    // In the same folder, because a rename is atomic only within one file system.
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(fail)?;
    disk::write_all(file.as_file_mut(), bytes).map_err(fail)?;
    use std::os::unix::fs::PermissionsExt;
    // Temporary files are private to their owner, but other users and programs read the leaderboard.
    let readable = std::fs::Permissions::from_mode(0o644);
    file.as_file().set_permissions(readable).map_err(fail)?;
    // Synced before the rename: otherwise a power cut could leave the new name on an empty file.
    if synced {
        disk::sync_all(file.as_file()).map_err(fail)?;
    }
    disk::rename(file, path).map_err(fail)
}
