//! Limits of a run, the clock that they are read on, and why it ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Without any limit, the run ends when the strategy has nothing more to propose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// Evaluations in the study, earlier runs included.
    pub evaluations: Option<u64>,
    /// Wall time of this run's command, from its start to its table.
    pub wall: Option<Duration>,
    pub generations: Option<u32>,
}

impl Budget {
    /// Adds a limit written as `500` (evaluations) or `90s`, `10m`, `2h` (wall time).
    pub fn with_limit(mut self, text: &str) -> Result<Budget, BudgetError> {
        let fail = || BudgetError(text.to_string());
        if text.chars().all(|letter| letter.is_ascii_digit()) {
            let evaluations: u64 = text.parse().map_err(|_| fail())?;
            self.evaluations = Some(evaluations).filter(|count| *count > 0);
            self.evaluations.ok_or_else(fail)?;
        } else {
            self.wall = Some(duration(text).ok_or_else(fail)?);
        }
        Ok(self)
    }
}

/// A time written as `90s`, `10m` or `2h`; `None` for anything else, and for none at all.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    let seconds = number.parse::<u64>().ok()?.checked_mul(factor)?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[derive(Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a budget")]
pub struct BudgetError(String);

impl BudgetError {
    pub fn hint(&self) -> &'static str {
        "write evaluations (`500`) or wall time (`90s`, `10m`, `2h`)"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    SpaceExhausted,
    StrategyDone,
    Evaluations,
    Wall,
    Generations,
    /// Ctrl-C; resumable.
    Interrupted,
    DeviceLost,
    /// Too many variants could not be judged, for reasons that were not theirs; resumable.
    Harness,
}

impl StopReason {
    /// Whether the run was cut short and waits to be resumed.
    pub fn is_early(self) -> bool {
        matches!(self, StopReason::Interrupted | StopReason::DeviceLost | StopReason::Harness)
    }

    /// Whether nothing more is begun, not even a variant that was begun before.
    pub fn is_cut(self) -> bool {
        self.is_early() || self == StopReason::Wall
    }

    pub fn describe(self) -> &'static str {
        match self {
            StopReason::SpaceExhausted => "every valid configuration was evaluated",
            StopReason::StrategyDone => "the strategy has nothing more to propose",
            StopReason::Evaluations => "the budget of evaluations is used up",
            StopReason::Wall => "the wall time is used up",
            StopReason::Generations => "the last generation is complete",
            StopReason::Interrupted => "interrupted; continue with `--resume`",
            StopReason::DeviceLost => "the device is lost; continue with `--resume` once it is back",
            StopReason::Harness => "too many variants could not be judged; continue with `--resume`",
        }
    }
}

/// The time since a command began. Budgets and journal stamps read this clock alone, so that a test can play hours of it,
/// and nothing before the first evaluation is left out. Copies agree.
#[derive(Clone, Debug)]
pub enum CommandClock {
    Real(Instant),
    /// For tests.
    #[doc(hidden)]
    Scripted(Arc<AtomicU64>),
}

impl CommandClock {
    pub fn start() -> CommandClock {
        CommandClock::Real(Instant::now())
    }

    #[doc(hidden)]
    pub fn scripted(milliseconds: &Arc<AtomicU64>) -> CommandClock {
        CommandClock::Scripted(Arc::clone(milliseconds))
    }

    pub fn elapsed(&self) -> Duration {
        match self {
            CommandClock::Real(began) => began.elapsed(),
            CommandClock::Scripted(time_ms) => Duration::from_millis(time_ms.load(Ordering::Relaxed)),
        }
    }

    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let check = |text: &str, evaluations, seconds: Option<u64>| {
            let budget = Budget::default().with_limit(text).unwrap();
            assert_eq!((budget.evaluations, budget.wall), (evaluations, seconds.map(Duration::from_secs)));
        };
        check("500", Some(500), None);
        check("90s", None, Some(90));
        check("10m", None, Some(600));
        check("2h", None, Some(7200));
        for bad in ["", "x", "0", "-3", "10d", "1.5h", "99999999999999999999", "18446744073709551615h"] {
            assert!(Budget::default().with_limit(bad).is_err(), "{bad}");
        }
    }
}
