//! Whether a candidate is slower than its baseline: the rule of `evo gate`, as a pure function of what was measured.
//!
//! A problem regresses where the median ratio lies above the threshold and it is shown that the ratio lies above this
//! run's noise floor: the lower end of its 95 % interval, and a p-value that holds with Holm's correction over all
//! problems (Holm 1979). A problem passes only where the threshold could have been seen. Everything else is undecided,
//! asks for more blocks, and is called noisy in the end.

use std::cmp::Ordering;

use evo_protocol::words;

use super::paired;
use super::stats::Interval;

pub const ROUNDS_MAX: u32 = 3;
/// One-sided, as the lower end of a 95 % interval is.
const ALPHA: f64 = 0.025;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegressionSamples {
    /// Candidate over baseline.
    pub against: Vec<Vec<f64>>,
    /// Baseline over itself, in the same minutes.
    pub same: Vec<Vec<f64>>,
}

words! {
    RegressionDecision {
        /// Not slower by more than the threshold, which could have been seen.
        Pass = "pass",
        /// Slower by more than the threshold, and not by chance.
        Regression = "regression",
        Noisy = "noisy",
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegressionFinding {
    pub decision: RegressionDecision,
    /// Candidate's time over the baseline's, with its 95 % interval.
    pub ratio: f64,
    pub ratio_low: f64,
    pub ratio_high: f64,
    pub floor: f64,
    /// That the ratio is not above the floor, with Holm's correction.
    pub p: f64,
}

/// `threshold` is a share: 0.02. Deterministic for a seed.
pub fn judge(threshold: f64, problems: &[RegressionSamples], seed: u64) -> Vec<RegressionFinding> {
    let mut found: Vec<RegressionFinding> = problems.iter().map(|samples| measure(samples, seed)).collect();
    let raw: Vec<f64> = found.iter().map(|finding| finding.p).collect();
    for (finding, p) in found.iter_mut().zip(holm(&raw)) {
        finding.p = p;
        finding.decision = decide(threshold, finding);
    }
    found
}

fn measure(samples: &RegressionSamples, seed: u64) -> RegressionFinding {
    let floor = floor(&samples.same, seed);
    let (compared, resamples) = paired::compare_resampled(&samples.against, floor, seed);
    let bar = (1.0 + floor).ln();
    // The sample itself counts as one resample, so that no p-value is zero.
    let not_above = resamples.iter().filter(|median| median.is_nan() || **median <= bar).count() + 1;
    RegressionFinding {
        decision: RegressionDecision::Noisy,
        ratio: compared.log_ratio.exp(),
        ratio_low: compared.low.exp(),
        ratio_high: compared.high.exp(),
        floor,
        p: not_above as f64 / (resamples.len() + 1) as f64,
    }
}

/// Processes alternate which slot comes first; all of one kind are taken together, so that the floor is that of a
/// comparison over as many processes.
fn floor(same: &[Vec<f64>], seed: u64) -> f64 {
    let mut halves = vec![Vec::new(), Vec::new()];
    for (at, process) in same.iter().enumerate() {
        halves[at % 2].extend(process.iter().copied());
    }
    halves.retain(|half| !half.is_empty());
    paired::noise_floor(&halves, seed).floor
}

/// Adjusted p-values in the order of the given ones.
fn holm(raw: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..raw.len()).collect();
    order.sort_by(|a, b| raw[*a].total_cmp(&raw[*b]));
    let mut adjusted = vec![1.0; raw.len()];
    let mut highest: f64 = 0.0;
    for (rank, at) in order.into_iter().enumerate() {
        highest = highest.max(raw[at] * (raw.len() - rank) as f64).min(1.0);
        adjusted[at] = highest;
    }
    adjusted
}

fn decide(threshold: f64, found: &RegressionFinding) -> RegressionDecision {
    let known =
        [found.ratio, found.ratio_low, found.ratio_high, found.floor].iter().all(|value| value.is_finite());
    let is_above = found.ratio > 1.0 + threshold;
    let interval = Interval { low: found.ratio_low.ln(), high: found.ratio_high.ln() };
    let beyond = interval.against(found.floor.ln_1p());
    let is_shown = beyond == Some(Ordering::Greater) && found.p <= ALPHA;
    // A regression as large as the threshold would have drowned in the noise, or in the width of the interval.
    let is_blind = found.floor > threshold || found.ratio - found.ratio_low > threshold;
    match (known, is_above, is_shown) {
        (false, ..) => RegressionDecision::Noisy,
        (_, true, true) => RegressionDecision::Regression,
        (_, true, false) => RegressionDecision::Noisy,
        // Faster by more than the noise, which could otherwise hide a regression behind an interval of its own.
        _ if beyond == Some(Ordering::Less) => RegressionDecision::Pass,
        _ if is_blind => RegressionDecision::Noisy,
        _ => RegressionDecision::Pass,
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::paired::interleave;

    struct Machine {
        random: ChaCha8Rng,
        /// How much blocks differ.
        block: f64,
    }

    impl Machine {
        fn uniform(&mut self) -> f64 {
            f64::from(self.random.next_u32()) / f64::from(u32::MAX)
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }

        fn process(&mut self, blocks: u32, b_first: bool, slower: f64) -> Vec<f64> {
            let luck = [(); 2].map(|()| self.normal() * (self.block / 3.0));
            let mut walk = 0.0;
            let times = interleave::<()>(blocks, b_first, |slot| {
                walk += self.normal() * (self.block / 2.0);
                let slot = usize::from(slot);
                let mut log = walk + luck[slot] + self.normal() * self.block + slower.ln_1p() * slot as f64;
                if self.uniform() < 0.03 {
                    log += 0.05 + 0.15 * self.uniform();
                }
                Ok(1e5 * log.exp())
            });
            times.unwrap().log_ratios
        }

        /// A round as `engine::regress` measures it: A/A, A/B, A/B, A/A, A/B, A/B.
        fn round(&mut self, samples: &mut RegressionSamples, slower: f64) {
            for (at, is_same) in [true, false, false, true, false, false].into_iter().enumerate() {
                let (blocks, slower) = if is_same { (6, 0.0) } else { (4, slower) };
                let ratios = self.process(blocks, at % 2 == 1, slower);
                if is_same { samples.same.push(ratios) } else { samples.against.push(ratios) }
            }
        }
    }

    fn run(seed: u64, block: f64, slower: f64) -> Vec<RegressionDecision> {
        let mut machine = Machine { random: ChaCha8Rng::seed_from_u64(seed), block };
        let mut problems = vec![RegressionSamples::default(); 6];
        let mut open: Vec<usize> = (0..6).collect();
        let mut decisions = Vec::new();
        for _ in 0..ROUNDS_MAX {
            for at in &open {
                machine.round(&mut problems[*at], if *at == 0 { slower } else { 0.0 });
            }
            decisions = judge(0.02, &problems, seed).iter().map(|own| own.decision).collect();
            open = (0..6).filter(|at| decisions[*at] == RegressionDecision::Noisy).collect();
            if open.is_empty() {
                break;
            }
        }
        decisions
    }

    /// Runs of which at least one problem is called a regression, runs in which the first is, and noisy runs.
    fn rates(runs: u64, block: f64, slower: f64) -> (u64, u64, u64) {
        let (mut alarms, mut found, mut noisy) = (0, 0, 0);
        for seed in 0..runs {
            let decisions = run(1000 + seed, block, slower);
            alarms += u64::from(decisions.contains(&RegressionDecision::Regression));
            found += u64::from(decisions[0] == RegressionDecision::Regression);
            noisy += u64::from(decisions.contains(&RegressionDecision::Noisy));
        }
        (alarms, found, noisy)
    }

    /// 1,000 runs of each with `EVO_GATE_RUNS=1000 cargo test --release -p evo-timing error_rates -- --nocapture`; fewer
    /// here, because a build without optimization takes minutes for them.
    #[test]
    fn error_rates_over_six_problems() {
        let runs = std::env::var("EVO_GATE_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
        // A quiet device, a usual one, a busy host.
        for block in [0.002, 0.006, 0.012] {
            let (alarms, _, noisy) = rates(runs, block, 0.0);
            let (_, found, unsure) = rates(runs, block, 0.04);
            println!(
                "{runs} runs, blocks of {block}: A/A {alarms} alarms, {noisy} noisy; 4 %: {found} found, {unsure} noisy"
            );
            assert!(alarms as f64 <= 0.02 * runs as f64, "{alarms} alarms at {block}");
            assert!(found as f64 >= 0.95 * runs as f64, "{found} found at {block}");
        }
    }

    #[test]
    fn noise_that_hides_the_threshold_is_never_a_pass() {
        for seed in 0..3 {
            let decisions = run(seed, 0.25, 0.0);
            assert!(decisions.contains(&RegressionDecision::Noisy), "{decisions:?}");
        }
    }

    #[test]
    fn holm_corrects_in_the_order_of_the_values() {
        // By hand: 3 × 0.01, 2 × 0.02 and 0.04, never falling.
        let adjusted = holm(&[0.04, 0.01, 0.02]);
        let expected = [0.04, 0.03, 0.04];
        assert!(adjusted.iter().zip(expected).all(|(own, p)| (own - p).abs() < 1e-12), "{adjusted:?}");
        assert_eq!(holm(&[0.5, 0.6]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[track_caller]
    fn check(ratio: f64, width: f64, floor: f64, p: f64, expected: RegressionDecision) {
        let (ratio_low, ratio_high) = (ratio - width, ratio + width);
        let decision = RegressionDecision::Noisy;
        let own = RegressionFinding { decision, ratio, ratio_low, ratio_high, floor, p };
        assert_eq!(decide(0.02, &own), expected, "{own:?}");
    }

    #[test]
    fn known_cases() {
        use RegressionDecision::{Noisy, Pass, Regression};
        check(1.0, 0.005, 0.005, 1.0, Pass);
        check(1.019, 0.005, 0.005, 0.001, Pass);
        check(1.03, 0.005, 0.005, 0.001, Regression);
        // Not with Holm's correction, or not above the floor.
        check(1.03, 0.005, 0.005, 0.03, Noisy);
        check(1.03, 0.028, 0.005, 0.001, Noisy);
        check(1.03, 0.005, 0.026, 0.001, Noisy);
        // The threshold could not be seen.
        check(1.0, 0.005, 0.03, 1.0, Noisy);
        check(1.0, 0.03, 0.005, 1.0, Noisy);
        check(0.8, 0.1, 0.05, 1.0, Pass);
        // Within the noise is not faster, as seen with equal code on a busy host: the baseline differed from itself by
        // 35 %.
        check(0.84, 0.1, 0.35, 1.0, Noisy);
        check(0.6, 0.1, 0.35, 1.0, Pass);
        check(0.84, 0.1, 0.03, 1.0, Pass);
        check(3.0, 0.1, 0.05, 0.0003, Regression);
        check(f64::NAN, 0.1, 0.05, 0.001, Noisy);
        check(1.0, 0.005, f64::NAN, 1.0, Noisy);
    }

    #[test]
    fn nothing_measured_is_noisy() {
        let empty = RegressionSamples::default();
        assert_eq!(judge(0.02, &[empty], 1)[0].decision, RegressionDecision::Noisy);
        let no_floor = RegressionSamples { against: vec![vec![0.0; 12]; 4], same: Vec::new() };
        assert_eq!(judge(0.02, &[no_floor], 1)[0].decision, RegressionDecision::Noisy);
    }
}
