//! What a command can fail with. The kind decides the exit code, the code tells programs what it was, the hint says
//! what to do about it. `sorting` puts the errors of all areas into kinds and codes.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::path::Path;

use evo_protocol::envelope::{EnvelopeError, ErrorCode, ErrorPlace};

use super::exit_code::ExitCode;
use crate::journal::error::JournalError;

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
    /// A limit of the command's own was hit before it was done.
    #[error("{0}")]
    Limit(Explanation),
    /// A program that was to look at something gave no answer.
    #[error("{0}")]
    Tool(Explanation),
    /// A signal came.
    #[error("{0}")]
    Interrupted(Explanation),
}

/// What is wrong, and what a person can do about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Lower case, present tense, with the causes.
    pub text: String,
    /// One sentence, without the word `hint`.
    pub hint: Option<String>,
    /// What it is, where that differs from what most errors of its kind are.
    pub code: Option<ErrorCode>,
    /// Where it is, if it is in a file.
    pub place: Option<ErrorPlace>,
    /// Its text is about a request and tells nothing else of this machine.
    pub is_about_request: bool,
}

impl Explanation {
    /// An error with its causes: `cannot open `s/lock`: Permission denied`.
    pub fn of(error: &dyn Error, hint: Option<String>) -> Explanation {
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
        Explanation { hint, ..Explanation::from(text) }
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
        Explanation::from(text.to_string())
    }
}

impl From<String> for Explanation {
    fn from(text: String) -> Explanation {
        Explanation { text, hint: None, code: None, place: None, is_about_request: false }
    }
}

impl CliError {
    /// Wrong usage or a bad input file, in words.
    pub fn usage(text: impl Into<Explanation>) -> CliError {
        CliError::Usage(text.into())
    }

    /// A file or folder that cannot be used, in words, with its place.
    pub fn bad_file(text: impl Into<Explanation>, path: &Path) -> CliError {
        CliError::usage(text).with_code(ErrorCode::BadFile).at(ErrorPlace::file(path))
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
        self.explanation_mut().hint = Some(hint.into());
        self
    }

    /// The same error with a code of its own.
    pub fn with_code(mut self, code: ErrorCode) -> CliError {
        self.explanation_mut().code = Some(code);
        self
    }

    /// The same error, whose text whoever made the request may read.
    pub fn about_request(mut self) -> CliError {
        self.explanation_mut().is_about_request = true;
        self
    }

    /// Whether whoever made the request may read its text.
    pub fn is_about_request(&self) -> bool {
        self.explanation().is_about_request
    }

    /// The same error with the place where it is.
    pub fn at(mut self, place: ErrorPlace) -> CliError {
        self.explanation_mut().place = Some(place);
        self
    }

    fn explanation_mut(&mut self) -> &mut Explanation {
        match self {
            CliError::Usage(own)
            | CliError::Environment(own)
            | CliError::Device(own)
            | CliError::Harness(own)
            | CliError::Limit(own)
            | CliError::Tool(own)
            | CliError::Interrupted(own) => own,
        }
    }

    fn explanation(&self) -> &Explanation {
        match self {
            CliError::Usage(own)
            | CliError::Environment(own)
            | CliError::Device(own)
            | CliError::Harness(own)
            | CliError::Limit(own)
            | CliError::Tool(own)
            | CliError::Interrupted(own) => own,
        }
    }

    /// What it is, for programs.
    pub fn code(&self) -> ErrorCode {
        let usual = match self {
            CliError::Usage(_) => ErrorCode::Usage,
            CliError::Environment(_) => ErrorCode::ToolMissing,
            CliError::Device(_) => ErrorCode::DeviceLost,
            CliError::Harness(_) => ErrorCode::Internal,
            CliError::Limit(_) => ErrorCode::TimedOut,
            CliError::Tool(_) => ErrorCode::ToolBroken,
            CliError::Interrupted(_) => ErrorCode::Interrupted,
        };
        self.explanation().code.unwrap_or(usual)
    }

    /// The form in a command's object.
    pub fn envelope(&self) -> EnvelopeError {
        let Explanation { text, hint, place, .. } = self.explanation().clone();
        // The errors of a space file come rendered.
        let message = text.strip_prefix("error: ").unwrap_or(&text).to_string();
        let hint = hint.or_else(|| rendered_hint(&message));
        EnvelopeError { code: self.code(), message, hint, place }
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            // One code for both: in either case the caller has to change something before trying again.
            CliError::Usage(_) | CliError::Environment(_) => ExitCode::Usage,
            CliError::Device(_) => ExitCode::DeviceLost,
            CliError::Harness(_) => ExitCode::Harness,
            // What was demanded did not run.
            CliError::Limit(_) | CliError::Tool(_) => ExitCode::Failed,
            CliError::Interrupted(_) => ExitCode::Interrupted,
        }
    }
}

/// How the renderer of a file's errors marks a hint.
const RENDERED_HINT: &str = "= hint:";

/// The hint of the first of a file's rendered errors.
fn rendered_hint(message: &str) -> Option<String> {
    let mut first = message.lines().take_while(|line| !line.starts_with("error: ")).map(str::trim_start);
    let hint = first.find_map(|line| line.strip_prefix(RENDERED_HINT))?.trim();
    Some(hint.to_string()).filter(|hint| !hint.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_of_a_rendered_error_is_that_of_the_first() {
        let text = "error: a\n --> f:1:1\n  |\n  = hint: do b\n\nerror: c\n  = hint: do d";
        let told = CliError::usage(text).envelope();
        assert_eq!((told.hint.as_deref(), told.message.starts_with("a\n")), (Some("do b"), true));
        assert_eq!(CliError::usage("error: a\n\nerror: c\n  = hint: do d").envelope().hint, None);
        assert_eq!(CliError::usage(text).with_hint("e").envelope().hint.as_deref(), Some("e"));
    }
}
