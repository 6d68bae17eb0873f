//! What tools say of a candidate that `evo evaluate` judged: a sanitizer, whose answer is demanded where it was asked
//! for, and a profiler, which decides nothing.

use evo_protocol::verdict::{GateReport, GateState, Verdict};
use serde_json::Value;

use super::aim::SANITIZE;
use super::counters::{CounterOrder, CounterSubject, look, sources_of};
use super::device_lane;
use super::error::CliError;
use super::host_twin::{HostTwin, look_beside};
use super::judged_candidate::JudgedCandidate;
use super::one_args::TestOneArgs;
use super::sanitize::tool_on;
use super::trial::AskedCandidate;
use crate::inspect::profile::MetricSet;
use crate::inspect::sanitize::{LookOrder, look as look_at};
use crate::report::profile::fields;
use crate::supervise::job::Job;

/// Looks for faults with a sanitizer. A finding is the candidate's verdict; an answer that is missing counts among the
/// gates that were demanded and did not run.
pub fn sanitize(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    judged: &mut JudgedCandidate,
) -> Result<(), CliError> {
    let Some(job) = judged.job.as_ref().filter(|_| judged.findings.correct) else { return Ok(()) };
    let (report, verdict) = sanitized(one, asked, job, false)?;
    let is_missing = report.state == GateState::NotRun;
    judged.single.evaluation.sanitized(&report, verdict.as_ref());
    if let Some(verdict) = verdict {
        judged.findings.correct = false;
        judged.findings.not_compared = Some(format!("the sanitizer found a fault: {}", verdict.label()));
        judged.score = None;
    } else if is_missing {
        let is_allowed = one.allow_not_run.iter().any(|name| name == SANITIZE);
        let names = if is_allowed { &mut judged.allowed } else { &mut judged.findings.missing };
        names.push(SANITIZE.to_string());
    }
    Ok(())
}

/// The gate's report on a job, and the verdict on what was found: by compute-sanitizer, and beside it by the host device.
/// Where nobody demands it, the small shapes are enough.
pub fn sanitized(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    job: &Job,
    small_only: bool,
) -> Result<(GateReport, Option<Verdict>), CliError> {
    let kind = asked.setup.choice.kind;
    let options =
        device_lane::lane_options(&asked.setup, one.run.worker_command.as_deref(), Some(asked.kernel()?))?;
    let tool = tool_on(kind, None);
    let order = LookOrder {
        kind,
        tool: tool.as_ref(),
        checks: &asked.kernel()?.check.sanitizers,
        options: &options,
        job,
        small_only,
        limit: one.run.limits.limit_tool,
        within: None,
    };
    let twin = HostTwin::beside(kind, &asked.candidate.file, asked.setup.sandbox, asked.seed);
    let look = look_beside(twin.as_ref(), asked, order.limit, || look_at(&order));
    Ok((look.report(), look.verdict()))
}

/// A profile of a candidate that passed, on its first timed problem; an inner error is why there is none.
pub fn profile(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    judged: &JudgedCandidate,
) -> Result<Result<Value, String>, CliError> {
    let passed = judged.findings.correct;
    let subject = judged.job.as_ref().zip(judged.device.as_ref()).filter(|_| passed);
    let Some((job, device)) = subject else { return Ok(Err("the candidate did not pass".into())) };
    let Some(plan) = job.timed.first() else { return Ok(Err("no problem is timed".into())) };
    let options =
        device_lane::lane_options(&asked.setup, one.run.worker_command.as_deref(), Some(asked.kernel()?))?;
    let sources = sources_of(device, plan, job, &judged.single, judged.mode);
    let order = CounterOrder {
        set: MetricSet::Light,
        further: &[],
        ncu: None,
        keep_report: false,
        limit: one.run.limits.limit_tool,
    };
    let looked = look(&CounterSubject { options: &options, job, sources }, &order)?;
    Ok(Ok(fields(&looked.profile).fields))
}

/// The bottleneck that a profile names, or why none is known.
pub fn bottleneck(profile: Option<&Result<Value, String>>) -> Result<String, String> {
    match profile {
        None => Err("`--profile` asks for it".into()),
        Some(Err(why)) => Err(why.clone()),
        Some(Ok(told)) => match told["bottleneck"].as_str() {
            Some(word) => Ok(word.to_string()),
            None => Err("the profile names none".into()),
        },
    }
}
