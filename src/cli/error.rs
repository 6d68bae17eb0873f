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
#[error("{explanation}")]
pub struct CliError {
    pub kind: CliErrorKind,
    explanation: Explanation,
}

/// What went wrong, as far as the exit code tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CliErrorKind {
    /// Wrong usage or a bad input file.
    Usage,
    /// Something that evo needs is missing or in the way: a compiler, a GPU, a writable folder.
    Environment,
    /// The device stopped answering.
    Device,
    /// evo's own trouble, and trouble with files while work is under way, such as a full disk.
    Harness,
    /// A limit of the command's own was hit before it was done.
    Limit,
    /// A program that was to look at something gave no answer.
    Tool,
    /// A signal came.
    Interrupted,
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
        Explanation {
            text: without_numbers(&text),
            hint: None,
            code: None,
            place: None,
            is_about_request: false,
        }
    }
}

/// A message without the numbers that the system gives its errors: `No such file or directory (os error 2)`.
fn without_numbers(text: &str) -> String {
    const LEAD: &str = " (os error ";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(LEAD) {
        shown.push_str(before);
        let digits = after.len() - after.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        rest = match after[digits..].strip_prefix(')').filter(|_| digits > 0) {
            Some(behind) => behind,
            None => {
                shown.push_str(LEAD);
                after
            }
        };
    }
    shown + rest
}

impl CliError {
    fn new(kind: CliErrorKind, explanation: impl Into<Explanation>) -> CliError {
        CliError { kind, explanation: explanation.into() }
    }

    /// Wrong usage or a bad input file.
    pub fn usage(explanation: impl Into<Explanation>) -> CliError {
        CliError::new(CliErrorKind::Usage, explanation)
    }

    /// A file or folder that cannot be used, with its place.
    pub fn bad_file(explanation: impl Into<Explanation>, path: &Path) -> CliError {
        CliError::usage(explanation).with_code(ErrorCode::BadFile).at(ErrorPlace::file(path))
    }

    /// Something missing or in the way.
    pub fn environment(explanation: impl Into<Explanation>) -> CliError {
        CliError::new(CliErrorKind::Environment, explanation)
    }

    /// A device that stopped answering.
    pub fn device(explanation: impl Into<Explanation>) -> CliError {
        CliError::new(CliErrorKind::Device, explanation)
    }

    /// A failure of evo itself.
    pub fn harness(explanation: impl Into<Explanation>) -> CliError {
        CliError::new(CliErrorKind::Harness, explanation)
    }

    /// A limit that was hit.
    pub fn limit(explanation: impl Into<Explanation>) -> CliError {
        CliError::new(CliErrorKind::Limit, explanation)
    }

    /// A program without an answer.
    pub fn tool(explanation: impl Into<Explanation>) -> CliError {
        CliError::new(CliErrorKind::Tool, explanation)
    }

    /// A signal.
    pub fn interrupted(explanation: impl Into<Explanation>) -> CliError {
        CliError::new(CliErrorKind::Interrupted, explanation)
    }

    /// A bad input, from the error of whatever read it.
    pub fn bad_input(error: &dyn Error, hint: Option<String>) -> CliError {
        CliError::usage(Explanation::of(error, hint))
    }

    /// Trouble with the files of a study or leaderboard that were fine when the work began.
    pub fn while_running(error: &JournalError) -> CliError {
        CliError::harness(Explanation::of(error, error.hint()))
    }

    /// The same error with something to do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> CliError {
        self.explanation.hint = Some(hint.into());
        self
    }

    /// The same error with a code of its own.
    pub fn with_code(mut self, code: ErrorCode) -> CliError {
        self.explanation.code = Some(code);
        self
    }

    /// The same error, whose text whoever made the request may read.
    pub fn about_request(mut self) -> CliError {
        self.explanation.is_about_request = true;
        self
    }

    /// Whether whoever made the request may read its text.
    pub fn is_about_request(&self) -> bool {
        self.explanation.is_about_request
    }

    /// The same error with the place where it is.
    pub fn at(mut self, place: ErrorPlace) -> CliError {
        self.explanation.place = Some(place);
        self
    }

    /// What it is, for programs.
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
        self.explanation.code.unwrap_or(usual)
    }

    /// The form in a command's object.
    pub fn envelope(&self) -> EnvelopeError {
        let Explanation { text, hint, place, .. } = self.explanation.clone();
        // The errors of a space file come rendered.
        let message = text.strip_prefix("error: ").unwrap_or(&text).to_string();
        let hint = hint.or_else(|| rendered_hint(&message));
        EnvelopeError { code: self.code(), message, hint, place }
    }

    /// The process's exit code.
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
    fn numbers_of_the_system_are_left_out() {
        let said = |text: &str| CliError::usage(text).to_string();
        assert_eq!(
            said("cannot read `a`: No such file or directory (os error 2)"),
            "cannot read `a`: No such file or directory"
        );
        assert_eq!(said("a (os error 2); b (os error 13): c"), "a; b: c");
        assert_eq!(said("a (os error x) b"), "a (os error x) b");
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
