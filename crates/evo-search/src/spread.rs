//! Points that spread evenly over a space, for the opening of every search and for restarts.
//!
//! A search that starts from 4 to 8 points should not have two of them side by side, which uniform draws
//! often give. A low-discrepancy sequence avoids that.

use evo_space::QuasiRandom;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;

use super::unseen::Unseen;

/// Known points in a row that are skipped at least.
const PATIENCE: usize = 32;

/// A low-discrepancy sequence without the points that are known.
#[derive(Debug)]
pub(crate) struct Spread<'a> {
    points: QuasiRandom<'a>,
    /// Whether new points have become too rare to wait for.
    spent: bool,
}

impl<'a> Spread<'a> {
    /// The sequence of a seed.
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> Spread<'a> {
        Spread { points: space.quasi_random(seed), spent: false }
    }

    /// The next point that is not known, claimed; `None` once nearly all points are known.
    pub(crate) fn next(&mut self, unseen: &mut Unseen) -> Option<Genome> {
        // A resumed search meets all points that were told in a row at the beginning, so at least that many
        // are skipped.
        let patience = PATIENCE + 2 * unseen.seen_count();
        if self.spent || unseen.is_exhausted() {
            return None;
        }
        let next = self.points.by_ref().take(patience).find(|genome| unseen.claim(genome));
        self.spent = next.is_none();
        next
    }
}
