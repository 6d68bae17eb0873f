//! Running a tool to its end: its arguments, without options that its version lacks, and what became of it.
//!
//! A tool runs without a shell, in a process group of its own that dies with us, in the plain locale and with capped
//! output. It has a deadline: SIGTERM, then 5 s, then SIGKILL for everything that it started.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use evo_protocol::words;
use evo_supervise::lane::LaneOptions;
use evo_supervise::solo::{SoloOrder, SoloRun, run_solo};
use evo_system::process::{self, Ended, RunLimits};
use schemars::JsonSchema;

use super::kind::FoundTool;

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

/// To its end, whatever its exit code: whether it did its work is for whoever reads its answer. `Incompatible` where the
/// tool lacks an option that was demanded, `Broken` where it does not start, `TimedOut` where it was ended.
pub fn run_tool(
    tool: &FoundTool,
    arguments: &ToolArguments,
    folder: &Path,
    deadline: Duration,
) -> Result<Ended, ToolFailure> {
    let name = tool.kind.as_str();
    arguments.check(tool)?;
    let ended = run_plainly(&tool.path, &arguments.words, Some(folder), deadline)
        .map_err(|error| ToolFailure::new(ToolState::Broken, format!("`{name}` does not start: {error}")))?;
    if ended.timed_out {
        let seconds = deadline.as_secs_f64();
        let message = format!("`{name}` was ended after {seconds} s{}", last_words(&ended));
        return Err(ToolFailure::new(ToolState::TimedOut, message).with_hint("raise `--limit tool`"));
    }
    Ok(ended)
}

/// A candidate's launches under a tool that watches them. The worker's protocol has the standard streams, so the tool's
/// arguments must send everything that it writes to files. What the worker answered and how the tool ended are for the
/// caller to judge, each by itself.
pub fn run_under(
    tool: &FoundTool,
    arguments: &ToolArguments,
    order: &SoloOrder<'_>,
) -> Result<SoloRun, ToolFailure> {
    arguments.check(tool)?;
    let run = || {
        let mut command = Vec::new();
        for word in [tool.path.as_os_str()].into_iter().chain(arguments.words.iter().map(OsString::as_os_str))
        {
            let text = word.to_str().ok_or_else(|| format!("`{}` is not UTF-8", word.display()))?;
            command.push(text.to_string());
        }
        command.extend(order.options.worker_command().map_err(|error| error.to_string())?);
        let options = LaneOptions { command: Some(command), ..order.options.clone() };
        run_solo(&SoloOrder { options: &options, ..*order }).map_err(|error| error.to_string())
    };
    run().map_err(|why: String| {
        let message = format!("`{}` cannot run around a worker: {why}", tool.kind.as_str());
        ToolFailure::new(ToolState::Broken, message)
    })
}

#[derive(Clone, Debug, Default)]
pub struct ToolArguments {
    known: BTreeSet<String>,
    pub words: Vec<OsString>,
    pub left_out: Vec<String>,
    /// Without these the answer would not mean what it says: the tool must not run.
    pub lacking: Vec<String>,
}

impl ToolArguments {
    pub fn of(tool: &FoundTool) -> ToolArguments {
        ToolArguments { known: tool.options.clone(), ..ToolArguments::default() }
    }

    #[must_use]
    pub fn plain(mut self, words: impl IntoIterator<Item: Into<OsString>>) -> ToolArguments {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn preferred(self, option: &str, values: impl IntoIterator<Item: Into<OsString>>) -> ToolArguments {
        self.if_known(option, values, |own| &mut own.left_out)
    }

    #[must_use]
    pub fn demanded(self, option: &str, values: impl IntoIterator<Item: Into<OsString>>) -> ToolArguments {
        self.if_known(option, values, |own| &mut own.lacking)
    }

    fn if_known(
        mut self,
        option: &str,
        values: impl IntoIterator<Item: Into<OsString>>,
        otherwise: fn(&mut ToolArguments) -> &mut Vec<String>,
    ) -> ToolArguments {
        if self.known.contains(option) {
            return self.plain([option]).plain(values);
        }
        otherwise(&mut self).push(option.to_string());
        self
    }

    fn check(&self, tool: &FoundTool) -> Result<(), ToolFailure> {
        if self.lacking.is_empty() {
            return Ok(());
        }
        let name = tool.kind.as_str();
        let message = format!("`{name}` {} has no `{}`", tool.version, self.lacking.join("`, `"));
        let hint = format!("install a newer `{name}`");
        Err(ToolFailure::new(ToolState::Incompatible, message).with_hint(hint))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::kind::{ToolKind, ToolVersion};

    fn tool(path: &str) -> FoundTool {
        let (path, version) = (path.into(), ToolVersion::of(&[2025, 1]));
        FoundTool { kind: ToolKind::Ncu, path, version, options: BTreeSet::new() }
    }

    fn shell(script: &str, deadline_ms: u64) -> Result<Ended, ToolFailure> {
        let arguments = ToolArguments::default().plain(["-c", script]);
        run_tool(&tool("/bin/sh"), &arguments, Path::new("/"), Duration::from_millis(deadline_ms))
    }

    #[test]
    fn what_a_tool_prints_and_how_it_ends_come_back() {
        let run = shell("echo $LC_ALL $0; pwd >&2; exit 86", 60_000).unwrap();
        let code = |run: &Ended| run.status.and_then(|status| status.code());
        assert_eq!((code(&run), run.stderr.text().as_str()), (Some(86), "/\n"));
        assert!(run.stdout.text().starts_with("C "), "{run:?}");
        assert_eq!(code(&shell("kill -KILL $$", 60_000).unwrap()), None);
    }

    #[test]
    fn a_tool_that_hangs_is_ended_and_one_without_an_option_does_not_run() {
        let late =
            shell("echo words; trap '' TERM; while :; do sleep 0.1 & wait; break; done; exec sleep 60", 200);
        let late = late.unwrap_err();
        assert_eq!(late.state, ToolState::TimedOut);
        assert!(late.message.contains("words"), "{late:?}");
        let tool = tool("/bin/false");
        let arguments = ToolArguments::of(&tool).demanded("--import", ["f"]);
        let refused = run_tool(&tool, &arguments, Path::new("/"), Duration::from_secs(1)).unwrap_err();
        assert_eq!(refused.state, ToolState::Incompatible);
        assert!(refused.message.contains("--import"), "{refused:?}");
    }

    #[test]
    fn options_that_a_version_lacks_are_left_out_and_named() {
        let known = options_in(
            "  --log-file arg   File (see --xml).\n  -h [ --help ]\n  --tool arg (=memcheck) -- x --Case\n",
        );
        assert_eq!(
            known.iter().map(String::as_str).collect::<Vec<_>>(),
            ["--help", "--log-file", "--tool", "--xml"]
        );
        let arguments = ToolArguments { known, ..ToolArguments::default() }
            .plain(["--tool", "memcheck"])
            .preferred("--log-file", ["f"])
            .preferred("--padding", ["4096"])
            .demanded("--xml", [""; 0])
            .demanded("--save", ["x"]);
        assert_eq!(arguments.words, ["--tool", "memcheck", "--log-file", "f", "--xml"]);
        assert_eq!(
            (&arguments.left_out[..], &arguments.lacking[..]),
            (&["--padding".into()][..], &["--save".into()][..])
        );
    }
}
