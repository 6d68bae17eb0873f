//! The command: chooses rows, plays them one after the other, prints each as it ends.

use evo_space::diagnostic::nearest;

use super::bench::GateBench;
use super::play::{self, RowResult};
use super::rows::{GateRow, ROWS};
use super::table;
use crate::cli::answer::Answer;
use crate::cli::args::SelftestArgs;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;
use crate::cli::output;
use crate::cli::session::DeviceSetup;

/// Runs the command: 0 where every check that was asked for is worth something, 1 otherwise.
pub fn run(arguments: &SelftestArgs, setup: &DeviceSetup, seed: u64) -> Result<Answer, CliError> {
    let only = arguments.only.as_deref();
    let asked = |row: &&GateRow| only.is_none_or(|only| row.check.as_str().contains(only));
    let rows: Vec<&GateRow> = ROWS.iter().filter(asked).collect();
    if let (true, Some(only)) = (rows.is_empty(), only) {
        let near = nearest(only, ROWS.iter().map(|row| row.check.as_str()));
        let hint =
            near.map_or("without `--only` all of them run".into(), |near| format!("did you mean `{near}`?"));
        return Err(CliError::usage(format!("no check has `{only}` in its name")).with_hint(hint));
    }
    output::say(&format!("seed {seed}: repeat with --seed {seed}"));
    let kind = setup.choice.kind;
    let playing: Vec<&GateRow> = rows.iter().copied().filter(|row| row.runs_on(kind)).collect();
    let mut bench = GateBench::start(setup, &playing, seed)?;
    if !arguments.json {
        output::stdout(&table::header())?;
    }
    let mut results: Vec<RowResult> = Vec::new();
    for row in rows {
        let result = play::play(&mut bench, row)?;
        if !arguments.json {
            output::stdout(&table::line(&result))?;
        }
        results.push(result);
    }
    let passed = results.iter().all(|row| row.passed != Some(false));
    let exit = if passed { ExitCode::Done } else { ExitCode::Failed };
    if arguments.json {
        let whole = serde_json::json!({
            "device": bench.info()?, "seed": seed, "passed": passed, "rows": results,
        });
        return Ok(Answer::object(exit, &whole));
    }
    output::stdout(&table::summary(&results))?;
    Ok(exit.into())
}
