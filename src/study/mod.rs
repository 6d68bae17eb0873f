//! A study on disk: its folder, its lock, its journal, and the files that are views of the journal.

mod folder;
mod open_study;

pub use folder::{StudyError, StudyRequest, resumed_seed};
pub use open_study::Study;
