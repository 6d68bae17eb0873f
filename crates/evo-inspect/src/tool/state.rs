//! What became of a tool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a tool answered. Only `Ok` says anything about what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    Ok,
    Missing,
    /// This user may not do what it does.
    Refused,
    /// This version does not fit the driver, the device or what is asked of it.
    Incompatible,
    Busy,
    TimedOut,
    /// It failed in another way, or said nothing that can be read.
    Broken,
}

impl ToolState {
    pub fn as_str(self) -> &'static str {
        match self {
            ToolState::Ok => "ok",
            ToolState::Missing => "missing",
            ToolState::Refused => "refused",
            ToolState::Incompatible => "incompatible",
            ToolState::Busy => "busy",
            ToolState::TimedOut => "timed_out",
            ToolState::Broken => "broken",
        }
    }
}

/// Why a tool gave no answer. Never `Ok`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    pub state: ToolState,
    /// Lower case, with the tool's name and the end of what it said.
    pub message: String,
    /// What a person can do about it, without the word `hint`.
    pub hint: Option<String>,
}

impl ToolFailure {
    pub fn new(state: ToolState, message: impl Into<String>) -> ToolFailure {
        ToolFailure { state, message: message.into(), hint: None }
    }

    pub fn with_hint(self, hint: impl Into<String>) -> ToolFailure {
        ToolFailure { hint: Some(hint.into()), ..self }
    }
}
