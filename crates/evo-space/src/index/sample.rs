//! Drawing valid points.
//!
//! Diagrams are drawn from exactly. Where checks are left to be made, points are drawn until one
//! passes, which keeps them uniform. A part whose points hardly ever pass is searched instead, depth
//! first with values in random order; what that finds is valid, but not uniform.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::checks::CheckScratch;
use super::counted::Index;
use super::parts::Part;

/// Refused points in a row before the search takes over.
const REFUSALS: u32 = 1 << 17;

/// Values tried by the first search; each later one starts over and may try twice as many.
const FIRST_DIVE: u64 = 1 << 12;

/// Values tried by all searches for one point together: about a tenth of a second.
const ALL_DIVES: u64 = 1 << 20;

impl Index {
    /// A uniform valid point, or `None` for an empty space.
    ///
    /// If the space is not exact: by rejection and uniform, unless 2^16 draws of a fixed seed held no
    /// point of a part or 2^17 were refused in a row. Then by a bounded search and not uniform, and
    /// `None` also where that finds nothing.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> Option<Vec<u16>> {
        if self.is_empty() {
            return None;
        }
        let mut positions = vec![0; self.places.len()];
        if self.is_exact() {
            // A uniform point of a product is a uniform point of each factor.
            self.diagrams.iter().for_each(|diagram| diagram.draw(rng, &mut positions));
            return Some(positions);
        }
        let mut scratch = self.checks.scratch();
        let drawn = self.parts.iter().all(|part| self.draw(part, rng, &mut positions, &mut scratch));
        drawn.then_some(positions)
    }

    /// Writes a valid point of a part; whether one was found.
    pub(super) fn draw(
        &self,
        part: &Part,
        rng: &mut ChaCha8Rng,
        positions: &mut [u16],
        scratch: &mut CheckScratch,
    ) -> bool {
        if part.is_exact() {
            return self.draw_once(part, rng, positions, scratch);
        }
        // A trial without a single hit predicts that rejection would spend all of its draws in vain.
        if self.trial(part).held > 0 && (0..REFUSALS).any(|_| self.draw_once(part, rng, positions, scratch)) {
            return true;
        }
        let mut dive = Dive { index: self, part, positions, scratch, steps_left: 0 };
        let (mut steps, mut spent) = (FIRST_DIVE, 0);
        while spent < ALL_DIVES {
            dive.steps_left = steps;
            match dive.go(rng) {
                DiveEnd::Point => return true,
                DiveEnd::Nothing => return false,
                DiveEnd::OutOfSteps => {}
            }
            // A restart chooses new values near the root. A depth-first search seldom gets back to an early
            // mistake by itself.
            spent += steps;
            steps *= 2;
        }
        false
    }

    /// Writes a uniform point of a part's diagrams; whether it passes the checks.
    pub(super) fn draw_once(
        &self,
        part: &Part,
        rng: &mut ChaCha8Rng,
        positions: &mut [u16],
        scratch: &mut CheckScratch,
    ) -> bool {
        part.diagrams.iter().for_each(|diagram| self.diagrams[*diagram].draw(rng, positions));
        if part.is_exact() {
            return true;
        }
        part.steps.iter().for_each(|step| self.checks.set(scratch, step.slot, positions[step.slot]));
        part.checks.iter().all(|check| self.checks.holds(*check, scratch))
    }
}

enum DiveEnd {
    Point,
    /// Every way was tried.
    Nothing,
    OutOfSteps,
}

/// A depth-first search of one part, values in random order.
struct Dive<'a> {
    index: &'a Index,
    part: &'a Part,
    positions: &'a mut [u16],
    scratch: &'a mut CheckScratch,
    steps_left: u64,
}

impl Dive<'_> {
    fn go(&mut self, rng: &mut ChaCha8Rng) -> DiveEnd {
        // For each step on the way: the node, and the edges that were not tried.
        let mut stack: Vec<(u32, Vec<u32>)> = vec![self.enter(0, 0)];
        while let Some((node, untried)) = stack.last_mut() {
            if untried.is_empty() {
                stack.pop();
                continue;
            }
            let Some(left) = self.steps_left.checked_sub(1) else { return DiveEnd::OutOfSteps };
            self.steps_left = left;
            // Draws without replacement in constant time. The order of the others does not matter.
            let edge = untried.swap_remove(rng.random_range(0..untried.len()));
            let (node, step) = (*node, stack.len() - 1);
            if let Some(child) = self.follow(step, node, edge) {
                if step + 1 == self.part.steps.len() {
                    return DiveEnd::Point;
                }
                stack.push(self.enter(step + 1, self.part.next_node(&self.index.diagrams, step, child)));
            }
        }
        DiveEnd::Nothing
    }

    fn enter(&self, step: usize, node: u32) -> (u32, Vec<u32>) {
        let step = &self.part.steps[step];
        let edges = self.index.diagrams[step.diagram].layers[step.depth].edges_of(node).len();
        (node, (0..edges as u32).collect())
    }

    /// The child, if the checks that close here hold.
    fn follow(&mut self, step: usize, node: u32, edge: u32) -> Option<u32> {
        let step = &self.part.steps[step];
        let layer = &self.index.diagrams[step.diagram].layers[step.depth];
        let edge = layer.edges_of(node)[edge as usize];
        self.positions[step.slot] = edge.position;
        self.index.checks.set(self.scratch, step.slot, edge.position);
        let checks = &self.index.checks;
        step.closes.iter().all(|check| checks.holds(*check, self.scratch)).then_some(edge.child)
    }
}
