//! How a search on a recorded space is scored: how long it may run, and what random search would have
//! found by then (Willemsen et al., "A Methodology for Comparing Auto-Tuning Optimization
//! Algorithms").

use evo_engine::replay::{Recording, Row};
use evo_timing::stats::median;
use thiserror::Error;

/// Points in time at which searches are compared.
pub const POINTS: usize = 1000;

/// The scored range starts when random search is expected to have closed this share of the gap between the
/// median and the optimum, …
const SHARE_AT_START: f64 = 0.01;
const SHARE_AT_END: f64 = 0.95;

/// Runs go on for this multiple of the scored range, so that its end is seen from both sides.
const MARGIN_OF_RUNS: f64 = 1.1;

#[derive(Clone, Debug, PartialEq, Error)]
pub enum NotScorable {
    #[error("it holds {rows} of its space's {valid} configurations, so its optimum is unknown")]
    Incomplete { rows: usize, valid: String },
    #[error("every one of its configurations fails")]
    AllFail,
    #[error("its configurations cost no time")]
    Free,
    #[error("random search reaches its optimum within the scored range")]
    TooEasy,
}

/// A recorded space as the judge sees it.
#[derive(Debug)]
pub struct Yardstick {
    pub rows: Vec<Row>,
    /// Objectives, best first.
    pub ascending: Vec<f64>,
    /// Evaluations that random search is expected to need to the end of the scored range.
    pub evaluations: usize,
    /// Points in time from the start to the end of the scored range, milliseconds.
    pub grid: Vec<f64>,
    pub baseline: Vec<f64>,
}

impl Yardstick {
    pub fn of(recording: &Recording) -> Result<Yardstick, NotScorable> {
        if !recording.exhaustive {
            let (rows, valid) = (recording.rows().len(), recording.space.valid().to_string());
            return Err(NotScorable::Incomplete { rows, valid });
        }
        Yardstick::new(recording.rows())
    }

    pub fn new(rows: &[Row]) -> Result<Yardstick, NotScorable> {
        let mut ascending: Vec<f64> = rows.iter().filter_map(|row| row.objective_ns).collect();
        ascending.sort_by(f64::total_cmp);
        let Some(optimum) = ascending.first().copied() else { return Err(NotScorable::AllFail) };
        // The range in evaluations becomes a range in time with the median cost of all configurations, failures
        // included, as they were recorded: the tuner's overhead belongs to the budget, not to a run's clock.
        let (first, last) = range(&ascending);
        let recorded: Vec<f64> = rows.iter().map(recorded_ms).collect();
        let cost = median(&recorded);
        if cost <= 0.0 {
            return Err(NotScorable::Free);
        }
        let grid = evenly(first as f64 * cost, last as f64 * cost);
        let baseline = baseline(&ascending, &grid, random_cost(rows));
        // The score divides by the distance between baseline and optimum.
        if baseline.contains(&optimum) {
            return Err(NotScorable::TooEasy);
        }
        Ok(Yardstick { rows: rows.to_vec(), ascending, evaluations: last, grid, baseline })
    }

    pub fn optimum(&self) -> f64 {
        self.ascending[0]
    }

    pub fn end_ms(&self) -> f64 {
        self.grid[POINTS - 1]
    }

    pub fn run_until_ms(&self) -> f64 {
        self.end_ms() * MARGIN_OF_RUNS
    }
}

/// With the overhead of the tuner that recorded it: the measure of the budget.
fn recorded_ms(row: &Row) -> f64 {
    row.cost.total_ms() + row.cost.framework_ms
}

/// Evaluations of random search at the start and the end of the scored range, at least two apart.
fn range(ascending: &[f64]) -> (usize, usize) {
    let (first, last) = (evaluations_to(ascending, SHARE_AT_START), evaluations_to(ascending, SHARE_AT_END));
    // A range of one evaluation would have no curve.
    match (first, last - first.min(last)) {
        (_, 2..) => (first, last),
        (0, _) => (first, last + 2),
        _ => (first - 1, last + 1),
    }
}

/// Evaluations that random search without replacement is expected to need to close a share of the gap
/// between the median and the optimum.
fn evaluations_to(ascending: &[f64], share: f64) -> usize {
    let (count, optimum) = (ascending.len(), ascending[0]);
    let target = optimum + (median(ascending) - optimum) * (1.0 - share);
    let good = ascending.partition_point(|value| *value <= target);
    let mut worse = count - good;
    // Only the optimum itself is as good: then the method aims at the one before it.
    if ascending[good - 1] == optimum {
        worse = worse.saturating_sub(1);
    }
    worse.div_ceil(count + 1 - worse)
}

/// Mean cost of an evaluation of random search as the method counts it: that of the valid ones, and on
/// top the failing share times theirs.
fn random_cost(rows: &[Row]) -> f64 {
    let mean = |fails: bool| {
        let costs = rows.iter().filter(|row| row.objective_ns.is_none() == fails);
        let costs: Vec<f64> = costs.map(recorded_ms).collect();
        let count = costs.len() as f64;
        if costs.is_empty() { (0.0, 0.0) } else { (costs.iter().sum::<f64>() / count, count) }
    };
    let ((valid, _), (failing, failures)) = (mean(false), mean(true));
    valid + failures / rows.len() as f64 * failing
}

fn evenly(from: f64, to: f64) -> Vec<f64> {
    let step = (to - from) / (POINTS - 1) as f64;
    let mut places: Vec<f64> = (0..POINTS).map(|at| from + at as f64 * step).collect();
    // Without rounding errors: the last point is where runs are judged.
    places[POINTS - 1] = to;
    places
}

/// The expected best value of random search at each point in time.
fn baseline(ascending: &[f64], grid: &[f64], cost: f64) -> Vec<f64> {
    let count = ascending.len() as f64;
    let draws: Vec<f64> = grid.iter().map(|time| (time / cost).max(1.0).round_ties_even()).collect();
    let expected = |draws: f64| {
        let from_worst = (draws * (count + 1.0) / (draws + 1.0)).round_ties_even();
        ascending[ascending.len() - 1 - (from_worst as usize).min(ascending.len() - 1)]
    };
    // Draws are whole numbers, so the expected value falls in steps; the cubic goes through one point per step.
    let mut xs = draws.clone();
    xs.dedup();
    let ys: Vec<f64> = xs.iter().map(|draws| expected(*draws)).collect();
    if xs.len() < 2 {
        vec![ys[0]; grid.len()]
    } else {
        through(&xs, &ys, &evenly(draws[0], draws[POINTS - 1]))
    }
}

// The shape-preserving piecewise cubic that smooths the baseline (Fritsch and Butland 1984; "PCHIP").

/// The curve through `(xs, ys)`, read at ascending places `at`. `xs` ascend and are at least two. Between
/// falling points the curve falls: the slope at a point is the weighted harmonic mean of its sides'.
fn through(xs: &[f64], ys: &[f64], at: &[f64]) -> Vec<f64> {
    let widths: Vec<f64> = xs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let rises: Vec<f64> =
        ys.windows(2).zip(&widths).map(|(pair, width)| (pair[1] - pair[0]) / width).collect();
    // With two points there are no slopes to estimate.
    if rises.len() == 1 {
        return at.iter().map(|x| ys[0] + rises[0] * (x - xs[0])).collect();
    }
    let slopes = slopes(&widths, &rises);
    let mut piece = 0;
    let read = |x: &f64| {
        // Places ascend, so the piece only ever moves forward. Rounding may put the last place beyond the
        // end, which then belongs to the last piece.
        while piece < rises.len() - 1 && *x >= xs[piece + 1] {
            piece += 1;
        }
        let width = widths[piece];
        let s = (x - xs[piece]) / width;
        let (left, right) = ((1.0 - s).powi(2), s * s);
        ys[piece] * (1.0 + 2.0 * s) * left
            + slopes[piece] * width * s * left
            + ys[piece + 1] * right * (3.0 - 2.0 * s)
            + slopes[piece + 1] * width * right * (s - 1.0)
    };
    at.iter().map(read).collect()
}

fn slopes(widths: &[f64], rises: &[f64]) -> Vec<f64> {
    let last = rises.len() - 1;
    let mut slopes = vec![end_slope([widths[0], widths[1]], [rises[0], rises[1]])];
    for at in 1..=last {
        let (before, after) = (rises[at - 1], rises[at]);
        // A turning point, or a flat side: any other slope would overshoot it.
        if before * after <= 0.0 {
            slopes.push(0.0);
            continue;
        }
        let weight_before = 2.0 * widths[at] + widths[at - 1];
        let weight_after = widths[at] + 2.0 * widths[at - 1];
        slopes.push((weight_before + weight_after) / (weight_before / before + weight_after / after));
    }
    slopes.push(end_slope([widths[last], widths[last - 1]], [rises[last], rises[last - 1]]));
    slopes
}

/// The slope at an end by three points, limited so that the curve keeps its direction.
fn end_slope(widths: [f64; 2], rises: [f64; 2]) -> f64 {
    let [near, far] = widths;
    let slope = ((2.0 * near + far) * rises[0] - near * rises[1]) / (near + far);
    if slope * rises[0] <= 0.0 {
        0.0
    } else if rises[0] * rises[1] <= 0.0 && slope.abs() > 3.0 * rises[0].abs() {
        3.0 * rises[0]
    } else {
        slope
    }
}

/// Ten valid configurations that take 1 to 10 ns and cost 100 ms (10 more when they were recorded),
/// and two that fail and cost 60 ms.
#[cfg(test)]
pub(super) fn ten() -> Vec<Row> {
    use evo_engine::replay::Cost;
    use evo_protocol::verdict::{VerdictClass, VerdictKind};
    let cost = Cost { compile_ms: 60.0, validate_ms: 0.0, runs_ms: 40.0, framework_ms: 10.0 };
    let (class, kind) = (VerdictClass::Ok, VerdictKind::Pass);
    let valid = |value| Row { number: 0, class, kind, objective_ns: Some(f64::from(value)), cost };
    let cost = Cost { runs_ms: 0.0, framework_ms: 0.0, ..cost };
    let failing = Row { number: 0, class, kind, objective_ns: None, cost };
    (1..=10).map(valid).chain([failing.clone(), failing]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_and_baseline_as_worked_out_by_hand() {
        let yardstick = Yardstick::new(&ten()).unwrap();
        // Median 5.5. Start: 5 values are worse than 1 + 0.99 · 4.5, ceil(5 / 6) = 1. End: only the optimum
        // is better than 1 + 0.05 · 4.5, so 8 count as worse, ceil(8 / 3) = 3. Median cost 110 ms.
        assert_eq!((yardstick.grid[0], yardstick.end_ms(), yardstick.evaluations), (110.0, 330.0, 3));
        assert!((yardstick.run_until_ms() - 363.0).abs() < 1e-9);
        // 1 draw: round(5.5) = 6th from the worst: 4; 2 draws: 3; 3 draws: 2. A straight line.
        for (at, value) in yardstick.baseline.iter().enumerate() {
            assert!((value - (4.0 - 2.0 * at as f64 / 999.0)).abs() < 1e-9, "{at}: {value}");
        }
        assert_eq!(random_cost(&ten()), 110.0 + 2.0 / 12.0 * 60.0);
    }

    #[test]
    fn what_cannot_be_scored_says_why() {
        let row = |objective_ns| Row { objective_ns, ..ten().remove(0) };
        let refused = |rows: Vec<Row>| Yardstick::new(&rows).unwrap_err();
        assert_eq!(refused(vec![row(None)]), NotScorable::AllFail);
        assert_eq!(refused(vec![row(Some(3.0)); 9]), NotScorable::TooEasy);
        assert_eq!(refused(vec![row(Some(1.0))]), NotScorable::TooEasy);
        let free = |row: Row| Row { cost: Default::default(), ..row };
        assert_eq!(refused(ten().into_iter().map(free).collect()), NotScorable::Free);
    }

    #[test]
    fn three_points_as_worked_out_by_hand() {
        // Rises 1 and 7: slopes 0 (the one-sided -2 turns back), 6 / (3/1 + 3/7) = 1.75, and 10.
        let curve = through(&[0.0, 1.0, 2.0], &[0.0, 1.0, 8.0], &[0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(curve, [0.0, 0.28125, 1.0, 3.46875, 8.0]);
    }

    #[test]
    fn straight_lines_stay_straight_and_turns_do_not_overshoot() {
        let at: Vec<f64> = (0..=40).map(|step| f64::from(step) / 10.0).collect();
        for (x, y) in at.iter().zip(through(&[0.0, 4.0], &[4.0, 2.0], &at)) {
            assert!((y - (4.0 - x / 2.0)).abs() < 1e-12);
        }
        for (x, y) in at.iter().zip(through(&[0.0, 1.0, 4.0], &[4.0, 3.0, 0.0], &at)) {
            assert!((y - (4.0 - x)).abs() < 1e-12);
        }
        let turning = through(&[0.0, 1.0, 2.0, 3.0, 4.0], &[9.0, 2.0, 2.0, 1.0, 1.5], &at);
        assert!(turning.iter().all(|y| (1.0..=9.0).contains(y)), "{turning:?}");
        assert!(turning[..=30].windows(2).all(|pair| pair[1] <= pair[0]), "{turning:?}");
    }
}
