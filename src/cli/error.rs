//! What a command can fail with, and how it ends. The kind decides the exit code, the code tells programs what it was, the
//! hint says what to do about it. The errors of all areas are put into kinds and codes here.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;

use evo_device::probe::ProbeError;
use evo_protocol::envelope::{EnvelopeError, ErrorCode, ErrorPlace};
use evo_search::registry::UnknownStrategy;

use crate::budget::BudgetError;
use crate::compile::CompileSetupError;
use crate::engine::EngineError;
use crate::journal::error::JournalError;
use crate::journal::own_folder::OwnFolder;
use crate::kernel::load::LoadError;
use crate::replay::RecordingError;
use crate::study::{ProfileFileError, StudyError};
use crate::tool::{ToolFailure, ToolState};

/// Why a command ended without doing what it was asked to do.
#[derive(Debug)]
pub struct CliError {
    pub kind: CliErrorKind,
    /// Lower case, present tense, with the causes.
    text: String,
    /// What a person can do about it: one sentence, without the word `hint`.
    hint: Option<String>,
    /// What it is, where that differs from what most errors of its kind are.
    code: Option<ErrorCode>,
    place: Option<ErrorPlace>,
    pub about: ErrorSubject,
}

/// What the text of an error is about, for the author of a request, who is told no more than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorSubject {
    #[default]
    Machine,
    Request,
    /// The request's candidate, and nothing of its task.
    Candidate,
}

/// Of a command, where nothing else is said.
pub type Result<T, E = CliError> = std::result::Result<T, E>;

impl Error for CliError {}

impl Display for CliError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

/// What went wrong, as far as the exit code tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CliErrorKind {
    Usage,
    /// Something that evo needs is missing or in the way: a compiler, a GPU, a writable folder.
    Environment,
    Device,
    /// evo's own trouble, and trouble with files while work is under way, such as a full disk.
    Harness,
    /// A limit of the command's own was hit before it was done.
    Limit,
    /// A program that was to look at something gave no answer.
    Tool,
    Interrupted,
}

/// An error with its causes: `cannot open `s/lock`: Permission denied`.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        // Some messages quote their cause already.
        let words = next.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

/// A message without the numbers that the system gives its errors: `No such file or directory (os error 2)`.
fn without_numbers(text: &str) -> String {
    const LEAD: &str = " (os error ";
    let mut parts = text.split(LEAD);
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |shown, part| match part.split_once(')') {
        Some((number, rest)) if number.parse::<i32>().is_ok() => shown + rest,
        _ => shown + LEAD + part,
    })
}

impl CliError {
    fn new(kind: CliErrorKind, text: impl Into<String>) -> CliError {
        let text = without_numbers(&text.into());
        CliError { kind, text, hint: None, code: None, place: None, about: ErrorSubject::default() }
    }

    pub fn usage(text: impl Into<String>) -> CliError {
        CliError::new(CliErrorKind::Usage, text)
    }

    pub fn bad_file(text: impl Into<String>, path: &Path) -> CliError {
        CliError::usage(text).with_code(ErrorCode::BadFile).at(ErrorPlace::file(path))
    }

    /// A file that cannot be used where evo writes. A full disk is nothing that the caller got wrong, so it does not share the
    /// code of wrong usage.
    pub fn unwritable(text: impl Into<String>, path: &Path, why: io::ErrorKind) -> CliError {
        match why {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                CliError::harness(text).at(ErrorPlace::file(path))
            }
            _ => CliError::environment(text).with_code(ErrorCode::BadFile).at(ErrorPlace::file(path)),
        }
    }

    /// A file that cannot be written while work is under way.
    pub fn lost_file(path: &Path, error: &io::Error) -> CliError {
        CliError::harness(format!("cannot write `{}`: {error}", path.display()))
    }

    /// Refuses a name under which something else than a file lies in a folder that is written to.
    pub fn refuse_irregular(folder: &OwnFolder, name: &str, hint: &str) -> Result<()> {
        let Some(what) = folder.irregular(name) else { return Ok(()) };
        let place = folder.place(name);
        Err(CliError::bad_file(format!("`{}` is {what}", place.display()), &place).with_hint(hint))
    }

    pub fn environment(text: impl Into<String>) -> CliError {
        CliError::new(CliErrorKind::Environment, text)
    }

    pub fn device(text: impl Into<String>) -> CliError {
        CliError::new(CliErrorKind::Device, text)
    }

    pub fn harness(text: impl Into<String>) -> CliError {
        CliError::new(CliErrorKind::Harness, text)
    }

    pub fn limit(text: impl Into<String>) -> CliError {
        CliError::new(CliErrorKind::Limit, text)
    }

    pub fn tool(text: impl Into<String>) -> CliError {
        CliError::new(CliErrorKind::Tool, text)
    }

    pub fn interrupted(text: impl Into<String>) -> CliError {
        CliError::new(CliErrorKind::Interrupted, text)
    }

    pub fn bad_input(error: &dyn Error, hint: Option<String>) -> CliError {
        CliError { hint, ..CliError::usage(with_causes(error)) }
    }

    /// Trouble with the files of a study or leaderboard that were fine when the work began.
    pub fn while_running(error: &JournalError) -> CliError {
        CliError { hint: error.hint(), ..CliError::harness(with_causes(error)) }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into());
        self
    }

    pub fn with_hint_of(self, hint: Option<impl Into<String>>) -> CliError {
        match hint {
            Some(hint) => self.with_hint(hint),
            None => self,
        }
    }

    pub fn with_code(mut self, code: ErrorCode) -> CliError {
        self.code = Some(code);
        self
    }

    pub fn about(self, about: ErrorSubject) -> CliError {
        CliError { about, ..self }
    }

    pub fn at(mut self, place: ErrorPlace) -> CliError {
        self.place = Some(place);
        self
    }

    /// For a message that quotes it: without the lead `error: ` of a rendered one.
    pub fn first_line(&self) -> String {
        self.text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string()
    }

    pub fn code(&self) -> ErrorCode {
        let usual = match self.kind {
            CliErrorKind::Usage => ErrorCode::Usage,
            CliErrorKind::Environment => ErrorCode::ToolMissing,
            CliErrorKind::Device => ErrorCode::DeviceLost,
            CliErrorKind::Harness => ErrorCode::Internal,
            CliErrorKind::Limit => ErrorCode::TimedOut,
            CliErrorKind::Tool => ErrorCode::ToolBroken,
            CliErrorKind::Interrupted => ErrorCode::Interrupted,
        };
        self.code.unwrap_or(usual)
    }

    pub fn envelope(&self) -> EnvelopeError {
        // The errors of a space file come rendered.
        let message = self.text.strip_prefix("error: ").unwrap_or(&self.text).to_string();
        let hint = self.hint.clone().or_else(|| rendered_hint(&message));
        EnvelopeError { code: self.code(), message, hint, place: self.place.clone() }
    }

    pub fn exit_code(&self) -> ExitCode {
        match self.kind {
            // One code for both: in either case the caller has to change something before trying again.
            CliErrorKind::Usage | CliErrorKind::Environment => ExitCode::Usage,
            CliErrorKind::Device => ExitCode::DeviceLost,
            CliErrorKind::Harness => ExitCode::Harness,
            // What was demanded did not run.
            CliErrorKind::Limit | CliErrorKind::Tool => ExitCode::Failed,
            CliErrorKind::Interrupted => ExitCode::Interrupted,
        }
    }
}

/// How the renderer of a file's errors marks a hint.
const RENDERED_HINT: &str = "= hint:";

fn rendered_hint(message: &str) -> Option<String> {
    let mut first = message.lines().take_while(|line| !line.starts_with("error: ")).map(str::trim_start);
    let hint = first.find_map(|line| line.strip_prefix(RENDERED_HINT))?.trim();
    Some(hint.to_string()).filter(|hint| !hint.is_empty())
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> CliError {
        let code = match &error {
            LoadError::Unknown { .. } => ErrorCode::Usage,
            _ => ErrorCode::BadFile,
        };
        let bad = CliError::bad_input(&error, error.hint().map(String::from)).with_code(code);
        match error.place() {
            Some((file, place)) => bad.at(ErrorPlace {
                file: file.display().to_string(),
                line: place.map(|(line, _)| line),
                column: place.map(|(_, column)| column),
            }),
            None => bad,
        }
    }
}

impl From<ToolFailure> for CliError {
    fn from(failure: ToolFailure) -> CliError {
        let code = match failure.state {
            ToolState::Missing => ErrorCode::ToolMissing,
            ToolState::Refused => ErrorCode::ToolRefused,
            ToolState::Incompatible => ErrorCode::ToolIncompatible,
            ToolState::Busy => ErrorCode::ToolBusy,
            ToolState::TimedOut => ErrorCode::TimedOut,
            // A failure is never `ok`.
            ToolState::Broken | ToolState::Ok => ErrorCode::ToolBroken,
        };
        CliError::tool(failure.message).with_code(code).with_hint_of(failure.hint)
    }
}

impl From<BudgetError> for CliError {
    fn from(error: BudgetError) -> CliError {
        CliError::bad_input(&error, Some(error.hint().to_string()))
    }
}

impl From<UnknownStrategy> for CliError {
    fn from(error: UnknownStrategy) -> CliError {
        CliError::bad_input(&error, Some(error.hint().to_string()))
    }
}

impl From<RecordingError> for CliError {
    fn from(error: RecordingError) -> CliError {
        CliError::bad_input(&error, error.hint().map(String::from)).with_code(ErrorCode::BadFile)
    }
}

impl From<ProbeError> for CliError {
    fn from(error: ProbeError) -> CliError {
        if error.is_misnamed {
            return CliError::bad_input(&error, Some(error.hint.clone()));
        }
        CliError::environment(with_causes(&error))
            .with_hint(error.hint.clone())
            .with_code(ErrorCode::NoDevice)
    }
}

impl From<CompileSetupError> for CliError {
    fn from(error: CompileSetupError) -> CliError {
        let (text, hint) = (with_causes(&error), error.hint());
        let sorted = match error {
            CompileSetupError::Cache { path, source } => CliError::unwritable(text, &path, source.kind()),
            CompileSetupError::Exhausted { .. } => CliError::harness(text),
            CompileSetupError::CacheLimit { .. } => CliError::environment(text).with_code(ErrorCode::Usage),
            CompileSetupError::UnknownArch { .. } | CompileSetupError::Support { .. } => {
                CliError::environment(text).with_code(ErrorCode::ToolIncompatible)
            }
            CompileSetupError::NoNvrtc { .. } | CompileSetupError::NoHostCompiler { .. } => {
                CliError::environment(text)
            }
            CompileSetupError::Unusable { .. }
            | CompileSetupError::Worker { .. }
            | CompileSetupError::Refused { .. } => {
                CliError::environment(text).with_code(ErrorCode::ToolBroken)
            }
        };
        CliError { hint, ..sorted }
    }
}

/// Files of a study before a run begins, or of a leaderboard that is only read.
impl From<JournalError> for CliError {
    fn from(error: JournalError) -> CliError {
        let (text, hint) = (with_causes(&error), error.hint());
        let sorted = match error {
            JournalError::DiskFull { path } => CliError::unwritable(text, &path, io::ErrorKind::StorageFull),
            JournalError::Io { path, .. } | JournalError::NotAFile { path, .. } => {
                CliError::unwritable(text, &path, io::ErrorKind::Other)
            }
            JournalError::Locked { .. } => CliError::usage(text).with_code(ErrorCode::ToolBusy),
            JournalError::Foreign { path, .. }
            | JournalError::Newer { path, .. }
            | JournalError::NoHeader { path } => CliError::bad_file(text, &path),
        };
        CliError { hint, ..sorted }
    }
}

impl From<ProfileFileError> for CliError {
    fn from(error: ProfileFileError) -> CliError {
        let (text, hint) = (with_causes(&error), Some("choose another folder with `--out`".to_string()));
        let sorted = match &error {
            ProfileFileError::Unwritable { path, source } => CliError::unwritable(text, path, source.kind()),
            ProfileFileError::Foreign { path } => {
                CliError::unwritable(text, path, io::ErrorKind::AlreadyExists)
            }
        };
        CliError { hint, ..sorted }
    }
}

impl From<StudyError> for CliError {
    fn from(error: StudyError) -> CliError {
        let (text, hint) = (with_causes(&error), error.hint());
        let sorted = match error {
            StudyError::Journal(error) => return error.into(),
            StudyError::Unwritable { path, source } => CliError::unwritable(text, &path, source.kind()),
            StudyError::Taken { .. } | StudyError::Missing { .. } | StudyError::Name { .. } => {
                CliError::usage(text)
            }
        };
        CliError { hint, ..sorted }
    }
}

/// What stops a run is never the user's usage: that was checked before.
impl From<EngineError> for CliError {
    fn from(error: EngineError) -> CliError {
        CliError { hint: error.hint(), ..CliError::harness(with_causes(&error)) }
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> CliError {
        CliError::harness(with_causes(&error))
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError::harness(with_causes(&error))
    }
}

/// How a command ended: an interface that scripts branch on. Single bad variants never change a sweep's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// The command did what it was asked to do.
    Done = 0,
    /// A gate or a comparison failed or did not run (`test-one`, `selftest`), no variant of a sweep passed, a
    /// configuration is not valid (`space --check`), or the limit of the whole command was hit.
    Failed = 1,
    /// Wrong usage, a bad input file, or something that evo needs is missing.
    Usage = 2,
    DeviceLost = 3,
    /// evo itself failed, in a sweep with every variant, or a disk became full or broke while work was under way.
    Harness = 4,
    /// Interrupted; resumable.
    Interrupted = 5,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk and trouble while running are not the user's usage.
    #[test]
    fn causes_come_before_the_hint() {
        use io::ErrorKind::{IsADirectory, PermissionDenied, QuotaExceeded, StorageFull};
        let cache = |kind: io::ErrorKind| CompileSetupError::Cache { path: "c".into(), source: kind.into() };
        let out = |kind: io::ErrorKind| StudyError::Unwritable { path: "o".into(), source: kind.into() };
        let path = Path::new("s/journal.jsonl");
        let journal = |kind: io::ErrorKind| JournalError::io("write", path, kind.into());
        let broken = || JournalError::io("sync", path, io::Error::other("input/output error"));
        let all: [CliError; 10] = [
            JournalError::io("open", Path::new("s/lock"), IsADirectory.into()).into(),
            cache(IsADirectory).into(),
            journal(StorageFull).into(),
            EngineError::from(journal(StorageFull)).into(),
            journal(QuotaExceeded).into(),
            EngineError::from(broken()).into(),
            CliError::while_running(&broken()),
            cache(StorageFull).into(),
            out(StorageFull).into(),
            out(PermissionDenied).into(),
        ];
        insta::assert_snapshot!(all.map(|error| format!("{:?}: {error}\n", error.exit_code())).concat());
    }

    #[test]
    fn numbers_of_the_system_are_left_out() {
        let shown = |text: &str| CliError::usage(text).to_string();
        assert_eq!(
            shown("cannot read `a`: No such file or directory (os error 2)"),
            "cannot read `a`: No such file or directory"
        );
        assert_eq!(shown("a (os error 2); b (os error 13): c"), "a; b: c");
        assert_eq!(shown("a (os error x) b"), "a (os error x) b");
    }

    #[test]
    fn the_hint_of_a_rendered_error_is_that_of_the_first() {
        let text = "error: a\n --> f:1:1\n  |\n  = hint: do b\n\nerror: c\n  = hint: do d";
        let told = CliError::usage(text).envelope();
        assert_eq!((told.hint.as_deref(), told.message.starts_with("a\n")), (Some("do b"), true));
        assert_eq!(CliError::usage("error: a\n\nerror: c\n  = hint: do d").envelope().hint, None);
        assert_eq!(CliError::usage(text).with_hint("e").envelope().hint.as_deref(), Some("e"));
    }
}
