//! Limits of a run, and why it ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Each limit that is set ends the run; none set means the strategy's own end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    pub evaluations: Option<u64>,
    pub wall: Option<Duration>,
    pub generations: Option<u32>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Every valid configuration was evaluated.
    SpaceExhausted,
    /// The strategy had nothing more to propose.
    StrategyDone,
    Evaluations,
    Wall,
    Generations,
    /// Ctrl-C; resumable.
    Interrupted,
    /// The device is gone.
    DeviceLost,
}
