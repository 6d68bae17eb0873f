//! What a command can fail with. The kind decides the exit code; the hint, a field of its own, says what
//! to do about it. This is the one place where the errors of all areas are sorted into kinds.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;

use evo_device::probe::ProbeError;
use evo_search::registry::UnknownStrategy;

use super::exit_code::ExitCode;
use crate::budget::BudgetError;
use crate::compile::CompileSetupError;
use crate::engine::EngineError;
use crate::journal::error::JournalError;
use crate::kernel::load::LoadError;
use crate::replay::RecordingError;
use crate::study::StudyError;

/// Why a command ended without doing what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Wrong usage or a bad input file.
    #[error("{0}")]
    Usage(Explanation),
    /// Something that evo needs is missing or in the way: a compiler, a GPU, a writable folder.
    #[error("{0}")]
    Environment(Explanation),
    /// The device stopped answering.
    #[error("{0}")]
    Device(Explanation),
    /// evo's own trouble, and trouble with files while work is under way, such as a full disk.
    #[error("{0}")]
    Harness(Explanation),
}

/// What is wrong, and what a person can do about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Lower case, present tense, with the causes.
    pub text: String,
    /// One sentence, without the word `hint`.
    pub hint: Option<String>,
}

impl Explanation {
    /// An error with its causes: `cannot open `s/lock`: Permission denied`.
    fn of(error: &dyn Error, hint: Option<String>) -> Explanation {
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
        Explanation { text, hint }
    }
}

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl From<&str> for Explanation {
    fn from(text: &str) -> Explanation {
        Explanation { text: text.to_string(), hint: None }
    }
}

impl From<String> for Explanation {
    fn from(text: String) -> Explanation {
        Explanation { text, hint: None }
    }
}

impl CliError {
    /// Wrong usage or a bad input file, in words.
    pub fn usage(text: impl Into<Explanation>) -> CliError {
        CliError::Usage(text.into())
    }

    /// Something missing or in the way, in words.
    pub fn environment(text: impl Into<Explanation>) -> CliError {
        CliError::Environment(text.into())
    }

    /// A failure of evo itself, in words.
    pub fn harness(text: impl Into<Explanation>) -> CliError {
        CliError::Harness(text.into())
    }

    /// A bad input, from the error of whatever read it.
    pub fn bad_input(error: &dyn Error, hint: Option<String>) -> CliError {
        CliError::Usage(Explanation::of(error, hint))
    }

    /// Trouble with the files of a study or leaderboard that were fine when the work began.
    pub fn while_running(error: &JournalError) -> CliError {
        CliError::Harness(Explanation::of(error, error.hint()))
    }

    /// The same error with something to do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> CliError {
        let explanation = match &mut self {
            CliError::Usage(own)
            | CliError::Environment(own)
            | CliError::Device(own)
            | CliError::Harness(own) => own,
        };
        explanation.hint = Some(hint.into());
        self
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            // One code for both: in either case the caller has to change something before trying again.
            CliError::Usage(_) | CliError::Environment(_) => ExitCode::Usage,
            CliError::Device(_) => ExitCode::DeviceLost,
            CliError::Harness(_) => ExitCode::Harness,
        }
    }
}

/// Whether an error says that a disk or a quota is used up.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> CliError {
        CliError::bad_input(&error, error.hint().map(String::from))
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
        CliError::bad_input(&error, error.hint().map(String::from))
    }
}

impl From<ProbeError> for CliError {
    fn from(error: ProbeError) -> CliError {
        CliError::Environment(Explanation::of(&error, Some(error.hint.clone())))
    }
}

impl From<CompileSetupError> for CliError {
    fn from(error: CompileSetupError) -> CliError {
        let explanation = Explanation::of(&error, error.hint());
        match error {
            // A full disk is nothing that the caller got wrong, so it does not share the code of wrong usage.
            CompileSetupError::Cache { source, .. } if is_full(&source) => CliError::Harness(explanation),
            CompileSetupError::Exhausted { .. } => CliError::Harness(explanation),
            _ => CliError::Environment(explanation),
        }
    }
}

/// Files of a study before a run begins, or of a leaderboard that is only read.
impl From<JournalError> for CliError {
    fn from(error: JournalError) -> CliError {
        let explanation = Explanation::of(&error, error.hint());
        match error {
            JournalError::DiskFull { .. } => CliError::Harness(explanation),
            JournalError::Io { .. } | JournalError::NotAFile { .. } => CliError::Environment(explanation),
            JournalError::Locked { .. }
            | JournalError::Foreign { .. }
            | JournalError::Newer { .. }
            | JournalError::NoHeader { .. } => CliError::Usage(explanation),
        }
    }
}

impl From<StudyError> for CliError {
    fn from(error: StudyError) -> CliError {
        let explanation = Explanation::of(&error, error.hint());
        match error {
            StudyError::Journal(error) => error.into(),
            StudyError::Unwritable { source, .. } if is_full(&source) => CliError::Harness(explanation),
            StudyError::Unwritable { .. } => CliError::Environment(explanation),
            StudyError::Taken { .. } | StudyError::Name { .. } => CliError::Usage(explanation),
        }
    }
}

/// What stops a run is never the user's usage: that was checked before.
impl From<EngineError> for CliError {
    fn from(error: EngineError) -> CliError {
        CliError::Harness(Explanation::of(&error, error.hint()))
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> CliError {
        CliError::Harness(Explanation::of(&error, None))
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError::Harness(Explanation::of(&error, None))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[track_caller]
    fn check(error: impl Into<CliError>, code: ExitCode, expected: &str) {
        let error = error.into();
        assert_eq!((error.exit_code(), error.to_string().as_str()), (code, expected));
    }

    #[test]
    fn causes_come_before_the_hint() {
        let source = || io::Error::from(io::ErrorKind::IsADirectory);
        check(
            JournalError::io("open", Path::new("s/lock"), source()),
            ExitCode::Usage,
            "cannot open `s/lock`: is a directory",
        );
        check(
            CompileSetupError::Cache { path: "c".into(), source: source() },
            ExitCode::Usage,
            "cannot write the compile cache `c`: is a directory\nhint: set EVO_CACHE_DIR to a folder with free \
             space that you own",
        );
    }

    #[test]
    fn a_full_disk_and_trouble_while_running_are_not_the_users_usage() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let path = Path::new("s/journal.jsonl");
        let text = "no space left on the device that holds `s/journal.jsonl`\nhint: everything before this record is \
                    safe; make room and run the same command with `--resume`";
        check(JournalError::io("write", path, full()), ExitCode::Harness, text);
        check(EngineError::from(JournalError::io("write", path, full())), ExitCode::Harness, text);
        let quota = io::Error::from(io::ErrorKind::QuotaExceeded);
        check(JournalError::io("write", path, quota), ExitCode::Harness, text);
        let broken = || JournalError::io("sync", path, io::Error::other("input/output error"));
        let text = "cannot sync `s/journal.jsonl`: input/output error";
        check(EngineError::from(broken()), ExitCode::Harness, text);
        check(CliError::while_running(&broken()), ExitCode::Harness, text);
        check(
            CompileSetupError::Cache { path: "c".into(), source: full() },
            ExitCode::Harness,
            "cannot write the compile cache `c`: no storage space\nhint: set EVO_CACHE_DIR to a folder with free \
             space that you own",
        );
        check(
            StudyError::Unwritable { path: "o".into(), source: full() },
            ExitCode::Harness,
            "cannot write to `o`: no storage space\nhint: choose another folder with `--out`",
        );
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        check(
            StudyError::Unwritable { path: "o".into(), source: denied },
            ExitCode::Usage,
            "cannot write to `o`: permission denied\nhint: choose another folder with `--out`",
        );
    }
}
