//! Errors that stop the engine. A variant cannot cause one.

use std::io;

use thiserror::Error;

use evo_compile::FULL_CACHE_HINT;
use evo_journal::error::JournalError;
use evo_system::process::EXHAUSTED_HINT;

/// Trouble that is evo's own.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The study's files cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no room for compiled variants.
    #[error("{0}")]
    CacheFull(String),
    /// No thread can be started.
    #[error("cannot start a thread for the device")]
    Thread(#[source] io::Error),
    /// A thread ended without an answer.
    #[error("the {0} stopped unexpectedly")]
    Stopped(&'static str),
}

impl EngineError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Journal(error) => error.hint(),
            EngineError::CacheFull(_) => Some(FULL_CACHE_HINT.to_string()),
            EngineError::Thread(_) => Some(EXHAUSTED_HINT.to_string()),
            EngineError::Stopped(_) => None,
        }
    }
}
