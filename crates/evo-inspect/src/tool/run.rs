//! Running a tool to its end: its arguments, without options that its version lacks, and what became of it.
//!
//! A tool runs without a shell, in a process group of its own that dies with us, in the plain locale and with capped
//! output. It has a deadline: SIGTERM, then 5 s, then SIGKILL for everything that it started.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::answer::{ToolFailure, ToolState, last_words, run_plainly};
use super::probe::FoundTool;

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
    let name = tool.kind.as_str();
    fits(tool, arguments)?;
    let ended = run_plainly(&tool.path, arguments.words(), Some(folder), deadline)
        .map_err(|error| ToolFailure::new(ToolState::Broken, format!("`{name}` does not start: {error}")))?;
    if ended.timed_out {
        let seconds = deadline.as_secs_f64();
        let message = format!("`{name}` was ended after {seconds} s{}", last_words(&ended));
        return Err(ToolFailure::new(ToolState::TimedOut, message).with_hint("raise `--limit tool`"));
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
    let name = tool.kind.as_str();
    let message = format!("`{name}` {} has no `{}`", tool.version, arguments.lacking().join("`, `"));
    let hint = format!("install a newer `{name}`");
    Err(ToolFailure::new(ToolState::Incompatible, message).with_hint(hint))
}

#[derive(Clone, Debug, Default)]
pub struct ToolArguments {
    /// The options that the tool has.
    known: BTreeSet<String>,
    words: Vec<OsString>,
    left_out: Vec<String>,
    lacking: Vec<String>,
}

impl ToolArguments {
    pub fn of(tool: &FoundTool) -> ToolArguments {
        ToolArguments { known: tool.options.clone(), ..ToolArguments::default() }
    }

    #[must_use]
    pub fn plain<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> ToolArguments {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn preferred<W: Into<OsString>>(
        mut self,
        option: &str,
        values: impl IntoIterator<Item = W>,
    ) -> ToolArguments {
        if !self.known.contains(option) {
            self.left_out.push(option.to_string());
            return self;
        }
        self.plain([option]).plain(values)
    }

    /// Without this option the answer would not mean what it says: where it is not known the tool must not run, which
    /// [`Self::lacking`] says.
    #[must_use]
    pub fn demanded<W: Into<OsString>>(
        mut self,
        option: &str,
        values: impl IntoIterator<Item = W>,
    ) -> ToolArguments {
        if !self.known.contains(option) {
            self.lacking.push(option.to_string());
            return self;
        }
        self.plain([option]).plain(values)
    }

    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    pub fn lacking(&self) -> &[String] {
        &self.lacking
    }
}

/// The worker's protocol has the standard streams, so the tool's arguments must send everything that it writes to
/// files.
pub fn wrapped_worker(
    tool: &FoundTool,
    arguments: &ToolArguments,
    worker: &[String],
) -> io::Result<Vec<String>> {
    let words = std::iter::once(tool.path.clone().into_os_string()).chain(arguments.words().iter().cloned());
    let text = |word: OsString| {
        word.into_string().map_err(|word| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` is not UTF-8", word.to_string_lossy()))
        })
    };
    let mut command = words.map(text).collect::<Result<Vec<String>, _>>()?;
    command.extend_from_slice(worker);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::super::answer::options_in;
    use super::*;
    use crate::tool::kind::ToolKind;
    use crate::tool::kind::ToolVersion;

    fn tool(path: &str) -> FoundTool {
        let (path, version) = (path.into(), ToolVersion::of(&[2025, 1]));
        FoundTool { kind: ToolKind::Ncu, path, version, options: BTreeSet::new() }
    }

    fn shell(script: &str, deadline_ms: u64) -> Result<ToolRun, ToolFailure> {
        let arguments = ToolArguments::default().plain(["-c", script]);
        run_tool(&tool("/bin/sh"), &arguments, Path::new("/"), Duration::from_millis(deadline_ms))
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
        assert_eq!(arguments.words(), ["--tool", "memcheck", "--log-file", "f", "--xml"]);
        assert_eq!(
            (arguments.left_out(), arguments.lacking()),
            (&["--padding".to_string()][..], &["--save".to_string()][..])
        );
    }
}
