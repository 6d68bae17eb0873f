//! Which values, and which pairs of values, tend to fail.
//!
//! A GPU variant mostly fails for a reason that one or two parameters decide (a tile that overflows shared
//! memory, a vector width that misaligns). Rates are shrunk toward 0, so one failure says little and twenty
//! say much. The estimate only lowers a point's chance to be proposed, so that a wrong lesson can be
//! unlearned.

use std::collections::HashMap;

use evo_space::genome::Genome;

/// Successes that each pattern starts with; they shrink its rate of failures toward 0.
const PRIOR: f64 = 2.0;

/// Failure counts by gene and by pair of genes.
#[derive(Debug, Default)]
pub(crate) struct Lessons {
    /// From (gene, position, gene, position) to (failures, trials). A single gene is paired with itself.
    counts: HashMap<(u16, u16, u16, u16), (u32, u32)>,
}

impl Lessons {
    /// Learns one outcome.
    pub(crate) fn learn(&mut self, genome: &Genome, failed: bool) {
        for pattern in patterns(genome) {
            let (failures, trials) = self.counts.entry(pattern).or_default();
            *failures += u32::from(failed);
            *trials += 1;
        }
    }

    /// The estimated probability that a point fails: the highest rate of its patterns.
    pub(crate) fn risk(&self, genome: &Genome) -> f64 {
        let rate = |pattern| {
            let (failures, trials) = self.counts.get(&pattern).copied().unwrap_or_default();
            f64::from(failures) / (f64::from(trials) + PRIOR)
        };
        patterns(genome).map(rate).fold(0.0, f64::max)
    }
}

fn patterns(genome: &Genome) -> impl Iterator<Item = (u16, u16, u16, u16)> + '_ {
    let positions = genome.positions();
    (0..positions.len()).flat_map(move |first| {
        (first..positions.len())
            .map(move |second| (first as u16, positions[first], second as u16, positions[second]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_always_fails_is_risky_and_its_parts_are_not() {
        let mut lessons = Lessons::default();
        for other in 0..10 {
            lessons.learn(&Genome::from(vec![1, 1, other]), true);
            lessons.learn(&Genome::from(vec![1, 0, other]), false);
            lessons.learn(&Genome::from(vec![0, 1, other]), false);
        }
        assert!(lessons.risk(&Genome::from(vec![1, 1, 20])) > 0.8);
        assert!(lessons.risk(&Genome::from(vec![1, 0, 20])) < 0.5);
        assert_eq!(lessons.risk(&Genome::from(vec![5, 5, 50])), 0.0);
    }
}
