//! What is wrong with a task, and where.

/// Why a task cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct TaskError {
    /// Keys and indices from the file's root: `inputs.A.dtype`; a line of a file with one object a line before it.
    pub place: String,
    pub what: String,
    pub hint: String,
}

impl TaskError {
    /// An error with a way out.
    pub fn new(place: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) -> TaskError {
        TaskError { place: place.into(), what: what.into(), hint: hint.into() }
    }
}
