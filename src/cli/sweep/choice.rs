//! Which strategy searches where the user names none. A sweep that is cut short is a random sample, and `evolve`
//! finds more with the same budget.

use evo_protocol::device::DeviceKind;
use evo_search::registry::{FULL, SWEPT_WHOLE_BELOW};
use evo_space::text::counted;

use crate::budget::Budget;

pub const EXHAUSTIVE: &str = "exhaustive";

/// The share of a wall budget that the search gets; the rest is for confirmation.
const SEARCH_SHARE: f64 = 0.75;

/// What is counted on, on the low side, so that a sweep which begins also ends: two cores of a host made 1 to 4
/// evaluations/s, and an H200 swept seven spaces at 17 to 92 (`evidence/h200`, 2026-11-21). A replay waits for nothing.
fn per_second(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Cuda => 15,
        DeviceKind::Host => 1,
        DeviceKind::Replay => 2_000,
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct StrategyChoice {
    pub strategy: &'static str,
    pub why: String,
}

/// `done` of the valid configurations have been evaluated by the run that is resumed.
pub fn choose(
    (valid, done): (u128, u64),
    kind: DeviceKind,
    budget: &Budget,
    population: u32,
) -> StrategyChoice {
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
    let (left, pace) = (valid.saturating_sub(u128::from(done)), per_second(kind));
    let covers = |seconds: f64| seconds * SEARCH_SHARE * f64::from(pace) >= left as f64;
    if let Some(seconds) = budget.wall.map(|wall| wall.as_secs_f64()).filter(|wall| !covers(*wall)) {
        let pace = counted(pace, "evaluation");
        return evolve(format!("{seconds:.0} s may not be enough for {left} configurations, at {pace}/s"));
    }
    let within = if *budget == Budget::default() { "" } else { ", which the budget covers" };
    let all = match valid {
        1 => "the only valid configuration".to_string(),
        _ => format!("all {valid} valid configurations"),
    };
    StrategyChoice { strategy: EXHAUSTIVE, why: format!("`{EXHAUSTIVE}` evaluates {all}{within}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason begins with the strategy's name.
    #[test]
    fn everything_is_evaluated_only_where_the_budget_covers_it() {
        let all = "`exhaustive` evaluates all 1000 valid configurations";
        let covered = format!("{all}, which the budget covers");
        let evolve = |why: &str| format!("`evolve` searches: {why}");
        let few = |count| evolve(&format!("{count} evaluations do not cover the 1000 valid configurations"));
        let many =
            |count| evolve(&format!("{count} valid configurations are too many to evaluate all of them"));
        let slow = evolve("1333 s may not be enough for 1000 configurations, at 1 evaluation/s");
        for (valid, limits, generations, why) in [
            (1000, &[][..], None, all.to_string()),
            (1000, &["1000"], None, covered.clone()),
            (1000, &["999"], None, few(999)),
            (1000, &[], Some(63), covered.clone()),
            (1000, &[], Some(62), few(992)),
            (1000, &["5000"], Some(2), few(32)),
            (1000, &["1334s"], None, covered),
            (1000, &["1333s"], None, slow),
            (1 << 80, &["99h"], None, many("1208925819614629174706176")),
            (2000, &[], None, many("2000")),
        ] {
            let budget = Budget { generations, ..Budget::default() };
            let budget = limits.iter().fold(budget, |budget, limit| budget.with_limit(limit).unwrap());
            let choice = choose((valid, 0), DeviceKind::Host, &budget, 16);
            assert_eq!(
                (choice.strategy, choice.why.as_str()),
                (why.split('`').nth(1).unwrap(), why.as_str())
            );
        }
        let minute = Budget::default().with_limit("60s").unwrap();
        let strategy = |done, kind| choose((1000, done), kind, &minute, 16).strategy;
        use DeviceKind::{Cuda, Host, Replay};
        let all = [(0, Replay), (990, Host), (500, Cuda)].map(|(done, kind)| strategy(done, kind));
        assert_eq!((all, strategy(0, Cuda)), ([EXHAUSTIVE; 3], FULL));
    }
}
