//! Recorded spaces: what every configuration of a kernel on a GPU gave and cost, read from files.
//!
//! `recording` is the common form. A reader per file format makes a `Draft` of it (`tuning_data`, …);
//! `draft` checks the draft against its own parameters and constraints.

mod draft;
pub mod error;
pub mod recording;
mod tuning_data;

pub use error::RecordingError;
pub use recording::{Cost, Recording, Row};

#[cfg(test)]
mod tests;
