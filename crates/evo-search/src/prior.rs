//! What earlier studies of the same kernel measured, on other problems or other GPUs.
//!
//! A strategy that can use them takes them before its first proposal. The points are points of the present
//! search's space; objectives are comparable only within one study.

use evo_space::genome::Genome;

/// One earlier study.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorStudy {
    /// Points and their objectives; `None` for a point that failed.
    pub outcomes: Vec<(Genome, Option<f64>)>,
}

impl PriorStudy {
    /// The best objective; `None` if nothing worked.
    pub fn best(&self) -> Option<f64> {
        let objectives = self.outcomes.iter().filter_map(|(_, objective)| *objective);
        objectives.min_by(f64::total_cmp)
    }

    /// The point with the best objective, the first of equals.
    pub fn best_point(&self) -> Option<&Genome> {
        let worked = self.outcomes.iter().filter_map(|(genome, objective)| Some((genome, (*objective)?)));
        worked.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(genome, _)| genome)
    }
}
