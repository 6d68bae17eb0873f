//! Harnesses of `evo crosscheck`: how each is started, and what it said.
//!
//! Each is a program of its own with a deadline, capped output and a kill of all that it started. Whatever it does wrong is the
//! reason of a row.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use evo_protocol::crosscheck::CrosscheckLine;
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{ErrorCode, ErrorPlace};
use evo_space::text::{printable, shortened};

use super::crosscheck_args::{CrosscheckArgs, Harness};
use super::error::CliError;
use crate::process::{self, Ended, RunLimits, signal_name};
use crate::tool::{ToolKind, ToolPlaces, find};

/// Letters that are shown of what a harness said.
const SHOWN: usize = 300;

/// The script that runs the harnesses in Python.
pub const SCRIPT: &str = "crosscheck.py";

/// What a harness said of some problems.
#[derive(Debug, Default)]
pub struct HarnessAnswer {
    pub lines: Vec<CrosscheckLine>,
    /// Why other problems have no line.
    pub why_not: String,
}

impl HarnessAnswer {
    pub fn of(&self, problem: &str) -> Option<&CrosscheckLine> {
        self.lines.iter().find(|own| own.problem == problem)
    }

    /// No line, for this reason.
    pub fn without(why: impl Into<String>) -> HarnessAnswer {
        HarnessAnswer { lines: Vec::new(), why_not: why.into() }
    }
}

/// The words of the user's own harness, whose program is there.
pub fn command_words(arguments: &CrosscheckArgs) -> Result<Vec<String>, CliError> {
    let is_asked = arguments.asked().contains(&Harness::Command);
    let Some(command) = &arguments.command else {
        return match is_asked {
            true => Err(CliError::usage("the harness `command` has no program")
                .with_hint("name it: `--command 'python3 mine.py'`")),
            false => Ok(Vec::new()),
        };
    };
    if !is_asked {
        return Err(CliError::usage("`--command` names a program that `--harness` leaves out")
            .with_hint("add `command` to `--harness`"));
    }
    let place = || ErrorPlace { file: format!("--command {command}"), line: None, column: None };
    let refused = |why: String| {
        let hint = "a program without a `/` is looked for in PATH, one with a `/` in the current folder";
        CliError::usage(format!("the harness `command` does not start: {why}"))
            .with_code(ErrorCode::BadFile)
            .at(place())
            .with_hint(hint)
    };
    let words = shlex::split(command)
        .ok_or_else(|| refused("a quote or a backslash in it has no second half".into()))?;
    let program = words.first().filter(|own| !own.is_empty()).ok_or_else(|| refused("it is empty".into()))?;
    match is_there(program) {
        true => Ok(words),
        false => Err(refused(format!("there is no program `{program}`"))),
    }
}

fn is_there(program: &str) -> bool {
    let is_program = |path: PathBuf| {
        fs::metadata(path).is_ok_and(|own| own.is_file() && own.permissions().mode() & 0o111 != 0)
    };
    match program.contains('/') {
        true => is_program(PathBuf::from(program)),
        false => env::var_os("PATH")
            .is_some_and(|all| env::split_paths(&all).any(|folder| is_program(folder.join(program)))),
    }
}

/// A harness that is to be asked.
#[derive(Debug)]
pub struct HarnessProgram<'a> {
    pub harness: Harness,
    /// Of the user's own.
    pub words: &'a [String],
    /// The folder with the script, in which the others run.
    pub folder: &'a Path,
    pub limit: Duration,
}

impl HarnessProgram<'_> {
    /// Asks it about a request.
    pub fn ask(&self, request: &Path) -> HarnessAnswer {
        let mut command = match self.command() {
            Ok(command) => command,
            Err(why) => return HarnessAnswer::without(why),
        };
        command.arg(request);
        match process::run(command, &RunLimits::new(self.limit)) {
            Ok(ended) => self.read(&ended),
            Err(error) => HarnessAnswer::without(format!("it does not start: {error}")),
        }
    }

    fn command(&self) -> Result<Command, String> {
        if let (Harness::Command, Some((program, arguments))) = (self.harness, self.words.split_first()) {
            let mut command = Command::new(program);
            command.args(arguments);
            return Ok(command);
        }
        let python = find(ToolKind::Python, None, &ToolPlaces::of_environment());
        let mut command = Command::new(python.map_err(|failure| failure.message)?);
        command.arg("-B").arg(self.folder.join(SCRIPT)).arg(self.harness.as_str()).current_dir(self.folder);
        Ok(command)
    }

    /// Lines that begin with a brace are the protocol's; others are the program's own talk.
    fn read(&self, ended: &Ended) -> HarnessAnswer {
        let mut answer = HarnessAnswer::default();
        let mut garbage = None;
        let stdout = ended.stdout.text();
        for text in stdout.lines().map(str::trim).filter(|own| !own.is_empty()) {
            match serde_json::from_str::<CrosscheckLine>(text) {
                Ok(line) if answer.of(&line.problem).is_none() => answer.lines.push(cleaned(line)),
                _ => garbage = garbage.or(Some(text)),
            }
        }
        answer.why_not = match (ending(ended, self.limit), garbage) {
            (Some(how), _) => {
                let stderr = ended.stderr.text();
                let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
                last.map_or(how.clone(), |line| format!("{how} (last words: {})", shown(line)))
            }
            (None, Some(text)) => format!("it printed something that is not a row: `{}`", shown(text)),
            (None, None) => "it said nothing of this problem".to_string(),
        };
        answer
    }
}

/// How a program ended that did not end well.
fn ending(ended: &Ended, limit: Duration) -> Option<String> {
    if ended.timed_out {
        return Some(format!("it did not end within {} s, see `--limit-tool`", limit.as_secs_f64()));
    }
    let status = ended.status?;
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("its process ended with exit code {code}")),
        (None, Some(signal)) => Some(format!("its process was killed by {}", signal_name(signal))),
        (None, None) => Some("its process ended".to_string()),
    }
}

fn cleaned(line: CrosscheckLine) -> CrosscheckLine {
    let clean = |text: Option<String>| text.map(|own| shown(&own)).filter(|own| !own.is_empty());
    CrosscheckLine { version: clean(line.version), reason: clean(line.reason), ..line }
}

fn shown(text: &str) -> String {
    printable(&shortened(text.trim(), SHOWN)).into_owned()
}

/// Why a harness cannot be of use on a device, whatever is installed.
pub fn why_not_on(harness: Harness, kind: DeviceKind, is_gemm: bool) -> Option<&'static str> {
    match (harness, kind) {
        (Harness::Command, _) => None,
        (_, DeviceKind::Host) => Some("it runs on a GPU only, and this is the host device"),
        (Harness::Cutlass, _) if !is_gemm => Some("the kernel is not a GEMM, and CUTLASS times nothing else"),
        _ => None,
    }
}
