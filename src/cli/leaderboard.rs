//! `evo leaderboard`: shows the board, or computes it again from the journals.

use std::path::Path;

use evo_protocol::leaderboard::Leaderboard;

use super::args::LeaderboardArgs;
use super::{Answer, Call, CliError, ExitCode, Result};
use crate::journal::champions::{output_folder, sections_in};
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;
use crate::journal::{champion, leaderboard_file};
use crate::report::text;
use crate::report::width::stdout_width;

pub fn run(arguments: &LeaderboardArgs, call: &Call) -> Result<Answer> {
    if arguments.rebuild {
        rebuild(&arguments.out)?;
    }
    let path = arguments.out.join("leaderboard.json");
    let out = output_folder(&arguments.out)?;
    let board = match out.map(|out| leaderboard_file::load(&out)).transpose()?.flatten() {
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
    call.show(&text::board(&board, stdout_width()))?;
    Ok(Answer::of(ExitCode::Done, &board))
}

fn rebuild(out: &Path) -> Result<()> {
    let out = OwnFolder::open(out).map_err(|error| {
        CliError::bad_file(format!("cannot read the folder `{}`: {error}", out.display()), out)
            .with_hint("`--out` names the folder that `evo sweep` wrote to")
    })?;
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
