//! `invert-<hash>.json`: what each pathology costs a kernel, the most expensive first. A row is a finding about the kernel and
//! never a result of one: a harmed variant is an [`InvertDose`] and never an evaluation. So no journal, board, prior, seed,
//! gate or export can take one.

use evo_space::genome::ContentHash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// A pathology and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InvertRow {
    /// From 1; null where nothing was measured.
    pub rank: Option<u32>,
    /// Its name: `register_cap`.
    pub pathology: String,
    /// What a kernel lacks that suffers from it.
    pub resource: String,
    pub doses: Vec<InvertDose>,
    /// Relative time that one unit of dose adds; null where nothing was measured.
    pub slope: Option<f64>,
    /// The same from the lower ends of the ratios' intervals.
    pub slope_low: Option<f64>,
    /// The same from their upper ends.
    pub slope_high: Option<f64>,
    /// Whether machine code or launches did become different; null where no dose was compiled.
    pub happened: Option<bool>,
    /// By what that is known, or why nothing was measured.
    pub how_known: String,
    /// What a profiler saw of the largest dose that was timed; null where none looked.
    pub metric: Option<InvertMetric>,
    /// Lightened time / time, the least of the doses: no cure gets below it. Null where work was added.
    pub upper_bound_of_cure_ratio: Option<f64>,
    pub try_next: String,
}

words! {
    #[derive(JsonSchema)]
    MetricDirection {
        Up = "up",
        Down = "down",
    }
}

/// What a profiler saw of a harmed copy, beside the unharmed kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InvertMetric {
    /// A metric of `evo profile`: `l1_hit_percent`.
    pub name: String,
    /// Where the pathology moves it.
    pub direction: MetricDirection,
    pub unharmed: f64,
    pub harmed: f64,
    /// Whether it went there, beyond chance.
    pub moved: bool,
    pub dose: String,
    /// Whether the copy stores to as many sectors of global memory at least; null where that was not counted, as for
    /// kernels that store by asynchronous copies alone.
    pub stores_kept: Option<bool>,
}

/// A dose of a pathology, compared with the unharmed kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InvertDose {
    /// In units.
    pub dose: f64,
    /// One unit: `doubling of the barriers`.
    pub unit: String,
    /// What was done: `each barrier 2 times`.
    pub what: String,
    /// Harmed time / unharmed time, paired; null where it was not measured.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval.
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub verdict: String,
    /// Whether machine code or launches differ from the unharmed kernel's; null for a copy that was never built.
    pub changed: Option<bool>,
    /// Hash of its machine code; null where that is unknown.
    pub code_hash: Option<ContentHash>,
}

impl InvertDose {
    /// Whether it was built and is another kernel than the unharmed one.
    pub fn has_changed(&self) -> bool {
        self.changed == Some(true)
    }
}

impl InvertRow {
    /// Whether it says anything: a dose was timed, or all that were built changed nothing.
    pub fn is_finding(&self) -> bool {
        self.happened == Some(false) || self.doses.iter().any(|dose| dose.ratio.is_some())
    }

    /// Relative time that a unit of dose adds: the line through no harm at no dose that fits the measured ratios best, by
    /// least squares, Σ d(r − 1) / Σ d². The ends are the same line through the ends of the intervals.
    #[must_use]
    pub fn sloped(mut self) -> InvertRow {
        let measured = || self.doses.iter().filter(|own| own.has_changed() && own.ratio.is_some());
        let weight: f64 = measured().map(|own| own.dose * own.dose).sum();
        let line = |of: fn(&InvertDose) -> Option<f64>| {
            let sum: f64 = measured().map(|own| own.dose * (of(own).unwrap_or(1.0) - 1.0)).sum();
            (weight > 0.0).then(|| sum / weight)
        };
        let slopes = [line(|own| own.ratio), line(|own| own.ratio_low), line(|own| own.ratio_high)];
        [self.slope, self.slope_low, self.slope_high] = slopes;
        self
    }

    /// Whether it certainly costs time, where the unharmed kernel differs from itself by `noise_floor` (relative).
    pub fn is_steep(&self, noise_floor: f64) -> bool {
        let beyond = |dose: &InvertDose| {
            dose.has_changed() && dose.ratio_low.is_some_and(|low| low > 1.0 + noise_floor)
        };
        self.slope_low.is_some_and(|low| low > 0.0) && self.doses.iter().any(beyond)
    }
}

/// Numbers the rows, the most expensive first; those without a slope come last and have no rank.
pub fn ranked(mut rows: Vec<InvertRow>) -> Vec<InvertRow> {
    let slope = |row: &InvertRow| row.slope.unwrap_or(f64::NEG_INFINITY);
    rows.sort_by(|one, other| slope(other).total_cmp(&slope(one)));
    for (number, row) in rows.iter_mut().enumerate() {
        row.rank = row.slope.map(|_| number as u32 + 1);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pathology: &str, ratios: &[(f64, f64)]) -> InvertRow {
        let dose = |(dose, ratio): &(f64, f64)| InvertDose {
            dose: *dose,
            ratio: Some(*ratio),
            ratio_low: Some(ratio - 0.02),
            ratio_high: Some(ratio + 0.02),
            changed: Some(true),
            ..InvertDose::default()
        };
        let doses = ratios.iter().map(dose).collect();
        InvertRow { pathology: pathology.into(), doses, happened: Some(true), ..InvertRow::default() }
            .sloped()
    }

    #[test]
    fn a_slope_is_the_line_through_no_harm_at_no_dose() {
        let straight = row("barriers", &[(1.0, 1.25), (2.0, 1.5)]);
        assert!((straight.slope.unwrap() - 0.25).abs() < 1e-12, "{straight:?}");
        assert!(straight.slope_low < straight.slope && straight.slope < straight.slope_high);
        assert!(straight.is_steep(0.1) && !straight.is_steep(0.5));
        assert!(!row("flat", &[(1.0, 1.01)]).is_steep(0.0));
        // A dose that changed nothing says nothing.
        let mut unchanged = row("barriers", &[(1.0, 1.5)]);
        unchanged.doses[0].changed = Some(false);
        assert_eq!(unchanged.sloped().slope, None);
    }

    #[test]
    fn the_most_expensive_comes_first_and_what_was_not_measured_last() {
        let rows = ranked(vec![row("none", &[]), row("flat", &[(1.0, 1.0)]), row("steep", &[(1.0, 2.0)])]);
        let order: Vec<_> = rows.iter().map(|own| (own.pathology.as_str(), own.rank)).collect();
        assert_eq!(order, [("steep", Some(1)), ("flat", Some(2)), ("none", None)]);
    }
}
