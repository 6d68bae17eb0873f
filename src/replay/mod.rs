//! Recorded spaces: what every configuration of a kernel on a GPU gave and cost, read from files.
//!
//! `recording` is the common form. `format` tells files apart by content; a reader per format makes a
//! `Draft` (`tuning_data`, `kernel_tuner_cache`, `t4`, `study_journal`), which is checked against its own
//! parameters and constraints (`draft`, `rows`). `device` answers the engine from a recording.

pub mod device;
mod draft;
pub mod error;
mod format;
mod kernel_tuner_cache;
mod observed;
pub mod prior;
mod recording;
mod rows;
mod study_journal;
mod t4;
mod tuning_data;

pub use error::RecordingError;
pub use format::Format;
pub use recording::{Cost, Recording, Row};

#[cfg(test)]
mod tests;
