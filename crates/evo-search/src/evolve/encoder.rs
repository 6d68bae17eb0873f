//! Points as the numbers that the models of a search learn from: the features of the space and, if there are
//! earlier studies, one more column with what they predict.

use std::borrow::Borrow;
use std::sync::Arc;

use evo_space::genome::Genome;
use evo_space::space::SearchSpace;

use super::ingredients::Ingredients;
use super::prior_model::PriorModel;
use crate::model::codes::{Codes, Scales};
use crate::model::features::{FeatureOptions, Features};
use crate::model::matrix::Matrix;
use crate::prior::PriorStudy;

/// Encodes points.
#[derive(Debug)]
pub(crate) struct Encoder {
    features: Arc<Features>,
    prior: Option<PriorModel>,
    scales: Scales,
}

impl Encoder {
    /// An encoder for a space, with the features that the ingredients allow.
    pub(crate) fn new(
        space: &SearchSpace,
        ingredients: Ingredients,
        prior: &[PriorStudy],
        seed: u64,
    ) -> Encoder {
        let usual = FeatureOptions::default();
        let with = |allowed: bool, usual: usize| if allowed { usual } else { 0 };
        let options = FeatureOptions {
            pairs: with(ingredients.pairs, usual.pairs),
            expressions: with(ingredients.expressions, usual.expressions),
            process_expressions: with(ingredients.expressions, usual.process_expressions),
        };
        let features = Features::with_options(space, options);
        let prior = PriorModel::new(&features, prior, seed);
        let mut scales = features.scales().to_vec();
        // The column of earlier studies comes last, here as in every row below.
        scales.extend(prior.iter().map(|_| PriorModel::scale()));
        Encoder { features: Arc::new(features), prior, scales: Arc::from(scales) }
    }

    /// The features of the space.
    pub(crate) fn features(&self) -> &Arc<Features> {
        &self.features
    }

    /// The scales of the columns for trees.
    pub(crate) fn scales(&self) -> &Scales {
        &self.scales
    }

    /// A point for trees.
    pub(crate) fn code_row(&self, genome: &Genome) -> Vec<u16> {
        let mut codes = self.features.code_row(genome);
        let prior = self.prior.as_ref().map(|prior| PriorModel::code(prior.expect(&codes)));
        codes.extend(prior);
        codes
    }

    /// Many points for trees.
    pub(crate) fn codes<G: Borrow<Genome>>(&self, genomes: impl IntoIterator<Item = G>) -> Codes {
        let mut codes = self.features.codes(genomes);
        if let Some(prior) = &self.prior {
            let column = (0..codes.rows()).map(|row| PriorModel::code(prior.expect(&codes.row(row))));
            codes.push_column(column.collect());
        }
        codes
    }

    /// Number of columns for a process.
    pub(crate) fn process_columns(&self) -> usize {
        self.features.process_columns() + usize::from(self.prior.is_some())
    }

    /// A point for a process.
    pub(crate) fn process_row(&self, genome: &Genome) -> Vec<f64> {
        let mut row = self.features.process_row(genome);
        row.extend(self.prior.as_ref().map(|prior| prior.expect(&self.features.code_row(genome))));
        row
    }

    /// Many points for a process.
    pub(crate) fn process_matrix(&self, genomes: &[Genome]) -> Matrix {
        let mut matrix = Matrix::with_columns(self.process_columns());
        genomes.iter().for_each(|genome| matrix.push(&self.process_row(genome)));
        matrix
    }
}
