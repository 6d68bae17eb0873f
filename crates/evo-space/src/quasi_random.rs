//! An endless, evenly spread sequence of valid points, for searches that take one at a time.

use crate::genome::Genome;
use crate::index::Index;
use crate::low_discrepancy::Sequence;
use crate::space::SearchSpace;

/// Points in a row that constraints may refuse before the sequence of a space that is not exact ends.
const REFUSED: u32 = 1 << 12;

impl SearchSpace {
    /// The points of `sample_quasi_random` one after another, without an end in a space that is exact
    /// and not empty. Points come again, the sooner the smaller the space is.
    pub fn quasi_random(&self, seed: u64) -> QuasiRandom<'_> {
        QuasiRandom::new(&self.index, seed)
    }
}

/// A low-discrepancy sequence of valid points.
#[derive(Debug)]
pub struct QuasiRandom<'a> {
    index: &'a Index,
    sequence: Sequence,
    /// The dimension that decides each slot: slots without a choice need none of their own.
    dimensions: Vec<usize>,
    number: u32,
}

impl<'a> QuasiRandom<'a> {
    /// The sequence of a seed.
    pub(crate) fn new(index: &'a Index, seed: u64) -> QuasiRandom<'a> {
        let mut dimensions = Vec::with_capacity(index.slots());
        let mut used = 0;
        for domain in index.domains() {
            dimensions.push(used);
            // A parameter without a choice takes no dimension, which would break up pairs of its neighbors.
            used += usize::from(domain.len() > 1);
        }
        QuasiRandom { index, sequence: Sequence::new(seed), dimensions, number: 0 }
    }

    /// One point of the sequence; `None` if a constraint refuses it. The space must have a point.
    pub(crate) fn point(&self, number: u32) -> Option<Genome> {
        let share = |slot: usize| self.sequence.coordinate(number, self.dimensions[slot]);
        let point = self.index.descend(|slot, fork| fork.split(share(slot)).edge);
        self.index.contains(&point).then(|| Genome::from(point))
    }
}

impl Iterator for QuasiRandom<'_> {
    type Item = Genome;

    fn next(&mut self) -> Option<Genome> {
        if *self.index.total() == num_bigint::BigUint::ZERO {
            return None;
        }
        (0..REFUSED).find_map(|_| {
            self.number = self.number.wrapping_add(1);
            self.point(self.number.wrapping_sub(1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::space;

    #[test]
    fn it_gives_the_sample_one_by_one_and_goes_on() {
        let space = space(
            "parameters = { A = [1, 2, 3, 4, 5, 6], B = [1, 2, 3, 4, 5, 6], C = [0, 1, 2, 3] }\n\
             constraints = ['A * B <= 18']",
        );
        let mut seen = Vec::new();
        for genome in space.quasi_random(3).take(200) {
            if !seen.contains(&genome) {
                seen.push(genome);
            }
        }
        assert_eq!(seen[..32], space.sample_quasi_random(32, 3));
        assert!(seen.len() > 60 && seen.iter().all(|genome| space.contains(genome)));
    }

    #[test]
    fn an_empty_space_has_none() {
        let space = space("parameters = { A = [1, 2] }\nconstraints = ['A > 1']");
        let nothing = space.subspace(|_, at| at == 0);
        assert_eq!(QuasiRandom::new(&nothing.index, 1).next(), None);
    }
}
