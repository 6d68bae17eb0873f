//! `--grid FILE`: problems beyond those of the space, for one evaluation.

use evo_protocol::envelope::{ErrorCode, ErrorPlace};

use super::error::CliError;
use super::evaluate::EvaluateArgs;
use super::words;
use crate::kernel::load::candidate;
use crate::regular;

/// The arguments with the problems of `--grid`; nothing where there is none.
pub fn read(arguments: &EvaluateArgs) -> Result<Option<EvaluateArgs>, CliError> {
    let Some(path) = &arguments.grid else { return Ok(None) };
    let one = &arguments.one;
    if arguments.requests.are_taken() && one.words.is_empty() {
        return Err(CliError::usage("`--grid` needs a space on the command line")
            .with_hint("its sizes are those of one space: `evo evaluate my.toml --serve --grid FILE`"));
    }
    let space = words::named_space(&one.words).open(one.run.access.access())?;
    let shown = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        CliError::usage(format!("cannot read the grid `{shown}`: {error}"))
            .with_code(ErrorCode::BadFile)
            .with_hint("it is a TOML or JSON text with `[[problems]]`, as space files have them")
            .at(ErrorPlace { file: shown.clone(), line: None, column: None })
    };
    let text = regular::open(path).and_then(candidate::read_grid_text).map_err(unreadable)?;
    let problems = candidate::grid_problems(&shown, &text, &space)?;
    let mut own = arguments.clone();
    own.one.grid = problems;
    Ok(Some(own))
}
