//! What a person or a program reads at the end of a sweep. The files are written by then; this only reads.

use evo_protocol::envelope::{EnvelopeStatus, LimitName};
use evo_protocol::evaluation::Evaluation;
use serde_json::{Value, json};

use super::apart;
use super::execute::SweepOutcome;
use super::plan::{SweepPlan, SweepSubject};
use super::replayed::ReplayedSubject;
use crate::budget::StopReason;
use crate::cli::answer::Answer;
use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;
use crate::cli::guard::total_is_over;
use crate::cli::output;
use crate::engine::{RunSummary, SanitizePlan};
use crate::journal::leaderboard::verdict_mix;
use crate::replay::device::PREFIX;
use crate::report::failures::{self, FirstFailure};
use crate::report::styled::{StyledLine, Tone};
use crate::report::width::{stdout_width, wrapped};
use crate::report::{closing, insight, lane_lines, text};

/// Rows of the table of a run without confirmation.
const ROWS: usize = 10;

/// Shows the result on stdout, or hands over its object; the exit code says why the run ended. Beside it
/// are what came of profiling the champion, and of the mutator, where these were asked for.
pub fn report(
    plan: &SweepPlan,
    outcome: &SweepOutcome,
    (profile, mutator): (Option<Value>, Option<Value>),
    call: &Call,
) -> Result<Answer, CliError> {
    let exit = exit_code(&outcome.summary, &outcome.study.history.evaluations);
    let is_missing = exit == ExitCode::Done && lacks_answer(plan.sanitize, &outcome.summary);
    let exit = if is_missing { ExitCode::Failed } else { exit };
    let mut answer = Answer::from(exit);
    if call.is_json() {
        let mut own = object(plan, outcome);
        if let Some(profile) = profile {
            own["profile"] = profile;
        }
        if let Some(mutator) = mutator {
            own["mutator"] = mutator;
        }
        answer = Answer::object(exit, &own).in_brief(json!({
            "passed": failures::passed(&outcome.study.history.evaluations),
            "confirmed": outcome.summary.confirmed,
        }));
    } else {
        output::styled(&page(plan, outcome, stdout_width()))?;
        // One line on what the study says beyond its winner.
        if let Some(line) = outcome.summary.insight.as_ref().and_then(insight::line) {
            output::paragraph(&line);
        }
        // Again at the end: the announcement is far up by now.
        let (header, evaluations) = (outcome.study.header(), &outcome.study.history.evaluations);
        if let Some(failure) = failures::of_default(header, evaluations) {
            output::say(&format!(
                "the default configuration failed: {}\nagain: {}",
                failure.said(),
                failure.repro
            ));
        }
    }
    if is_missing {
        answer.status = EnvelopeStatus::NotRun;
        output::say("compute-sanitizer is demanded and gave no answer, so nothing was confirmed");
    }
    // Last, so that nothing stands between it and the prompt.
    Ok(match ended_by(plan, outcome, call) {
        Some(error) => answer.despite(error),
        None => answer,
    })
}

/// What kept the run from its end.
fn ended_by(plan: &SweepPlan, outcome: &SweepOutcome, call: &Call) -> Option<CliError> {
    if let Some(trouble) = &outcome.summary.trouble {
        return Some(CliError::harness(trouble.text.as_str()).with_hint(trouble.hint.as_str()));
    }
    let (reason, resume) = (outcome.summary.end.reason, "the same command with `--resume` continues");
    match (reason, plan.limit_total) {
        // The last line of the page says these, so only an object needs them.
        (StopReason::Interrupted, _) if call.is_json() => {
            Some(CliError::interrupted(reason.describe()).with_hint(resume))
        }
        (StopReason::DeviceLost, _) if call.is_json() => Some(CliError::device(reason.describe())),
        // A budget is spent on purpose; only a limit that is shorter cuts anything off.
        (StopReason::Wall, Some(limit)) if plan.budget.wall == Some(limit) => {
            call.hit(LimitName::Total);
            Some(total_is_over(limit).with_hint(resume))
        }
        _ => None,
    }
}

/// Whether nothing was confirmed because a demanded sanitizer gave no answer.
fn lacks_answer(sanitize: SanitizePlan, summary: &RunSummary) -> bool {
    let unanswered = summary.end.sanitized.is_some_and(|tally| tally.unanswered > 0);
    sanitize.demanded && summary.confirmed == 0 && unanswered
}

fn exit_code(summary: &RunSummary, evaluations: &[Evaluation]) -> ExitCode {
    match summary.end.reason {
        // A script has to tell a run that it can resume, or that lost its device, from one that reached its
        // goal.
        StopReason::Interrupted => ExitCode::Interrupted,
        StopReason::DeviceLost => ExitCode::DeviceLost,
        StopReason::Harness => ExitCode::Harness,
        // Single variants may fail; a sweep that found nothing usable has failed.
        _ if failures::passed(evaluations) > 0 => ExitCode::Done,
        _ if failures::is_all_harness(evaluations, summary.end.not_final) => ExitCode::Harness,
        _ => ExitCode::Failed,
    }
}

/// The last object of `--json`.
fn object(plan: &SweepPlan, outcome: &SweepOutcome) -> Value {
    let (end, evaluations) = (&outcome.summary.end, &outcome.study.history.evaluations);
    let header = outcome.study.header();
    let failures = failures::first_of_each(header, evaluations);
    let mut object = json!({
        "event": "result",
        "reason": end.reason,
        "evaluations": end.evaluations,
        "evaluations_this_run": end.evaluations_this_run,
        "passed_over": end.passed_over,
        "taken_over": end.taken_over,
        "not_final": end.not_final,
        "trouble": outcome.summary.trouble.as_ref().map(|one| json!({ "message": one.text, "hint": one.hint })),
        "throughput": end.throughput,
        "wall_seconds": plan.clock.elapsed().as_secs_f64(),
        "finalists_left": outcome.summary.left_out,
        "sanitized": end.sanitized,
        // Paths as text: they need not be UTF-8.
        "study": outcome.study.folder().display().to_string(),
        "leaderboard": outcome.leaderboard.as_ref().map(|path| path.display().to_string()),
        "verdicts": verdict_mix(evaluations),
        "passed": failures::passed(evaluations),
        "failures": failures.iter().map(FirstFailure::json).collect::<Vec<_>>(),
        "default_failure": failures::of_default(header, evaluations).as_ref().map(FirstFailure::json),
        "section": outcome.section,
        "insight": outcome.summary.insight,
    });
    if let Some(apart) = apart::json(&outcome.study, &outcome.bounds) {
        object["per_problem"] = apart;
    }
    if !end.lanes.is_empty() {
        object["lanes"] = json!(end.lanes);
    }
    if let Some(within) = plan.subject.within() {
        // As text, because a count may have more digits than a number holds.
        object["device_limits"] = json!({
            "excluded": within.excluded.to_string(), "of": within.of.to_string(), "limits": within.limits,
        });
    }
    if let SweepSubject::Replayed(replayed) = &plan.subject {
        let cost = RecordedCost::of(evaluations);
        object["replay"] = json!({
            "recording": replayed.path,
            "gpu": replayed.recording.gpu,
            "compile_ms": cost.compile_ms,
            "device_ms": cost.device_ms,
            "best": best(evaluations).map(|one| json!({
                "number": one.number, "configuration": one.configuration, "objective_ns": one.objective_ns,
            })),
        });
    }
    object
}

/// The same for people, as wide as the terminal allows: what won, the table, how the run went, what to do next.
fn page(plan: &SweepPlan, outcome: &SweepOutcome, width: usize) -> Vec<StyledLine> {
    let evaluations = &outcome.study.history.evaluations;
    let (mix, folder) = (text::mix(evaluations), outcome.study.folder().display());
    let plain = |text: &str| text.lines().map(|line| StyledLine::new(Tone::Plain, line)).collect::<Vec<_>>();
    match &plan.subject {
        SweepSubject::Live(_) => {
            let header = outcome.study.header();
            let out = plan.out.display().to_string();
            let (above, table, below) = match &outcome.section {
                Some(section) => (
                    closing::won(section, width),
                    text::untitled(section, width),
                    closing::next_steps(header, &out, width),
                ),
                None => (
                    closing::unconfirmed(header, width),
                    unconfirmed(outcome, text::screened(evaluations, ROWS, width)),
                    best(evaluations)
                        .map(|best| closing::after_screening(header, best, width))
                        .unwrap_or_default(),
                ),
            };
            let left = text::finalists_left(outcome.summary.left_out);
            let left = if left.is_empty() { left } else { wrapped(left.trim_end(), width) };
            let more = text::more(evaluations);
            let within = plan.subject.within().map_or(String::new(), |own| own.note() + "\n");
            // Read last, so that it is the time of the whole command.
            let last = wrapped(&text::last_line(&outcome.summary.end, plan.clock.elapsed()), width);
            let mix = wrapped(&format!("verdicts: {mix}"), width);
            let lanes = apart::lines(&outcome.study, &outcome.bounds, width)
                + &lane_lines::lines(&outcome.summary.end, width);
            let ends = plain(&format!("{left}{mix}{lanes}{within}{more}study: {folder}\n{last}"));
            [above, plain(&table), below, ends].concat()
        }
        SweepSubject::Replayed(replayed) => {
            let table = unconfirmed(outcome, text::replayed(evaluations, ROWS, width));
            plain(&format!(
                "{}{table}verdicts: {mix}\n{}study: {folder}\n{}\n",
                title(replayed),
                RecordedCost::of(evaluations).line(),
                text::last_line_of_replay(&outcome.summary.end)
            ))
        }
    }
}

/// A table without confirmed rows, or what failed where it has no rows at all.
fn unconfirmed(outcome: &SweepOutcome, table: String) -> String {
    let evaluations = &outcome.study.history.evaluations;
    match failures::passed(evaluations) {
        0 => failures::text(&failures::first_of_each(outcome.study.header(), evaluations)),
        _ => table,
    }
}

fn title(replayed: &ReplayedSubject) -> String {
    format!("{} on {PREFIX}{}\n", replayed.recording.kernel, replayed.recording.gpu)
}

/// What the evaluations of a replay cost when they were recorded, milliseconds.
struct RecordedCost {
    compile_ms: f64,
    device_ms: f64,
}

impl RecordedCost {
    fn of(evaluations: &[Evaluation]) -> RecordedCost {
        let sum = |of: fn(&Evaluation) -> f64| evaluations.iter().map(of).sum::<f64>();
        RecordedCost { compile_ms: sum(|one| one.compile_ms), device_ms: sum(|one| one.device_ms) }
    }

    fn line(&self) -> String {
        format!(
            "recorded cost, not waited for: {} compiling, {} on the device\n",
            text::time(self.compile_ms * 1e6),
            text::time(self.device_ms * 1e6)
        )
    }
}

fn best(evaluations: &[Evaluation]) -> Option<&Evaluation> {
    let passing = evaluations.iter().filter(|one| one.verdict.is_pass());
    let timed = passing.filter_map(|one| Some((one.objective_ns?, one)));
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::{Verdict, VerdictKind};
    use evo_space::genome::Configuration;
    use serde_json::json;

    use super::*;
    use crate::journal::example as fake;

    #[track_caller]
    fn check(reason: &str, kinds: &[VerdictKind], expected: ExitCode) {
        let end = json!({
            "at": "", "reason": reason, "evaluations": kinds.len(), "evaluations_this_run": kinds.len(),
            "throughput": evo_protocol::leaderboard::Throughput::default(),
        });
        let end = serde_json::from_value(end).unwrap();
        let summary = RunSummary { end, confirmed: 0, left_out: 0, insight: None, trouble: None };
        let evaluation = |kind: &VerdictKind| {
            fake::evaluation(0, Configuration::new(Vec::new()), "random", Verdict::new(*kind, ""))
        };
        let evaluations: Vec<Evaluation> = kinds.iter().map(evaluation).collect();
        assert_eq!(exit_code(&summary, &evaluations), expected, "{reason} {kinds:?}");
    }

    #[test]
    fn a_sweep_without_a_passing_variant_has_failed() {
        use VerdictKind::{HarnessError, Pass, PassedOver, WrongAnswer};
        check("space_exhausted", &[WrongAnswer, Pass], ExitCode::Done);
        check("wall", &[WrongAnswer, HarnessError], ExitCode::Failed);
        check("wall", &[], ExitCode::Failed);
        check("space_exhausted", &[HarnessError, PassedOver, HarnessError], ExitCode::Harness);
        check("interrupted", &[WrongAnswer], ExitCode::Interrupted);
        check("device_lost", &[HarnessError], ExitCode::DeviceLost);
        check("harness", &[Pass], ExitCode::Harness);
    }
}
