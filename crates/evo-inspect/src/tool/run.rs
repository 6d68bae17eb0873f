//! Running a tool to its end.
//!
//! A tool runs without a shell, in a process group of its own that dies with us, in the plain locale and with capped
//! output. It has a deadline: SIGTERM, then 5 s, then SIGKILL for everything that it started.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::arguments::ToolArguments;
use super::command::{last_words, plain_environment};
use super::probe::FoundTool;
use super::state::{ToolFailure, ToolState};
use evo_system::process::{self, RunLimits};

/// Whether it did its work is for whoever reads its answer.
#[derive(Clone, Debug)]
pub struct ToolRun {
    /// The exit code; absent if a signal ended it.
    pub code: Option<i32>,
    pub elapsed: Duration,
    /// What it printed on stdout, up to 1 MiB.
    pub stdout: String,
    pub stderr: String,
}

/// `Incompatible` where the tool lacks an option that was demanded, `Broken` where it does not start, `TimedOut`
/// where it was ended.
pub fn run_tool(
    tool: &FoundTool,
    arguments: &ToolArguments,
    folder: &Path,
    deadline: Duration,
) -> Result<ToolRun, ToolFailure> {
    let name = tool.kind.name();
    fits(tool, arguments)?;
    let mut command = Command::new(&tool.path);
    command.args(arguments.words()).current_dir(folder);
    plain_environment(&mut command);
    let ended = process::run(command, &RunLimits::new(deadline))
        .map_err(|error| ToolFailure::new(ToolState::Broken, format!("`{name}` does not start: {error}")))?;
    if ended.timed_out {
        let seconds = deadline.as_secs_f64();
        let message = format!("`{name}` was ended after {seconds} s{}", last_words(&ended));
        return Err(ToolFailure::new(ToolState::TimedOut, message).with_hint("raise `--limit-tool`"));
    }
    Ok(ToolRun {
        code: ended.status.and_then(|status| status.code()),
        elapsed: ended.elapsed,
        stdout: ended.stdout.text(),
        stderr: ended.stderr.text(),
    })
}

pub fn fits(tool: &FoundTool, arguments: &ToolArguments) -> Result<(), ToolFailure> {
    if arguments.lacking().is_empty() {
        return Ok(());
    }
    let name = tool.kind.name();
    let message = format!("`{name}` {} has no `{}`", tool.version, arguments.lacking().join("`, `"));
    let hint = format!("install a newer `{name}`");
    Err(ToolFailure::new(ToolState::Incompatible, message).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tool::kind::ToolKind;
    use crate::tool::version::ToolVersion;

    fn shell(script: &str, deadline_ms: u64) -> Result<ToolRun, ToolFailure> {
        let tool = FoundTool {
            kind: ToolKind::Ncu,
            path: "/bin/sh".into(),
            version: ToolVersion::of(&[2025, 1]),
            options: BTreeSet::new(),
        };
        let arguments = ToolArguments::default().plain(["-c", script]);
        run_tool(&tool, &arguments, Path::new("/"), Duration::from_millis(deadline_ms))
    }

    #[test]
    fn what_a_tool_prints_and_how_it_ends_come_back() {
        let run = shell("echo $LC_ALL $0; pwd >&2; exit 86", 60_000).unwrap();
        assert_eq!((run.code, run.stderr.as_str()), (Some(86), "/\n"));
        assert!(run.stdout.starts_with("C "), "{run:?}");
        assert_eq!(shell("kill -KILL $$", 60_000).unwrap().code, None);
    }

    #[test]
    fn a_tool_that_hangs_is_ended_and_one_without_an_option_does_not_run() {
        let late =
            shell("echo words; trap '' TERM; while :; do sleep 0.1 & wait; break; done; exec sleep 60", 200);
        let late = late.unwrap_err();
        assert_eq!(late.state, ToolState::TimedOut);
        assert!(late.message.contains("words"), "{late:?}");
        let tool = FoundTool {
            kind: ToolKind::Ncu,
            path: "/bin/false".into(),
            version: ToolVersion::of(&[2022, 3]),
            options: BTreeSet::new(),
        };
        let arguments = ToolArguments::default().demanded(&tool.options, "--import", ["f"]);
        let refused = run_tool(&tool, &arguments, Path::new("/"), Duration::from_secs(1)).unwrap_err();
        assert_eq!(refused.state, ToolState::Incompatible);
        assert!(refused.message.contains("--import"), "{refused:?}");
    }
}
