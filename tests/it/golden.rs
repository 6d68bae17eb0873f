//! Files of ours that were written once and must be read for ever: each is read into today's types and
//! written again, byte by byte the same. A change that breaks this needs a new format version and a reader
//! for the old one.

use std::fs;
use std::path::{Path, PathBuf};

use evo::journal::own_folder::OwnFolder;
use evo::journal::{leaderboard_file, line, reader};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden").join(name)
}

#[test]
fn a_journal_is_read_and_written_again_as_it_was() {
    let path = golden("journal.jsonl");
    let journal = reader::read(&path).unwrap();
    assert!(journal.rejected.is_empty() && !journal.torn);
    let again: String = journal.records.iter().map(|record| line::encode(record).unwrap()).collect();
    assert_eq!(again, fs::read_to_string(&path).unwrap());
}

#[test]
fn a_leaderboard_is_read_and_written_again_as_it_was() {
    let board = leaderboard_file::load(&OwnFolder::open(&golden("")).unwrap()).unwrap().unwrap().unwrap();
    let again = serde_json::to_string_pretty(&board).unwrap() + "\n";
    assert_eq!(again, fs::read_to_string(golden("leaderboard.json")).unwrap());
}

#[test]
fn a_leaderboard_of_another_version_is_refused() {
    let refused =
        |version: u32| leaderboard_file::parse(format!("{{\"version\":{version}}}").as_bytes()).unwrap_err();
    assert_eq!(refused(1), "version 1 is older than this evo's 2");
    assert_eq!(refused(3), "version 3 is newer than this evo's 2");
}
