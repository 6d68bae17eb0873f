//! From constraints to diagrams: `problem` lowers the constraints, tries out the small ones in full and removes values
//! that no valid point can have. `order` chooses in which order a group's parameters are decided, `plan` works out what
//! each step then has to do, and `merge` searches. Where that takes too much, `relax` counts as many conjuncts as a
//! modest budget allows and leaves the rest to be checked point by point.
//!
//! `relax` takes conjuncts in order, those that read the fewest slots and combine the fewest values first, and tries
//! them in halves, so that one bad conjunct among many costs a logarithm of trials.

pub mod merge;
pub mod order;
mod plan;
pub mod problem;
mod words;

use crate::count::merge::Layers;
use crate::count::problem::{Conjunct, Problem};

#[derive(Clone, Copy, Debug)]
pub struct RelaxLimits {
    /// Values tried per trial and order.
    pub steps: u64,
    /// Diagrams built or given up.
    pub trials: u32,
    /// Edges of all diagrams of the group together; an edge takes 32 bytes once counted.
    pub edges: usize,
}

impl Default for RelaxLimits {
    /// About a second of work at the very most, and 32 MiB kept.
    fn default() -> RelaxLimits {
        RelaxLimits { steps: 1 << 16, trials: 96, edges: 1 << 20 }
    }
}

/// The diagrams of a group that is too much to count, and the conjuncts that are left out of them.
pub(crate) fn relax(problem: &Problem, group: &[usize], limits: RelaxLimits) -> (Vec<Layers>, Vec<Conjunct>) {
    let mut conjuncts: Vec<Conjunct> = problem.conjuncts_of(group).cloned().collect();
    conjuncts.sort_by_key(|conjunct| (conjunct.slots.len(), problem.combinations(conjunct)));
    let mut choice = Choice {
        part: Problem { conjuncts: Vec::new(), ..problem.clone() },
        group,
        diagrams: group.iter().map(|slot| order::single(problem, *slot)).collect(),
        left_out: Vec::new(),
        limits,
    };
    // All of them together are known to be too much, so the first trial is a half.
    let second = conjuncts.split_off(conjuncts.len() / 2);
    choice.add(conjuncts);
    choice.add(second);
    (choice.diagrams, choice.left_out)
}

struct Choice<'a> {
    part: Problem,
    group: &'a [usize],
    diagrams: Vec<Layers>,
    left_out: Vec<Conjunct>,
    limits: RelaxLimits,
}

impl Choice<'_> {
    fn add(&mut self, mut batch: Vec<Conjunct>) {
        if batch.is_empty() || self.take(&batch) {
            return;
        }
        if batch.len() == 1 || self.limits.trials == 0 || self.part.watch.is_over() {
            return self.left_out.extend(batch);
        }
        let second = batch.split_off(batch.len() / 2);
        self.add(batch);
        self.add(second);
    }

    /// Takes all of a batch, or nothing. Groups that the batch does not touch stay as they are.
    fn take(&mut self, batch: &[Conjunct]) -> bool {
        let taken = self.part.conjuncts.len();
        self.part.conjuncts.extend_from_slice(batch);
        let mut touched = vec![false; self.part.values.len()];
        batch.iter().for_each(|conjunct| touched[conjunct.slots[0]] = true);
        let mut groups = self.part.groups();
        let is_mine = |group: &Vec<usize>| self.group.binary_search(&group[0]).is_ok();
        groups.retain(|group| is_mine(group) && group.iter().any(|slot| touched[*slot]));
        // Conjuncts that were taken before can link what the batch touches, so the groups are found anew
        // and the diagrams inside them are built again.
        let mut replaced = vec![false; self.part.values.len()];
        groups.iter().flatten().for_each(|slot| replaced[*slot] = true);
        let is_replaced = |layers: &Layers| replaced[layers.slots[0]];
        let kept: usize = self.diagrams.iter().filter(|layers| !is_replaced(layers)).map(edges).sum();
        let Some(built) = self.build(&groups, self.limits.edges.saturating_sub(kept)) else {
            // Leaving a conjunct out only adds points, which checks remove.
            self.part.conjuncts.truncate(taken);
            return false;
        };
        self.diagrams.retain(|layers| !is_replaced(layers));
        self.diagrams.extend(built);
        true
    }

    fn build(&mut self, groups: &[Vec<usize>], mut edges_left: usize) -> Option<Vec<Layers>> {
        let mut built = Vec::with_capacity(groups.len());
        for group in groups {
            self.limits.trials = self.limits.trials.checked_sub(1)?;
            let layers = order::diagram(&self.part, group, self.limits.steps).ok()?;
            // Limited over all diagrams of the group, because all of them are kept in memory together.
            edges_left = edges_left.checked_sub(edges(&layers))?;
            built.push(layers);
        }
        Some(built)
    }
}

/// Edges of a diagram of several parameters. What a parameter has alone is not the search's doing.
fn edges(layers: &Layers) -> usize {
    let linked = layers.nodes.iter().filter(|_| layers.slots.len() > 1);
    linked.flatten().map(|edges| edges.len()).sum()
}
