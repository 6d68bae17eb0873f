//! Recordings as earlier studies from which a search starts.

use evo_search::strategy::PriorStudy;
use evo_space::space::SearchSpace;

use super::recording::{Recording, Row};

impl Recording {
    /// The outcomes of these rows, by number, as points of another space with the same parameters. Rows with values
    /// that the other space does not have are left out.
    pub fn study(&self, rows: impl Iterator<Item = usize>, space: &SearchSpace) -> PriorStudy {
        let outcome = |row: &Row| {
            let configuration = self.space.configuration(&self.genome(row.number));
            Some((space.genome(&configuration)?, row.objective_ns))
        };
        PriorStudy { outcomes: rows.filter_map(|number| outcome(self.rows().get(number)?)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use evo_space::space::SearchSpace;

    use super::*;

    #[test]
    fn outcomes_move_to_a_space_that_has_their_values() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/stencil__invented.json");
        let recording = Recording::open(Path::new(path)).unwrap();
        let all = recording.study(0..recording.rows().len(), &recording.space);
        assert_eq!(all.outcomes.len(), recording.rows().len());
        assert_eq!(
            all.best(),
            recording.rows().iter().filter_map(|row| row.objective_ns).min_by(f64::total_cmp)
        );
        let some = recording.study([3, 5, 1_000_000].into_iter(), &recording.space);
        assert_eq!(some.outcomes[1], (recording.genome(5), recording.rows()[5].objective_ns));
        assert_eq!(some.outcomes.len(), 2);
        let other = SearchSpace::parse("[parameters]\nQ = [1, 2]\n").unwrap();
        assert!(recording.study(0..10, &other).outcomes.is_empty());
    }
}
