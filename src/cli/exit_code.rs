//! Exit codes: an interface that scripts branch on.

/// How a command ended. A bad variant never changes a sweep's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// Did what it was asked.
    Done = 0,
    /// A gate or a comparison failed (`test-one`, `selftest`, later `gate`).
    Failed = 1,
    /// Wrong usage or a bad input file.
    Usage = 2,
    /// The device is lost.
    DeviceLost = 3,
    /// evo's own trouble.
    Harness = 4,
    /// Interrupted; resumable.
    Interrupted = 5,
}

/// An error that is the user's to mend: exit code 2. Everything else is exit code 4.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    /// An error as the user's to mend: its text with its causes in the first part, before any hint.
    pub fn of(error: &dyn std::error::Error) -> UsageError {
        let text = error.to_string();
        match text.split_once("\nhint: ") {
            Some((said, hint)) => UsageError::said(said.to_string(), error, Some(hint.to_string())),
            None => UsageError::said(text, error, None),
        }
    }

    /// The same for an error that keeps its hint apart from its text.
    pub fn with_hint(error: &dyn std::error::Error, hint: Option<String>) -> UsageError {
        UsageError::said(error.to_string(), error, hint)
    }

    fn said(mut said: String, error: &dyn std::error::Error, hint: Option<String>) -> UsageError {
        let mut cause = error.source();
        while let Some(next) = cause {
            let words = next.to_string();
            if !said.contains(&words) {
                said = format!("{said}: {words}");
            }
            cause = next.source();
        }
        UsageError(said + &hint.map_or(String::new(), |hint| format!("\nhint: {hint}")))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::compile::CompileSetupError;
    use crate::journal::error::JournalError;

    #[test]
    fn causes_come_before_the_hint() {
        let source = || io::Error::from(io::ErrorKind::IsADirectory);
        let check = |error: &dyn std::error::Error, expected: &str| {
            assert_eq!(UsageError::of(error).to_string(), expected);
        };
        check(
            &JournalError::io("open", Path::new("s/lock"), source()),
            "cannot open `s/lock`: is a directory",
        );
        let error = CompileSetupError::Cache { path: "c".into(), source: source() };
        assert_eq!(
            UsageError::with_hint(&error, error.hint()).to_string(),
            "cannot write the compile cache `c`: is a directory\nhint: set EVO_CACHE_DIR to a folder with free \
             space that you own",
        );
    }
}
