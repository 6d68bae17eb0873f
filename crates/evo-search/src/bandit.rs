//! Adaptive operator selection: each operator is chosen in proportion to its recent rate of success.
//!
//! This is probability matching with forgetting and a minimum rate. The best operator changes during a search
//! (crossover early, single steps late), so no operator is ever ruled out.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// The weight that an older trial keeps each time its operator is tried again: about ten trials count.
const KEEP: f64 = 0.9;

/// Successes and trials that every operator starts with, so that one early success does not decide.
const PRIOR: (f64, f64) = (1.0, 4.0);

/// Added to each rate of success.
const FLOOR: f64 = 0.02;

/// Rates of success of a fixed list of operators.
#[derive(Debug)]
pub(crate) struct Bandit<const OPERATORS: usize> {
    /// Weighted successes and trials of each operator.
    counts: [(f64, f64); OPERATORS],
}

impl<const OPERATORS: usize> Default for Bandit<OPERATORS> {
    fn default() -> Bandit<OPERATORS> {
        Bandit { counts: [PRIOR; OPERATORS] }
    }
}

impl<const OPERATORS: usize> Bandit<OPERATORS> {
    /// Draws the number of an operator.
    pub(crate) fn choose(&self, rng: &mut ChaCha8Rng) -> usize {
        let weights = self.counts.map(|(successes, trials)| successes / trials + FLOOR);
        let mut ticket = rng.random::<f64>() * weights.iter().sum::<f64>();
        let hit = weights.iter().position(|weight| {
            ticket -= weight;
            ticket < 0.0
        });
        // Rounding may leave the ticket beyond the last weight.
        hit.unwrap_or(OPERATORS - 1)
    }

    /// Learns whether an operator's child was a success.
    pub(crate) fn reward(&mut self, operator: usize, success: bool) {
        let (successes, trials) = &mut self.counts[operator];
        *successes = *successes * KEEP + f64::from(u8::from(success));
        *trials = *trials * KEEP + 1.0;
    }
}

#[cfg(test)]
mod tests {
    use evo_space::sample::seeded;

    use super::*;

    #[test]
    fn what_pays_is_chosen_more_often_until_it_stops_paying() {
        let (mut bandit, mut rng) = (Bandit::<3>::default(), seeded(1));
        let share = |bandit: &mut Bandit<3>, rng: &mut ChaCha8Rng, good: usize| {
            let mut chosen = 0;
            for _ in 0..600 {
                let operator = bandit.choose(rng);
                bandit.reward(operator, operator == good && rng.random_bool(0.5));
                chosen += u32::from(operator == good);
            }
            chosen
        };
        assert!(share(&mut bandit, &mut rng, 1) > 400);
        assert!(share(&mut bandit, &mut rng, 2) > 400);
    }
}
