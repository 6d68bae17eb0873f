//! The formats of recordings.

use super::error::RecordingFault;

/// A format of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `tuning-data/1`: one JSON object with parameters, constraints and a list per column.
    TuningData,
    /// A cache file of Kernel Tuner.
    KernelTunerCache,
    /// Results in T4, the auto-tuning community's exchange format.
    T4,
    /// The journal of one of our own studies.
    Journal,
}

impl Format {
    /// The name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::TuningData => "tuning-data/1",
            Format::KernelTunerCache => "Kernel Tuner cache",
            Format::T4 => "T4 results",
            Format::Journal => "evo journal",
        }
    }
}

/// A file that does not read as its format. serde does not know the row.
pub(super) fn unreadable(format: Format, error: &serde_json::Error) -> RecordingFault {
    RecordingFault::new(error.to_string()).with_hint(format!("it does not read as {}", format.as_str()))
}
