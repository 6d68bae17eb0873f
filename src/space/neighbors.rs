//! Neighbors of a point, and the nearest valid point to an invalid one.

use rand_chacha::ChaCha8Rng;

use super::space::{Neighborhood, SearchSpace};
use crate::genome::Genome;

/// More than any sum of distances, so that fewer changed parameters always win.
const CHANGE: u64 = 1 << 32;

impl SearchSpace {
    /// Valid neighbors in canonical order; the point itself need not be valid.
    pub fn neighbors(&self, genome: &Genome, neighborhood: Neighborhood) -> Vec<Genome> {
        let mut found = Vec::new();
        let mut positions = genome.positions().to_vec();
        for (slot, parameter) in self.parameters().iter().enumerate() {
            let own = positions[slot];
            let mut valid = |position: &u16| {
                positions[slot] = *position;
                self.index.contains(&positions)
            };
            let values = parameter.values.len() as u16;
            let chosen: Vec<u16> = match neighborhood {
                Neighborhood::Hamming => (0..values).filter(|at| *at != own).filter(&mut valid).collect(),
                Neighborhood::Adjacent => {
                    let below = (0..own.min(values)).rev().find(&mut valid);
                    let above = (own.saturating_add(1)..values).find(&mut valid);
                    below.into_iter().chain(above).collect()
                }
            };
            for position in chosen {
                positions[slot] = position;
                found.push(Genome::from(positions.clone()));
            }
            positions[slot] = own;
        }
        found.sort_unstable();
        found
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
