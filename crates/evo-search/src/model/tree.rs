//! A regression tree that can grow by one observation at a time.
//!
//! Each node also owns a range of the watched points, whose predictions the forest keeps up to date. They are stored in
//! an order in which every node's points are contiguous, like the keys of quicksort: a change below a node reorders
//! only that node's range, and a leaf whose mean changes knows which predictions to correct.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::model::matrix::{Codes, Scales};

const NONE: u32 = u32::MAX;

/// Unlike sums of squares, these lose no digits when the mean is large.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    pub(crate) scatter: f64,
}

impl Moments {
    /// Adds a target (West 1979).
    pub(crate) fn add(&mut self, target: f64) {
        self.merge(Moments { count: 1.0, mean: target, scatter: 0.0 });
    }

    /// Adds the targets of another set (Chan, Golub and LeVeque 1983).
    pub(crate) fn merge(&mut self, other: Moments) {
        let count = self.count + other.count;
        if count > 0.0 {
            let apart = other.mean - self.mean;
            self.mean += apart * (other.count / count);
            self.scatter += other.scatter + apart * apart * (self.count * (other.count / count));
            self.count = count;
        }
    }

    pub(crate) fn variance(&self) -> f64 {
        if self.count > 0.0 { self.scatter / self.count } else { 0.0 }
    }
}

#[derive(Clone, Debug)]
struct TreeNode {
    split: NodeSplit,
    left: u32,
    right: u32,
    head: u32,
    count: u32,
    start: u32,
    end: u32,
    moments: Moments,
}

/// For each watched point, the sums over all trees of the leaf means and of the leaf mean squares.
pub(crate) type Sums = Vec<[f64; 2]>;

#[derive(Debug)]
pub(crate) struct Growth<'a> {
    pub(crate) data: &'a TrainingSet,
    pub(crate) points: Option<&'a Codes>,
    pub(crate) sums: &'a mut Sums,
    pub(crate) options: &'a ForestOptions,
    pub(crate) splitter: &'a mut Splitter,
    pub(crate) rng: &'a mut ChaCha8Rng,
}

#[derive(Clone, Debug)]
pub(crate) struct RegressionTree {
    nodes: Vec<TreeNode>,
    /// Places in `nodes` that regrowing left unused.
    free: Vec<u32>,
    /// For each member the next one in its leaf: growing a leaf allocates nothing.
    next: Vec<u32>,
    order: Vec<u32>,
}

impl RegressionTree {
    pub(crate) fn new(members: &mut [u32], growth: &mut Growth<'_>) -> RegressionTree {
        let points = growth.points.map_or(0, Codes::rows) as u32;
        let mut tree = RegressionTree {
            nodes: vec![TreeNode::leaf(0, points)],
            free: Vec::new(),
            next: vec![NONE; growth.data.targets.len()],
            order: (0..points).collect(),
        };
        tree.grow(0, members, growth);
        tree.contribute(0, 1.0, growth.sums);
        tree
    }

    /// Takes in a row that was added to the data. A node with `n` members on the way is regrown with chance
    /// `REFRESH / n`, so that a split that was drawn from few members is drawn again once there are many. A
    /// node's size is halved at each level, so the expected work is logarithmic in the number of rows.
    pub(crate) fn insert(&mut self, member: u32, growth: &mut Growth<'_>) {
        self.next.resize(growth.data.targets.len(), NONE);
        let target = growth.data.targets[member as usize];
        let mut at = 0;
        loop {
            let node = &mut self.nodes[at as usize];
            let chance = REFRESH / f64::from(node.count + 1);
            if node.left == NONE || growth.rng.random_bool(chance.clamp(0.0, 1.0)) {
                return self.regrow(at, member, growth);
            }
            node.count += 1;
            node.moments.add(target);
            let code = growth.data.codes.column(node.split.column as usize)[member as usize];
            at = if code <= node.split.code { node.left } else { node.right };
        }
    }

    pub(crate) fn predict(&self, row: &[u16]) -> Moments {
        let mut node = &self.nodes[0];
        while node.left != NONE {
            let is_left = row[node.split.column as usize] <= node.split.code;
            node = &self.nodes[if is_left { node.left } else { node.right } as usize];
        }
        node.moments
    }

    /// After targets changed; `sums` must be cleared.
    pub(crate) fn retarget(&mut self, data: &TrainingSet, sums: &mut Sums) {
        // Parents come before children, so going backwards visits children first.
        let mut visited = vec![0];
        let mut at = 0;
        while let Some(node) = visited.get(at).map(|at| &self.nodes[*at as usize]) {
            if node.left != NONE {
                visited.extend([node.left, node.right]);
            }
            at += 1;
        }
        for at in visited.into_iter().rev() {
            let node = &self.nodes[at as usize];
            let moments = if node.left == NONE {
                moments(data, Members { next: &self.next, at: node.head })
            } else {
                let mut both = self.nodes[node.left as usize].moments;
                both.merge(self.nodes[node.right as usize].moments);
                both
            };
            self.nodes[at as usize].moments = moments;
        }
        self.contribute(0, 1.0, sums);
    }

    /// Adds (`sign` 1) or subtracts (-1) the leaf means and mean squares below a node for its watched points.
    fn contribute(&self, at: u32, sign: f64, sums: &mut Sums) {
        let mut stack = vec![at];
        while let Some(at) = stack.pop() {
            let node = &self.nodes[at as usize];
            if node.start == node.end {
                continue;
            }
            if node.left != NONE {
                stack.extend([node.right, node.left]);
                continue;
            }
            let mean = node.moments.mean;
            let (first, second) = (sign * mean, sign * (node.moments.variance() + mean * mean));
            for point in &self.order[node.start as usize..node.end as usize] {
                let sum = &mut sums[*point as usize];
                sum[0] += first;
                sum[1] += second;
            }
        }
    }

    fn regrow(&mut self, at: u32, member: u32, growth: &mut Growth<'_>) {
        // The sums of watched points are corrected by difference. Rounding errors add up, but far below the
        // differences between predictions (a test compares them with exact sums).
        self.contribute(at, -1.0, growth.sums);
        let mut members = vec![member];
        let mut stack = vec![at];
        while let Some(inner) = stack.pop() {
            let node = &self.nodes[inner as usize];
            if node.left == NONE {
                members.extend(Members { next: &self.next, at: node.head });
            } else {
                stack.extend([node.right, node.left]);
            }
            // Places are reused, so a tree does not grow with the number of observations that it has seen.
            if inner != at {
                self.free.push(inner);
            }
        }
        self.grow(at, &mut members, growth);
        self.contribute(at, 1.0, growth.sums);
    }

    fn grow(&mut self, at: u32, members: &mut [u32], growth: &mut Growth<'_>) {
        // A stack instead of recursion: degenerate trees may be as deep as they have members.
        let mut stack = vec![(at, 0, members.len())];
        while let Some((at, from, to)) = stack.pop() {
            let members = &mut members[from..to];
            let moments = moments(growth.data, members.iter().copied());
            let node = &mut self.nodes[at as usize];
            (node.moments, node.count, node.left) = (moments, members.len() as u32, NONE);
            let Some(split) = choose(members, &moments, growth) else {
                self.nodes[at as usize].head = self.link(members);
                continue;
            };
            let codes = growth.data.codes.column(split.column as usize);
            let middle = partition(members, codes, split.code);
            let [left, right] = self.divide(at, split, growth.points);
            // Right first, so that the left side is grown first: the order of draws is part of the result.
            stack.push((right, from + middle, to));
            stack.push((left, from, from + middle));
        }
    }

    fn divide(&mut self, at: u32, split: NodeSplit, points: Option<&Codes>) -> [u32; 2] {
        let (start, end) = (self.nodes[at as usize].start, self.nodes[at as usize].end);
        let own = &mut self.order[start as usize..end as usize];
        let left_points =
            points.map_or(0, |points| partition(own, points.column(split.column as usize), split.code));
        let middle = start + left_points as u32;
        let children = [TreeNode::leaf(start, middle), TreeNode::leaf(middle, end)].map(|node| {
            let Some(at) = self.free.pop() else {
                self.nodes.push(node);
                return self.nodes.len() as u32 - 1;
            };
            self.nodes[at as usize] = node;
            at
        });
        let node = &mut self.nodes[at as usize];
        (node.split, node.left, node.right) = (split, children[0], children[1]);
        children
    }

    fn link(&mut self, members: &[u32]) -> u32 {
        let mut head = NONE;
        // Backwards, so that the list keeps the given order: sums of floats depend on it.
        for member in members.iter().rev() {
            self.next[*member as usize] = head;
            head = *member;
        }
        head
    }
}

impl TreeNode {
    fn leaf(start: u32, end: u32) -> TreeNode {
        let split = NodeSplit { column: 0, code: 0 };
        let moments = Moments::default();
        TreeNode { split, left: NONE, right: NONE, head: NONE, count: 0, start, end, moments }
    }
}

struct Members<'a> {
    next: &'a [u32],
    at: u32,
}

impl Iterator for Members<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let here = (self.at != NONE).then_some(self.at)?;
        self.at = self.next[here as usize];
        Some(here)
    }
}

fn moments(data: &TrainingSet, members: impl Iterator<Item = u32>) -> Moments {
    let mut moments = Moments::default();
    members.for_each(|member| moments.add(data.targets[member as usize]));
    moments
}

/// The split of a node; `None` if it stays a leaf because it has too few members or all targets are equal.
fn choose(members: &[u32], moments: &Moments, growth: &mut Growth<'_>) -> Option<NodeSplit> {
    // The variance is compared with rounding errors of targets of this size, not with 0.
    if members.len() < growth.options.min_split
        || moments.variance() <= 1e-24 * (1.0 + moments.mean * moments.mean)
    {
        return None;
    }
    growth.splitter.split(growth.data, members, moments.mean, growth.options, growth.rng)
}

/// Moves the rows whose code is at most `code` to the front and returns their number. Both sides keep their order,
/// which makes results reproducible. The loop has no branch, because the side of a row is unpredictable.
fn partition(rows: &mut [u32], codes: &[u16], code: u16) -> usize {
    let mut right = vec![0u32; rows.len()];
    let (mut lefts, mut rights) = (0, 0);
    for at in 0..rows.len() {
        let row = rows[at];
        let is_left = codes[row as usize] <= code;
        rows[lefts] = row;
        right[rights] = row;
        lefts += usize::from(is_left);
        rights += usize::from(!is_left);
    }
    rows[lefts..].copy_from_slice(&right[..rights]);
    lefts
}

/// The observations that trees are grown from: codes of the features and targets, row by row.
#[derive(Clone, Debug)]
pub(crate) struct TrainingSet {
    pub(crate) codes: Codes,
    pub(crate) scales: Scales,
    pub(crate) targets: Vec<f64>,
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
    /// For each member the difference of its target from the node's mean: centered sums lose fewer digits.
    terms: Vec<f64>,
}

impl Splitter {
    /// The best of some random candidates by reduction of variance: one threshold for each of a few columns, drawn
    /// uniformly between the least and the largest value of the members (Geurts, Ernst and Wehenkel 2006). `None` if no
    /// column separates the members.
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
        self.terms.clear();
        self.terms.extend(members.iter().map(|member| data.targets[*member as usize] - mean));
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
            if let Some(score) = self.score(codes, members, code)
                && best.is_none_or(|(other, _)| score > other)
            {
                best = Some((score, NodeSplit { column, code }));
            }
        }
        best.map(|(_, split)| split)
    }

    /// The score of a threshold: the variance that it explains, up to a constant.
    fn score(&self, codes: &[u16], members: &[u32], code: u16) -> Option<f64> {
        let (mut left, mut left_sum, mut sum_all) = (0usize, 0.0, 0.0);
        for (member, sum) in members.iter().zip(&self.terms) {
            // Selects instead of branches, as in `partition`.
            let is_left = codes[*member as usize] <= code;
            left += usize::from(is_left);
            left_sum += if is_left { *sum } else { 0.0 };
            sum_all += sum;
        }
        let (right, right_sum) = (members.len() - left, sum_all - left_sum);
        // The sum of squares between the two sides, `Σ wᵢ (mᵢ - m)²` for targets with overall mean `m` = 0.
        let between = || left_sum * left_sum / left as f64 + right_sum * right_sum / right as f64;
        (left > 0 && right > 0).then(between)
    }
}

#[derive(Clone, Debug)]
pub struct ForestOptions {
    pub trees: usize,
    /// Columns tried at a node; `None` tries all.
    pub features_at_node: Option<usize>,
    /// Members of the smallest node that is split, at least 2.
    pub min_split: usize,
}

/// An observation that arrives at a node of `n` members regrows it with chance `REFRESH / n`.
const REFRESH: f64 = 2.0;

impl ForestOptions {
    /// The settings that the paper recommends for regression (Geurts, Ernst and Wehenkel 2006, section 3: all columns
    /// at a node), but nodes of three and four members are split too, because kernel timings repeat well. 32 trees,
    /// less than the paper's 100, since each adds to the time of a proposal (2026-11-21).
    pub fn extra_trees() -> ForestOptions {
        ForestOptions { trees: 32, features_at_node: None, min_split: 3 }
    }
}
