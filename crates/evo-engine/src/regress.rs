//! Candidate and baseline side by side in rounds, until every problem is decided: what `evo gate` measures. Each round
//! times the baseline beside itself in the same minutes, so that the noise floor is that of this comparison.

use evo_protocol::worker::PairedTimes;

use evo_supervise::job::Job;
use evo_supervise::lane::Lane;
use evo_timing::regression::{ROUNDS_MAX, RegressionDecision, RegressionFinding, RegressionSamples, judge};

/// Processes of a round: whether each times the baseline against itself. A lane swaps the slots with every process, so
/// that both orders are in both kinds equally often.
const ROUND: [bool; 6] = [true, false, false, true, false, false];
/// Blocks A B B A in a process of each kind.
const SAME_BLOCKS: u32 = 6;
const AGAINST_BLOCKS: u32 = 4;

pub trait PairOnce<J> {
    /// Times `b` against `a` on timed problems, A B B A.
    fn pair_once(
        &mut self,
        a: &J,
        b: &J,
        problems: &[usize],
        blocks: u32,
    ) -> Result<Vec<PairedTimes>, String>;
}

impl PairOnce<Job> for Lane {
    fn pair_once(
        &mut self,
        a: &Job,
        b: &Job,
        problems: &[usize],
        blocks: u32,
    ) -> Result<Vec<PairedTimes>, String> {
        Lane::pair(self, a, b, problems, blocks).map_err(|error| error.to_string())
    }
}

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

/// Compares on the first so many timed problems. Both jobs have passed their gates. `threshold` is a share.
pub fn compare_rounds<J>(
    device: &mut dyn PairOnce<J>,
    baseline: &J,
    candidate: &J,
    problems: usize,
    threshold: f64,
    seed: u64,
) -> Vec<ComparedProblem> {
    let mut samples = vec![RegressionSamples::default(); problems];
    let mut compared = vec![ComparedProblem::default(); problems];
    let mut open: Vec<usize> = (0..problems).collect();
    for round in 1..=ROUNDS_MAX {
        for is_same in ROUND {
            let (b, blocks) = if is_same { (baseline, SAME_BLOCKS) } else { (candidate, AGAINST_BLOCKS) };
            match device.pair_once(baseline, b, &open, blocks) {
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

    /// Problem 0 is quiet, 1 is slower by half, 2 is lost in noise, and 3 never answers.
    struct Scripted {
        calls: u32,
        fails: bool,
    }

    impl PairOnce<u8> for Scripted {
        fn pair_once(
            &mut self,
            a: &u8,
            b: &u8,
            problems: &[usize],
            blocks: u32,
        ) -> Result<Vec<PairedTimes>, String> {
            self.calls += 1;
            if self.fails && self.calls == 2 {
                return Err("the worker died".into());
            }
            let slower = if a == b { 1.0 } else { 1.5 };
            Ok(problems
                .iter()
                .map(|problem| {
                    let mut times = PairedTimes::default();
                    for at in 0..2 * blocks {
                        let swing = if *problem == 2 { 0.5 } else { 0.001 };
                        let noise = 1.0 + swing * (f64::from((at * 7 + self.calls * 3) % 11) / 5.0 - 1.0);
                        let b_ns = if *problem == 1 { 100.0 * slower } else { 100.0 } * noise;
                        times.a_ns.push(100.0);
                        times.b_ns.push(b_ns);
                        times.log_ratios.push((b_ns / 100.0).ln());
                    }
                    times
                })
                .collect())
        }
    }

    #[test]
    fn only_undecided_problems_take_more_rounds() {
        let mut device = Scripted { calls: 0, fails: false };
        let found = compare_rounds(&mut device, &0, &1, 3, 0.02, 1);
        let decisions: Vec<&str> = found.iter().map(|own| own.finding.unwrap().decision.as_str()).collect();
        assert_eq!(decisions, ["pass", "regression", "noisy"]);
        assert_eq!(found.iter().map(|own| own.rounds).collect::<Vec<_>>(), [1, 1, ROUNDS_MAX]);
        assert_eq!(device.calls, ROUNDS_MAX * 6);
        assert_eq!(found[0].baseline_ns.len(), 32);
    }

    #[test]
    fn a_process_without_an_answer_leaves_no_finding() {
        let mut device = Scripted { calls: 0, fails: true };
        let found = compare_rounds(&mut device, &0, &1, 2, 0.02, 1);
        assert!(
            found.iter().all(|own| own.finding.is_none() && own.error.as_deref() == Some("the worker died"))
        );
        assert_eq!(device.calls, 6);
    }
}
