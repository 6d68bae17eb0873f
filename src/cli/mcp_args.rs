//! The options of `evo mcp`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::limits::duration;
use crate::request::ask::Visibility;

/// `evo mcp`
#[derive(Debug, Args)]
pub struct McpArgs {
    /// `auto`, `host`, `cuda` or `cuda:INDEX`, for all tools
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Folder for the records of all tools
    #[arg(long = "out", value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// What an answer of `evaluate` tells: `agent` hides seeds, values, tolerances and hidden shapes
    #[arg(long, value_enum, default_value_t = Visibility::Agent, value_name = "agent|owner", hide_possible_values = true)]
    pub visibility: Visibility,
    /// Longest wait for an answer of `evaluate` and `compare`
    #[arg(long = "time-limit", value_name = "TIME", default_value = "300s", value_parser = duration, allow_negative_numbers = true)]
    pub time_limit: Duration,
}
