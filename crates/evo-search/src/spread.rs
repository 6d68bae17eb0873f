//! Points that spread evenly over a space: the opening of every search and the source of restarts.
//!
//! A search that starts from 4 to 8 points cannot afford two of them side by side, which uniform
//! draws give often; a low-discrepancy sequence never wastes one.

use evo_space::QuasiRandom;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;

use super::unseen::Unseen;

/// Known points in a row that are always skipped.
const PATIENCE: usize = 32;

/// A low-discrepancy sequence without the points that are known.
#[derive(Debug)]
pub struct Spread<'a> {
    points: QuasiRandom<'a>,
    /// New points have become too rare to wait for.
    spent: bool,
}

impl<'a> Spread<'a> {
    /// The sequence of a seed.
    pub fn new(space: &'a SearchSpace, seed: u64) -> Spread<'a> {
        Spread { points: space.quasi_random(seed), spent: false }
    }

    /// The next point that nobody took, claimed; `None` from when nearly all points were taken.
    pub fn next(&mut self, unseen: &mut Unseen) -> Option<Genome> {
        // A resumed search meets as many known points in a row as were told, so that many are skipped.
        let patience = PATIENCE + 2 * unseen.seen_count();
        if self.spent || unseen.is_exhausted() {
            return None;
        }
        let next = self.points.by_ref().take(patience).find(|genome| unseen.claim(genome));
        self.spent = next.is_none();
        next
    }
}
