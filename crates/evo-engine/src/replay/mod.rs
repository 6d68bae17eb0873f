//! Recorded spaces: the result and the cost of every configuration of a kernel on a GPU, read from files.
//!
//! `recording` is the common form of all formats. `open` reads a file; the reader for its format (`readers`) makes
//! a `draft` of it, and `finish` checks the draft against its own parameters and constraints (`place`). `device`
//! answers the engine from a recording, and `prior` gives a recording to a search as an earlier study.

pub mod device;
mod draft;
pub mod error;
mod finish;
mod format;
mod open;
mod place;
pub mod prior;
mod readers;
mod recording;

pub use error::RecordingError;
pub use format::Format;
pub use recording::{Cost, Recording, Row};

#[cfg(test)]
mod tests;
