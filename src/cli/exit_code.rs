//! Exit codes: an interface that scripts branch on.

/// How a command ended. Single bad variants never change a sweep's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// The command did what it was asked to do.
    Done = 0,
    /// A gate or a comparison failed or did not run (`test-one`, `selftest`), no variant of a sweep passed, a
    /// configuration is not valid (`space --check`), or the limit of the whole command was hit.
    Failed = 1,
    /// Wrong usage, a bad input file, or something that evo needs is missing.
    Usage = 2,
    DeviceLost = 3,
    /// evo itself failed, in a sweep with every variant, or a disk became full or broke while work was under way.
    Harness = 4,
    /// Interrupted; resumable.
    Interrupted = 5,
}
