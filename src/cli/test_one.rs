//! `evo test-one`: one configuration through every gate, with what each saw; and `evo test`, the same without timing.

use super::aim::Aim;
use super::answer::Answer;
use super::args::TestOneArgs;
use super::call::Call;
use super::error::CliError;
use super::trial::{self, Tried};
use super::verdict_answer;
use crate::report::single;

/// Runs `evo test-one`.
pub fn run(arguments: &TestOneArgs, call: &Call) -> Result<Answer, CliError> {
    judge(arguments, call, Aim::Whole)
}

/// Runs `evo test`.
pub fn test(arguments: &TestOneArgs, call: &Call) -> Result<Answer, CliError> {
    judge(arguments, call, Aim::Gates)
}

fn judge(arguments: &TestOneArgs, call: &Call, aim: Aim) -> Result<Answer, CliError> {
    let tried = trial::run(arguments, call, aim, |_| Ok(()))?;
    let Tried { setting, single, .. } = &tried;
    let own = single::json(setting, &single.evaluation, &single.attributes);
    verdict_answer::show(arguments, call, &tried, aim, own, "")
}
