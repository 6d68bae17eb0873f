//! Where a node of a tree is split: the draw of candidates and their score.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::codes::{Codes, Scales};
use super::forest::{ForestOptions, Splitting};

/// What trees are grown from.
#[derive(Clone, Debug)]
pub struct Data {
    pub codes: Codes,
    pub scales: Scales,
    pub targets: Vec<f64>,
    pub weights: Vec<f64>,
}

/// Rows whose code in a column is at most `code` go left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    pub column: u32,
    pub code: u16,
}

/// Draws splits; keeps its memory from node to node.
#[derive(Debug, Default)]
pub struct Splitter {
    /// A permutation of the columns; a draw shuffles its front.
    columns: Vec<u32>,
    /// Weight, and weight times target less the node's mean, of each member.
    terms: Vec<(f64, f64)>,
    /// Code and position of each member, for thresholds that are searched.
    sorted: Vec<(u16, u32)>,
}

impl Splitter {
    /// The best of the drawn candidates by reduction of variance; `None` if no column separates the
    /// members, or none leaves enough of them on both sides.
    pub fn split(
        &mut self,
        data: &Data,
        members: &[u32],
        mean: f64,
        options: &ForestOptions,
        rng: &mut ChaCha8Rng,
    ) -> Option<Split> {
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
        let (mut tried, mut best) = (0, None::<(f64, Split)>);
        for drawn in 0..count {
            if tried == wanted {
                break;
            }
            self.columns.swap(drawn, rng.random_range(drawn..count));
            let column = self.columns[drawn];
            let codes = data.codes.column(column as usize);
            let ends = members.iter().map(|member| codes[*member as usize]);
            let (low, high) = ends.fold((u16::MAX, 0), |(low, high), code| (low.min(code), high.max(code)));
            if low == high {
                continue;
            }
            tried += 1;
            let found = match options.splitting {
                Splitting::Drawn => {
                    let code = data.scales[column as usize].threshold(low, high, rng.random());
                    self.score(codes, members, code, options.min_leaf).map(|score| (score, code))
                }
                Splitting::Searched => self.search(codes, members, options.min_leaf),
            };
            if let Some((score, code)) = found
                && best.is_none_or(|(other, _)| score > other)
            {
                best = Some((score, Split { column, code }));
            }
        }
        best.map(|(_, split)| split)
    }

    /// What a threshold is worth: the variance that it takes away, up to a constant.
    fn score(&self, codes: &[u16], members: &[u32], code: u16, min_leaf: usize) -> Option<f64> {
        let (mut left, mut left_weight, mut left_sum) = (0usize, 0.0, 0.0);
        let (mut weight_all, mut sum_all) = (0.0, 0.0);
        for (member, (weight, sum)) in members.iter().zip(&self.terms) {
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

    /// The best threshold of a column.
    fn search(&mut self, codes: &[u16], members: &[u32], min_leaf: usize) -> Option<(f64, u16)> {
        self.sorted.clear();
        let pairs = members.iter().enumerate();
        self.sorted.extend(pairs.map(|(at, member)| (codes[*member as usize], at as u32)));
        self.sorted.sort_unstable();
        let (weight_all, sum_all) =
            self.terms.iter().fold((0.0, 0.0), |(w, s), (weight, sum)| (w + weight, s + sum));
        let (mut left_weight, mut left_sum) = (0.0, 0.0);
        let mut best = None::<(f64, u16)>;
        for (at, pair) in self.sorted.windows(2).enumerate() {
            let (weight, sum) = self.terms[pair[0].1 as usize];
            left_weight += weight;
            left_sum += sum;
            let left = at + 1;
            if pair[0].0 == pair[1].0 || left < min_leaf || members.len() - left < min_leaf {
                continue;
            }
            let score = worth(left_weight, left_sum, weight_all, sum_all);
            if best.is_none_or(|(other, _)| score > other) {
                best = Some((score, pair[0].0));
            }
        }
        best
    }
}

/// The weighted variance between two sides: what is left of the whole after both means.
fn worth(left_weight: f64, left_sum: f64, weight: f64, sum: f64) -> f64 {
    let square = |sum: f64, weight: f64| if weight > 0.0 { sum * sum / weight } else { 0.0 };
    square(left_sum, left_weight) + square(sum - left_sum, weight - left_weight)
}
