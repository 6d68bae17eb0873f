//! What tools say of a candidate that `evo evaluate` judged: a sanitizer, whose answer is demanded where it was asked
//! for, and a profiler, which decides nothing.

use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict};
use serde_json::Value;

use super::aim::SANITIZE;
use super::counters::{CounterOrder, CounterSubject, look};
use super::device_lane;
use super::error::CliError;
use super::judged_candidate::JudgedCandidate;
use super::one_args::TestOneArgs;
use super::profile::attributes_of;
use super::sanitize_args::SanitizerChoice;
use super::trial::AskedCandidate;
use crate::inspect::profile::{KnownSources, MetricSet};
use crate::inspect::sanitize::{
    SanitizeOrder, SanitizerOutcome, run_check, run_without, sanitizer_report, sanitizer_verdict, shapes,
    worker_verdict,
};
use crate::report::profile::fields;
use crate::supervise::job::Job;
use crate::tool::{ToolKind, ToolPlaces, locate};

/// Looks for faults with a sanitizer. A finding is the candidate's verdict; an answer that is missing counts among the
/// gates that were demanded and did not run.
///
/// # Errors
/// The kernel's own files.
pub fn sanitize(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    judged: &mut JudgedCandidate,
) -> Result<(), CliError> {
    let Some(job) = judged.job.as_ref().filter(|_| judged.findings.correct) else { return Ok(()) };
    let (report, verdict) = sanitized(one, asked, job)?;
    let is_missing = report.state == GateState::NotRun;
    let gates = &mut judged.single.evaluation.gates;
    gates.retain(|own| own.gate != Gate::Sanitize);
    gates.push(report);
    gates.sort_by_key(|own| own.gate);
    if let Some(verdict) = verdict {
        judged.findings.correct = false;
        judged.findings.not_compared = Some(format!("the sanitizer found a fault: {}", verdict.label()));
        judged.score = None;
        judged.single.evaluation.verdict = verdict;
    } else if is_missing {
        let is_allowed = one.allow_not_run.iter().any(|name| name == SANITIZE);
        let names = if is_allowed { &mut judged.allowed } else { &mut judged.findings.missing };
        names.push(SANITIZE.to_string());
    }
    Ok(())
}

fn sanitized(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    job: &Job,
) -> Result<(GateReport, Option<Verdict>), CliError> {
    let options =
        device_lane::lane_options(&asked.setup, one.run.worker_command.as_deref(), Some(asked.kernel()?))?;
    let plans = shapes(job);
    let order = SanitizeOrder { options: &options, job, plans: &plans, limit: one.run.limits.limit_tool };
    if asked.setup.choice.kind != DeviceKind::Cuda {
        // Guard pages and barrier detection stand in; that they find nothing is not a pass of the tool.
        let not_run = |why: String| GateReport::not_run(Gate::Sanitize, why);
        return Ok(match run_without(&order) {
            Ok(None) => {
                let why = "compute-sanitizer looks at a GPU; guard pages and barrier detection found nothing";
                (not_run(why.to_string()), None)
            }
            Ok(Some(finding)) => {
                let verdict = worker_verdict(&finding);
                let report = GateReport { state: GateState::Fail, ..not_run(verdict.message.clone()) };
                (report, Some(verdict))
            }
            Err(error) => {
                (not_run(format!("guard pages and barrier detection gave no answer: {error}")), None)
            }
        });
    }
    let tool = match locate(ToolKind::ComputeSanitizer, None, &ToolPlaces::of_environment()) {
        Ok(tool) => tool,
        Err(failure) => return Ok((GateReport::not_run(Gate::Sanitize, failure.message), None)),
    };
    // One at a time: the tool listens on a port.
    let checks = SanitizerChoice::All.checks().into_iter();
    let outcomes: Vec<SanitizerOutcome> = checks.map(|check| run_check(&tool, check, &order)).collect();
    Ok((sanitizer_report(&outcomes), sanitizer_verdict(&outcomes)))
}

/// A profile of a candidate that passed, on its first timed problem; an inner error is why there is none.
///
/// # Errors
/// evo's own folders and files.
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
    let evaluation = &judged.single.evaluation;
    let mut times = evaluation.measurements.iter();
    let time = times.find(|own| own.problem == plan.name && own.mode == judged.mode);
    let sources = KnownSources {
        device,
        plan,
        resources: &evaluation.resources,
        attributes: attributes_of(&judged.single.attributes, job, plan),
        time_ns: time.map(|time| time.p50_ns),
        mode: judged.mode,
    };
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
