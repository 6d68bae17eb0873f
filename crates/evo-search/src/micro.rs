//! Whether a cheap ranking holds for the real problems: the rank correlation between the two, over the first few
//! configurations that were measured.

use evo_protocol::verdict::VerdictClass;
use serde::{Deserialize, Serialize};

/// So many measured configurations decide whether a ranking is believed.
pub(crate) const JUDGED: usize = 8;

/// Below this correlation a ranking says too little. Of eight pairs in no relation, Spearman's coefficient is 0.3 or
/// more about one time in four.
const CORRELATION_MIN: f64 = 0.3;

/// A cheap ranking beside the measured one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroAgreement {
    /// Configurations of the ranking that were measured here.
    pub measured: usize,
    /// Spearman's rank correlation over the first eight of them; `None` where there are fewer, or where all of them
    /// failed or took the same time.
    pub spearman: Option<f64>,
    /// Whether the rest of the ranking was dropped.
    pub dropped: bool,
}

impl MicroAgreement {
    /// So many measured configurations decide.
    pub const JUDGED: usize = JUDGED;

    /// The agreement of outcomes in the order in which they came: place in the ranking, and time in nanoseconds,
    /// infinite for a failure.
    pub(crate) fn of(outcomes: &[(usize, f64)]) -> MicroAgreement {
        let measured = outcomes.len();
        if measured < JUDGED {
            return MicroAgreement { measured, spearman: None, dropped: false };
        }
        let pairs: Vec<(f64, f64)> =
            outcomes[..JUDGED].iter().map(|(place, time)| (*place as f64, *time)).collect();
        let spearman = spearman(&pairs);
        // Where nothing can be said for the ranking, nothing speaks for trying more of it.
        let dropped = spearman.is_none_or(|own| own < CORRELATION_MIN);
        MicroAgreement { measured, spearman, dropped }
    }
}

/// The time that an outcome counts with; `None` where it says nothing about the variant.
pub(crate) fn counted_time(class: VerdictClass, objective_ns: Option<f64>) -> Option<f64> {
    match class {
        VerdictClass::Harness | VerdictClass::PassedOver => None,
        // A variant that was given up has an estimate, which places it behind the ones that were not.
        VerdictClass::Ok | VerdictClass::Slow | VerdictClass::Noisy => {
            Some(objective_ns.filter(|time| time.is_finite() && *time > 0.0).unwrap_or(f64::INFINITY))
        }
        // The ranking promised a fast variant, and there is none.
        _ => Some(f64::INFINITY),
    }
}

/// Spearman's rank correlation, -1 to 1, with the mean rank for equal values; `None` for fewer than two pairs, or
/// where one side has a single value. (Spearman 1904; with ties it is Pearson's coefficient of the ranks.)
pub(crate) fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let ranks = |of: fn(&(f64, f64)) -> f64| mean_ranks(&pairs.iter().map(of).collect::<Vec<_>>());
    let (x, y) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    // The mean of the ranks 1 to n, ties or not.
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let spread = (product(&x, &x) * product(&y, &y)).sqrt();
    (pairs.len() >= 2 && spread > 0.0).then(|| product(&x, &y) / spread)
}

/// Ranks from 1; equal values share the mean of theirs.
fn mean_ranks(values: &[f64]) -> Vec<f64> {
    let rank = |own: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(own).is_lt()).count();
        let equal = values.iter().filter(|other| other.total_cmp(own).is_eq()).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(times: &[f64], expected: Option<f64>) {
        let pairs: Vec<(f64, f64)> = times.iter().enumerate().map(|(at, time)| (at as f64, *time)).collect();
        match (spearman(&pairs), expected) {
            (Some(own), Some(expected)) => assert!((own - expected).abs() < 1e-12, "{times:?}: {own}"),
            (own, expected) => assert_eq!(own, expected, "{times:?}"),
        }
    }

    #[test]
    fn ranks_decide_and_not_sizes() {
        check(&[1.0, 2.0, 1e9, f64::INFINITY], Some(1.0));
        check(&[4.0, 3.0, 2.0, 1.0], Some(-1.0));
        // 1 - 6 Σd² / n(n² - 1) with d = (1, -1, 0).
        check(&[2.0, 1.0, 3.0], Some(0.5));
        // Ties share a rank: ranks 1.5, 1.5, 3 against 1, 2, 3.
        check(&[1.0, 1.0, 2.0], Some(3.0_f64.sqrt() / 2.0));
        check(&[1.0, 1.0, 1.0], None);
        check(&[f64::INFINITY; 8], None);
        check(&[1.0], None);
        check(&[], None);
    }

    #[test]
    fn eight_outcomes_decide() {
        let agreement = |times: &[f64]| {
            let outcomes: Vec<(usize, f64)> = times.iter().copied().enumerate().collect();
            MicroAgreement::of(&outcomes)
        };
        let good = [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0];
        let few = agreement(&good[..7]);
        assert_eq!((few.measured, few.spearman, few.dropped), (7, None, false));
        assert!(!agreement(&good).dropped && agreement(&good).spearman.unwrap() > 0.9);
        let mut bad = good;
        bad.reverse();
        assert!(agreement(&bad).dropped);
        assert!(agreement(&[f64::INFINITY; 8]).dropped, "nothing speaks for it");
        // What comes later changes nothing.
        assert_eq!(agreement(&[&good[..], &[0.1; 8]].concat()).spearman, agreement(&good).spearman);
    }

    #[test]
    fn failures_count_and_trouble_does_not() {
        assert_eq!(counted_time(VerdictClass::Ok, Some(5.0)), Some(5.0));
        assert_eq!(counted_time(VerdictClass::Slow, Some(7.0)), Some(7.0));
        assert_eq!(counted_time(VerdictClass::Slow, None), Some(f64::INFINITY));
        assert_eq!(counted_time(VerdictClass::Wrong, None), Some(f64::INFINITY));
        assert_eq!(counted_time(VerdictClass::PassedOver, Some(5.0)), None);
        assert_eq!(counted_time(VerdictClass::Harness, None), None);
    }
}
