//! `evo leaderboard`: shows the board, or computes it again from the journals.

use std::io;
use std::path::Path;

use evo_protocol::leaderboard::Leaderboard;

use super::args::LeaderboardArgs;
use super::{Answer, CliError, ExitCode, output};
use crate::journal::champions::sections_in;
use crate::journal::error::JournalError;
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;
use crate::journal::{champion, leaderboard_file};
use crate::report::text;
use crate::report::width::stdout_width;

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
            let error = CliError::bad_file(format!("`{}` cannot be read: {reason}", path.display()), &path);
            return Err(error.with_hint("`evo leaderboard --rebuild` computes it again from the journals"));
        }
        None => {
            let error = CliError::bad_file(format!("there is no leaderboard at `{}`", path.display()), &path);
            return Err(error.with_hint("`evo sweep` makes one; `--out` names another folder"));
        }
    };
    if arguments.json {
        return Ok(Answer::of(ExitCode::Done, &board));
    }
    output::stdout(&text::board(&board, stdout_width()))?;
    Ok(ExitCode::Done.into())
}

fn rebuild(out: &Path) -> Result<(), CliError> {
    let out = OwnFolder::open(out).map_err(|error| unreadable(out, &error))?;
    let mut board = Leaderboard::empty(now());
    let found = sections_in(&out)?;
    for note in &found.notes {
        eprintln!("note: {note}");
    }
    if found.studies == 0 {
        let text = format!("no study under `{}` has a journal", out.path().display());
        return Err(CliError::usage(text).with_hint("`--out` names another folder"));
    }
    // In the order in which the runs ended and wrote them: a champion falls only to a faster one, whatever
    // came before it, and the history is that of the runs.
    for (_, section) in found.sections {
        champion::merge(&mut board, section);
    }
    leaderboard_file::replace(&out, &board)?;
    Ok(())
}

fn unreadable(out: &Path, error: &io::Error) -> CliError {
    CliError::bad_file(format!("cannot read the folder `{}`: {error}", out.display()), out)
        .with_hint("`--out` names the folder that `evo sweep` wrote to")
}
