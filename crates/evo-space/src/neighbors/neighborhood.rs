//! The four neighborhoods, and repair.

use num_bigint::BigUint;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::genome::Genome;
use crate::index::diagram::Edge;
use crate::index::{Allowed, Around, Index, Points, Side};
use crate::space::SearchSpace;

/// More than any sum of distances, so that fewer changed parameters always win.
const CHANGE: u64 = 1 << 32;

/// Draws from a box of a space that is not exact.
const DRAWS: usize = 64;

/// Which valid points count as neighbors; the point itself never does. Distances are in positions, and
/// the point need not be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighborhood {
    /// Exactly one parameter differs.
    Hamming,
    /// Exactly one parameter differs, by the least that is valid on that side: at most two points for
    /// each parameter.
    HammingAdjacent,
    /// Each parameter keeps its value or takes the next one, on either side, that occurs in any valid
    /// point at all.
    Adjacent,
    /// Each parameter moves by at most one position.
    StrictlyAdjacent,
}

impl SearchSpace {
    /// Valid neighbors in canonical order. A box around a point can hold very many: see
    /// `iter_neighbors`.
    pub fn neighbors(&self, genome: &Genome, neighborhood: Neighborhood) -> Vec<Genome> {
        self.iter_neighbors(genome, neighborhood).collect()
    }

    /// Number of valid neighbors, without listing a box (but listing it if the space is not exact).
    pub fn neighbor_count(&self, genome: &Genome, neighborhood: Neighborhood) -> BigUint {
        match self.area(genome, neighborhood) {
            Area::Changes(changes) => changes.count().into(),
            Area::Box(index) if !index.is_exact() => {
                index.iter().filter(|other| other != genome.positions()).count().into()
            }
            Area::Box(index) => index.total() - u8::from(index.contains(genome.positions())),
        }
    }

    /// Valid neighbors in canonical order, lazily.
    pub fn iter_neighbors(
        &self,
        genome: &Genome,
        neighborhood: Neighborhood,
    ) -> Box<dyn Iterator<Item = Genome> + '_> {
        let point = genome.positions().to_vec();
        match self.area(genome, neighborhood) {
            Area::Changes(changes) => Box::new(changes.map(move |change| changed(&point, change))),
            Area::Box(index) => {
                Box::new(Points::new(index).filter(move |other| *other != point).map(Genome::from))
            }
        }
    }

    /// One of the valid neighbors, each with equal probability, without listing a box; `None` if there
    /// is none. If the space is not exact a box is drawn from like `sample` does, and `None` also says
    /// that this met no neighbor.
    pub fn random_neighbor(
        &self,
        genome: &Genome,
        neighborhood: Neighborhood,
        rng: &mut ChaCha8Rng,
    ) -> Option<Genome> {
        match self.area(genome, neighborhood) {
            Area::Changes(changes) => {
                let changes: Vec<Change> = changes.collect();
                let drawn = (!changes.is_empty()).then(|| changes[rng.random_range(0..changes.len())]);
                drawn.map(|change| changed(genome.positions(), change))
            }
            Area::Box(index) => {
                let own = index.contains(genome.positions());
                if *index.total() == BigUint::from(u8::from(own)) {
                    return None;
                }
                // The point itself comes up at most every other time, or checks refuse all others.
                let draws = if index.is_exact() { usize::MAX } else { DRAWS };
                let mut draws = std::iter::from_fn(|| index.sample(rng)).take(draws);
                draws.find(|other| other != genome.positions()).map(Genome::from)
            }
        }
    }

    fn area(&self, genome: &Genome, neighborhood: Neighborhood) -> Area<'_> {
        let point = genome.positions();
        let domains = self.index.domains();
        let allowed: Allowed = match neighborhood {
            Neighborhood::Hamming => return Area::Changes(Changes::new(&self.index, point, false)),
            Neighborhood::HammingAdjacent => return Area::Changes(Changes::new(&self.index, point, true)),
            // A point of another length has no neighbors, which a box without positions says too.
            _ if point.len() != domains.len() => vec![Some(Vec::new()); domains.len()],
            Neighborhood::Adjacent => {
                point.iter().zip(domains).map(|(own, domain)| Some(beside(*own, domain))).collect()
            }
            Neighborhood::StrictlyAdjacent => point
                .iter()
                .map(|own| Some((own.saturating_sub(1)..=own.saturating_add(1)).collect()))
                .collect(),
        };
        Area::Box(self.index.restricted(&allowed))
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

/// How the neighbors of a point are found.
enum Area<'a> {
    Changes(Changes<'a>),
    /// All points of the box, the point itself included if it is valid.
    Box(Index),
}

/// A slot and its new position.
type Change = (usize, u16);

fn changed(point: &[u16], (slot, position): Change) -> Genome {
    let mut positions = point.to_vec();
    positions[slot] = position;
    Genome::from(positions)
}

/// The valid changes of one parameter, in canonical order of the changed points: smaller values of
/// earlier parameters come first, then greater values of later ones.
struct Changes<'a> {
    around: Option<Around<'a>>,
    /// Only the nearest change on each side.
    nearest: bool,
    /// The current slot and side, and those that come after them.
    turn: (usize, Side),
    turns: Box<dyn Iterator<Item = (usize, Side)>>,
    /// What is left of the current turn.
    edges: std::slice::Iter<'a, Edge>,
}

impl<'a> Changes<'a> {
    fn new(index: &'a Index, point: &[u16], nearest: bool) -> Changes<'a> {
        let below = (0..point.len()).map(|slot| (slot, Side::Below));
        let above = (0..point.len()).rev().map(|slot| (slot, Side::Above));
        Changes {
            around: Around::new(index, point),
            nearest,
            turn: (0, Side::Below),
            turns: Box::new(below.chain(above)),
            edges: [].iter(),
        }
    }
}

impl Iterator for Changes<'_> {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        let around = self.around.as_ref()?;
        loop {
            let (slot, side) = self.turn;
            let accepted = |edge: &&Edge| around.accepts(slot, edge);
            let found = match (self.nearest, side) {
                // Edges ascend, so the nearest one below is the last.
                (true, Side::Below) => self.edges.by_ref().rev().find(accepted),
                _ => self.edges.find(accepted),
            };
            if let Some(edge) = found {
                if self.nearest {
                    self.edges = [].iter();
                }
                return Some((slot, edge.position));
            }
            self.turn = self.turns.next()?;
            self.edges = around.edges(self.turn.0, self.turn.1).iter();
        }
    }
}
