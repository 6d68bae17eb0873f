//! Which options go together where `evo evaluate` takes requests.

use crate::cli::error::CliError;
use crate::cli::evaluate::EvaluateArgs;
use crate::cli::words;

/// Refuses flags that need requests where none are taken, and a candidate in words where they are.
pub fn check(arguments: &EvaluateArgs) -> Result<(), CliError> {
    let own = &arguments.requests;
    if !own.are_taken() {
        let alone = [
            (own.quick, "--quick"),
            (own.visibility.is_some(), "--visibility"),
            (own.emit.is_some(), "--emit"),
        ];
        return match alone.iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) => {
                Err(CliError::usage(format!("`{flag}` is about requests, and none are taken"))
                    .with_hint("add `--request FILE`, `--serve` or `--stdin`"))
            }
            None => Ok(()),
        };
    }
    let one = &arguments.one;
    let named = words::named_space(&one.words);
    let given = [
        (!named.values.is_empty(), "values on the command line"),
        (one.candidate.is_given(), "`--config`, `--source` or `--launch`"),
        (arguments.against.is_some(), "`--against`"),
        (one.run.json && own.request.is_none(), "`--json`"),
        (arguments.sanitize, "`--sanitize`, which is not served there,"),
        (arguments.profile, "`--profile`, for which a request has `feedback.profile`,"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, what)) => Err(CliError::usage(format!("requests and {what} at once"))
            .with_hint("a request names its candidate and its baseline, and every answer is JSON")),
        None => Ok(()),
    }
}
