//! `evo mcp`: the commands as tools for a program that speaks the Model Context Protocol.

use std::io;

use super::answer::Answer;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::mcp_args::McpArgs;
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
