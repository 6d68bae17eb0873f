//! A small quasi-Newton minimizer: L-BFGS with a backtracking line search (Nocedal and Wright,
//! "Numerical Optimization", 2nd ed., algorithms 7.4 and 3.1). The number of steps is bounded, because a
//! search waits for the answer; the best point so far is returned.

use std::collections::VecDeque;

use super::matrix::dot;

/// Pairs of steps and gradient changes that are remembered. Nocedal and Wright recommend 3 to 20.
const MEMORY: usize = 6;

/// No coordinate moves further in one step. Arguments are logarithms, so this is a factor of 4.5; longer
/// steps may leave the region where the likelihood can be evaluated.
const STEP_MAX: f64 = 1.5;

/// Times a step is shortened before the search ends.
const SHORTENINGS: i32 = 10;

/// A value and its gradient.
pub(crate) type Evaluated = (f64, Vec<f64>);

/// Minimizes from `start` in at most `iterations` steps; `None` if the function has no value there.
/// Ends early when a step gains less than `tolerance`.
pub(crate) fn minimize(
    start: &[f64],
    iterations: usize,
    tolerance: f64,
    mut function: impl FnMut(&[f64]) -> Option<Evaluated>,
) -> Option<(Vec<f64>, f64)> {
    let mut at = start.to_vec();
    let (mut value, mut gradient) = function(&at)?;
    let mut memory: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    for _ in 0..iterations {
        let mut direction = descent(&gradient, &memory);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 {
            // The remembered curvature does not fit here, so the step follows the gradient.
            memory.clear();
            direction = descent(&gradient, &memory);
            slope = dot(&direction, &gradient);
        }
        let longest = direction.iter().fold(0.0, |longest: f64, step| longest.max(step.abs()));
        if longest < 1e-9 || !longest.is_finite() {
            break;
        }
        // A length of 1 is the step that the approximated curvature asks for.
        let full = (STEP_MAX / longest).min(1.0);
        let tries = (0..SHORTENINGS).map(|power| full * 0.4f64.powi(power));
        let accepted = tries.into_iter().find_map(|length| {
            let next: Vec<f64> = at.iter().zip(&direction).map(|(x, step)| x + length * step).collect();
            let (lower, slopes) = function(&next)?;
            // Armijo's condition with the usual constant (Nocedal and Wright, equation 3.4).
            (lower <= value + 1e-4 * length * slope).then_some((next, lower, slopes))
        });
        let Some((next, lower, slopes)) = accepted else { break };
        let step: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = slopes.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        // Only pairs of positive curvature keep the approximated inverse positive definite.
        if dot(&step, &change) > 1e-10 * dot(&change, &change) {
            memory.push_back((step, change));
            if memory.len() > MEMORY {
                memory.pop_front();
            }
        }
        let gain = value - lower;
        (at, value, gradient) = (next, lower, slopes);
        if gain < tolerance {
            break;
        }
    }
    Some((at, value))
}

/// The direction of descent: minus the gradient, multiplied by the inverse curvature that the memory
/// approximates (the two-loop recursion, algorithm 7.4).
fn descent(gradient: &[f64], memory: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
    let mut shares = Vec::new();
    for (step, change) in memory.iter().rev() {
        let share = dot(step, &direction) / dot(step, change);
        direction.iter_mut().zip(change).for_each(|(d, change)| *d -= share * change);
        shares.push(share);
    }
    if let Some((step, change)) = memory.back() {
        // The usual first guess of the curvature, from the newest pair (Nocedal and Wright, equation 7.20).
        let scale = dot(step, change) / dot(change, change);
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for ((step, change), share) in memory.iter().zip(shares.into_iter().rev()) {
        let back = share - dot(change, &direction) / dot(step, change);
        direction.iter_mut().zip(step).for_each(|(d, step)| *d += back * step);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rosenbrock_is_solved() {
        let banana = |x: &[f64]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            Some((a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b]))
        };
        let (at, value) = minimize(&[-1.2, 1.0], 200, 0.0, banana).unwrap();
        assert!(value < 1e-10 && (at[0] - 1.0).abs() < 1e-4, "{at:?} {value}");
    }

    #[test]
    fn holes_and_flat_places_end_the_search() {
        assert!(minimize(&[1.0], 10, 0.0, |_| None).is_none());
        assert_eq!(minimize(&[1.0], 10, 0.0, |_| Some((3.0, vec![0.0]))), Some((vec![1.0], 3.0)));
        let half = |x: &[f64]| (x[0] > 0.5).then(|| (x[0], vec![1.0]));
        let (at, _) = minimize(&[2.0], 50, 0.0, half).unwrap();
        assert!(at[0] > 0.5 && at[0] < 0.7, "{at:?}");
        assert_eq!(minimize(&[], 5, 0.0, |_| Some((1.0, vec![]))), Some((vec![], 1.0)));
    }
}
