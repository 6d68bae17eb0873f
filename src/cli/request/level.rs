//! A candidate at the level that a request asks for: what is judged, and what it is compared with.

use evo_protocol::verdict::{Gate, GateReport, GateState, VerdictKind};

use super::baselines::{MeasuredBaseline, MeasuredBaselines};
use super::ready::ReadyRequest;
use crate::cli::error::CliError;
use crate::cli::evaluate;
use crate::cli::evaluate::EvaluateArgs;
use crate::cli::evaluate::rule;
use crate::cli::evaluate::{EvaluateParts, record};
use crate::cli::judge::OpenedCandidate;
use crate::cli::judge::{self, JobDepth, Judged, judge_rival};
use crate::cli::rival::ChosenRival;
use crate::cli::session;
use crate::engine::single::Single;
use crate::journal::iterations::{self, IterationLog};
use crate::request::answer::{AnsweredDecision, not_asked};
use crate::request::ask::EvaluationLevel;
use crate::request::performance::BaselineTime;
use crate::supervise::job::{JobReach, Judgement};
use crate::timing::acceptance::decide;

/// A judged candidate with the baseline that was measured by itself, or why there is none, and with what was decided.
pub struct AtLevel {
    pub judged: Judged,
    pub baseline: Result<MeasuredBaseline, String>,
    pub decision: Option<AnsweredDecision>,
}

/// What a candidate is judged with beside itself.
pub struct LevelContext<'a> {
    pub arguments: &'a EvaluateArgs,
    pub rival: Option<&'a ChosenRival>,
    /// Held while anything is timed.
    pub log: Option<&'a IterationLog>,
}

/// Judges a candidate as deep as its level says.
pub fn judge(
    context: &LevelContext<'_>,
    ready: &ReadyRequest,
    opened: &mut OpenedCandidate<'_>,
    baselines: &mut MeasuredBaselines,
) -> Result<AtLevel, CliError> {
    let ReadyRequest { one, asked, level, .. } = ready;
    let none = || Err("this level compares with nothing".to_string());
    let depth = match level {
        EvaluationLevel::Compile => {
            return Ok(AtLevel { judged: compiled(ready, opened)?, baseline: none(), decision: None });
        }
        EvaluationLevel::Tiny => JobDepth { deep: false, reach: JobReach::Tiny },
        EvaluationLevel::Quick => JobDepth { deep: false, reach: JobReach::Screening },
        EvaluationLevel::Full | EvaluationLevel::Confirm => JobDepth::DEEP,
    };
    let paired = context.rival.filter(|_| *level == EvaluationLevel::Confirm);
    let mut judged = judge::judge(one, asked, opened, depth, paired, |_| ())?;
    judged.findings.missing = missing(&judged, *level, &one.allow_not_run);
    if *level == EvaluationLevel::Confirm && asked.kernel()?.check.demands_sanitizer {
        evaluate::sanitize(one, asked, &mut judged)?;
    }
    if let (Some(rival), Some(log)) = (paired, context.log) {
        let decision = Some(decided(context, ready, &judged, rival, log)?);
        return Ok(AtLevel { judged, baseline: Err(String::new()), decision });
    }
    let is_right = judged.findings.correct && judged.findings.missing.is_empty();
    let baseline = match context.rival.filter(|_| is_right) {
        Some(rival) => baseline(ready, opened, rival, depth, baselines)?,
        None => none(),
    };
    Ok(AtLevel { judged, baseline, decision: None })
}

/// Decides about the rival, and writes that down.
fn decided(
    context: &LevelContext<'_>,
    ready: &ReadyRequest,
    judged: &Judged,
    rival: &ChosenRival,
    log: &IterationLog,
) -> Result<AnsweredDecision, CliError> {
    let ruling = decide(&rule(context.arguments), &judged.findings);
    let parts =
        EvaluateParts { arguments: context.arguments, asked: &ready.asked, rival, judged, ruling: &ruling };
    let recorded = record(&parts, log, iterations::incumbent(log.folder()))?;
    Ok(AnsweredDecision {
        accepted: recorded.incumbent.as_ref().is_some_and(|own| own.number == recorded.number),
        decision: ruling.decision.to_string(),
        why: ruling.why.clone(),
        number: recorded.number,
    })
}

/// The baseline's time, measured at most once a session.
fn baseline(
    ready: &ReadyRequest,
    opened: &mut OpenedCandidate<'_>,
    rival: &ChosenRival,
    depth: JobDepth,
    baselines: &mut MeasuredBaselines,
) -> Result<Result<MeasuredBaseline, String>, CliError> {
    let name = (format!("{} {}", rival.name, rival.resolved.configuration), ready.level);
    if let Some(known) = baselines.get(&name) {
        return Ok(known.clone());
    }
    let (own, job) = match judge_rival(&ready.one, opened, &ready.asked, rival, depth)? {
        Ok(judged) => judged,
        Err(why) => return Ok(Err(why)),
    };
    let passed = own.verdict.is_pass();
    let measured = own.objective_ns.filter(|_| passed).map(|objective_ns| MeasuredBaseline {
        time: BaselineTime { name: rival.name.clone(), objective_ns },
        code: own.code_hash.clone(),
        plans: job.timed,
    });
    let why = || format!("the baseline does not pass its gates: {}", own.verdict.label());
    let found = measured.ok_or_else(why);
    // What a limit cut off may be known the next time.
    if own.verdict.kind != VerdictKind::Interrupted {
        baselines.insert(name, found.clone());
    }
    Ok(found)
}

/// A candidate that is only compiled.
fn compiled(ready: &ReadyRequest, opened: &OpenedCandidate<'_>) -> Result<Judged, CliError> {
    let mode = ready.asked.kernel()?.objective.ranking.timing();
    let single = match opened.job(false)? {
        Ok((begun, _)) => {
            begun.judged(Judgement { gates: not_asked(EvaluationLevel::Compile), ..Judgement::begin() })
        }
        Err(evaluation) => Single::refused(*evaluation),
    };
    if single.evaluation.verdict.is_trouble() {
        return Err(session::trouble("the candidate could not be compiled", &single.evaluation.verdict));
    }
    let device = Some(opened.lane.info().clone());
    Ok(Judged { device, ..Judged::refused(single, mode) })
}

/// Gates that the level demands and that did not run on a candidate that passes.
fn missing(judged: &Judged, level: EvaluationLevel, allowed: &[String]) -> Vec<String> {
    let evaluation = &judged.single.evaluation;
    let last = match level {
        EvaluationLevel::Compile => Gate::Compile,
        EvaluationLevel::Tiny => Gate::TinyShapes,
        _ => Gate::Honesty,
    };
    let ran = |report: &GateReport| report.state == GateState::Pass || report.lacks_shapes();
    let gates = Gate::ALL.iter().filter(|gate| **gate <= last && evaluation.verdict.is_pass());
    let absent = gates.filter(|gate| !evaluation.gate(**gate).is_some_and(ran)).map(|gate| gate.as_str());
    absent.filter(|name| !allowed.iter().any(|own| own == name)).map(String::from).collect()
}
