//! What is wrong with a T1 file, and where.

/// Why a file cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct T1Error {
    /// Keys and indices from the root: `KernelSpecification.Arguments[3].FillType`.
    pub place: String,
    pub what: String,
    pub hint: String,
}
