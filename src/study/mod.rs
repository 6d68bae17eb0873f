//! A study on disk: its folder, its lock, its journal, and the files that are views of the journal; and the results
//! of the studies beside it.

mod earlier;
mod folder;
mod open_study;

pub use earlier::{EarlierLimits, EarlierResult, EarlierResults};
pub use folder::{Resumed, StudyError, StudyRequest, resumed};
pub use open_study::Study;
