//! The features of a space, and how points are encoded by them.
//!
//! What decides a kernel's time is rarely one parameter: threads per block, elements per tile, bytes of
//! shared memory are products and quotients of several. Trees therefore see, beside the parameters, the
//! products and quotients of all pairs of numeric ones, and what the author of the space found worth
//! writing down: the sub-expressions of the constraints. Features that are constant, or that order the
//! valid points as another one does, are left out.
//!
//! A process pays for each feature with a length scale to be learned, and sees a compact set: the
//! parameters and few sub-expressions, in logarithms where positive, from 0 to 1.
//!
//! A feature of few parameters is a table over their positions, so encoding is looking up: a few
//! nanoseconds a feature.

use std::borrow::Borrow;

use evo_space::genome::Genome;
use evo_space::program::Scratch;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;

use super::candidates::Candidates;
use super::column::Column;
use super::options::FeatureOptions;
use crate::model::codes::{Codes, ColumnScale, Scales};
use crate::model::formula::Numbers;
use crate::model::matrix::Matrix;

/// Points that features are compared on: enough to tell them apart, few enough to take no time.
const SAMPLE: usize = 1 << 10;

/// The features of a space.
#[derive(Clone, Debug)]
pub struct Features {
    numbers: Numbers,
    parameters: usize,
    trees: Vec<Column>,
    process: Vec<Column>,
    scales: Scales,
}

impl Features {
    /// The features of a space, with the usual limits.
    pub fn new(space: &SearchSpace) -> Features {
        Features::with_options(space, FeatureOptions::default())
    }

    /// The features of a space, at most as many as the options say.
    pub fn with_options(space: &SearchSpace, options: FeatureOptions) -> Features {
        let numbers = Numbers::new(space.parameters());
        let candidates = Candidates::new(space, &numbers, sample(space));
        let trees = candidates.for_trees(options);
        let process = candidates.for_process(options);
        let scales: Vec<ColumnScale> = trees.iter().map(|column| column.scale().clone()).collect();
        Features { numbers, parameters: space.parameters().len(), trees, process, scales: scales.into() }
    }

    /// The scales of the tree features.
    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    /// The tree features of a point, as codes.
    pub fn code_row(&self, genome: &Genome) -> Vec<u16> {
        let mut scratch = Scratch::default();
        self.trees.iter().map(|column| column.code(genome.positions(), &self.numbers, &mut scratch)).collect()
    }

    /// The tree features of many points.
    pub fn codes<G: Borrow<Genome>>(&self, genomes: impl IntoIterator<Item = G>) -> Codes {
        let mut columns = vec![Vec::new(); self.trees.len()];
        let (mut scratch, mut rows) = (Scratch::default(), 0);
        for genome in genomes {
            let positions = genome.borrow().positions();
            for (column, codes) in self.trees.iter().zip(&mut columns) {
                codes.push(column.code(positions, &self.numbers, &mut scratch));
            }
            rows += 1;
        }
        Codes::from_columns(columns, rows)
    }

    /// Number of process features.
    pub fn process_columns(&self) -> usize {
        self.process.len()
    }

    /// The process features of a point, each from 0 to 1.
    pub fn process_row(&self, genome: &Genome) -> Vec<f64> {
        let mut scratch = Scratch::default();
        let value = |column: &Column| column.share(genome.positions(), &self.numbers, &mut scratch);
        self.process.iter().map(value).collect()
    }

    /// The process features of many points.
    pub fn process_matrix<G: Borrow<Genome>>(&self, genomes: impl IntoIterator<Item = G>) -> Matrix {
        let mut matrix = Matrix::with_columns(self.process.len());
        genomes.into_iter().for_each(|genome| matrix.push(&self.process_row(genome.borrow())));
        matrix
    }

    /// What each tree feature is, as its author could have written it.
    pub fn tree_labels(&self, space: &SearchSpace) -> Vec<String> {
        self.trees.iter().map(|column| column.label(space)).collect()
    }

    /// What each process feature is.
    pub fn process_labels(&self, space: &SearchSpace) -> Vec<String> {
        self.process.iter().map(|column| column.label(space)).collect()
    }

    /// Shares of tree features as shares of the parameters that they are made of, in equal parts.
    pub fn parameter_importance(&self, importance: &[f64]) -> Vec<f64> {
        let mut shares = vec![0.0; self.parameters];
        for (column, share) in self.trees.iter().zip(importance) {
            let slots = column.slots();
            slots.iter().for_each(|slot| shares[*slot] += share / slots.len() as f64);
        }
        shares
    }
}

/// Valid points to compare features on: the same for the same space.
fn sample(space: &SearchSpace) -> Vec<Genome> {
    // In a space that is not exact each point has to be searched for.
    let wanted = if space.is_exact() { SAMPLE } else { SAMPLE / 16 };
    space.sample_distinct(wanted, &mut seeded(0))
}
