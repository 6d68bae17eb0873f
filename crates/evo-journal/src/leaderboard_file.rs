//! `leaderboard.json` on disk: other sections are kept, writing is all or nothing, and a file that
//! cannot be read is put aside, never overwritten.

use std::path::PathBuf;

use evo_protocol::leaderboard::{Leaderboard, LeaderboardSection, VERSION};
use serde_json::Value;

use super::champion::{self, Succession};
use super::error::JournalError;
use super::own_folder::OwnFolder;
use super::rank::NOISY;

const BOARD: &str = "leaderboard.json";

#[derive(Debug)]
pub struct Merged {
    pub path: PathBuf,
    pub placements: Vec<Succession>,
    /// Where an unreadable older file went.
    pub put_aside: Option<PathBuf>,
}

pub fn load(folder: &OwnFolder) -> Result<Option<Result<Leaderboard, String>>, JournalError> {
    JournalError::refuse_irregular(folder, BOARD)?;
    let text = match folder.read(BOARD) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::io("read", &folder.place(BOARD), error)),
    };
    Ok(Some(parse(&text)))
}

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

fn is_noisy(entry: &Value, ranking: &str) -> bool {
    let modes = entry["results"].as_array().into_iter().flatten().map(|result| &result["modes"][ranking]);
    let times = modes.filter_map(|mode| Some((mode["p50_ns"].as_f64()?, mode["p90_ns"].as_f64()?)));
    times.into_iter().any(|(p50, p90)| p90 > NOISY * p50)
}

/// Two sweeps that end at once take turns.
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

/// A board without a row, so that programs find a file after any sweep.
pub fn found(folder: &OwnFolder, now: &str) -> Result<(), JournalError> {
    if folder.exists(BOARD) {
        return Ok(());
    }
    merge(folder, Vec::new(), now).map(drop)
}

/// An unreadable file is put aside.
pub fn replace(folder: &OwnFolder, board: &Leaderboard) -> Result<Merged, JournalError> {
    let _turn = turn(folder)?;
    let put_aside = match load(folder)? {
        Some(Err(_)) => Some(put_aside(folder)?),
        Some(Ok(_)) | None => None,
    };
    write(folder, board)?;
    Ok(Merged { path: folder.place(BOARD), placements: Vec::new(), put_aside })
}

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

fn put_aside(folder: &OwnFolder) -> Result<PathBuf, JournalError> {
    let free = (1..).map(|n| format!("leaderboard.unreadable-{n}.json"));
    let target = free.into_iter().find(|name| !folder.exists(name)).expect("numbers do not end");
    let renamed = folder.rename(BOARD, &target);
    renamed.map_err(|error| JournalError::io("rename", &folder.place(BOARD), error))?;
    Ok(folder.place(&target))
}

fn write(folder: &OwnFolder, board: &Leaderboard) -> Result<(), JournalError> {
    let text = serde_json::to_vec_pretty(board);
    let mut text = text.map_err(|error| JournalError::io("write", &folder.place(BOARD), error.into()))?;
    text.push(b'\n');
    write_view(folder, BOARD, &text, true)
}

/// A pipe, a device or a folder of that name is refused: somebody may have made it for a reason.
pub fn write_view(folder: &OwnFolder, name: &str, bytes: &[u8], synced: bool) -> Result<(), JournalError> {
    JournalError::refuse_irregular(folder, name)?;
    folder.replace(name, bytes, synced).map_err(|error| JournalError::io("write", &folder.place(name), error))
}
