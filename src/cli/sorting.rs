//! The one place where the errors of all areas are sorted into the kinds and codes of a command's error.

use std::io;

use evo_device::probe::ProbeError;
use evo_protocol::envelope::{ErrorCode, ErrorPlace};
use evo_search::registry::UnknownStrategy;

use super::error::{CliError, Explanation};
use crate::budget::BudgetError;
use crate::compile::CompileSetupError;
use crate::engine::EngineError;
use crate::journal::error::JournalError;
use crate::kernel::load::LoadError;
use crate::replay::RecordingError;
use crate::study::{ProfileFileError, StudyError};
use crate::tool::{ToolFailure, ToolState};

/// Whether an error says that a disk or a quota is used up.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> CliError {
        let code = match &error {
            LoadError::Unknown { .. } => ErrorCode::Usage,
            LoadError::Invalid { .. } | LoadError::Unreadable { .. } | LoadError::NotASpace { .. } => {
                ErrorCode::BadFile
            }
        };
        let said = CliError::bad_input(&error, error.hint().map(String::from)).with_code(code);
        match error.place() {
            Some((file, place)) => said.at(ErrorPlace {
                file: file.display().to_string(),
                line: place.map(|(line, _)| line),
                column: place.map(|(_, column)| column),
            }),
            None => said,
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
        let error = CliError::tool(failure.message).with_code(code);
        match failure.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
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
        CliError::environment(Explanation::of(&error, Some(error.hint.clone())))
            .with_code(ErrorCode::NoDevice)
    }
}

impl From<CompileSetupError> for CliError {
    fn from(error: CompileSetupError) -> CliError {
        let explanation = Explanation::of(&error, error.hint());
        match error {
            // A full disk is nothing that the caller got wrong, so it does not share the code of wrong usage.
            CompileSetupError::Cache { path, source } if is_full(&source) => {
                CliError::harness(explanation).at(ErrorPlace::file(&path))
            }
            CompileSetupError::Exhausted { .. } => CliError::harness(explanation),
            CompileSetupError::Cache { path, .. } => {
                CliError::environment(explanation).with_code(ErrorCode::BadFile).at(ErrorPlace::file(&path))
            }
            CompileSetupError::CacheLimit { .. } => {
                CliError::environment(explanation).with_code(ErrorCode::Usage)
            }
            CompileSetupError::UnknownArch { .. } | CompileSetupError::Support { .. } => {
                CliError::environment(explanation).with_code(ErrorCode::ToolIncompatible)
            }
            CompileSetupError::NoNvrtc { .. } | CompileSetupError::NoHostCompiler { .. } => {
                CliError::environment(explanation)
            }
            CompileSetupError::Unusable { .. }
            | CompileSetupError::Worker { .. }
            | CompileSetupError::Refused { .. } => {
                CliError::environment(explanation).with_code(ErrorCode::ToolBroken)
            }
        }
    }
}

/// Files of a study before a run begins, or of a leaderboard that is only read.
impl From<JournalError> for CliError {
    fn from(error: JournalError) -> CliError {
        let explanation = Explanation::of(&error, error.hint());
        match error {
            JournalError::DiskFull { path } => CliError::harness(explanation).at(ErrorPlace::file(&path)),
            JournalError::Io { path, .. } | JournalError::NotAFile { path, .. } => {
                CliError::environment(explanation).with_code(ErrorCode::BadFile).at(ErrorPlace::file(&path))
            }
            JournalError::Locked { .. } => CliError::usage(explanation).with_code(ErrorCode::ToolBusy),
            JournalError::Foreign { path, .. }
            | JournalError::Newer { path, .. }
            | JournalError::NoHeader { path } => {
                CliError::usage(explanation).with_code(ErrorCode::BadFile).at(ErrorPlace::file(&path))
            }
        }
    }
}

impl From<ProfileFileError> for CliError {
    fn from(error: ProfileFileError) -> CliError {
        let explanation = Explanation::of(&error, Some("choose another folder with `--out`".to_string()));
        let (ProfileFileError::Unwritable { path, .. } | ProfileFileError::Foreign { path }) = &error;
        match &error {
            ProfileFileError::Unwritable { source, .. } if is_full(source) => {
                CliError::harness(explanation).at(ErrorPlace::file(path))
            }
            _ => CliError::environment(explanation).with_code(ErrorCode::BadFile).at(ErrorPlace::file(path)),
        }
    }
}

impl From<StudyError> for CliError {
    fn from(error: StudyError) -> CliError {
        let explanation = Explanation::of(&error, error.hint());
        match error {
            StudyError::Journal(error) => error.into(),
            StudyError::Unwritable { path, source } if is_full(&source) => {
                CliError::harness(explanation).at(ErrorPlace::file(&path))
            }
            StudyError::Unwritable { path, .. } => {
                CliError::environment(explanation).with_code(ErrorCode::BadFile).at(ErrorPlace::file(&path))
            }
            StudyError::Taken { .. } | StudyError::Missing { .. } | StudyError::Name { .. } => {
                CliError::usage(explanation)
            }
        }
    }
}

/// What stops a run is never the user's usage: that was checked before.
impl From<EngineError> for CliError {
    fn from(error: EngineError) -> CliError {
        CliError::harness(Explanation::of(&error, error.hint()))
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> CliError {
        CliError::harness(Explanation::of(&error, None))
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError::harness(Explanation::of(&error, None))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::exit_code::ExitCode;

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
            "cannot open `s/lock`: is a directory\nhint: mend that, or choose another folder with `--out`",
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
                    safe; make room and run the same command again, a sweep with `--resume`";
        check(JournalError::io("write", path, full()), ExitCode::Harness, text);
        check(EngineError::from(JournalError::io("write", path, full())), ExitCode::Harness, text);
        let quota = io::Error::from(io::ErrorKind::QuotaExceeded);
        check(JournalError::io("write", path, quota), ExitCode::Harness, text);
        let broken = || JournalError::io("sync", path, io::Error::other("input/output error"));
        let text = "cannot sync `s/journal.jsonl`: input/output error\nhint: mend that, or choose another folder \
                    with `--out`";
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
