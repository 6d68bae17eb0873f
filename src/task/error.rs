//! What is wrong with a task, and where.

use evo_space::text::printable_line;

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
    /// An error with a way out. What it quotes from a file comes in one line.
    pub fn new(place: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) -> TaskError {
        let [place, what] = [place.into(), what.into()].map(|own: String| printable_line(&own));
        TaskError { place, what, hint: hint.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_stays_in_one_line() {
        let error = TaskError::new("outputs.y\n", "the type `a\nb` is not supported", "use f32");
        assert_eq!(error.to_string(), r"outputs.y\n: the type `a\nb` is not supported");
    }
}
