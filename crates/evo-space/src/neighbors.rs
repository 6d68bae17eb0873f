//! Neighbors of a point, and the nearest valid point to an invalid one. What counts as a neighbor follows Kernel
//! Tuner's four words. Where one parameter moves, the valid values of each are read off the diagram around the point's
//! path. Where all may move at once, the neighborhood is a box: a subspace, which is counted and drawn from without
//! listing it.

use num_bigint::BigUint;
use rand_chacha::ChaCha8Rng;

use crate::genome::Genome;
use crate::index::diagram::Edge;
use crate::index::{Allowed, Around, Index, Points};
use crate::space::SearchSpace;

/// More than any sum of distances, so that fewer changed parameters always win.
const CHANGE: u64 = 1 << 32;

/// The point itself is never a neighbor and need not be valid. Distances are in positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighborhood {
    /// Exactly one parameter differs.
    Hamming,
    /// Exactly one parameter differs, by the least that is valid on that side: at most two points for each parameter.
    HammingAdjacent,
    /// Each parameter keeps its value or takes the next one, on either side, that occurs in any valid point at all.
    Adjacent,
    /// Each parameter moves by at most one position.
    StrictlyAdjacent,
}

impl SearchSpace {
    /// In canonical order. A box around a point can hold very many: see `iter_neighbors`.
    pub fn neighbors(&self, genome: &Genome, neighborhood: Neighborhood) -> Vec<Genome> {
        self.iter_neighbors(genome, neighborhood).collect()
    }

    /// Number of valid neighbors, without listing a box (but listing it if the space is not exact).
    pub fn neighbor_count(&self, genome: &Genome, neighborhood: Neighborhood) -> BigUint {
        match self.box_around(genome, neighborhood) {
            Some(index) if index.is_exact() => &index.total - u8::from(index.contains(genome.positions())),
            _ => self.iter_neighbors(genome, neighborhood).count().into(),
        }
    }

    pub fn iter_neighbors(
        &self,
        genome: &Genome,
        neighborhood: Neighborhood,
    ) -> Box<dyn Iterator<Item = Genome> + '_> {
        let point = genome.positions().to_vec();
        match self.box_around(genome, neighborhood) {
            Some(index) => {
                Box::new(Points::new(index).filter(move |other| *other != point).map(Genome::from))
            }
            None => {
                let nearest = neighborhood == Neighborhood::HammingAdjacent;
                Box::new(changes(&self.index, &point, nearest).into_iter())
            }
        }
    }

    /// The points that a neighborhood in which all parameters may move holds, and the point itself.
    fn box_around(&self, genome: &Genome, neighborhood: Neighborhood) -> Option<Index> {
        let (point, domains) = (genome.positions(), self.index.domains());
        let allowed: Allowed = match neighborhood {
            Neighborhood::Hamming | Neighborhood::HammingAdjacent => return None,
            _ if point.len() != domains.len() => vec![Some(Vec::new()); domains.len()],
            Neighborhood::Adjacent => {
                point.iter().zip(domains).map(|(at, domain)| Some(beside(*at, domain))).collect()
            }
            Neighborhood::StrictlyAdjacent => {
                point.iter().map(|at| Some((at.saturating_sub(1)..=at.saturating_add(1)).collect())).collect()
            }
        };
        Some(self.index.restricted(&allowed))
    }

    /// The nearest valid point (the point itself if valid): fewest parameters changed, then fewest
    /// positions moved, ties by `rng`; `None` for an empty space.
    pub fn repair(&self, genome: &Genome, rng: &mut ChaCha8Rng) -> Option<Genome> {
        if self.contains(genome) {
            return Some(genome.clone());
        }
        let cost = |slot: usize, position: u16| {
            let wanted = genome.positions().get(slot).copied().unwrap_or(0);
            if wanted == position { 0 } else { CHANGE + u64::from(wanted.abs_diff(position)) }
        };
        self.index.cheapest(cost, rng).map(Genome::from)
    }
}

/// The position itself and the nearest of a domain on either side, ascending.
fn beside(own: u16, domain: &[u16]) -> Vec<u16> {
    let below = domain[..domain.partition_point(|at| *at < own)].last();
    let above = domain.get(domain.partition_point(|at| *at <= own));
    below.into_iter().chain([&own]).chain(above).copied().collect()
}

/// The valid points in which one parameter differs, `nearest` ones on each side only. In canonical order: smaller
/// values of earlier parameters come first, then greater values of later ones.
fn changes(index: &Index, point: &[u16], nearest: bool) -> Vec<Genome> {
    let mut found = Vec::new();
    let Some(around) = Around::new(index, point) else { return found };
    let most = if nearest { 1 } else { usize::MAX };
    let point_at = |slot: usize, edge: &Edge| Genome::from(around.changed(slot, edge.position));
    for slot in 0..point.len() {
        let (below, _) = around.edges(slot);
        let mut accepted = below.iter().filter(|edge| around.accepts(slot, edge));
        // Edges ascend, so the nearest one below is the last.
        match nearest {
            true => found.extend(accepted.next_back().map(|edge| point_at(slot, edge))),
            false => found.extend(accepted.map(|edge| point_at(slot, edge))),
        }
    }
    for slot in (0..point.len()).rev() {
        let accepted = around.edges(slot).1.iter().filter(|edge| around.accepts(slot, edge));
        found.extend(accepted.take(most).map(|edge| point_at(slot, edge)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Neighborhood::{Adjacent, Hamming, HammingAdjacent, StrictlyAdjacent};
    use super::*;
    use crate::testing::space;

    #[test]
    fn points_of_another_space_have_no_neighbors() {
        let space = space("parameters = { A = [1, 2], B = [1, 2] }");
        for point in [vec![], vec![0], vec![0, 0, 0]].map(Genome::from) {
            for neighborhood in [Hamming, HammingAdjacent, Adjacent, StrictlyAdjacent] {
                assert_eq!(space.neighbors(&point, neighborhood), []);
            }
        }
        // A position beyond the values is as far as it says.
        assert_eq!(space.neighbors(&Genome::from(vec![9, 0]), Hamming).len(), 2);
        assert_eq!(space.neighbors(&Genome::from(vec![9, 0]), StrictlyAdjacent), []);
    }

    #[test]
    fn a_box_is_counted_and_walked_without_a_list() {
        let lines = (0..60).map(|at| format!("P{at} = [1, 2, 3, 4]\n")).collect::<String>();
        let space = space(&format!("constraints = ['P3 < P7']\n[parameters]\n{lines}"));
        let point = Genome::from(vec![1; 60]);
        // P3 is one of 1, 2, 3 and P7 too, in three pairs of nine.
        let expected = BigUint::from(3u8).pow(58) * 3u8;
        assert_eq!(space.neighbor_count(&point, StrictlyAdjacent), expected);
        let first: Vec<Genome> = space.iter_neighbors(&point, StrictlyAdjacent).take(100).collect();
        assert!(first.is_sorted() && first.iter().all(|genome| space.contains(genome)));
    }
}
