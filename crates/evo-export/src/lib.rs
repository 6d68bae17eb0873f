//! A candidate as files that other programs compile, load and call.
//!
//! Everything here is pure: nothing reads or writes a file, knows a device or runs a program.

pub mod dispatch;
pub mod files;
pub mod format;
pub mod formula;
pub mod model;
pub mod record;
pub mod results;
pub mod source;
pub mod translate;

pub use files::{CROSSCHECK, VERIFY_PEER};

/// Why a candidate cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
