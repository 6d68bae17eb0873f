//! Why a candidate cannot be exported.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExportError {
    #[error("{0}")]
    NotExportable(String),
    /// A template of evo's own fails: a mistake in evo.
    #[error("the template `{name}` fails: {why}")]
    Template { name: String, why: String },
}

impl ExportError {
    pub(crate) fn not_exportable(text: impl Into<String>) -> ExportError {
        ExportError::NotExportable(text.into())
    }
}
