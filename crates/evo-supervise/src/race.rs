//! Times of one variant beside those of the incumbent: what a screening and a race decide by.

use evo_protocol::measurement::{Measurement, StopRule, TimingMode};
use evo_protocol::plan::ProblemPlan;

/// How far a screening's median may be above the median of many samples.
const SCREENED: f64 = 0.97;

/// None while a measurement is missing.
pub fn objective(measurements: &[Measurement], timed: &[ProblemPlan], mode: TimingMode) -> Option<f64> {
    mean_of(measurements, timed, mode, |found| found.p50_ns)
}

/// The least that the objective can be: the lower ends of all intervals.
pub(super) fn least(measurements: &[Measurement], timed: &[ProblemPlan], mode: TimingMode) -> Option<f64> {
    let low = |found: &Measurement| match found.stop {
        // Too few samples for an interval.
        StopRule::Screen => found.p50_ns * SCREENED,
        _ => found.ci_low_ns,
    };
    mean_of(measurements, timed, mode, low)
}

fn mean_of(
    measurements: &[Measurement],
    timed: &[ProblemPlan],
    mode: TimingMode,
    time: impl Fn(&Measurement) -> f64,
) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for plan in timed {
        let found = measurements.iter().find(|found| found.mode == mode && found.problem == plan.name)?;
        let time = time(found);
        if !(time.is_finite() && time > 0.0) {
            return None;
        }
        // Logarithms, so that a ratio on a short problem counts as much as the same ratio on a long one.
        sum += plan.weight * time.ln();
        weights += plan.weight;
    }
    (weights > 0.0).then(|| (sum / weights).exp())
}

/// What was seen so far: each problem with its weight, the time there, and the incumbent's, nanoseconds.
#[derive(Default)]
pub(super) struct ScreenRace(Vec<(String, f64, f64, f64)>);

impl ScreenRace {
    pub(super) fn add(&mut self, plan: &ProblemPlan, seen_ns: f64, incumbent_ns: f64) {
        self.0.push((plan.name.clone(), plan.weight, seen_ns, incumbent_ns));
    }

    pub(super) fn last(&self) -> Option<(&str, f64, f64)> {
        self.0.last().map(|(problem, _, seen, incumbent)| (&**problem, *seen, *incumbent))
    }

    /// The problem on which the newcomer is nearest to its incumbent, or furthest ahead.
    pub(super) fn nearest(&self) -> Option<(&str, f64, f64)> {
        let all = self.0.iter().map(|(problem, _, seen, incumbent)| (&**problem, *seen, *incumbent));
        all.min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))
    }

    pub(super) fn ratio(&self) -> Option<f64> {
        let weights: f64 = self.0.iter().map(|(_, weight, ..)| weight).sum();
        let logs = self.0.iter().map(|(_, weight, seen, incumbent)| weight * (seen / incumbent).ln());
        (weights > 0.0).then(|| (logs.sum::<f64>() / weights).exp())
    }
}
