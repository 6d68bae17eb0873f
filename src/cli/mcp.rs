//! `evo mcp`: the commands as tools for a program that speaks the Model Context Protocol.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::answer::Answer;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::limits::duration;
use super::output;
use crate::mcp::{self, ToolSettings};
use crate::request::ask::Visibility;

/// Serves until stdin ends.
pub fn run(arguments: &McpArgs) -> Result<Answer, CliError> {
    let harness = |error: io::Error| CliError::harness(format!("cannot serve: {error}"));
    let visibility = match arguments.visibility {
        Visibility::Agent => "agent",
        Visibility::Owner => "owner",
    };
    let settings = ToolSettings {
        program: std::env::current_exe().map_err(harness)?,
        device: arguments.device.clone(),
        out: arguments.out.display().to_string(),
        visibility,
        time_limit_s: arguments.time_limit.as_secs().max(1),
    };
    let tools: Vec<&str> = mcp::names().collect();
    output::say(&format!("note: serving {} on stdin and stdout until stdin ends", tools.join(", ")));
    let stdin = io::BufReader::with_capacity(1 << 16, io::stdin());
    mcp::serve(&settings, stdin, Box::new(io::stdout())).map_err(harness)?;
    Ok(Answer::from(ExitCode::Done))
}

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
