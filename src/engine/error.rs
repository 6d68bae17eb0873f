//! What can stop the engine. A variant never can.

use thiserror::Error;

use crate::compile::FULL_CACHE_HINT;
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

impl EngineError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Journal(error) => error.hint(),
            EngineError::CacheFull(_) => Some(FULL_CACHE_HINT.to_string()),
            EngineError::Stopped(_) => None,
        }
    }
}
