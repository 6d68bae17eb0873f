//! `evo test-one`: one configuration through every gate, with what each saw; and `evo test`, the same without timing. A
//! candidate that passed on a GPU is then looked at by compute-sanitizer: accesses out of bounds and races may leave
//! every answer right.

use evo_protocol::verdict::GateState;

use super::aim::{Aim, SANITIZE};
use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::evaluate::sanitized;
use super::judge_args::{JudgeArgs, SanitizeDuty};
use super::trial::{self, Tried};
use super::verdict_answer;
use crate::report::single;

/// Runs `evo test-one`.
pub fn run(arguments: &JudgeArgs, call: &Call) -> Result<Answer, CliError> {
    judge(arguments, call, Aim::Whole)
}

/// Runs `evo test`.
pub fn test(arguments: &JudgeArgs, call: &Call) -> Result<Answer, CliError> {
    judge(arguments, call, Aim::Gates)
}

fn judge(arguments: &JudgeArgs, call: &Call, aim: Aim) -> Result<Answer, CliError> {
    let one = &arguments.one;
    let asked = trial::ask(one, call, aim)?;
    let duty = arguments.sanitize.duty(asked.setup.choice.kind, asked.kernel()?.check.demands_sanitizer)?;
    let mut tried = trial::run_asked(asked, one, call, aim, |_| Ok(()))?;
    let absent = sanitize(arguments, duty, &mut tried)?;
    let Tried { setting, single, .. } = &tried;
    let own = single::json(setting, &single.evaluation, &single.attributes);
    verdict_answer::show_without(one, call, &tried, aim, absent, own, "")
}

/// Looks for faults in a candidate that passed; a finding is its verdict. The name of the answer that was demanded and is
/// missing.
fn sanitize(
    arguments: &JudgeArgs,
    duty: SanitizeDuty,
    tried: &mut Tried<()>,
) -> Result<Option<&'static str>, CliError> {
    let Some(job) = tried.job.as_ref().filter(|_| duty.runs) else { return Ok(None) };
    if !tried.single.evaluation.verdict.is_pass() || tried.single.lost {
        return Ok(None);
    }
    let (report, verdict) = sanitized(&arguments.one, &tried.asked, job, !duty.is_demanded)?;
    tried.single.evaluation.sanitized(&report, verdict.as_ref());
    Ok((duty.is_demanded && report.state == GateState::NotRun).then_some(SANITIZE))
}
