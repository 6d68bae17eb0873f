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

    /// The reason begins with the strategy's name.
    #[track_caller]
    fn check(outlook: Outlook, limits: &[&str], generations: Option<u32>, why: &str) {
        let budget = Budget { generations, ..Budget::default() };
        let budget = limits.iter().fold(budget, |budget, limit| budget.with_limit(limit).unwrap());
        let choice = choose(outlook, &budget, 16);
        assert_eq!((choice.strategy, choice.why.as_str()), (why.split('`').nth(1).unwrap(), why));
    }

    #[test]
    fn everything_is_evaluated_only_where_the_budget_covers_it() {
        let all = "`exhaustive` evaluates all 1000 valid configurations";
        let covered = format!("{all}, which the budget covers");
        let evolve = |why: &str| format!("`evolve` searches: {why}");
        let few = |count| evolve(&format!("{count} evaluations do not cover the 1000 valid configurations"));
        let many =
            |count| evolve(&format!("{count} valid configurations are too many to evaluate all of them"));
        let slow = evolve("60 s cover about 675 of 1000 configurations, at 15 evaluations/s (assumed)");
        for (valid, limits, generations, why) in [
            (1000, &[][..], None, all.to_string()),
            (1000, &["1000"], None, covered.clone()),
            (1000, &["999"], None, few(999)),
            (1000, &[], Some(63), covered.clone()),
            (1000, &[], Some(62), few(992)),
            (1000, &["5000"], Some(2), few(32)),
            (1000, &["90s"], None, covered),
            (1000, &["60s"], None, slow),
            (1 << 80, &["99h"], None, many("1208925819614629174706176")),
            (2000, &[], None, many("2000")),
        ] {
            let outlook = Outlook { valid, done: 0, pace: Pace::assumed(DeviceKind::Cuda) };
            check(outlook, limits, generations, &why);
        }
    }

    #[test]
    fn what_an_earlier_run_did_and_how_fast_counts() {
        let outlook =
            |done, per_second| Outlook { valid: 1000, done, pace: Pace::measured(per_second).unwrap() };
        let covered = "`exhaustive` evaluates all 1000 valid configurations, which the budget covers";
        check(outlook(900, 2.5), &["60s"], None, covered);
        let why = "`evolve` searches: 60 s cover about 112 of 1000 configurations, at 2.5 evaluations/s (measured before)";
        check(outlook(0, 2.5), &["60s"], None, why);
        let why = "`evolve` searches: 60 s cover about 45 of 1000 configurations, at 1 evaluation/s (measured before)";
        check(outlook(0, 1.0), &["60s"], None, why);
        assert_eq!((Pace::measured(0.0), Pace::measured(f64::NAN)), (None, None));
    }
}
