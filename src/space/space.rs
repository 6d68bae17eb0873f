//! The search space: parameters, constraints and the points that satisfy them.

use rand_chacha::ChaCha8Rng;

use super::constraint::Constraint;
use super::parameter::Parameter;
use crate::genome::{Configuration, Genome};

/// Parameters, constraints and an index of the valid points in canonical order (lexicographic by
/// value position).
#[derive(Debug)]
pub struct SearchSpace {
    parameters: Vec<Parameter>,
    constraints: Vec<Constraint>,
}

macro_rules! later {
    () => {
        panic!("to be written by the space module")
    };
}

/// Which points count as neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighborhood {
    /// Exactly one parameter differs.
    Hamming,
    /// One parameter differs, to the nearest valid value on either side.
    Adjacent,
}

impl SearchSpace {
    /// The parameters in declared order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The constraints in declared order.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Number of valid points.
    pub fn count(&self) -> u128 {
        later!()
    }

    /// The valid point at a canonical index.
    pub fn genome_at(&self, _index: u128) -> Option<Genome> {
        later!()
    }

    /// The canonical index of a valid point.
    pub fn index_of(&self, _genome: &Genome) -> Option<u128> {
        later!()
    }

    /// Whether the point satisfies every constraint.
    pub fn contains(&self, _genome: &Genome) -> bool {
        later!()
    }

    /// Constraints that the point violates.
    pub fn violations(&self, _genome: &Genome) -> Vec<&Constraint> {
        later!()
    }

    /// A uniform valid point; `None` for an empty space.
    pub fn sample(&self, _rng: &mut ChaCha8Rng) -> Option<Genome> {
        later!()
    }

    /// Up to `n` distinct uniform valid points.
    pub fn sample_distinct(&self, _n: usize, _rng: &mut ChaCha8Rng) -> Vec<Genome> {
        later!()
    }

    /// All valid points in canonical order, lazily.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Genome> + '_> {
        later!()
    }

    /// Valid neighbors in canonical order.
    pub fn neighbors(&self, _genome: &Genome, _neighborhood: Neighborhood) -> Vec<Genome> {
        later!()
    }

    /// A valid point near an invalid one (the point itself if valid); `None` for an empty space.
    pub fn repair(&self, _genome: &Genome, _rng: &mut ChaCha8Rng) -> Option<Genome> {
        later!()
    }

    /// Names and values of a point.
    pub fn configuration(&self, _genome: &Genome) -> Configuration {
        later!()
    }

    /// The point of a configuration; `None` if a value is not among the parameter's.
    pub fn genome(&self, _configuration: &Configuration) -> Option<Genome> {
        later!()
    }

    /// The point of all defaults; it may be invalid.
    pub fn default_genome(&self) -> Genome {
        later!()
    }
}
