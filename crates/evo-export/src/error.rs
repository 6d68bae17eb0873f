//! Why a candidate cannot be exported.

use thiserror::Error;

/// Why there are no files.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExportError {
    /// The kernel needs something that the files cannot say.
    #[error("{0}")]
    NotExportable(String),
    /// A template of evo's own fails: a mistake in evo.
    #[error("the template `{name}` fails: {why}")]
    Template {
        /// The template.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ExportError {
    pub(crate) fn not_exportable(text: impl Into<String>) -> ExportError {
        ExportError::NotExportable(text.into())
    }
}
