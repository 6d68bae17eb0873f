//! `evo leaderboard`: shows the board, or computes it again from the journals.

use std::io;
use std::path::{Path, PathBuf};

use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::ErrorCode;
use evo_protocol::leaderboard::{Leaderboard, LeaderboardSection};

use super::answer::Answer;
use super::args::LeaderboardArgs;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use crate::journal::error::JournalError;
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader::{self, JOURNAL};
use crate::journal::record::{JournalRecord, now};
use crate::journal::{champion, leaderboard, leaderboard_file};
use crate::report::text;
use crate::report::width::stdout_width;

/// Runs the command.
pub fn run(arguments: &LeaderboardArgs) -> Result<Answer, CliError> {
    if arguments.rebuild {
        rebuild(&arguments.out)?;
    }
    let path = arguments.out.join("leaderboard.json");
    let board = match OwnFolder::open(&arguments.out) {
        Ok(out) => leaderboard_file::load(&out)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(JournalError::io("open", &arguments.out, error).into()),
    };
    let board = match board {
        Some(Ok(board)) => board,
        Some(Err(reason)) => {
            return Err(CliError::usage(format!("`{}` cannot be read: {reason}", path.display()))
                .with_hint("`evo leaderboard --rebuild` computes it again from the journals")
                .with_code(ErrorCode::BadFile));
        }
        None => {
            return Err(CliError::usage(format!("there is no leaderboard at `{}`", path.display()))
                .with_hint("`evo sweep` makes one; `--out` names another folder")
                .with_code(ErrorCode::BadFile));
        }
    };
    if arguments.json {
        return Ok(Answer::text(ExitCode::Done, serde_json::to_string(&board)?));
    }
    output::stdout(&text::board(&board, stdout_width()))?;
    Ok(ExitCode::Done.into())
}

/// Writes the board that the journals under `out` give.
fn rebuild(out: &Path) -> Result<(), CliError> {
    let out = OwnFolder::open(out).map_err(|error| unreadable(out, &error))?;
    let mut board = Leaderboard::empty(now());
    let mut sections: Vec<(String, LeaderboardSection)> = Vec::new();
    for study in studies(&out)? {
        let journal = reader::read_in(&study)?;
        let path = study.place(JOURNAL);
        for rejected in &journal.rejected {
            eprintln!("note: line {} of `{}` is damaged: {}", rejected.line, path.display(), rejected.reason);
        }
        if is_replay(&journal.records) {
            eprintln!(
                "note: `{}` is a replay, in which nothing was measured: it is not on the board",
                path.display()
            );
        }
        sections.extend(leaderboard::sections(&journal.records));
    }
    // In the order in which the runs ended and wrote them: a champion falls only to a faster one, whatever
    // came before it, and the history is that of the runs.
    sections.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, section) in sections {
        champion::merge(&mut board, section);
    }
    leaderboard_file::replace(&out, &board)?;
    Ok(())
}

fn is_replay(records: &[JournalRecord]) -> bool {
    let header = records.iter().rev().find_map(|record| match record {
        JournalRecord::Study(header) => Some(header),
        _ => None,
    });
    header.is_some_and(|header| header.device.kind == DeviceKind::Replay)
}

/// The folders of the studies in `out`.
fn studies(out: &OwnFolder) -> Result<Vec<OwnFolder>, CliError> {
    let mut names = out.names().map_err(|error| unreadable(out.path(), &error))?;
    // A folder has no order of its own, and a rebuilt board must not depend on one.
    names.sort();
    let studies: Vec<OwnFolder> = names.iter().filter_map(|name| study(out, name)).collect();
    if studies.is_empty() {
        let text = format!("no study under `{}` has a journal", out.path().display());
        return Err(CliError::usage(text).with_hint("`--out` names another folder"));
    }
    Ok(studies)
}

/// The folder of a study with a journal, neither of which is a link.
fn study(out: &OwnFolder, name: &str) -> Option<OwnFolder> {
    let skip = |link: PathBuf| {
        eprintln!("note: `{}` is a link, which evo does not follow: it is left out", link.display());
    };
    let Ok(folder) = out.folder(name) else {
        if out.place(name).is_dir() {
            skip(out.place(name));
        }
        return None;
    };
    if folder.has_link(JOURNAL) {
        skip(folder.place(JOURNAL));
    }
    folder.has_file(JOURNAL).then_some(folder)
}

fn unreadable(out: &Path, error: &io::Error) -> CliError {
    CliError::usage(format!("cannot read the folder `{}`: {error}", out.display()))
        .with_hint("`--out` names the folder that `evo sweep` wrote to")
        .with_code(ErrorCode::BadFile)
}
