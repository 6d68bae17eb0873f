//! A part of a space in which parameters keep to allowed values: conditional samples, crossover,
//! neighborhoods. It counts, samples and lists like a whole space, and costs no list.

use num_bigint::BigUint;
use rand_chacha::ChaCha8Rng;

use crate::genome::Genome;
use crate::index::{Allowed, Index, Size};
use crate::space::SearchSpace;

#[derive(Debug)]
pub struct Subspace<'a> {
    space: &'a SearchSpace,
    pub(crate) index: Index,
}

impl SearchSpace {
    /// Slots are parameters in declared order, positions point into their values.
    pub fn subspace(&self, allowed: impl Fn(usize, u16) -> bool) -> Subspace<'_> {
        let domains = self.index.domains().iter().enumerate();
        let keep = |(slot, domain): (usize, &Vec<u16>)| {
            let kept: Vec<u16> = domain.iter().copied().filter(|position| allowed(slot, *position)).collect();
            // `None` means "all allowed" and spares the restriction a lookup per edge.
            (kept.len() < domain.len()).then_some(kept)
        };
        self.restricted(&domains.map(keep).collect())
    }

    /// The valid points with the given positions at the given slots; a slot that is fixed twice has to
    /// be at both. A slot or position that the space does not have leaves nothing.
    pub fn fixed(&self, fixed: &[(usize, u16)]) -> Subspace<'_> {
        let mut allowed: Allowed = vec![None; self.parameters().len()];
        let mut nothing = false;
        for (slot, position) in fixed {
            match allowed.get_mut(*slot) {
                Some(Some(before)) if !before.contains(position) => before.clear(),
                Some(own) => *own = Some(vec![*position]),
                None => nothing = true,
            }
        }
        if nothing { self.subspace(|_, _| false) } else { self.restricted(&allowed) }
    }

    /// Positions that occur in some valid point, ascending. If the space is not exact, some may occur in none.
    pub fn effective_domains(&self) -> Vec<Vec<u16>> {
        self.index.domains().to_vec()
    }

    pub(crate) fn restricted(&self, allowed: &Allowed) -> Subspace<'_> {
        Subspace { space: self, index: self.index.restricted(allowed) }
    }
}

impl<'a> Subspace<'a> {
    pub fn space(&self) -> &'a SearchSpace {
        self.space
    }

    pub fn size(&self) -> Size {
        self.index.size()
    }

    /// Number of points; if the space is not exact, an upper bound.
    pub fn count(&self) -> BigUint {
        self.index.total().clone()
    }

    /// Whether it is proven that there is none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub fn contains(&self, genome: &Genome) -> bool {
        self.index.contains(genome.positions())
    }

    pub fn at(&self, index: u128) -> Option<Genome> {
        self.index.point(index).map(Genome::from)
    }

    pub fn iter(&self) -> impl Iterator<Item = Genome> + '_ {
        self.index.iter().map(Genome::from)
    }

    pub fn sample(&self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        self.index.sample(rng).map(Genome::from)
    }

    /// Up to `n` distinct uniform points, in random order; all of them if there are no more.
    pub fn sample_distinct(&self, n: usize, rng: &mut ChaCha8Rng) -> Vec<Genome> {
        self.index.sample_distinct(n, rng)
    }

    pub fn effective_domains(&self) -> Vec<Vec<u16>> {
        self.index.domains().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sample::seeded;
    use crate::testing::{any_space, brute_force, space};

    fn check(space: &SearchSpace, subspace: &Subspace, expected: &[Genome]) {
        assert_eq!(subspace.count(), BigUint::from(expected.len()));
        assert_eq!(subspace.is_empty(), expected.is_empty());
        assert_eq!(subspace.iter().collect::<Vec<_>>(), expected);
        for (index, genome) in expected.iter().enumerate() {
            assert_eq!(subspace.at(index as u128).as_ref(), Some(genome));
        }
        assert_eq!(subspace.at(expected.len() as u128), None);
        for genome in space.iter() {
            assert_eq!(subspace.contains(&genome), expected.binary_search(&genome).is_ok());
        }
        let mut rng = seeded(5);
        assert!(subspace.sample(&mut rng).map_or(expected.is_empty(), |genome| expected.contains(&genome)));
        let mut all = subspace.sample_distinct(expected.len() + 1, &mut rng);
        all.sort();
        assert_eq!(all, expected);
        assert_eq!(subspace.effective_domains(), occurring(space, expected));
    }

    fn occurring(space: &SearchSpace, points: &[Genome]) -> Vec<Vec<u16>> {
        let domain = |slot: usize| {
            let mut own: Vec<u16> = points.iter().map(|point| point.positions()[slot]).collect();
            own.sort_unstable();
            own.dedup();
            own
        };
        (0..space.parameters().len()).map(domain).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_subspace_is_the_filtered_space(text in any_space(), bits in any::<u64>(), at in any::<u16>()) {
            if let Ok(space) = SearchSpace::parse(&text) {
                let valid = brute_force(&space);
                assert_eq!(space.effective_domains(), occurring(&space, &valid));
                // Each position of each slot is allowed or not by a bit of its own; two of three are.
                let allowed = |slot: usize, position: u16| {
                    (bits.rotate_left(slot as u32 * 7 + u32::from(position)) % 3) != 0
                };
                let keeps = |genome: &&Genome| genome.positions().iter().enumerate().all(|(slot, at)| allowed(slot, *at));
                let expected: Vec<Genome> = valid.iter().filter(keeps).cloned().collect();
                check(&space, &space.subspace(allowed), &expected);
                let slot = usize::from(at) % space.parameters().len();
                let position = at % space.parameters()[slot].values.len() as u16;
                let expected: Vec<Genome> =
                    valid.iter().filter(|genome| genome.positions()[slot] == position).cloned().collect();
                check(&space, &space.fixed(&[(slot, position)]), &expected);
            }
        }
    }

    #[test]
    fn fixed_twice_has_to_agree() {
        let space =
            space("parameters = { A = [1, 2, 3], B = [1, 2, 3], C = [1, 2] }\nconstraints = ['A <= B']");
        assert_eq!(space.fixed(&[]).count(), BigUint::from(12u8));
        assert_eq!(space.fixed(&[(0, 1)]).count(), BigUint::from(4u8));
        assert_eq!(space.fixed(&[(0, 1), (0, 1), (2, 0)]).count(), BigUint::from(2u8));
        let nothing: [&[(usize, u16)]; 4] =
            [&[(0, 1), (0, 2), (0, 1)], &[(0, 7)], &[(3, 0)], &[(0, 2), (1, 0)]];
        for fixed in nothing {
            assert!(space.fixed(fixed).is_empty(), "{fixed:?}");
            assert_eq!(space.fixed(fixed).sample(&mut seeded(1)), None);
        }
    }

    #[test]
    fn samples_of_a_subspace_are_uniform() {
        let space = space(
            "parameters = { A = [1, 2, 3, 4, 5], B = [1, 2, 3, 4, 5], C = [0, 1] }\nconstraints = ['A * B <= 9']",
        );
        let part = space.subspace(|slot, position| slot != 0 || position != 1);
        let points: Vec<Genome> = part.iter().collect();
        let mut seen = vec![0f64; points.len()];
        let mut rng = seeded(2);
        for _ in 0..400 * points.len() {
            seen[points.binary_search(&part.sample(&mut rng).unwrap()).unwrap()] += 1.0;
        }
        assert!(crate::testing::is_uniform(&seen), "{seen:?}");
    }
}
