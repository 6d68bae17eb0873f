//! What can stop the engine. A variant never can.

use thiserror::Error;

use crate::journal::error::JournalError;

/// Our own trouble.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The study's files cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no room for compiled variants.
    #[error("{0}")]
    CacheFull(String),
    /// A worker thread ended without a word.
    #[error("the {0} stopped unexpectedly")]
    Stopped(&'static str),
}
