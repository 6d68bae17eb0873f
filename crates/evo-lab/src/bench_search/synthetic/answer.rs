//! What the command answers on synthetic spaces.

use super::compare::{self, YARDSTICK};
use super::{json, table};
use crate::args::BenchSearchArgs;
use crate::error::LabError;

/// The answer on the spaces of these names, or on all of them.
pub fn answer(arguments: &BenchSearchArgs, names: &[String]) -> Result<String, LabError> {
    let spaces = compare::open(names)?;
    let mut compared = arguments.known_strategies()?;
    // Results are counted against random search, so it always runs.
    if !compared.contains(&YARDSTICK) {
        compared.push(YARDSTICK);
    }
    let comparison = compare::compare(arguments, spaces, &compared)?;
    Ok(if arguments.json {
        format!("{}\n", json::object(arguments, &comparison))
    } else {
        table::text(&comparison)
    })
}
