//! Neighbors of a point, and the nearest valid point to an invalid one. What counts as a neighbor follows Kernel
//! Tuner's four words. Where one parameter moves, the valid values of each are read off the diagram around the point's
//! path. Where all may move at once, the neighborhood is a box: a subspace, which is counted and drawn from without
//! listing it.

use num_bigint::BigUint;
use rand_chacha::ChaCha8Rng;

use crate::genome::Genome;
use crate::index::diagram::Edge;
use crate::index::{Allowed, Around, Index, Points, Side};
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
        match self.area(genome, neighborhood) {
            Area::Changes(changes) => changes.count().into(),
            Area::Box(index) if !index.is_exact() => {
                index.iter().filter(|other| other != genome.positions()).count().into()
            }
            Area::Box(index) => index.total() - u8::from(index.contains(genome.positions())),
        }
    }

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

    fn area(&self, genome: &Genome, neighborhood: Neighborhood) -> Area<'_> {
        let point = genome.positions();
        let domains = self.index.domains();
        let allowed: Allowed = match neighborhood {
            Neighborhood::Hamming => return Area::Changes(Changes::new(&self.index, point, false)),
            Neighborhood::HammingAdjacent => return Area::Changes(Changes::new(&self.index, point, true)),
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

enum Area<'a> {
    Changes(Changes<'a>),
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
    nearest: bool,
    turn: (usize, Side),
    turns: Box<dyn Iterator<Item = (usize, Side)>>,
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use num_bigint::BigUint;
    use proptest::prelude::*;
    use rand::RngExt;

    use super::*;
    use crate::genome::Genome;
    use crate::sample::seeded;
    use crate::space::SearchSpace;
    use crate::testing::{any_space, brute_force, space};

    const ALL: [Neighborhood; 4] = [
        Neighborhood::Hamming,
        Neighborhood::HammingAdjacent,
        Neighborhood::Adjacent,
        Neighborhood::StrictlyAdjacent,
    ];

    fn scan(valid: &[Genome], point: &[u16], neighborhood: Neighborhood) -> Vec<Genome> {
        let differ = |other: &&Genome| other.positions().iter().zip(point).filter(|(a, b)| a != b).count();
        let hamming: Vec<Genome> = valid.iter().filter(|other| differ(other) == 1).cloned().collect();
        let inside = |bounds: &[(u16, u16)]| {
            let inside = |other: &&Genome| {
                other.positions().iter().zip(bounds).all(|(at, (low, high))| low <= at && at <= high)
            };
            valid.iter().filter(|other| differ(other) > 0).filter(inside).cloned().collect()
        };
        match neighborhood {
            Neighborhood::Hamming => hamming,
            Neighborhood::HammingAdjacent => {
                let bounds = nearest(&hamming, point);
                let near = |other: &&Genome| {
                    other.positions().iter().zip(&bounds).all(|(at, b)| b.0 <= *at && *at <= b.1)
                };
                hamming.iter().filter(near).cloned().collect()
            }
            Neighborhood::Adjacent => inside(&nearest(valid, point)),
            Neighborhood::StrictlyAdjacent => {
                inside(&point.iter().map(|own| (own.saturating_sub(1), own + 1)).collect::<Vec<_>>())
            }
        }
    }

    fn nearest(points: &[Genome], own: &[u16]) -> Vec<(u16, u16)> {
        let bounds = |(slot, own): (usize, &u16)| {
            let occurring = || points.iter().map(|point| point.positions()[slot]);
            let below = occurring().filter(|at| at < own).max();
            (below.unwrap_or(*own), occurring().filter(|at| at > own).min().unwrap_or(*own))
        };
        own.iter().enumerate().map(bounds).collect()
    }

    fn check(space: &SearchSpace, valid: &[Genome], point: &Genome) {
        for neighborhood in ALL {
            let expected = scan(valid, point.positions(), neighborhood);
            assert_eq!(space.neighbors(point, neighborhood), expected, "{neighborhood:?} of {point:?}");
            assert_eq!(space.neighbor_count(point, neighborhood), BigUint::from(expected.len()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn neighbors_are_what_a_scan_finds(text in any_space(), seed in any::<u64>()) {
            if let Ok(space) = SearchSpace::parse(&text) {
                let valid = brute_force(&space);
                let mut rng = seeded(seed);
                for _ in 0..6 {
                    let any = space.parameters().iter().map(|parameter| rng.random_range(0..parameter.values.len()) as u16);
                    check(&space, &valid, &Genome::from(any.collect::<Vec<u16>>()));
                    check(&space, &valid, &space.sample(&mut rng).unwrap());
                }
            }
        }
    }

    #[test]
    fn the_four_words_differ() {
        let space = space(
            "parameters = { A = [1, 2, 3, 4, 5, 6], B = [1, 2, 3, 4] }\nconstraints = ['A != 2', 'B <= 2 or A < 6', 'A + B != 5']",
        );
        // A is 3 and B is 1; A + B = 5 leaves out A = 4 there, and A = 2 occurs nowhere.
        let point = Genome::from(vec![2, 0]);
        let list = |neighborhood| {
            let pair = |genome: Genome| (genome.positions()[0] + 1, genome.positions()[1] + 1);
            space.neighbors(&point, neighborhood).into_iter().map(pair).collect::<Vec<_>>()
        };
        assert_eq!(list(Neighborhood::Hamming), [(1, 1), (3, 3), (3, 4), (5, 1), (6, 1)]);
        assert_eq!(list(Neighborhood::HammingAdjacent), [(1, 1), (3, 3), (5, 1)]);
        assert_eq!(list(Neighborhood::Adjacent), [(1, 1), (1, 2), (4, 2)]);
        assert_eq!(list(Neighborhood::StrictlyAdjacent), [(4, 2)]);
    }

    #[test]
    fn points_of_another_space_have_no_neighbors() {
        let space = space("parameters = { A = [1, 2], B = [1, 2] }");
        for point in [vec![], vec![0], vec![0, 0, 0]].map(Genome::from) {
            for neighborhood in ALL {
                assert_eq!(space.neighbors(&point, neighborhood), []);
            }
        }
        // A position beyond the values is as far as it says.
        assert_eq!(space.neighbors(&Genome::from(vec![9, 0]), Neighborhood::Hamming).len(), 2);
        assert_eq!(space.neighbors(&Genome::from(vec![9, 0]), Neighborhood::StrictlyAdjacent), []);
    }

    #[test]
    fn a_box_is_counted_and_walked_without_a_list() {
        let lines = (0..60).map(|at| format!("P{at} = [1, 2, 3, 4]\n")).collect::<String>();
        let space = space(&format!("constraints = ['P3 < P7']\n[parameters]\n{lines}"));
        let point = Genome::from(vec![1; 60]);
        // P3 is one of 1, 2, 3 and P7 too, in three pairs of nine.
        let expected = BigUint::from(3u8).pow(58) * 3u8;
        assert_eq!(space.neighbor_count(&point, Neighborhood::StrictlyAdjacent), expected);
        let first: Vec<Genome> =
            space.iter_neighbors(&point, Neighborhood::StrictlyAdjacent).take(100).collect();
        assert!(first.is_sorted() && first.iter().all(|genome| space.contains(genome)));
    }

    fn check_at_random(file: &Path) {
        let space = space(&std::fs::read_to_string(file).unwrap());
        let valid: Vec<Genome> = space.iter().collect();
        let mut rng = seeded(6);
        for _ in 0..5 {
            let mut point = space.sample(&mut rng).unwrap();
            check(&space, &valid, &point);
            let slot = rng.random_range(0..point.0.len());
            point.0[slot] = rng.random_range(0..space.parameters()[slot].values.len()) as u16;
            check(&space, &valid, &point);
        }
    }

    #[test]
    fn our_own_spaces_agree_with_a_scan() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/spaces");
        check_at_random(&folder.join("chained_tiles.json"));
    }

    #[test]
    fn public_spaces_agree_with_a_scan() {
        let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
        let folder = std::env::var_os("EVO_SHARED").map_or_else(beside, Into::into).join("spaces");
        if !folder.is_dir() {
            // Past the harness, which keeps the output of `eprintln!` of passing tests to itself.
            use std::io::Write as _;
            let _ =
                writeln!(std::io::stderr(), "skipped: no folder `{}` with public spaces", folder.display());
            return;
        }
        for name in ["dedispersion", "atf_prl_2x2", "atf_prl_4x4"] {
            check_at_random(&folder.join(name).with_extension("json"));
        }
    }
}
