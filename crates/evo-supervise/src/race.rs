//! Times of one variant beside those of the incumbent: what a screening and a race decide by.

use evo_protocol::measurement::{Measurement, StopRule, TimingMode};
use evo_protocol::plan::ProblemPlan;

/// How far a screening's median may be above the median of many samples.
const SCREENED: f64 = 0.97;

/// None while a measurement is missing.
pub fn objective(measurements: &[Measurement], timed: &[ProblemPlan], mode: TimingMode) -> Option<f64> {
    mean_of(measurements, timed, mode, |own| own.p50_ns)
}

/// The least that the objective can be: the lower ends of all intervals.
pub(super) fn least(measurements: &[Measurement], timed: &[ProblemPlan], mode: TimingMode) -> Option<f64> {
    let low = |own: &Measurement| match own.stop {
        // Too few samples for an interval.
        StopRule::Screen => own.p50_ns * SCREENED,
        _ => own.ci_low_ns,
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
        let own = measurements.iter().find(|own| own.mode == mode && own.problem == plan.name)?;
        let time = time(own);
        if !(time.is_finite() && time > 0.0) {
            return None;
        }
        // Logarithms, so that a ratio on a short problem counts as much as the same ratio on a long one.
        sum += plan.weight * time.ln();
        weights += plan.weight;
    }
    (weights > 0.0).then(|| (sum / weights).exp())
}

#[derive(Default)]
pub(super) struct ScreenRace {
    log_sum: f64,
    weights: f64,
    /// The problem seen last, the time there, and the incumbent's, nanoseconds.
    pub(super) last: (String, f64, f64),
    /// The same of the problem on which the newcomer is nearest to its incumbent, or furthest ahead.
    nearest: Option<(String, f64, f64)>,
}

impl ScreenRace {
    pub(super) fn add(&mut self, plan: &ProblemPlan, seen_ns: f64, incumbent_ns: f64) {
        self.log_sum += plan.weight * (seen_ns / incumbent_ns).ln();
        self.weights += plan.weight;
        self.last = (plan.name.clone(), seen_ns, incumbent_ns);
        if self.least_ratio().is_none_or(|least| seen_ns / incumbent_ns < least) {
            self.nearest = Some(self.last.clone());
        }
    }

    pub(super) fn least_ratio(&self) -> Option<f64> {
        self.nearest.as_ref().map(|(_, seen, incumbent)| seen / incumbent)
    }

    pub(super) fn decided_by_nearest(self) -> ScreenRace {
        let last = self.nearest.clone().unwrap_or(self.last);
        ScreenRace { last, ..self }
    }

    pub(super) fn ratio(&self) -> Option<f64> {
        (self.weights > 0.0).then(|| (self.log_sum / self.weights).exp())
    }
}
