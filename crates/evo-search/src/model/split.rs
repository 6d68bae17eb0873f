//! Where a node of a tree is split: the draw of candidates and their score.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::codes::{Codes, Scales};
use super::forest_options::ForestOptions;

/// The observations that trees are grown from: codes of the features, targets and weights, row by row.
#[derive(Clone, Debug)]
pub(crate) struct TrainingSet {
    pub(crate) codes: Codes,
    pub(crate) scales: Scales,
    pub(crate) targets: Vec<f64>,
    pub(crate) weights: Vec<f64>,
}

/// A split of a node: rows whose code in `column` is at most `code` go left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeSplit {
    pub(crate) column: u32,
    pub(crate) code: u16,
}

/// Draws splits. Its buffers are reused from node to node, which saves most allocations of growing a tree.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    /// A permutation of the columns. Each draw continues a Fisher-Yates shuffle of its front.
    columns: Vec<u32>,
    /// For each member its weight, and its weight times the difference of its target from the node's mean.
    /// Centered sums lose fewer digits.
    terms: Vec<(f64, f64)>,
}

impl Splitter {
    /// The best of some random candidates by reduction of variance: one threshold for each of a few
    /// columns, drawn uniformly between the least and the largest value of the members (Geurts, Ernst and
    /// Wehenkel 2006). `None` if no column separates the members, or no candidate leaves enough of them on
    /// both sides.
    pub(crate) fn split(
        &mut self,
        data: &TrainingSet,
        members: &[u32],
        mean: f64,
        options: &ForestOptions,
        rng: &mut ChaCha8Rng,
    ) -> Option<NodeSplit> {
        let count = data.codes.columns();
        if self.columns.len() != count {
            self.columns = (0..count as u32).collect();
        }
        let term = |member: &u32| {
            let weight = data.weights[*member as usize];
            (weight, weight * (data.targets[*member as usize] - mean))
        };
        self.terms.clear();
        self.terms.extend(members.iter().map(term));
        let wanted = options.features_at_node.unwrap_or(count).max(1);
        let (mut tried, mut best) = (0, None::<(f64, NodeSplit)>);
        for drawn in 0..count {
            if tried == wanted {
                break;
            }
            self.columns.swap(drawn, rng.random_range(drawn..count));
            let column = self.columns[drawn];
            let codes = data.codes.column(column as usize);
            let ends = members.iter().map(|member| codes[*member as usize]);
            let (low, high) = ends.fold((u16::MAX, 0), |(low, high), code| (low.min(code), high.max(code)));
            // A constant column does not count as tried (as in the paper), or nodes with few live columns
            // would stay unsplit.
            if low == high {
                continue;
            }
            tried += 1;
            let code = data.scales[column as usize].threshold(low, high, rng.random());
            if let Some(score) = self.score(codes, members, code, options.min_leaf)
                && best.is_none_or(|(other, _)| score > other)
            {
                best = Some((score, NodeSplit { column, code }));
            }
        }
        best.map(|(_, split)| split)
    }

    /// The score of a threshold: the variance that it explains, up to a constant.
    fn score(&self, codes: &[u16], members: &[u32], code: u16, min_leaf: usize) -> Option<f64> {
        let (mut left, mut left_weight, mut left_sum) = (0usize, 0.0, 0.0);
        let (mut weight_all, mut sum_all) = (0.0, 0.0);
        for (member, (weight, sum)) in members.iter().zip(&self.terms) {
            // Selects instead of branches, as in `partition`: this loop runs for every candidate of every
            // node.
            let is_left = codes[*member as usize] <= code;
            left += usize::from(is_left);
            left_weight += if is_left { *weight } else { 0.0 };
            left_sum += if is_left { *sum } else { 0.0 };
            weight_all += weight;
            sum_all += sum;
        }
        if left < min_leaf || members.len() - left < min_leaf {
            return None;
        }
        Some(worth(left_weight, left_sum, weight_all, sum_all))
    }
}

/// The sum of squares between the two sides, `Σ wᵢ (mᵢ - m)²` for targets with overall mean `m` = 0.
fn worth(left_weight: f64, left_sum: f64, weight: f64, sum: f64) -> f64 {
    let square = |sum: f64, weight: f64| if weight > 0.0 { sum * sum / weight } else { 0.0 };
    square(left_sum, left_weight) + square(sum - left_sum, weight - left_weight)
}
