//! `evo leaderboard`: shows the board, or computes it again from the journals.

use std::path::{Path, PathBuf};

use evo_protocol::device::DeviceKind;

use super::args::LeaderboardArgs;
use super::exit_code::{ExitCode, UsageError};
use crate::journal::leaderboard::{self, Leaderboard, Section};
use crate::journal::record::now;
use crate::journal::replay::History;
use crate::journal::{leaderboard_file, reader};
use crate::report::text;

/// Runs the command.
pub fn run(arguments: &LeaderboardArgs) -> anyhow::Result<ExitCode> {
    if arguments.rebuild {
        rebuild(&arguments.out)?;
    }
    let path = arguments.out.join("leaderboard.json");
    let board = match leaderboard_file::load(&arguments.out).map_err(|error| UsageError::of(&error))? {
        Some(Ok(board)) => board,
        Some(Err(reason)) => {
            let text = format!(
                "`{}` cannot be read: {reason}\nhint: `evo leaderboard --rebuild` computes it again from the journals",
                path.display()
            );
            return Err(UsageError(text).into());
        }
        None => {
            let text = format!(
                "there is no leaderboard at `{}`\nhint: `evo sweep` makes one; `--out` names another folder",
                path.display()
            );
            return Err(UsageError(text).into());
        }
    };
    super::stdout(&match arguments.json {
        true => serde_json::to_string_pretty(&board)? + "\n",
        false => text::board(&board),
    })?;
    Ok(ExitCode::Done)
}

/// Writes the board that the journals under `out` give.
fn rebuild(out: &Path) -> anyhow::Result<()> {
    let mut board = Leaderboard::empty(now());
    let mut sections: Vec<Section> = Vec::new();
    for path in journals(out)? {
        let journal = reader::read(&path).map_err(|error| UsageError::of(&error))?;
        for rejected in &journal.rejected {
            eprintln!("note: line {} of `{}` is damaged: {}", rejected.line, path.display(), rejected.reason);
        }
        let history = History::replay(journal);
        if history.header.as_ref().is_some_and(|header| header.device.kind == DeviceKind::Replay) {
            eprintln!(
                "note: `{}` is a replay, in which nothing was measured: it is not on the board",
                path.display()
            );
        }
        sections.extend(leaderboard::section(&history));
    }
    // The newest confirmation of a kernel, problem set and device stays.
    sections.sort_by(|a, b| a.confirmed_at.cmp(&b.confirmed_at));
    for section in sections {
        board.merge(section);
    }
    leaderboard_file::replace(out, &board).map_err(|error| UsageError::of(&error))?;
    Ok(())
}

fn journals(out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(out).map_err(|error| {
        let hint = "hint: `--out` names the folder that `evo sweep` wrote to";
        UsageError(format!("cannot read the folder `{}`: {error}\n{hint}", out.display()))
    })?;
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join("journal.jsonl"))
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    if paths.is_empty() {
        let text =
            format!("no study under `{}` has a journal\nhint: `--out` names another folder", out.display());
        return Err(UsageError(text).into());
    }
    Ok(paths)
}
