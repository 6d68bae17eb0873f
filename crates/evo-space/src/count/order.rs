//! The order in which a group is searched, and the way back to the declared order.
//!
//! No rule is best everywhere (declared order is 100 times worse than the greedy one on some public
//! spaces and 7 times better on others), so both orders run in turn under growing budgets and the first
//! one to finish wins. The index must follow the declared order, so the diagram is then sorted by swapping
//! neighboring layers.

use std::cmp::Reverse;

use super::merge::{Edges, Layers, OverBudget, SearchLimits, SharedNodes, search};
use super::problem::{Conjunct, Problem};
use crate::count::problem::TruthTable;
use crate::watch::SpaceWatch;

/// Values tried by the first attempts; later ones have sixteen times as many.
const FIRST_STEPS: u64 = 1 << 13;

/// The default limit of values tried per group: some seconds of work.
pub const MAX_STEPS: u64 = 1 << 24;

/// Words of remembered states per search: 64 MiB.
const MAX_WORDS: u64 = 8 << 20;

const MAX_EDGES: usize = 4 << 20;

/// Paths of all swaps of a sort together: some seconds of work.
const MAX_PATHS: u64 = 16 << 20;

/// The same for each step that the search might have taken, where that is less: a search that may not take long is
/// not followed by a sort that does.
const PATHS_PER_STEP: u64 = 16;

/// The diagram of a group, its layers in declared order. An attempt tries `max_steps` values at most.
pub fn diagram(problem: &Problem, group: &[usize], max_steps: u64) -> Result<Layers, OverBudget> {
    if group.len() == 1 {
        return Ok(single(problem, group[0]));
    }
    if let Some(layers) = pair(problem, group) {
        return Ok(layers);
    }
    let greedy = greedy(problem, group);
    let mut orders: Vec<&[usize]> = if greedy == group { vec![group] } else { vec![group, &greedy] };
    // To look at first if the group is too much: what reads the most parameters, with the most combinations.
    let size = |conjunct: &&Conjunct| (conjunct.slots.len(), problem.combinations(conjunct));
    let costliest = problem.conjuncts_of(group).max_by_key(size);
    problem.watch.at(costliest.map(|conjunct| conjunct.origin));
    let max_paths = max_steps.saturating_mul(PATHS_PER_STEP).min(MAX_PATHS);
    let mut steps = FIRST_STEPS.min(max_steps);
    // Budgets grow by sixteen, so all failed attempts together cost less than an eighth more than the
    // last pair of attempts does, and the worse order costs at most as much as the better one.
    loop {
        let limits = SearchLimits { steps, words: MAX_WORDS };
        let mut number = 0;
        while let Some(order) = orders.get(number) {
            match search(problem, order, limits).map(|layers| sorted(layers, max_paths, &problem.watch)) {
                Ok(Ok(layers)) => return Ok(layers),
                // More steps would find the same diagram again, which is as hard to sort.
                Ok(Err(OverBudget)) => drop(orders.remove(number)),
                Err(OverBudget) => number += 1,
            }
        }
        if steps >= max_steps || orders.is_empty() || problem.watch.is_over() {
            return Err(OverBudget);
        }
        steps = steps.saturating_mul(16).min(max_steps);
    }
}

pub fn single(problem: &Problem, slot: usize) -> Layers {
    let edges: Edges = problem.positions[slot].iter().map(|position| (*position, 0)).collect();
    Layers { slots: vec![slot], nodes: vec![vec![edges]] }
}

/// A common case, for which a search would be mostly preparation.
fn pair(problem: &Problem, group: &[usize]) -> Option<Layers> {
    let [first, second] = group else { return None };
    let mine = problem.conjuncts.iter().filter(|conjunct| conjunct.slots == group);
    // A conjunct that has no table would have to be evaluated, which the search does better.
    let tables = mine.map(|conjunct| conjunct.table.as_deref()).collect::<Option<Vec<&TruthTable>>>()?;
    let size = problem.positions[*second].len();
    let (mut upper, mut lower) = (Vec::new(), SharedNodes::default());
    for (at, position) in problem.positions[*first].iter().enumerate() {
        let holds = |other: usize| tables.iter().all(|table| table.bits[at * size + other]);
        let others = problem.positions[*second].iter().enumerate().filter(|(other, _)| holds(*other));
        let edges: Vec<(u16, u32)> = others.map(|(_, position)| (*position, 0)).collect();
        // A diagram holds only nodes that lead to a point; later code relies on that for domains and counts.
        if edges.is_empty() {
            continue;
        }
        upper.push((*position, lower.number(&edges)));
    }
    let root = (!upper.is_empty()).then(|| upper.into_boxed_slice());
    Some(Layers { slots: group.to_vec(), nodes: vec![root.into_iter().collect(), lower.nodes] })
}

/// Next the slot that completes the most conjuncts, then opens the fewest, then has the fewest values.
fn greedy(problem: &Problem, group: &[usize]) -> Vec<usize> {
    let mut left = group.to_vec();
    let slots = problem.conjuncts_of(group).map(|conjunct| conjunct.slots.clone());
    let mut waiting = Waiting::new(problem.values.len(), slots);
    let mut order = Vec::with_capacity(group.len());
    while !left.is_empty() {
        // A completed conjunct drops out of the state, an opened one adds to it; small states merge more.
        let score = |slot: usize| {
            // Those that have begun are open already.
            let fresh = waiting.readers[slot].len() - waiting.begun[slot];
            (Reverse(waiting.closed[slot]), fresh, problem.values[slot].len())
        };
        // Ties go to the declared order, so that the same file always gives the same diagram.
        let best = (0..left.len()).min_by_key(|at| score(left[*at])).unwrap_or(0);
        let slot = left.remove(best);
        waiting.decide(slot);
        order.push(slot);
    }
    order
}

/// How many readers wait for each of the things that they read, while these are decided one after the other. Kept up
/// to date: counting anew for each thing would take the square of the things times the readers.
pub struct Waiting {
    reads: Vec<Vec<usize>>,
    readers: Vec<Vec<usize>>,
    /// Of each reader, what is not decided.
    open: Vec<usize>,
    decided: Vec<bool>,
    /// Readers that wait for this alone.
    pub closed: Vec<usize>,
    /// Readers of this that have begun.
    pub begun: Vec<usize>,
}

impl Waiting {
    pub fn new(things: usize, reads: impl Iterator<Item = Vec<usize>>) -> Waiting {
        let mut waiting = Waiting {
            reads: reads.collect(),
            readers: vec![Vec::new(); things],
            open: Vec::new(),
            decided: vec![false; things],
            closed: vec![0; things],
            begun: vec![0; things],
        };
        for (reader, reads) in waiting.reads.iter().enumerate() {
            waiting.open.push(reads.len());
            reads.iter().for_each(|thing| waiting.readers[*thing].push(reader));
            if let [only] = reads[..] {
                waiting.closed[only] += 1;
            }
        }
        waiting
    }

    pub fn decide(&mut self, thing: usize) {
        self.decided[thing] = true;
        for reader in &self.readers[thing] {
            let reads = &self.reads[*reader];
            if self.open[*reader] == reads.len() {
                reads.iter().for_each(|other| self.begun[*other] += 1);
            }
            self.open[*reader] -= 1;
            if self.open[*reader] == 1 {
                let last = reads.iter().find(|other| !self.decided[**other]);
                last.into_iter().for_each(|last| self.closed[*last] += 1);
            }
        }
    }
}

fn sorted(mut layers: Layers, max_paths: u64, watch: &SpaceWatch) -> Result<Layers, OverBudget> {
    // A bubble sort, because swapping neighbors is the only cheap move on a diagram: it touches the two
    // layers and no others (Rudell, Dynamic variable ordering for ordered BDDs, ICCAD 1993).
    let count = layers.slots.len();
    let mut paths_left = max_paths;
    for end in (1..count).rev() {
        for upper in 0..end {
            if layers.slots[upper] > layers.slots[upper + 1] {
                paths_left = paths_left.checked_sub(swap(&mut layers, upper)?).ok_or(OverBudget)?;
                if watch.is_over() {
                    return Err(OverBudget);
                }
            }
        }
    }
    Ok(layers)
}

/// Swaps a layer with the next. Nodes of the upper layer keep their numbers, because each still
/// stands for the same set of completions. How many paths it had to follow.
fn swap(layers: &mut Layers, upper: usize) -> Result<u64, OverBudget> {
    // Made anew from the paths, so that nodes that nothing leads to any more vanish.
    let mut lower = SharedNodes::default();
    let mut edges_left = MAX_EDGES;
    let old_upper = std::mem::take(&mut layers.nodes[upper]);
    for node in old_upper {
        let mut paths: Vec<(u16, u16, u32)> = Vec::new();
        for (first, child) in &node {
            let inner = layers.nodes[upper + 1][*child as usize].iter();
            paths.extend(inner.map(|(second, grandchild)| (*second, *first, *grandchild)));
        }
        // A diagram that is small in one order can be exponentially larger in another.
        edges_left = edges_left.checked_sub(paths.len()).ok_or(OverBudget)?;
        // So that edges ascend, which sharing by equality and binary search both need.
        paths.sort_unstable();
        let by_second = paths.chunk_by(|a, b| a.0 == b.0).map(|chunk| {
            let edges: Vec<(u16, u32)> =
                chunk.iter().map(|(_, first, grandchild)| (*first, *grandchild)).collect();
            (chunk[0].0, lower.number(&edges))
        });
        layers.nodes[upper].push(by_second.collect());
    }
    layers.nodes[upper + 1] = lower.nodes;
    layers.slots.swap(upper, upper + 1);
    Ok((MAX_EDGES - edges_left) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::space;

    fn problem(text: &str) -> Problem {
        let space = space(text);
        let constraints: Vec<_> = space.constraints().iter().collect();
        Problem::new(space.parameters(), &constraints, &SpaceWatch::default())
    }

    fn points(layers: &Layers) -> Vec<Vec<u16>> {
        let mut paths: Vec<(Vec<u16>, u32)> = vec![(Vec::new(), 0)];
        for nodes in &layers.nodes {
            let longer = paths.iter().flat_map(|(path, node)| {
                nodes[*node as usize].iter().map(|(at, child)| ([&path[..], &[*at]].concat(), *child))
            });
            paths = longer.collect();
        }
        paths.into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn every_search_order_sorts_to_the_same_diagram() {
        let problem = problem(
            "constraints = ['A * B * C <= 24', 'D % B == 0', 'C - D + E < 3', \"F == 'x' or A > E\"]\n[parameters]\n\
             A = [1, 2, 3, 4]\nB = [3, 1, 2]\nC = [1, 2, 4, 8]\nD = [2, 4, 6, 3]\nE = [0, 1, 2]\nF = ['x', 'y']",
        );
        let groups = problem.groups();
        assert_eq!(groups, [[0, 1, 2, 3, 4, 5]]);
        let limits = SearchLimits { steps: 1 << 20, words: 1 << 20 };
        let declared = search(&problem, &groups[0], limits).unwrap();
        let sizes = |layers: &Layers| layers.nodes.iter().map(Vec::len).collect::<Vec<_>>();
        for number in 0..720 {
            let (mut left, mut number) = (groups[0].clone(), number);
            let mut next = |count: usize| {
                let at = number % count;
                number /= count;
                left.remove(at)
            };
            let order: Vec<usize> = (1..=6).rev().map(&mut next).collect();
            let layers =
                sorted(search(&problem, &order, limits).unwrap(), MAX_PATHS, &problem.watch).unwrap();
            assert_eq!(layers.slots, groups[0], "{order:?}");
            assert_eq!(points(&layers), points(&declared), "{order:?}");
            // Both are reduced, so not only the points but also the nodes agree.
            assert_eq!(sizes(&layers), sizes(&declared), "{order:?}");
        }
    }

    #[test]
    fn greedy_completes_constraints_early() {
        let problem = problem(
            "constraints = ['A + D < 5', 'B + C + D < 7', 'C != A']\n[parameters]\n\
             A = [1, 2, 3]\nB = [1, 2, 3]\nC = [1, 2, 3]\nD = [1, 2, 3]",
        );
        assert_eq!(greedy(&problem, &[0, 1, 2, 3]), [1, 2, 0, 3]);
    }
}
