//! Recorded spaces: what every configuration of a kernel on a GPU gave and cost, read from files.
//!
//! `recording` is the common form. `format` tells files apart by content; a reader per format makes a
//! `Draft` (`tuning_data`, `kernel_tuner_cache`, `t4`, `study_journal`), which is checked against its own
//! parameters and constraints (`draft`, `rows`). `device` answers the engine from a recording. Searches are
//! compared on recordings: `simulate` runs one on a virtual clock, `trace` keeps what it asked for, `trace_reader`
//! reads what any tool asked for, `score` judges it. `synthetic` holds spaces beyond recording, whose optimum
//! is known.

pub mod device;
mod draft;
pub mod error;
mod format;
mod kernel_tuner_cache;
mod observed;
pub mod prior;
mod recording;
mod rows;
pub mod score;
pub mod simulate;
mod study_journal;
pub mod synthetic;
mod t4;
pub mod trace;
pub mod trace_reader;
mod tuning_data;

pub use error::RecordingError;
pub use format::Format;
pub use recording::{Cost, Recording, Row};

#[cfg(test)]
mod tests;
