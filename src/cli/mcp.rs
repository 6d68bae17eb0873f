//! `evo serve --mcp` and `evo mcp`: the commands as tools for a program that speaks the Model Context Protocol.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evo_protocol::request::Visibility;

use super::answer::Answer;
use super::answers;
use super::error::CliError;
use super::evaluate::EvaluateArgs;
use super::exit_code::ExitCode;
use super::limits::duration;
use super::output;
use super::request_args::visibility;
use crate::mcp::{self, ToolSettings};

/// Serves until stdin ends.
pub fn run(arguments: &McpArgs) -> Result<Answer, CliError> {
    let harness = |error: io::Error| CliError::harness(format!("cannot serve: {error}"));
    let visibility = if arguments.visibility == Visibility::Owner { "owner" } else { "agent" };
    let options = vec![
        ("device", arguments.device.clone()),
        ("out", arguments.out.display().to_string()),
        ("visibility", visibility.to_string()),
        ("time-limit", format!("{}s", arguments.time_limit.as_secs().max(1))),
    ];
    let settings = ToolSettings {
        program: std::env::current_exe().map_err(harness)?,
        options,
        schema_of: answers::command,
    };
    let tools: Vec<&str> = mcp::names().collect();
    output::say(&format!("note: serving {} on stdin and stdout until stdin ends", tools.join(", ")));
    mcp::serve(settings, io::BufReader::new(io::stdin()), Box::new(io::stdout())).map_err(harness)?;
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
    #[arg(long, value_parser = visibility(), default_value = "agent", value_name = "agent|owner", hide_possible_values = true)]
    pub visibility: Visibility,
    /// Longest wait for an answer of `evaluate` and `compare`
    #[arg(long = "time-limit", value_name = "TIME", default_value = "300s", value_parser = duration, allow_negative_numbers = true)]
    pub time_limit: Duration,
}

/// `evo serve`
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Speak the Model Context Protocol: evo's commands as tools, for which `--device`, `--out`, `--visibility` and `--time-limit` hold
    #[arg(long, conflicts_with_all = ["words", "space", "request", "serve", "stdin", "quick", "emit", "json"])]
    pub mcp: bool,
    #[command(flatten)]
    pub evaluate: EvaluateArgs,
}
