//! `evo evaluate`: one candidate through every gate, its time, its time beside a rival's in fresh processes, and what
//! to do with it. Each evaluation leaves a line in `iterations.jsonl`.

use evo_protocol::envelope::{EnvelopeStatus, LimitName};
use evo_protocol::verdict::VerdictKind;
use serde_json::json;

use super::aim::Aim;
use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::evaluate_args::{EvaluateArgs, Requirement};
use super::evaluate_judge::judge;
use super::evaluate_record::{EvaluateParts, Recorded, record};
use super::evaluate_rule::{rule, take_log};
use super::exit_code::ExitCode;
use super::judged_candidate::{problems, so_far};
use super::rival;
use super::trial;
use super::{evaluate_inspect, grid, output, request, session, verdict_answer};
use crate::journal::iterations;
use crate::report::benchmark::{self, Compared, Measured};
use crate::report::evaluate::{self, Evaluated, Reasoned};
use crate::report::{parity, single};
use crate::timing::acceptance::{RivalDecision, decide};

/// Runs the command.
pub fn run(arguments: &EvaluateArgs, call: &Call) -> Result<Answer, CliError> {
    request::options::check(arguments)?;
    let with_grid = grid::read(arguments)?;
    let arguments = with_grid.as_ref().unwrap_or(arguments);
    match &arguments.requests.request {
        Some(file) => return request::once(arguments, file, call),
        None if arguments.requests.are_taken() => return request::serve(arguments, call),
        None => {}
    }
    let mut one = arguments.one.clone();
    one.run.limits.total.time_limit = Some(arguments.time_limit);
    let is_looked_up = |word: &str| word.starts_with('@') && word != "@baseline";
    // `--study` may be meant for the rival alone.
    if arguments.against.as_deref().is_some_and(is_looked_up)
        && !one.words.iter().any(|word| is_looked_up(word))
    {
        one.candidate.study = None;
    }
    let asked = trial::ask(&one, call, Aim::Evaluate)?;
    call.know(|facts| facts.so_far = Some(so_far(None)));
    let named =
        arguments.against.as_deref().map(|against| rival::named(&arguments.one, against)).transpose()?;
    let kernel = asked.kernel()?;
    let (name, is_demanded) = (kernel.name.clone(), arguments.sanitize || kernel.check.demands_sanitizer);
    // From here on others wait: two candidates at once would disturb each other's times.
    let log = take_log(&one.candidate.out, &name, &asked.setup.choice)?;
    let incumbent = iterations::incumbent(log.folder());
    let rival = match named {
        Some(named) => named,
        None => rival::best(&one, log.folder(), incumbent.clone())?,
    };
    let mut judged = judge(&one, call, &asked, &rival)?;
    if is_demanded {
        evaluate_inspect::sanitize(&one, &asked, &mut judged)?;
    }
    let profile = arguments.profile.then(|| evaluate_inspect::profile(&one, &asked, &judged)).transpose()?;
    let ruling = decide(&rule(arguments), &judged.findings);
    let parts = EvaluateParts { arguments, asked: &asked, rival: &rival, judged: &judged, ruling: &ruling };
    let recorded = record(&parts, &log, incumbent)?;
    answer(&parts, &recorded, evaluate_inspect::bottleneck(profile.as_ref()), call)
}

fn answer(
    parts: &EvaluateParts<'_>,
    recorded: &Recorded,
    bottleneck: Result<String, String>,
    call: &Call,
) -> Result<Answer, CliError> {
    let EvaluateParts { arguments, asked, judged, ruling, rival, .. } = parts;
    let evaluation = &judged.single.evaluation;
    if let Some(hit) = verdict_answer::limit_hit(&evaluation.verdict, &arguments.one) {
        call.hit(hit);
    }
    let (result, mut reasons) = result(parts, &recorded.next_step, bottleneck);
    let (mut own, more) = flat(parts);
    reasons.extend(more);
    own["space"] = asked.setting.space.as_str().into();
    own["kernel"] = asked.setting.kernel.as_str().into();
    own["seed"] = asked.seed.into();
    own["configuration"] = json!(evaluation.configuration);
    own["rival"] = json!({ "name": rival.name, "why": rival.why, "incumbent": rival.incumbent,
        "configuration": rival.resolved.configuration, "noise_floor_ratio": judged.findings.noise_floor });
    if rival.incumbent.is_none() {
        reasons.insert("rival.incumbent".into(), "the rival is not the incumbent".into());
    }
    if judged.findings.noise_floor.is_none() {
        reasons.insert("rival.noise_floor_ratio".into(), judged.why_not_compared());
    }
    own["number"] = recorded.number.into();
    own["incumbent"] = json!(recorded.incumbent);
    if recorded.incumbent.is_none() {
        reasons.insert("incumbent".into(), "nothing was accepted yet".into());
    }
    own["claimed"] = json!(arguments.claimed);
    if arguments.claimed.is_none() {
        reasons.insert("claimed".into(), "`--claimed` says nothing".into());
    }
    own["notes"] = json!(recorded.notes);
    let parity = parity::of(evaluation);
    own["parity"] = parity.fields;
    reasons.extend(parity.reasons);
    let (exit, status) = end(parts);
    let text = evaluate::text(&result, &rival.name);
    let mut answer = Answer { status, reasons, ..Answer::object(exit, &own) }.in_brief(result);
    answer.allowed_not_run.clone_from(&judged.allowed);
    if evaluation.verdict.kind == VerdictKind::Interrupted {
        call.hit(LimitName::Total);
        let mut limits = arguments.one.run.limits.total.clone();
        limits.time_limit = Some(arguments.time_limit);
        answer = limits.used_up().into_iter().fold(answer, Answer::despite);
    }
    for note in &recorded.notes {
        output::say(&format!("note: {note}"));
    }
    if !call.is_json() {
        let gates = single::text(&asked.setting, evaluation, &judged.single.attributes);
        let claim = arguments.claimed.map(|own| format!("claimed  {own:.3}x, which decides nothing\n"));
        let claim = claim.unwrap_or_default();
        output::stdout(&format!(
            "{gates}{text}{claim}kept as evaluation {} of {}\n",
            recorded.number, recorded.file
        ))?;
    }
    if !ruling.why.is_empty() && exit == ExitCode::Failed && arguments.require != Requirement::Correct {
        output::say(&format!("`--require {}` does not hold: {}", arguments.require.word(), ruling.why));
    }
    Ok(answer)
}

/// Exit code and status: what `--require` demands holds, does not hold, or is not known.
fn end(parts: &EvaluateParts<'_>) -> (ExitCode, EnvelopeStatus) {
    let (findings, ruling) = (&parts.judged.findings, parts.ruling);
    let failed = |status| (ExitCode::Failed, status);
    if !findings.correct {
        let noisy = parts.judged.single.evaluation.verdict.kind == VerdictKind::Noisy;
        return failed(if noisy { EnvelopeStatus::Noisy } else { EnvelopeStatus::Fail });
    }
    if !findings.missing.is_empty() {
        return failed(EnvelopeStatus::NotRun);
    }
    let is_compared = findings.is_same_code || findings.problems.iter().any(|one| one.ratio.is_some());
    let unknown = if is_compared { EnvelopeStatus::Noisy } else { EnvelopeStatus::NotRun };
    let floor = findings.noise_floor.unwrap_or(0.0);
    let is_drowned = ruling.decision == RivalDecision::Reject && floor > parts.arguments.accept;
    let holds = match parts.arguments.require {
        Requirement::Correct => Some(true),
        Requirement::NotSlower => ruling.not_slower,
        // A gain that was asked for cannot be seen under a noise floor above it.
        Requirement::Accepted if is_drowned => None,
        Requirement::Accepted => is_compared.then_some(ruling.decision == RivalDecision::Keep),
    };
    match holds {
        Some(true) => (ExitCode::Done, EnvelopeStatus::Pass),
        Some(false) => failed(EnvelopeStatus::Fail),
        None => failed(unknown),
    }
}

fn result(parts: &EvaluateParts<'_>, next_step: &str, bottleneck: Result<String, String>) -> Reasoned {
    let judged = parts.judged;
    let why = judged.why_not_compared();
    evaluate::result(&Evaluated {
        evaluation: Some(&judged.single.evaluation),
        correct: judged.findings.correct && judged.findings.missing.is_empty(),
        ruling: Some(parts.ruling),
        score: judged.score,
        not_compared: &why,
        problems: problems(judged),
        bottleneck,
        next_step: next_step.to_string(),
    })
}

/// The six flat fields that `benchmark` has too.
fn flat(parts: &EvaluateParts<'_>) -> Reasoned {
    let EvaluateParts { judged, rival, asked, .. } = parts;
    let mut compared = Compared::with(rival.resolved.configuration.clone());
    compared.noise_floor = judged.findings.noise_floor;
    compared.problems = judged.pairs.clone();
    let space = &rival.resolved.file.space;
    let is_default =
        rival.resolved.genome == space.default_genome() && rival.resolved.provenance.parent.is_none();
    compared.missing = match (is_default, judged.pairs.is_empty()) {
        (false, _) => Some("the rival is not the default configuration".to_string()),
        (true, true) => Some(judged.why_not_compared()),
        (true, false) => None,
    };
    let passed = judged.single.evaluation.verdict.is_pass();
    let figures = benchmark::fields(&Measured {
        evaluation: &judged.single.evaluation,
        plans: judged.job.as_ref().map(|job| &job.timed[..]).unwrap_or_default(),
        mode: judged.mode,
        device: judged.device.as_ref(),
        is_persistent: session::kernel_of(&asked.candidate.file).is_ok_and(|kernel| kernel.is_persistent),
        compared: passed.then_some(&compared),
    });
    let names: Vec<String> =
        figures.flat.as_object().into_iter().flat_map(|own| own.keys().cloned()).collect();
    let reasons = figures.reasons.into_iter().filter(|(name, _)| names.contains(name)).collect();
    (figures.flat, reasons)
}
