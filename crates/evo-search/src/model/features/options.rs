//! How many features a model gets.

/// How many features there may be.
#[derive(Clone, Copy, Debug)]
pub struct FeatureOptions {
    /// Most sub-expressions of constraints, for trees.
    pub expressions: usize,
    /// Most products and quotients of pairs, for trees.
    pub pairs: usize,
    /// Most sub-expressions of constraints, for a process.
    pub process_expressions: usize,
}

impl Default for FeatureOptions {
    fn default() -> FeatureOptions {
        FeatureOptions { expressions: 32, pairs: 112, process_expressions: 4 }
    }
}
