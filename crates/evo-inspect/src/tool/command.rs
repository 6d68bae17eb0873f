//! What all commands of tools have in common: their environment, and how their words are quoted.

use std::process::Command;

use evo_system::process::Ended;

const QUOTED: usize = 400;

/// No locale of the user's.
pub(super) fn plain_environment(command: &mut Command) {
    command.env("LC_ALL", "C").env_remove("LANGUAGE");
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
