//! Which strategy searches where the user names none. A sweep that is cut short is a random sample, and `evolve`
//! finds more with the same budget.

use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_search::registry::{FULL, SWEPT_WHOLE_BELOW};
use evo_space::text::counted;

use crate::budget::Budget;
use crate::report::text::rate;

pub const EXHAUSTIVE: &str = "exhaustive";

/// The share of a wall budget that the search gets; the rest is for confirmation.
const SEARCH_SHARE: f64 = 0.75;

#[derive(Debug, PartialEq, Eq)]
pub struct StrategyChoice {
    pub strategy: &'static str,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    pub per_second: f64,
    pub is_measured: bool,
}

impl Pace {
    /// What is assumed of a device before anything was measured, on the low side, so that a sweep which begins also
    /// ends: an H200 swept seven spaces at 17 to 92 evaluations/s (`evidence/h200`, 2026-11-21), and two cores of a
    /// host at 1 to 4. A replay waits for nothing.
    pub fn assumed(kind: DeviceKind) -> Pace {
        let per_second = match kind {
            DeviceKind::Cuda => 15.0,
            DeviceKind::Host => 1.0,
            DeviceKind::Replay => 2_000.0,
        };
        Pace { per_second, is_measured: false }
    }

    pub fn measured(per_second: f64) -> Option<Pace> {
        (per_second.is_finite() && per_second > 0.0).then_some(Pace { per_second, is_measured: true })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    pub valid: u128,
    pub done: u64,
    pub pace: Pace,
}

pub fn choose(outlook: Outlook, budget: &Budget, population: u32) -> StrategyChoice {
    let Outlook { valid, done, pace } = outlook;
    let evolve = |why: String| StrategyChoice { strategy: FULL, why: format!("`{FULL}` searches: {why}") };
    if valid >= SWEPT_WHOLE_BELOW {
        return evolve(format!("{valid} valid configurations are too many to evaluate all of them"));
    }
    let by_generation = budget.generations.map(|count| u64::from(count) * u64::from(population));
    let limit = budget.evaluations.into_iter().chain(by_generation).min();
    if let Some(limit) = limit.filter(|limit| u128::from(*limit) < valid) {
        let verb = if limit == 1 { "does" } else { "do" };
        let all = format!("the {valid} valid configurations");
        return evolve(format!("{} {verb} not cover {all}", counted(limit, "evaluation")));
    }
    let left = valid.saturating_sub(u128::from(done));
    if let Some(wall) = budget.wall.filter(|wall| covered(*wall, pace) < left as f64) {
        let source = if pace.is_measured { "measured before" } else { "assumed" };
        return evolve(format!(
            "{} s cover about {:.0} of {left} configurations, at {} ({source})",
            wall.as_secs(),
            covered(wall, pace),
            shown(pace.per_second)
        ));
    }
    let within = if *budget == Budget::default() { "" } else { ", which the budget covers" };
    let all = match valid {
        1 => "the only valid configuration".to_string(),
        _ => format!("all {valid} valid configurations"),
    };
    StrategyChoice { strategy: EXHAUSTIVE, why: format!("`{EXHAUSTIVE}` evaluates {all}{within}") }
}

/// Evaluations that a search may make in that time.
fn covered(wall: Duration, pace: Pace) -> f64 {
    (wall.as_secs_f64() * SEARCH_SHARE * pace.per_second).floor()
}

fn shown(per_second: f64) -> String {
    if per_second < 0.1 {
        return rate(per_second, " evaluations");
    }
    let number = match per_second < 10.0 && per_second.fract() != 0.0 {
        true => format!("{per_second:.1}"),
        false => format!("{per_second:.0}"),
    };
    let unit = if number == "1" { "evaluation" } else { "evaluations" };
    format!("{number} {unit}/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(valid: u128, limits: &[&str], generations: Option<u32>, expected: &str, why: &str) {
        let outlook = Outlook { valid, done: 0, pace: Pace::assumed(DeviceKind::Cuda) };
        check_of(outlook, limits, generations, expected, why);
    }

    #[track_caller]
    fn check_of(outlook: Outlook, limits: &[&str], generations: Option<u32>, expected: &str, why: &str) {
        let budget = Budget { generations, ..Budget::default() };
        let budget = limits.iter().fold(budget, |budget, limit| budget.with_limit(limit).unwrap());
        let choice = choose(outlook, &budget, 16);
        assert_eq!((choice.strategy, choice.why.as_str()), (expected, why));
    }

    #[test]
    fn everything_is_evaluated_only_where_the_budget_covers_it() {
        let all = "`exhaustive` evaluates all 1000 valid configurations";
        let covered = format!("{all}, which the budget covers");
        check(1000, &[], None, "exhaustive", all);
        check(1000, &["1000"], None, "exhaustive", &covered);
        check(
            1000,
            &["999"],
            None,
            "evolve",
            "`evolve` searches: 999 evaluations do not cover the 1000 valid configurations",
        );
        check(1000, &[], Some(63), "exhaustive", &covered);
        check(
            1000,
            &[],
            Some(62),
            "evolve",
            "`evolve` searches: 992 evaluations do not cover the 1000 valid configurations",
        );
        check(
            1000,
            &["5000"],
            Some(2),
            "evolve",
            "`evolve` searches: 32 evaluations do not cover the 1000 valid configurations",
        );
        check(1000, &["90s"], None, "exhaustive", &covered);
        check(
            1000,
            &["60s"],
            None,
            "evolve",
            "`evolve` searches: 60 s cover about 675 of 1000 configurations, at 15 evaluations/s (assumed)",
        );
        check(
            1 << 80,
            &["99h"],
            None,
            "evolve",
            "`evolve` searches: 1208925819614629174706176 valid configurations are too many to evaluate all of them",
        );
        check(
            2000,
            &[],
            None,
            "evolve",
            "`evolve` searches: 2000 valid configurations are too many to evaluate all of them",
        );
    }

    #[test]
    fn what_an_earlier_run_did_and_how_fast_counts() {
        let pace = Pace::measured(2.5).unwrap();
        let outlook = Outlook { valid: 1000, done: 900, pace };
        let covered = "`exhaustive` evaluates all 1000 valid configurations, which the budget covers";
        check_of(outlook, &["60s"], None, "exhaustive", covered);
        let outlook = Outlook { done: 0, ..outlook };
        let why = "`evolve` searches: 60 s cover about 112 of 1000 configurations, at 2.5 evaluations/s (measured before)";
        check_of(outlook, &["60s"], None, "evolve", why);
        let outlook = Outlook { pace: Pace::measured(1.0).unwrap(), ..outlook };
        let why = "`evolve` searches: 60 s cover about 45 of 1000 configurations, at 1 evaluation/s (measured before)";
        check_of(outlook, &["60s"], None, "evolve", why);
        assert_eq!(Pace::measured(0.0), None);
        assert_eq!(Pace::measured(f64::NAN), None);
    }
}
