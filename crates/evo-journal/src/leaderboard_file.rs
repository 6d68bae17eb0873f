//! `leaderboard.json` on disk: other sections are kept, writing is all or nothing, and a file that
//! cannot be read is put aside, never overwritten.

use std::cmp::Ordering;
use std::path::PathBuf;

use evo_protocol::leaderboard::{Leaderboard, LeaderboardSection, VERSION};
use serde_json::Value;

use super::error::JournalError;
use super::leaderboard::{self, Succession};
use super::lock::locked;
use super::own_folder::OwnFolder;

const BOARD: &str = "leaderboard.json";

#[derive(Debug)]
pub struct Merged {
    pub path: PathBuf,
    pub placements: Vec<Succession>,
    pub put_aside: Option<PathBuf>,
}

pub fn load(folder: &OwnFolder) -> Result<Option<Result<Leaderboard, String>>, JournalError> {
    JournalError::refuse_irregular(folder, BOARD)?;
    let text = folder.read_any(BOARD);
    let text = text.map_err(|error| JournalError::io("read", &folder.place(BOARD), error))?;
    Ok(text.map(|text| parse(&text)))
}

pub fn parse(text: &[u8]) -> Result<Leaderboard, String> {
    // Version first: another version has other fields.
    let head: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let version = head["version"].as_u64().ok_or("it names no version")?;
    let word = match version.cmp(&u64::from(VERSION)) {
        Ordering::Equal => return serde_json::from_slice(text).map_err(|error| error.to_string()),
        Ordering::Greater => "newer",
        Ordering::Less => "older",
    };
    Err(format!("version {version} is {word} than this evo's {VERSION}"))
}

pub fn merge(
    folder: &OwnFolder,
    sections: Vec<LeaderboardSection>,
    now: &str,
) -> Result<Merged, JournalError> {
    update(folder, |board| {
        let mut board = board.unwrap_or_else(|| Leaderboard::empty(now.to_string()));
        board.updated_at = now.to_string();
        let placements =
            sections.into_iter().map(|section| leaderboard::merge(&mut board, section)).collect();
        (board, placements)
    })
}

pub fn replace(folder: &OwnFolder, board: &Leaderboard) -> Result<Merged, JournalError> {
    update(folder, |_| (board.clone(), Vec::new()))
}

/// A board without a row, so that programs find a file after any sweep.
pub fn found(folder: &OwnFolder, now: &str) -> Result<(), JournalError> {
    if folder.exists(BOARD) {
        return Ok(());
    }
    merge(folder, Vec::new(), now).map(drop)
}

/// Two sweeps that end at once take turns. An unreadable file is put aside.
fn update(
    folder: &OwnFolder,
    change: impl FnOnce(Option<Leaderboard>) -> (Leaderboard, Vec<Succession>),
) -> Result<Merged, JournalError> {
    // Before the file is read: a section that another sweep adds in between would be lost. The lock has a file of its own:
    // on `leaderboard.json` it would be lost when the rename replaces that file.
    let _turn = locked(folder, ".leaderboard.lock", || {})?;
    folder.sweep_unfinished();
    let (known, put_aside) = match load(folder)? {
        Some(Err(_)) => (None, Some(put_aside(folder)?)),
        known => (known.and_then(Result::ok), None),
    };
    let (board, placements) = change(known);
    let path = folder.place(BOARD);
    JournalError::refuse_irregular(folder, BOARD)?;
    folder.replace_json(BOARD, &board).map_err(|error| JournalError::io("write", &path, error))?;
    Ok(Merged { path, placements, put_aside })
}

fn put_aside(folder: &OwnFolder) -> Result<PathBuf, JournalError> {
    let free = (1..).map(|n| format!("leaderboard.unreadable-{n}.json"));
    let target = free.into_iter().find(|name| !folder.exists(name)).expect("numbers do not end");
    let renamed = folder.rename(BOARD, &target);
    renamed.map_err(|error| JournalError::io("rename", &folder.place(BOARD), error))?;
    Ok(folder.place(&target))
}
