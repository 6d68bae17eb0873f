//! The options by which evo takes requests, and `evo serve --mcp` with `evo mcp`: the commands as tools for a program that
//! speaks the Model Context Protocol.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use evo_protocol::request::Visibility;
use schemars::Schema;

use super::answer::Answer;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::limits::total;
use super::output;
use crate::mcp::{self, ToolSettings};
use crate::request::emit::EmitForm;

pub fn run(arguments: &McpArgs, schema_of: fn(&str) -> Option<Schema>) -> Result<Answer, CliError> {
    let harness = |error: io::Error| CliError::harness(format!("cannot serve: {error}"));
    let visibility = if arguments.visibility == Visibility::Owner { "owner" } else { "agent" };
    let options = vec![
        ("device", arguments.device.clone()),
        ("out", arguments.out.display().to_string()),
        ("visibility", visibility.to_string()),
        ("time-limit", format!("{}s", arguments.time_limit.as_secs_f64())),
    ];
    let program = std::env::current_exe().map_err(harness)?;
    let settings = ToolSettings { program, options, schema_of };
    let tools: Vec<&str> = mcp::names().collect();
    output::say(&format!("note: serving {} on stdin and stdout until stdin ends", tools.join(", ")));
    mcp::serve(settings, io::BufReader::new(io::stdin()), Box::new(io::stdout())).map_err(harness)?;
    Ok(Answer::from(ExitCode::Done))
}

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
    #[arg(long = "time-limit", value_name = "TIME", default_value = "300s", value_parser = total, allow_negative_numbers = true)]
    pub time_limit: Duration,
}

/// Who reads answers, as a flag says it.
pub fn visibility() -> impl TypedValueParser<Value = Visibility> {
    let words = PossibleValuesParser::new(["agent", "owner"]);
    words.map(|word| if word == "owner" { Visibility::Owner } else { Visibility::Agent })
}

/// Requests instead of a candidate in words and flags.
#[derive(Clone, Debug, Default, Args)]
pub struct RequestArgs {
    /// Answer the JSON request in this file, or on stdin with `-`; exit code 0 means that an answer was given
    #[arg(long, value_name = "FILE|-", help_heading = "Requests", conflicts_with_all = ["serve", "stdin"])]
    pub request: Option<PathBuf>,
    /// Answer a JSON request a line from stdin, and compile the next one ahead
    #[arg(long, help_heading = "Requests", conflicts_with = "stdin")]
    pub serve: bool,
    /// Answer a JSON request a line from stdin, one after the other
    #[arg(long, help_heading = "Requests")]
    pub stdin: bool,
    /// Go no further than all gates and a screening: nothing is compared side by side, and nothing is accepted
    #[arg(long, help_heading = "Requests")]
    pub quick: bool,
    /// Who reads the answers [default: as a request says, else agent]; `agent` cannot be undone by a request
    #[arg(
        long,
        value_parser = visibility(),
        value_name = "agent|owner",
        help_heading = "Requests",
        hide_possible_values = true
    )]
    pub visibility: Option<Visibility>,
    /// Write answers in the form of another program
    #[arg(long, value_enum, value_name = "FORM", help_heading = "Requests")]
    pub emit: Option<EmitForm>,
}

impl RequestArgs {
    pub fn are_taken(&self) -> bool {
        self.request.is_some() || self.serve || self.stdin
    }
}
