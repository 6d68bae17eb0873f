//! The line that an evaluation leaves, and the incumbent after it.

use std::path::Path;

use evo_space::text::quote;

use super::error::CliError;
use super::evaluate_args::EvaluateArgs;
use super::judged_candidate::{JudgedCandidate, problems};
use super::rival::ChosenRival;
use super::trial::AskedCandidate;
use crate::engine::candidate::CandidateKind;
use crate::journal::iterations::{
    ITERATIONS, Incumbent, Iteration, IterationCandidate, IterationLog, IterationProblem, read,
};
use crate::journal::record::now;
use crate::kernel::render::render;
use crate::timing::acceptance::{RivalDecision, Ruling};
use crate::tool::{ToolPlaces, git_state};

/// All that is known of an evaluation.
pub struct EvaluateParts<'a> {
    pub arguments: &'a EvaluateArgs,
    pub asked: &'a AskedCandidate,
    pub rival: &'a ChosenRival,
    pub judged: &'a JudgedCandidate,
    pub ruling: &'a Ruling,
}

/// What was written.
#[derive(Debug)]
pub struct Recorded {
    /// Of the line.
    pub number: u64,
    pub file: String,
    pub notes: Vec<String>,
    pub incumbent: Option<Incumbent>,
    /// What to do next.
    pub next_step: String,
}

/// Appends the line, and makes an accepted candidate the incumbent.
pub fn record(
    parts: &EvaluateParts<'_>,
    log: &IterationLog,
    before: Result<Option<Incumbent>, String>,
) -> Result<Recorded, CliError> {
    let is_unreadable = before.is_err();
    let before = before.ok().flatten();
    let mut notes = parts.rival.notes.clone();
    notes.extend(read(log.folder())?.notes);
    notes.extend(parent_note(parts, before.as_ref()));
    let is_kept = parts.ruling.decision == RivalDecision::Keep;
    let beats = before.as_ref().is_none_or(|own| parts.rival.incumbent == Some(own.number));
    if let Some(own) = before.as_ref().filter(|_| is_kept && !beats) {
        notes.push(format!(
            "it was not compared with the incumbent, evaluation {}, which stays; leave `--against` out for that",
            own.number
        ));
    }
    let may_replace = !is_unreadable || !is_kept || make_room(log, &mut notes)?;
    let iteration = log.append(iteration(parts, notes.clone()))?;
    let incumbent = match is_kept && beats && may_replace {
        true => Some(log.set_incumbent(&iteration)?),
        false => before,
    };
    let next_step = next_step(parts, log, incumbent.as_ref());
    let file = log.folder().place(ITERATIONS).display().to_string();
    Ok(Recorded { number: iteration.number, file, notes, incumbent, next_step })
}

/// Keeps an incumbent that cannot be understood under another name; whether there is room for a new one.
fn make_room(log: &IterationLog, notes: &mut Vec<String>) -> Result<bool, CliError> {
    let number = read(log.folder())?.lines.iter().map(|one| one.number).max().unwrap_or(0) + 1;
    let made = log.set_aside(number);
    notes.push(match &made {
        Ok(aside) => format!("the incumbent's file could not be understood and is kept as `{aside}`"),
        Err(why) => format!("{why}; move it away so that this candidate can take its place"),
    });
    Ok(made.is_ok())
}

/// That a change was not made from the best so far.
fn parent_note(parts: &EvaluateParts<'_>, before: Option<&Incumbent>) -> Option<String> {
    let parent = parts.arguments.parent.as_deref()?;
    let number = parent.trim_start_matches('@').parse::<u64>().ok();
    let own = before.map(|own| own.number);
    if own.is_some() && own == number {
        return None;
    }
    let incumbent = own.map_or("nothing yet".to_string(), |own| format!("evaluation {own}"));
    Some(format!("`--parent {parent}` is not the incumbent, which is {incumbent}"))
}

fn iteration(parts: &EvaluateParts<'_>, notes: Vec<String>) -> Iteration {
    let EvaluateParts { arguments, asked, rival, judged, ruling, .. } = parts;
    let evaluation = &judged.single.evaluation;
    let own = &asked.candidate;
    let is_source = own.provenance.kind == CandidateKind::Source;
    // A template that does not render has no text to keep.
    let source = own.file.kernel.as_ref().filter(|_| is_source);
    let source = source.and_then(|kernel| render(kernel, &own.configuration).ok()).map(|source| source.text);
    let git = git_state(Path::new("."), &ToolPlaces::of_environment());
    let correct = judged.findings.correct && judged.findings.missing.is_empty();
    let problems = problems(judged).into_iter().map(|one| {
        let time = one.time.filter(|_| correct);
        let pair = one.pair.filter(|_| correct);
        IterationProblem {
            problem: one.plan.name.clone(),
            canonical: one.canonical,
            p50_ns: time.map(|own| own.p50_ns),
            p90_ns: time.map(|own| own.p90_ns),
            against_p50_ns: pair.map(|own| own.baseline_ns),
            speedup: pair.map(|own| 1.0 / own.ratio),
        }
    });
    Iteration {
        format: 0,
        number: 0,
        at: now(),
        kernel: asked.setting.kernel.clone(),
        space: asked.setting.space.clone(),
        device: judged.device.as_ref().map_or(asked.setting.device.clone(), |device| device.name.clone()),
        candidate: IterationCandidate {
            configuration: own.configuration.clone(),
            configuration_hash: own.configuration.hash(),
            source_hash: own.provenance.source_hash.clone(),
            code_hash: evaluation.code_hash.clone(),
            source,
            launch: own.launch.clone(),
        },
        against: rival.name.clone(),
        parent: arguments.parent.clone(),
        hypothesis: arguments.hypothesis.clone(),
        verdict: evaluation.verdict.label(),
        message: evaluation.verdict.message.clone(),
        correct,
        score: judged.score.filter(|_| correct),
        claimed: arguments.claimed,
        problems: problems.collect(),
        decision: ruling.decision,
        why: ruling.why.clone(),
        notes,
        git_commit: git.commit,
        git_dirty: git.is_dirty,
    }
}

/// Options that lead to the same records.
fn elsewhere(parts: &EvaluateParts<'_>) -> String {
    let out = &parts.arguments.one.candidate.out;
    let device = parts.asked.setup.choice.kind.as_str();
    let usual = out == Path::new("evidence");
    let out = if usual { String::new() } else { format!(" --out {}", quote(&out.display().to_string())) };
    format!("{out} --device {device}")
}

fn next_step(parts: &EvaluateParts<'_>, log: &IterationLog, incumbent: Option<&Incumbent>) -> String {
    let evaluation = &parts.judged.single.evaluation;
    let again = parts.rival.words(incumbent, log.folder());
    let space = quote(&parts.asked.setting.space);
    // The history does not list what `--against` named.
    let back = match parts.rival.incumbent {
        Some(number) => format!("`evo restore {space} @{number} --to FOLDER{}` writes", elsewhere(parts)),
        None => format!("`evo render {space} {again}` prints"),
    };
    match parts.ruling.decision {
        RivalDecision::Keep => "go on from this candidate, one change at a time".to_string(),
        RivalDecision::Revert => format!("go back to the {}: {back} its source", parts.rival.name),
        RivalDecision::Reject if !evaluation.verdict.is_pass() => {
            format!("`evo explain {}` says what usually causes this", evaluation.verdict.label())
        }
        RivalDecision::Reject if parts.judged.findings.is_same_code => {
            "change something that reaches the machine code or the launches".to_string()
        }
        RivalDecision::Reject => format!("try another change; {back} what is best so far"),
    }
}
