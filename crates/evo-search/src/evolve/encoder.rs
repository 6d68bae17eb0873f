//! Points as the numbers that the models learn from: the features of the space and, if there are earlier studies, one
//! more. A forest for each study learns how far its points were from its best; the mean of the forests' predictions is
//! the feature. If the ranking of the earlier GPU holds on this one, the feature explains much and the models rely on
//! it; if not, the first measurements show that. So nobody has to set a weight for earlier studies.

use std::borrow::Borrow;
use std::sync::Arc;

use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;

use crate::evolve::observations::{distance, scale_of};
use crate::model::features::Features;
use crate::model::forest::{Forest, ForestOptions};
use crate::model::matrix::{Codes, ColumnScale, Matrix, Scales};
use crate::strategy::PriorStudy;

#[derive(Debug)]
pub(crate) struct Encoder {
    pub(super) features: Arc<Features>,
    /// Of the earlier studies that have enough outcomes.
    prior: Vec<Forest>,
    pub(super) scales: Scales,
}

impl Encoder {
    pub(crate) fn new(space: &SearchSpace, prior: &[PriorStudy], seed: u64) -> Encoder {
        let features = Features::new(space);
        let prior: Vec<Forest> = prior.iter().filter_map(|study| forest(&features, study, seed)).collect();
        let mut scales = features.scales().to_vec();
        scales.extend((!prior.is_empty()).then(prior_scale));
        Encoder { features: Arc::new(features), prior, scales: Arc::from(scales) }
    }

    pub(crate) fn code_row(&self, genome: &Genome) -> Vec<u16> {
        let mut codes = self.features.code_row(genome);
        let expected = self.expected(&codes).map(|value| (value * f64::from(LEVELS - 1)).round() as u16);
        codes.extend(expected);
        codes
    }

    /// The mean prediction of the forests: 0 is as good as the best of the earlier studies, 1 as bad as their failures;
    /// `None` without any.
    fn expected(&self, codes: &[u16]) -> Option<f64> {
        let sum: f64 = self.prior.iter().map(|forest| forest.predict_codes(codes).mean).sum();
        (!self.prior.is_empty()).then(|| (sum / self.prior.len() as f64).clamp(0.0, 1.0))
    }

    pub(crate) fn codes<G: Borrow<Genome>>(&self, genomes: impl IntoIterator<Item = G>) -> Codes {
        Codes::of_rows(self.scales.len(), genomes.into_iter().map(|genome| self.code_row(genome.borrow())))
    }

    pub(crate) fn process_columns(&self) -> usize {
        self.features.process_columns() + usize::from(!self.prior.is_empty())
    }

    pub(crate) fn process_row(&self, genome: &Genome) -> Vec<f64> {
        let mut row = self.features.process_row(genome);
        if !self.prior.is_empty() {
            row.extend(self.expected(&self.features.code_row(genome)));
        }
        row
    }

    pub(crate) fn process_matrix(&self, genomes: &[Genome]) -> Matrix {
        Matrix::of_rows(self.process_columns(), genomes.iter().map(|genome| self.process_row(genome)))
    }
}

/// Levels of the feature: its codes are small integers, and finer steps would be below the forests' errors.
const LEVELS: u16 = 256;

/// Times the study's worst target, so that a failure ranks below every variant that ran.
const FAILURE: f64 = 1.1;

/// Fewest measured outcomes of a study that is used; fewer say too little about the rest of the space.
const FEWEST: usize = 8;

fn prior_scale() -> ColumnScale {
    ColumnScale::new((0..LEVELS).map(|level| f64::from(level) / f64::from(LEVELS - 1)).collect())
}

fn forest(features: &Features, study: &PriorStudy, seed: u64) -> Option<Forest> {
    let (_, best) = study.best()?;
    let distance = |objective: &f64| distance(*objective, best);
    let worked = study.outcomes.iter().filter_map(|(_, objective)| objective.as_ref());
    let scale = scale_of(&mut worked.map(distance).collect::<Vec<_>>());
    let squeezed = |objective: &f64| (distance(objective) / scale).ln_1p();
    let distances: Vec<Option<f64>> =
        study.outcomes.iter().map(|(_, objective)| objective.as_ref().map(squeezed)).collect();
    let worst = distances.iter().flatten().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE) * FAILURE;
    if distances.iter().flatten().count() < FEWEST {
        return None;
    }
    // Divided by the worst, so that studies of different spread have the same weight in the mean.
    let targets: Vec<f64> = distances.iter().map(|distance| distance.unwrap_or(worst) / worst).collect();
    let codes: Codes = features.codes(study.outcomes.iter().map(|(genome, _)| genome));
    let mut forest = Forest::new(ForestOptions::extra_trees(), Arc::clone(features.scales()));
    forest.learn(codes, &targets, &mut seeded(seed));
    Some(forest)
}

#[cfg(test)]
mod tests {
    use evo_space::genome::Genome;
    use evo_space::space::SearchSpace;

    use super::*;
    use crate::conformance::{bowl, space_of};

    fn space() -> SearchSpace {
        space_of("[parameters]\nA = [1, 2, 4, 8, 16]\nB = [1, 2, 4, 8]\nC = [1, 2, 3]\n")
    }

    fn study(space: &SearchSpace) -> PriorStudy {
        let outcome = |genome: Genome| {
            let fails = genome.positions()[2] == 2;
            let objective = bowl(space, &genome).objective_ns.filter(|_| !fails);
            (genome, objective)
        };
        PriorStudy { outcomes: space.iter().map(outcome).collect() }
    }

    #[test]
    fn the_best_of_the_earlier_study_is_near_0_and_failures_are_near_1() {
        let space = space();
        let study = study(&space);
        let encoder = Encoder::new(&space, std::slice::from_ref(&study), 1);
        let expect = |genome: &Genome| encoder.expected(&encoder.features.code_row(genome)).unwrap();
        let best = expect(study.best().unwrap().0);
        assert!(best < 0.1, "{best}");
        let failed = study.outcomes.iter().filter(|(_, objective)| objective.is_none());
        assert!(failed.clone().count() > 10);
        failed.for_each(|(genome, _)| assert!(expect(genome) > 0.8, "{genome:?}"));
        assert_eq!(prior_scale().code(1.0), LEVELS - 1);
    }

    #[test]
    fn a_study_of_few_points_is_not_listened_to() {
        let space = space();
        let few = PriorStudy { outcomes: study(&space).outcomes[..5].to_vec() };
        assert!(Encoder::new(&space, &[few], 1).prior.is_empty());
    }
}
