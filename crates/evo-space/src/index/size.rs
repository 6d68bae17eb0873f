//! How many valid points there are: counted, or estimated where checks are left to be made.

use num_bigint::BigUint;

use super::counted::Index;
use super::parts::{Part, Trial};
use crate::rng::seeded;

/// Points drawn for an estimate, per part.
const DRAWS: u32 = 1 << 16;

/// Steps that the checks of a part may take for all of the draws to be made.
const USUAL_WEIGHT: u64 = 1 << 12;

/// Points drawn of a part with checks of any length.
const FEWEST_DRAWS: u32 = 1 << 8;

/// Enough passed checks to stop early: they give the share to 3 %.
const ENOUGH: u32 = 1 << 10;

/// The number of valid points of a space.
#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    /// Counted.
    Exact(BigUint),
    /// The constraints entangle the parameters too much to count.
    Unknown {
        /// The points that satisfy those constraints that were counted with.
        at_most: BigUint,
        /// Valid points by a sample of fixed seed: the same at every call. 0 if the sample met none,
        /// infinite beyond the range of floats.
        estimate: f64,
        /// One standard deviation of the estimate; if the sample met no valid point, what one hit
        /// would have meant.
        spread: f64,
    },
}

impl Index {
    /// The number of valid points.
    pub fn size(&self) -> Size {
        if self.is_exact() {
            return Size::Exact(self.total.clone());
        }
        let (mut share, mut variance, mut reach) = (1.0f64, 0.0f64, 1.0f64);
        for part in self.parts.iter().filter(|part| !part.is_exact()) {
            let Trial { drawn, held } = self.trial(part);
            let own = f64::from(held) / f64::from(drawn);
            share *= own;
            reach *= f64::from(held.max(1)) / f64::from(drawn);
            // Relative variances of independent factors add up.
            variance += (1.0 - own) / f64::from(held.max(1));
        }
        let most = float(&self.total);
        let spread = if share > 0.0 { share * variance.sqrt() } else { reach };
        Size::Unknown { at_most: self.total.clone(), estimate: most * share, spread: most * spread }
    }

    /// How often drawn points of a part pass its checks; drawn once, from a fixed seed.
    pub(super) fn trial(&self, part: &Part) -> Trial {
        *part.trial.get_or_init(|| {
            // A fixed seed: the same space must report the same estimate at every call.
            let mut rng = seeded(0);
            let mut positions = vec![0; self.places.len()];
            let mut scratch = self.checks.scratch();
            let mut trial = Trial { drawn: 0, held: 0 };
            // A point of a part with very many or very long checks costs as much as many points of others.
            let weight = self.checks.weight(&part.checks).max(USUAL_WEIGHT);
            let draws = ((u64::from(DRAWS) * USUAL_WEIGHT / weight) as u32).max(FEWEST_DRAWS);
            while trial.drawn < draws && trial.held < ENOUGH {
                trial.drawn += 1;
                trial.held += u32::from(self.draw_once(part, &mut rng, &mut positions, &mut scratch));
            }
            trial
        })
    }
}

/// The nearest float, infinite if there is none.
fn float(number: &BigUint) -> f64 {
    number.to_string().parse().unwrap_or(f64::INFINITY)
}
