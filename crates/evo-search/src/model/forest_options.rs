//! The settings of a forest.

/// How many trees are grown, and how.
#[derive(Clone, Debug)]
pub struct ForestOptions {
    /// Number of trees.
    pub trees: usize,
    /// Columns tried at a node; `None` tries all.
    pub features_at_node: Option<usize>,
    /// Fewest members of a leaf.
    pub min_leaf: usize,
    /// Fewest members of a node that is split.
    pub min_split: usize,
    /// How eagerly nodes are regrown when observations arrive: an observation that arrives at a node of
    /// `n` members regrows it with chance `refresh / n`.
    pub refresh: f64,
}

impl ForestOptions {
    /// Extremely randomized trees with the settings that their paper recommends for regression (Geurts,
    /// Ernst and Wehenkel 2006, section 3: all columns at a node, nodes of fewer than five members are not
    /// split), but nodes of three and four are split too, because kernel timings repeat well. 32 trees,
    /// less than the paper's 100, since each adds to the time of a proposal (2026-11-21).
    pub fn extra_trees() -> ForestOptions {
        ForestOptions { trees: 32, features_at_node: None, min_leaf: 1, min_split: 3, refresh: 2.0 }
    }
}

impl Default for ForestOptions {
    fn default() -> ForestOptions {
        ForestOptions::extra_trees()
    }
}
