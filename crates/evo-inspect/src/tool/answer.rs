//! How a tool is started and answers: its state, why it gave no answer, and what is read of its words.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use evo_protocol::words;
use evo_system::process::{self, Ended, RunLimits};
use schemars::JsonSchema;

words! {
    /// How a tool answered. Only `Ok` says anything about what it was asked.
    #[derive(Hash, JsonSchema)]
    ToolState {
        Ok = "ok",
        Missing = "missing",
        /// This user may not do what it does.
        Refused = "refused",
        /// This version does not fit the driver, the device or what is asked of it.
        Incompatible = "incompatible",
        Busy = "busy",
        TimedOut = "timed_out",
        /// It failed in another way, or said nothing that can be read.
        Broken = "broken",
    }
}

/// Why a tool gave no answer. Never `Ok`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    pub state: ToolState,
    /// Lower case, with the tool's name and the end of what it said.
    pub message: String,
    /// What a person can do about it, without the word `hint`.
    pub hint: Option<String>,
}

impl ToolFailure {
    pub fn new(state: ToolState, message: impl Into<String>) -> ToolFailure {
        ToolFailure { state, message: message.into(), hint: None }
    }

    pub fn with_hint(self, hint: impl Into<String>) -> ToolFailure {
        ToolFailure { hint: Some(hint.into()), ..self }
    }
}

pub(super) fn options_in(help: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let words = help.split(|letter: char| !is_part(letter));
    let words = words
        .filter(|word| word.len() > 3 && word.starts_with("--") && word.as_bytes()[2].is_ascii_lowercase());
    words.map(|word| word.trim_end_matches('-').to_string()).collect()
}

const QUOTED: usize = 400;

/// In no locale of the user's, and to its end.
pub(super) fn run_plainly(
    program: &Path,
    words: impl IntoIterator<Item = impl AsRef<OsStr>>,
    folder: Option<&Path>,
    deadline: Duration,
) -> io::Result<Ended> {
    let mut command = Command::new(program);
    command.args(words).env("LC_ALL", "C").env_remove("LANGUAGE");
    folder.map(|folder| command.current_dir(folder));
    process::run(command, &RunLimits::new(deadline))
}

pub(super) fn last_words(ended: &Ended) -> String {
    let streams = [ended.stderr.text(), ended.stdout.text()];
    let text = streams.iter().map(|text| text.trim()).find(|text| !text.is_empty());
    quoted_end(text.unwrap_or_default())
}

/// The end of what a program printed, in parentheses, to be put behind a message; empty where it printed nothing.
pub fn quoted_end(text: &str) -> String {
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(QUOTED);
    let end: String = text.chars().skip(skipped).collect();
    if end.is_empty() { end } else { format!(" ({}{end})", if skipped > 0 { "…" } else { "" }) }
}
