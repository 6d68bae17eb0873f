//! The fastest source of each kind: what is slower today may be the better beginning tomorrow.
//!
//! Kinds are told apart by what the machine code does (arithmetic, loads) and by the depth of the pipeline, as the
//! behavior axes of MAP-Elites are (Mouret and Clune 2015, "Illuminating search spaces by mapping elites").

use std::collections::BTreeMap;

use evo_protocol::mutator::{MutatorCell, MutatorElite};
use evo_space::genome::Configuration;
use serde_json::Value;

/// An elite of another kind is a parent while it takes at most so many times as long as the best.
const WORTH: f64 = 3.0;

/// The cells that something has passed in.
#[derive(Debug, Default)]
pub struct SpeciesArchive(BTreeMap<MutatorCell, ArchivedElite>);

#[derive(Debug)]
struct ArchivedElite {
    elite: MutatorElite,
    /// Questions for which it was a parent.
    asked: usize,
}

/// The cell of a candidate, by the features in its answer.
pub fn cell(features: &Value) -> MutatorCell {
    let text = |name: &str| features[name].as_str().map(String::from);
    MutatorCell { arithmetic: text("arithmetic"), loads: text("loads"), stages: features["stages"].as_i64() }
}

impl SpeciesArchive {
    /// Takes in a source that passed.
    pub fn add(&mut self, id: &str, features: &Value, configuration: &Configuration, objective_ns: f64) {
        let cell = cell(features);
        let new = || MutatorElite {
            cell: cell.clone(),
            id: id.to_string(),
            configuration: configuration.clone(),
            objective_ns,
            passed: 1,
        };
        match self.0.get_mut(&cell) {
            None => {
                self.0.insert(cell.clone(), ArchivedElite { elite: new(), asked: 0 });
            }
            Some(own) => {
                let passed = own.elite.passed + 1;
                if objective_ns < own.elite.objective_ns {
                    own.elite = new();
                }
                own.elite.passed = passed;
            }
        }
    }

    /// All elites, the fastest first.
    pub fn elites(&self) -> Vec<MutatorElite> {
        let mut all: Vec<MutatorElite> = self.0.values().map(|own| own.elite.clone()).collect();
        all.sort_by(|a, b| a.objective_ns.total_cmp(&b.objective_ns));
        all
    }

    /// The elite of another kind than `best` that was a parent least often, the fastest of those; it counts as asked from
    /// now on.
    pub fn other(&mut self, best: &str) -> Option<String> {
        let fastest = self.0.values().map(|own| own.elite.objective_ns).reduce(f64::min)?;
        let good =
            |own: &&mut ArchivedElite| own.elite.id != best && own.elite.objective_ns <= fastest * WORTH;
        let rank = |own: &ArchivedElite| (own.asked, own.elite.objective_ns);
        let found = self.0.values_mut().filter(good).min_by(|a, b| {
            let ((a_asked, a_time), (b_asked, b_time)) = (rank(a), rank(b));
            a_asked.cmp(&b_asked).then(a_time.total_cmp(&b_time))
        })?;
        found.asked += 1;
        Some(found.elite.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn archive(all: &[(&str, &str, f64)]) -> SpeciesArchive {
        let mut archive = SpeciesArchive::default();
        for (id, arithmetic, time) in all {
            archive.add(id, &json!({ "arithmetic": arithmetic }), &Configuration::new(Vec::new()), *time);
        }
        archive
    }

    #[test]
    fn a_cell_keeps_its_fastest_and_counts_the_others() {
        let own =
            archive(&[("1.1", "fma", 9.0), ("1.2", "mma", 5.0), ("2.1", "fma", 7.0), ("2.2", "fma", 8.0)]);
        let seen: Vec<(String, usize)> =
            own.elites().iter().map(|own| (own.id.clone(), own.passed)).collect();
        assert_eq!(seen, [("1.2".to_string(), 1), ("2.1".to_string(), 3)]);
        let nothing = cell(&Value::Null);
        assert_eq!(nothing, MutatorCell::default());
    }

    #[test]
    fn kinds_take_turns_unless_they_are_far_behind() {
        let mut own =
            archive(&[("a", "wgmma", 2.0), ("b", "mma", 5.0), ("c", "fma", 4.0), ("d", "none", 7.0)]);
        let turns: Vec<Option<String>> = (0..4).map(|_| own.other("a")).collect();
        assert_eq!(turns.iter().flatten().collect::<Vec<_>>(), ["c", "b", "c", "b"]);
        assert_eq!(archive(&[("a", "fma", 2.0)]).other("a"), None);
    }
}
