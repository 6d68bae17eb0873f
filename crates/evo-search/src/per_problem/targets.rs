//! Which problem the next proposal is for: the one that has most left to gain has the best chance.
//!
//! What is left is the natural logarithm of the best time over the least that the device allows, so a problem at 8
//! times its bound has three times as much left as one at twice. Where the bound is not known, it is what was
//! gained lately: the logarithm of the best time some outcomes ago over the best now. Many bounds are out of reach
//! (a launch of 3 µs may move so few bytes that its bound is 50 ns), so what is left counts for less with every
//! proposal that was aimed at the problem and brought nothing.

use std::collections::VecDeque;

/// Outcomes over which the gain of a problem without a bound is measured.
const LATELY: usize = 32;

/// After so many proposals in a row that brought nothing, what is left counts for half.
const PATIENCE: f64 = 16.0;

/// Least share of the best chance: bounds may be wrong, and a search may sit in a local optimum.
const LEAST: f64 = 0.1;

/// A best time that is less than 1 % below the one before is within what two measurements differ by.
const GAIN: f64 = 0.99;

#[derive(Clone, Debug, Default)]
pub(super) struct ProblemProgress {
    bound_ns: Option<f64>,
    best_ns: Option<f64>,
    /// The best after each of the last outcomes, the oldest first.
    lately: VecDeque<f64>,
    mark_ns: Option<f64>,
    fruitless: u32,
}

impl ProblemProgress {
    pub(super) fn new(bound_ns: Option<f64>) -> ProblemProgress {
        let bound_ns = bound_ns.filter(|bound| bound.is_finite() && *bound > 0.0);
        ProblemProgress { bound_ns, ..ProblemProgress::default() }
    }

    pub(super) fn tell(&mut self, time_ns: Option<f64>, is_target: bool) {
        self.fruitless += u32::from(is_target);
        if let Some(time) = time_ns.filter(|time| time.is_finite() && *time > 0.0) {
            self.best_ns = Some(self.best_ns.map_or(time, |best| best.min(time)));
            if self.mark_ns.is_none_or(|mark| time < mark * GAIN) {
                self.mark_ns = Some(time);
                self.fruitless = 0;
            }
        }
        if let Some(best) = self.best_ns {
            self.lately.push_back(best);
            if self.lately.len() > LATELY {
                self.lately.pop_front();
            }
        }
    }

    /// What is left to gain, as a logarithm; `None` before anything passed.
    fn left(&self) -> Option<f64> {
        let best = self.best_ns?;
        let ratio = match self.bound_ns {
            Some(bound) => best / bound,
            None => self.lately.front()? / best,
        };
        Some(ratio.ln().max(0.0))
    }

    fn patience(&self) -> f64 {
        PATIENCE / (PATIENCE + f64::from(self.fruitless))
    }
}

pub(super) fn shares<'p>(problems: impl Iterator<Item = &'p ProblemProgress> + Clone) -> Vec<f64> {
    // Where nothing passed yet, as much is left as anywhere.
    let most = problems.clone().filter_map(ProblemProgress::left).fold(0.0, f64::max);
    let weights: Vec<f64> = problems.map(|one| one.left().unwrap_or(most) * one.patience()).collect();
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let raised = weights.iter().map(|weight| match largest > 0.0 {
        true => weight.max(LEAST * largest),
        false => 1.0,
    });
    let raised: Vec<f64> = raised.collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|weight| weight / sum).collect()
}

pub(super) fn pick(shares: &[f64], ticket: f64) -> usize {
    let mut left = ticket;
    for (problem, share) in shares.iter().enumerate() {
        left -= share;
        if left < 0.0 {
            return problem;
        }
    }
    // Rounding may leave a ticket of almost 1 over.
    shares.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bound_ns: Option<f64>, times: &[f64], fruitless: usize) -> ProblemProgress {
        let mut own = ProblemProgress::new(bound_ns);
        times.iter().for_each(|time| own.tell(Some(*time), false));
        (0..fruitless).for_each(|_| own.tell(None, true));
        own
    }

    #[track_caller]
    fn check(problems: &[ProblemProgress], expected: &[f64]) {
        let found = shares(problems.iter());
        let near = |(own, other): (&f64, &f64)| (own - other).abs() < 1e-3;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?}");
    }

    #[test]
    fn chances_follow_the_distances_from_the_bounds() {
        // ln 8 = 3 ln 2.
        check(&[after(Some(100.0), &[800.0], 0), after(Some(100.0), &[200.0], 0)], &[0.75, 0.25]);
        check(&[after(Some(100.0), &[900.0, 400.0], 0), after(Some(50.0), &[200.0], 0)], &[0.5, 0.5]);
        // At its bound, and below one that is wrong: the least share of the other.
        let far = after(Some(100.0), &[1000.0], 0);
        check(&[far.clone(), after(Some(100.0), &[100.0], 0)], &[10.0 / 11.0, 1.0 / 11.0]);
        check(&[far, after(Some(100.0), &[50.0], 0)], &[10.0 / 11.0, 1.0 / 11.0]);
    }

    #[test]
    fn what_brings_nothing_counts_for_less_until_it_gains_again() {
        let one = || after(Some(100.0), &[400.0], 0);
        check(&[one(), after(Some(100.0), &[400.0], 16)], &[2.0 / 3.0, 1.0 / 3.0]);
        let mut stuck = after(Some(100.0), &[400.0], 16);
        stuck.tell(Some(399.0), true);
        check(&[one(), stuck.clone()], &[0.6739, 0.3261]);
        stuck.tell(Some(390.0), true);
        check(&[one(), stuck], &[0.5046, 0.4954]);
    }

    #[test]
    fn without_bounds_chances_follow_what_was_gained_lately() {
        let gained = after(None, &[800.0, 100.0], 0);
        let less = after(None, &[200.0, 100.0], 0);
        check(&[gained.clone(), less], &[0.75, 0.25]);
        // The gain is forgotten.
        let mut old = gained.clone();
        (0..LATELY).for_each(|_| old.tell(Some(100.0), false));
        check(&[gained, old.clone()], &[10.0 / 11.0, 1.0 / 11.0]);
        check(&[old.clone(), old], &[0.5, 0.5]);
    }

    #[test]
    fn a_problem_that_nothing_passed_on_has_as_much_left_as_any() {
        check(&[after(None, &[], 0), after(None, &[], 0)], &[0.5, 0.5]);
        check(&[after(None, &[], 0), after(Some(1.0), &[4.0], 0)], &[0.5, 0.5]);
    }

    #[test]
    fn tickets_are_drawn_by_share() {
        let drawn: Vec<usize> = [0.0, 0.24, 0.26, 0.99, 1.0].map(|ticket| pick(&[0.25, 0.75], ticket)).into();
        assert_eq!(drawn, [0, 0, 1, 1, 1]);
    }
}
