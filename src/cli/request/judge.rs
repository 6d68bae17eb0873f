//! One request from its task to its answer.

use std::time::{Duration, Instant};

use evo_protocol::envelope::ErrorCode;
use evo_protocol::verdict::VerdictKind;
use serde_json::Value;

use super::baselines::MeasuredBaseline;
use super::level::{self, AtLevel, LevelContext};
use super::ready::{Failure, ReadyRequest, ready};
use super::session::{RequestSession, WarmTask};
use super::task;
use super::watch::out_of_time;
use crate::cli::error::{CliError, CliErrorKind};
use crate::cli::evaluate;
use crate::cli::evaluate::EvaluateArgs;
use crate::cli::evaluate::take_log;
use crate::cli::exit_code::ExitCode;
use crate::cli::judge::Judged;
use crate::cli::judge::OpenedCandidate;
use crate::cli::rival::{self, ChosenRival};
use crate::compile::instructions::{InstructionUse, instruction_use};
use crate::engine::single::Single;
use crate::journal::iterations::{self, IterationLog};
use crate::kernel::render::render;
use crate::request::answer::{AnswerHead, AnsweredDecision, JudgedRequest, judged, without_verdict};
use crate::request::ask::{EvaluationLevel, EvaluationRequest, RequestedBaseline, Visibility};
use crate::request::own_lines::{CandidateText, without_paths};
use crate::request::performance::KnownTimes;

const NO_PROFILE: &str = "no profile was asked for";

/// An answer, and what it means for the process.
pub struct Answered {
    pub answer: Value,
    pub kernel: String,
    /// What a process ends with that gives this one answer only.
    pub exit: ExitCode,
}

/// Answers a request: whatever comes of it is an answer.
pub fn answer(session: &mut RequestSession<'_>, request: &EvaluationRequest, head: &AnswerHead) -> Answered {
    let began = Instant::now();
    let (limit, level) = session.bounds(request);
    let visibility = session.visibility(request.visibility);
    if request.asks_task {
        return match task::answer(session, request, head) {
            Ok((answer, kernel)) => Answered { answer, kernel, exit: ExitCode::Done },
            Err(error) => {
                let (answer, exit) = failed(head, Failure::from(error), visibility, limit);
                Answered { answer, kernel: String::new(), exit }
            }
        };
    }
    let ready = ready(session, request, level, began + limit);
    let kernel = ready.as_ref().map(|own| own.asked.setting.kernel.clone()).unwrap_or_default();
    let key = ready.as_ref().ok().and_then(|ready| ready.answer_key(request));
    if let Some((answer, kernel)) = session.known.again(key.as_ref(), head) {
        return Answered { answer, kernel, exit: ExitCode::Done };
    }
    let told = ready.and_then(|ready| {
        let told = whole(session, request, head, &ready, began)?;
        session.known.keep(key, &told, &kernel);
        Ok(told)
    });
    match told {
        Ok(answer) => Answered { answer, kernel, exit: ExitCode::Done },
        Err(failure) => {
            let (answer, exit) = failed(head, failure, visibility, limit);
            Answered { answer, kernel, exit }
        }
    }
}

/// What a request with an error gets. An agent learns what is wrong with its candidate, and of everything else only that
/// it failed.
fn failed(head: &AnswerHead, failure: Failure, visibility: Visibility, limit: Duration) -> (Value, ExitCode) {
    let Failure { error, is_candidates } = failure;
    if error.kind == CliErrorKind::Limit {
        return (out_of_time(head, limit), ExitCode::Done);
    }
    let exit = error.exit_code();
    let (status, verdict) = match error.kind {
        CliErrorKind::Usage => ("rejected", None),
        CliErrorKind::Device => ("harness_error", Some(VerdictKind::DeviceLost)),
        _ => ("harness_error", Some(VerdictKind::HarnessError)),
    };
    let mut told = error.envelope();
    if is_candidates && told.code == ErrorCode::BadFile {
        // No file of the caller's is meant.
        told.code = ErrorCode::Usage;
    }
    if visibility == Visibility::Agent {
        crate::cli::output::say(&format!("error: {error}"));
        told.place = None;
        match is_candidates {
            true => {
                told.message = without_paths(&told.message);
                told.hint = told.hint.as_deref().map(without_paths);
            }
            false if status == "rejected" && error.is_about_request() => {}
            false => {
                told.message = match status {
                    "rejected" => "the task cannot be opened".into(),
                    _ => "evo or the machine failed, which says nothing about the candidate".into(),
                };
                told.hint = Some("whoever runs this evo finds the reason on its stderr".into());
            }
        }
    }
    (without_verdict(head, status, verdict, &told), exit)
}

/// Judges what is ready, and makes the answer.
fn whole(
    session: &mut RequestSession<'_>,
    request: &EvaluationRequest,
    head: &AnswerHead,
    ready: &ReadyRequest,
    began: Instant,
) -> Result<Value, Failure> {
    let mode = ready.asked.kernel()?.objective.ranking.timing();
    if let Some(refused) = ready.asked.refused() {
        let judged = Judged::refused(Single::refused(refused), mode);
        return Ok(told(
            session,
            request,
            head,
            ready,
            &judged,
            (KnownTimes::default(), None, Err(NO_PROFILE.into())),
            began,
        ));
    }
    // Candidates at once would disturb each other's times, in this process or in another one.
    let log = match ready.level.is_timed() {
        true => {
            let device = &ready.asked.setup.choice;
            Some(take_log(&ready.one.candidate.out, &ready.asked.setting.kernel, device)?)
        }
        false => None,
    };
    let rival = rival_of(request, ready, log.as_ref())?;
    let (warm, is_new) = session.lane(&ready.key, &ready.asked.setup, &ready.asked.candidate.file)?;
    let WarmTask { key, lane, mut baselines } = warm;
    let mut opened = ready.asked.open_on(lane, &ready.one, is_new)?;
    let arguments = match &request.hypothesis {
        Some(_) => &EvaluateArgs { hypothesis: request.hypothesis.clone(), ..session.arguments.clone() },
        None => session.arguments,
    };
    let context = LevelContext { arguments, rival: rival.as_ref(), log: log.as_ref() };
    let judged = level::judge(&context, ready, &mut opened, &mut baselines);
    let OpenedCandidate { lane, .. } = opened;
    if !matches!(&judged, Err(error) if error.kind == CliErrorKind::Device) {
        session.warm = Some(WarmTask { key, lane, baselines });
    }
    let AtLevel { judged, baseline, decision } = judged?;
    let profile = match request.feedback.profile {
        true => {
            // The profiler is to have the device to itself.
            session.warm = None;
            evaluate::profile(&ready.one, &ready.asked, &judged)?
        }
        false => Err(NO_PROFILE.to_string()),
    };
    let times = known_times(ready, &judged, baseline, rival.as_ref());
    Ok(told(session, request, head, ready, &judged, (times, decision, profile), began))
}

/// What is known of the candidate's speed.
fn known_times<'j>(
    ready: &ReadyRequest,
    judged: &'j Judged,
    baseline: Result<MeasuredBaseline, String>,
    rival: Option<&ChosenRival>,
) -> KnownTimes<'j> {
    let is_paired = judged.pairs.iter().any(Result::is_ok);
    let is_same_code =
        judged.findings.is_same_code || baseline.as_ref().is_ok_and(|own| own.is_same_code(judged));
    let is_decided = is_paired || is_same_code;
    let (baseline, no_baseline) = match baseline {
        Ok(own) => (Some(own.time), String::new()),
        Err(why) => (None, why),
    };
    KnownTimes {
        problems: judged.problems(),
        against: rival.filter(|_| is_decided).map(|own| own.name.clone()),
        is_paired,
        is_same_code,
        noise_floor: judged.findings.noise_floor,
        not_compared: if no_baseline.is_empty() { judged.why_not_compared() } else { no_baseline },
        baseline,
        is_screening: ready.level == EvaluationLevel::Quick,
    }
}

/// What the candidate is compared with; nothing at levels without a time.
fn rival_of(
    request: &EvaluationRequest,
    ready: &ReadyRequest,
    log: Option<&IterationLog>,
) -> Result<Option<ChosenRival>, Failure> {
    let Some(log) = log else { return Ok(None) };
    let usual = match ready.level {
        EvaluationLevel::Confirm => RequestedBaseline::Incumbent,
        _ => RequestedBaseline::Default,
    };
    let one = &ready.one;
    let own = match request.baseline.as_ref().unwrap_or(&usual) {
        RequestedBaseline::Default => rival::named(one, "@baseline")?,
        RequestedBaseline::Incumbent => rival::best(one, log.folder(), iterations::incumbent(log.folder()))?,
        RequestedBaseline::Hash(hash) => rival::named(one, &format!("@{hash}")).map_err(|_| {
            CliError::usage(format!("no study here has an evaluation `{hash}`")).about_request()
        })?,
    };
    Ok(Some(own))
}

fn told(
    session: &RequestSession<'_>,
    request: &EvaluationRequest,
    head: &AnswerHead,
    ready: &ReadyRequest,
    own: &Judged,
    (times, decision, profile): (KnownTimes<'_>, Option<AnsweredDecision>, Result<Value, String>),
    began: Instant,
) -> Value {
    let file = &ready.asked.candidate.file;
    let rendered =
        file.kernel.as_ref().and_then(|kernel| render(kernel, &ready.asked.candidate.configuration).ok());
    let rendered = rendered.map(|source| source.text).unwrap_or_default();
    let is_template = request.candidate.is_template;
    let text = request.candidate.source.as_deref();
    judged(
        head,
        &JudgedRequest {
            level: ready.level,
            visibility: session.visibility(request.visibility),
            evaluation: &own.single.evaluation,
            missing: &own.findings.missing,
            text: text.map(|own| CandidateText { own, rendered: &rendered, is_template }),
            times,
            decision,
            feedback_bytes: request.feedback.bytes,
            profile,
            device: own.device.as_ref(),
            instructions: instructions(own),
            seed: session.seed,
            repro: Some(ready.asked.setting.repro.clone()),
            wall_ms: began.elapsed().as_secs_f64() * 1e3,
        },
    )
}

/// Which units the machine code of its first build uses.
fn instructions(own: &Judged) -> Option<InstructionUse> {
    let binary = &own.job.as_ref()?.candidate.builds.first()?.binary;
    let bytes = std::fs::read(binary.path.as_ref()?).ok()?;
    instruction_use(&own.device.as_ref()?.arch, &bytes)
}
