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

/// What was seen so far, problem by problem.
#[derive(Default)]
pub(super) struct ScreenRace(Vec<Stage>);

struct Stage {
    problem: String,
    weight: f64,
    seen_ns: f64,
    incumbent_ns: f64,
}

impl Stage {
    fn ratio(&self) -> f64 {
        self.seen_ns / self.incumbent_ns
    }
}

impl ScreenRace {
    pub(super) fn add(&mut self, plan: &ProblemPlan, seen_ns: f64, incumbent_ns: f64) {
        self.0.push(Stage { problem: plan.name.clone(), weight: plan.weight, seen_ns, incumbent_ns });
    }

    /// The problem seen last, the time there, and the incumbent's, nanoseconds.
    pub(super) fn last(&self) -> (&str, f64, f64) {
        shown(self.0.last())
    }

    /// The same of the problem on which the newcomer is nearest to its incumbent, or furthest ahead.
    pub(super) fn nearest(&self) -> (&str, f64, f64) {
        shown(self.least())
    }

    fn least(&self) -> Option<&Stage> {
        self.0.iter().min_by(|a, b| a.ratio().total_cmp(&b.ratio()))
    }

    pub(super) fn least_ratio(&self) -> Option<f64> {
        self.least().map(Stage::ratio)
    }

    pub(super) fn ratio(&self) -> Option<f64> {
        let weights: f64 = self.0.iter().map(|stage| stage.weight).sum();
        let logs: f64 = self.0.iter().map(|stage| stage.weight * stage.ratio().ln()).sum();
        (weights > 0.0).then(|| (logs / weights).exp())
    }
}

fn shown(stage: Option<&Stage>) -> (&str, f64, f64) {
    stage.map_or(("", f64::NAN, f64::NAN), |stage| (&stage.problem, stage.seen_ns, stage.incumbent_ns))
}
