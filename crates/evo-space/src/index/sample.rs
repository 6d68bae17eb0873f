//! Drawing valid points, and estimating how many there are. Diagrams are drawn from exactly. Where checks are left to
//! be made, points are drawn until one passes, which keeps them uniform. A part whose points hardly ever pass is
//! searched instead, as for the cheapest point where all cost nothing: depth first with values in random order. What that
//! finds is valid, but not uniform.
//!
//! A descent by shares takes from 0 to below 1 the value under which that share of a node's completions lies.
//! Independent uniform numbers for each parameter give uniform points (the inverse of Rosenblatt's transformation, Ann.
//! Math. Stat. 23, 1952), and numbers that are spread evenly give points that are.

use num_bigint::BigUint;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::index::Index;
use crate::index::nearest::CheapestSearch;
use crate::index::parts::{CheckScratch, Part, Trial};

/// The one generator of everything that is drawn: named and portable, so that a printed seed means the same next year.
pub fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Refused points in a row before the search takes over.
const REFUSALS: u32 = 1 << 17;

/// Steps of the first search; each later one starts over and may take twice as many.
const FIRST_DIVE: u64 = 1 << 15;

/// Steps of all searches for one point together: about a tenth of a second.
const ALL_DIVES: u64 = 1 << 23;

impl Index {
    /// A uniform valid point, or `None` for an empty space.
    ///
    /// If the space is not exact: by rejection and uniform, unless 2^16 draws of a fixed seed held no
    /// point of a part or 2^17 were refused in a row. Then by a bounded search and not uniform, and
    /// `None` also where that finds nothing.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> Option<Vec<u16>> {
        if self.is_empty() {
            return None;
        }
        let mut positions = vec![0; self.layers.len()];
        self.free.iter().for_each(|at| self.diagrams[*at].draw(&self.layers, rng, &mut positions));
        let mut scratch = self.checks.scratch();
        let drawn = self.parts.iter().all(|part| self.draw(part, rng, &mut positions, &mut scratch));
        drawn.then_some(positions)
    }

    /// Writes a valid point of a part; whether one was found.
    pub(super) fn draw(
        &self,
        part: &Part,
        rng: &mut ChaCha8Rng,
        positions: &mut [u16],
        scratch: &mut CheckScratch,
    ) -> bool {
        // A trial without a single hit predicts that rejection would spend all of its draws in vain.
        if self.trial(part).held > 0 && (0..REFUSALS).any(|_| self.draw_once(part, rng, positions, scratch)) {
            return true;
        }
        let mut search = CheapestSearch::new(self, part, &|_, _| 0, positions.to_vec());
        let (mut steps, mut spent) = (FIRST_DIVE, 0);
        while spent < ALL_DIVES {
            search.steps_left = steps;
            let tried_all = search.go(0, 0, 0, rng).is_ok();
            if search.write(positions) || tried_all {
                return search.best.is_some();
            }
            // A depth-first search seldom gets back to an early mistake by itself.
            spent += steps;
            steps *= 2;
        }
        false
    }

    /// Writes a uniform point of a part's diagrams; whether it passes the checks.
    pub(super) fn draw_once(
        &self,
        part: &Part,
        rng: &mut ChaCha8Rng,
        positions: &mut [u16],
        scratch: &mut CheckScratch,
    ) -> bool {
        part.diagrams.iter().for_each(|diagram| self.diagrams[*diagram].draw(&self.layers, rng, positions));
        part.steps.iter().for_each(|step| self.checks.set(scratch, step.slot, positions[step.slot]));
        part.checks.iter().all(|check| self.checks.holds(*check, scratch))
    }
}

const DRAWS: u32 = 1 << 16;

/// Steps that the checks of a part may take for all of the draws to be made.
const USUAL_WEIGHT: u64 = 1 << 12;

/// Points drawn of a part with checks of any length.
const FEWEST_DRAWS: u32 = 1 << 8;

/// Enough passed checks to stop early: they give the share to 3 %.
const ENOUGH: u32 = 1 << 10;

#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    Exact(BigUint),
    Unknown {
        /// The points that satisfy those constraints that were counted with.
        at_most: BigUint,
        /// Valid points by a sample of fixed seed: the same at every call. 0 if the sample met none,
        /// infinite beyond the range of floats.
        estimate: f64,
        /// One standard deviation; if the sample met no valid point, what one hit would have meant.
        spread: f64,
    },
}

impl Index {
    pub fn size(&self) -> Size {
        if self.is_exact() {
            return Size::Exact(self.total.clone());
        }
        let (mut share, mut variance, mut reach) = (1.0f64, 0.0f64, 1.0f64);
        for part in &self.parts {
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
            let mut rng = seeded(0);
            let mut positions = vec![0; self.layers.len()];
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
pub fn float(number: &BigUint) -> f64 {
    number.to_string().parse().unwrap_or(f64::INFINITY)
}
