//! Exit codes: an interface that scripts branch on.

/// How a command ended. A bad variant never changes a sweep's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// Did what it was asked.
    Done = 0,
    /// A gate or a comparison failed (`test-one`, `selftest`, later `gate`).
    Failed = 1,
    /// Wrong usage or a bad input file.
    Usage = 2,
    /// The device is lost.
    DeviceLost = 3,
    /// evo's own trouble.
    Harness = 4,
    /// Interrupted; resumable.
    Interrupted = 5,
}

/// An error that is the user's to mend: exit code 2. Everything else is exit code 4.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
