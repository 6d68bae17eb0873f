//! Recorded spaces: what every configuration of a kernel on a GPU gave and cost, read from files.
//!
//! `recording` is the common form. A reader per file format makes a `Draft` of it (`tuning_data`, …);
//! `draft` checks the draft against its own parameters and constraints. Searches are compared on recordings:
//! `simulate` runs one on a virtual clock, `trace` keeps what it asked for, `score` judges it.

mod draft;
pub mod error;
pub mod recording;
pub mod score;
pub mod simulate;
pub mod trace;
mod tuning_data;

pub use error::RecordingError;
pub use recording::{Cost, Recording, Row};

#[cfg(test)]
mod tests;
