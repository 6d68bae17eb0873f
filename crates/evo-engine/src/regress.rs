//! Candidate and baseline side by side in rounds, until every problem is decided: what `evo gate` measures. Each round
//! times the baseline beside itself in the same minutes, so that the noise floor is that of this comparison.

use evo_protocol::worker::PairedTimes;
use evo_timing::regression::{ROUNDS_MAX, RegressionDecision, RegressionFinding, RegressionSamples, judge};

/// Processes of a round: whether each times the baseline against itself. A lane swaps the slots with every process, so
/// that both orders are in both kinds equally often.
const ROUND: [bool; 6] = [true, false, false, true, false, false];
/// Blocks A B B A in a process of each kind.
const SAME_BLOCKS: u32 = 6;
const AGAINST_BLOCKS: u32 = 4;

#[derive(Clone, Debug, Default)]
pub struct ComparedProblem {
    /// Absent where a process gave no answer.
    pub finding: Option<RegressionFinding>,
    pub rounds: u32,
    /// Times of the blocks in which both were interleaved, nanoseconds.
    pub baseline_ns: Vec<f64>,
    pub candidate_ns: Vec<f64>,
    /// What a process met that gave no answer.
    pub error: Option<String>,
}

/// Compares on the first so many timed problems. `pair` times the candidate against the baseline, or the baseline against
/// itself, on some of them, in so many blocks A B B A. Both have passed their gates. `threshold` is a share.
pub fn compare_rounds(
    mut pair: impl FnMut(bool, &[usize], u32) -> Result<Vec<PairedTimes>, String>,
    problems: usize,
    threshold: f64,
    seed: u64,
) -> Vec<ComparedProblem> {
    let mut samples = vec![RegressionSamples::default(); problems];
    let mut compared = vec![ComparedProblem::default(); problems];
    let mut open: Vec<usize> = (0..problems).collect();
    for round in 1..=ROUNDS_MAX {
        for is_same in ROUND {
            match pair(is_same, &open, if is_same { SAME_BLOCKS } else { AGAINST_BLOCKS }) {
                Ok(times) => open.iter().zip(times).for_each(|(at, times)| {
                    take(&mut samples[*at], &mut compared[*at], times, is_same);
                }),
                Err(message) => open.iter().for_each(|at| {
                    compared[*at].error.get_or_insert_with(|| message.clone());
                }),
            }
        }
        let found = judge(threshold, &samples, seed);
        for (own, finding) in compared.iter_mut().zip(found) {
            own.finding = own.error.is_none().then_some(finding);
        }
        open.iter().for_each(|at| compared[*at].rounds = round);
        let is_noisy = |own: &ComparedProblem| {
            own.finding.is_some_and(|found| found.decision == RegressionDecision::Noisy)
        };
        open = (0..problems).filter(|at| is_noisy(&compared[*at])).collect();
        if open.is_empty() {
            break;
        }
    }
    compared
}

fn take(samples: &mut RegressionSamples, compared: &mut ComparedProblem, times: PairedTimes, is_same: bool) {
    if is_same {
        samples.same.push(times.log_ratios);
        return;
    }
    samples.against.push(times.log_ratios);
    compared.baseline_ns.extend(times.a_ns);
    compared.candidate_ns.extend(times.b_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Problem 0 is quiet, 1 is slower by half, and 2 is lost in noise.
    fn times(problem: usize, is_same: bool, blocks: u32, call: u32) -> PairedTimes {
        let mut times = PairedTimes::default();
        for at in 0..2 * blocks {
            let swing = if problem == 2 { 0.5 } else { 0.001 };
            let noise = 1.0 + swing * (f64::from((at * 7 + call * 3) % 11) / 5.0 - 1.0);
            let b_ns = if problem == 1 && !is_same { 150.0 } else { 100.0 } * noise;
            times.a_ns.push(100.0);
            times.b_ns.push(b_ns);
            times.log_ratios.push((b_ns / 100.0).ln());
        }
        times
    }

    /// What comes of a comparison whose second process may die, and how many processes there were.
    fn compared(problems: usize, fails: bool) -> (Vec<ComparedProblem>, u32) {
        let mut calls = 0;
        let pair = |is_same, open: &[usize], blocks| {
            calls += 1;
            match fails && calls == 2 {
                true => Err("the worker died".into()),
                false => Ok(open.iter().map(|problem| times(*problem, is_same, blocks, calls)).collect()),
            }
        };
        let found = compare_rounds(pair, problems, 0.02, 1);
        (found, calls)
    }

    #[test]
    fn only_undecided_problems_take_more_rounds() {
        let (found, calls) = compared(3, false);
        let decisions: Vec<&str> = found.iter().map(|own| own.finding.unwrap().decision.as_str()).collect();
        assert_eq!(decisions, ["pass", "regression", "noisy"]);
        assert_eq!(found.iter().map(|own| own.rounds).collect::<Vec<_>>(), [1, 1, ROUNDS_MAX]);
        assert_eq!(calls, ROUNDS_MAX * 6);
        assert_eq!(found[0].baseline_ns.len(), 32);
    }

    #[test]
    fn a_process_without_an_answer_leaves_no_finding() {
        let (found, calls) = compared(2, true);
        assert!(
            found.iter().all(|own| own.finding.is_none() && own.error.as_deref() == Some("the worker died"))
        );
        assert_eq!(calls, 6);
    }
}
