//! `leaderboard.json` on disk: other sections are kept, writing is all or nothing, and a file that
//! cannot be read is put aside, never overwritten.

use std::path::PathBuf;

use evo_protocol::leaderboard::{Leaderboard, LeaderboardSection, VERSION};
use serde_json::Value;

use super::champion::{self, Succession};
use super::error::JournalError;
use super::lock::locked;
use super::own_folder::OwnFolder;

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
    match folder.read(BOARD) {
        Ok(text) => Ok(Some(parse(&text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JournalError::io("read", &folder.place(BOARD), error)),
    }
}

pub fn parse(text: &[u8]) -> Result<Leaderboard, String> {
    // Version first: another version has other fields.
    let head: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match head["version"].as_u64().ok_or("it names no version")? {
        version if version > u64::from(VERSION) => {
            Err(format!("version {version} is newer than this evo's {VERSION}"))
        }
        version if version < u64::from(VERSION) => {
            Err(format!("version {version} is older than this evo's {VERSION}"))
        }
        _ => serde_json::from_value(head).map_err(|error| error.to_string()),
    }
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
    let file = locked(folder, ".leaderboard.lock", || {})?;
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
