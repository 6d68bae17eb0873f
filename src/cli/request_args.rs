//! The options by which `evo evaluate` takes requests.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use evo_protocol::request::Visibility;

use crate::request::emit::EmitForm;

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
    /// Whether requests are taken.
    pub fn are_taken(&self) -> bool {
        self.request.is_some() || self.serve || self.stdin
    }
}
