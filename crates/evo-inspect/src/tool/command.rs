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
    let Some(text) = streams.iter().map(|text| text.trim()).find(|text| !text.is_empty()) else {
        return String::new();
    };
    let skipped = text.chars().count().saturating_sub(QUOTED);
    let tail: String = text.chars().skip(skipped).collect();
    format!(" ({}{})", if skipped > 0 { "…" } else { "" }, tail)
}
