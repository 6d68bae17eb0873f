//! `leaderboard.json` on disk: other sections are kept, writing is all or nothing, and a file that
//! cannot be read is put aside, never overwritten.

use std::path::PathBuf;

use evo_protocol::leaderboard::{Leaderboard, LeaderboardSection, VERSION};
use serde_json::Value;

use super::champion::{self, Succession};
use super::error::JournalError;
use super::own_folder::OwnFolder;
use super::rank::NOISY;

/// The file's name.
const BOARD: &str = "leaderboard.json";

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
pub fn load(folder: &OwnFolder) -> Result<Option<Result<Leaderboard, String>>, JournalError> {
    JournalError::refuse_irregular(folder, BOARD)?;
    let text = match folder.read(BOARD) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::io("read", &folder.place(BOARD), error)),
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
pub fn merge(
    folder: &OwnFolder,
    sections: Vec<LeaderboardSection>,
    now: &str,
) -> Result<Merged, JournalError> {
    // Before the file is read: a section that another sweep adds in between would be lost.
    let _turn = turn(folder)?;
    let (mut board, put_aside) = match load(folder)? {
        None => (Leaderboard::empty(now.to_string()), None),
        Some(Ok(board)) => (board, None),
        Some(Err(_)) => (Leaderboard::empty(now.to_string()), Some(put_aside(folder)?)),
    };
    board.updated_at = now.to_string();
    let placements = sections.into_iter().map(|section| champion::merge(&mut board, section)).collect();
    write(folder, &board)?;
    Ok(Merged { path: folder.place(BOARD), placements, put_aside })
}

/// Writes a board without a row where there is no file, so that programs find one after any sweep.
pub fn found(folder: &OwnFolder, now: &str) -> Result<(), JournalError> {
    if folder.exists(BOARD) {
        return Ok(());
    }
    merge(folder, Vec::new(), now).map(drop)
}

/// Writes a whole board in the place of what is there; an unreadable file is put aside.
pub fn replace(folder: &OwnFolder, board: &Leaderboard) -> Result<Merged, JournalError> {
    let _turn = turn(folder)?;
    let put_aside = match load(folder)? {
        Some(Err(_)) => Some(put_aside(folder)?),
        Some(Ok(_)) | None => None,
    };
    write(folder, board)?;
    Ok(Merged { path: folder.place(BOARD), placements: Vec::new(), put_aside })
}

/// Held while the file is read and replaced.
fn turn(folder: &OwnFolder) -> Result<std::fs::File, JournalError> {
    // A file of its own: a lock on `leaderboard.json` would be lost when the rename replaces that file.
    let name = ".leaderboard.lock";
    JournalError::refuse_irregular(folder, name)?;
    let fail = |action| move |error| JournalError::io(action, &folder.place(name), error);
    let file = folder.edit_or_create(name).map_err(fail("create"))?;
    file.lock().map_err(fail("lock"))?;
    folder.sweep_unfinished();
    Ok(file)
}

/// Renames an unreadable file to the first free `leaderboard.unreadable-N.json`.
fn put_aside(folder: &OwnFolder) -> Result<PathBuf, JournalError> {
    let free = (1..).map(|n| format!("leaderboard.unreadable-{n}.json"));
    let target = free.into_iter().find(|name| !folder.exists(name)).expect("numbers do not end");
    let renamed = folder.rename(BOARD, &target);
    renamed.map_err(|error| JournalError::io("rename", &folder.place(BOARD), error))?;
    Ok(folder.place(&target))
}

/// Writes a board as pretty JSON.
fn write(folder: &OwnFolder, board: &Leaderboard) -> Result<(), JournalError> {
    let text = serde_json::to_vec_pretty(board);
    let mut text = text.map_err(|error| JournalError::io("write", &folder.place(BOARD), error.into()))?;
    text.push(b'\n');
    write_view(folder, BOARD, &text, true)
}

/// Replaces a view, unless a pipe, a device or a folder has its name: a rename would put the file in its place,
/// which somebody may have made for a reason.
pub fn write_view(folder: &OwnFolder, name: &str, bytes: &[u8], synced: bool) -> Result<(), JournalError> {
    JournalError::refuse_irregular(folder, name)?;
    folder.replace(name, bytes, synced).map_err(|error| JournalError::io("write", &folder.place(name), error))
}
