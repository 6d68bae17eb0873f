//! What a person or a program reads at the end of a sweep. The files are written by then; this only reads. With `--profile
//! finalists` a profiler looks at the champion of this run once the search is over: what comes of it is kept beside the
//! journal and never changes how the sweep ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use evo_protocol::envelope::{CommandEnvelope, EnvelopeStatus, LimitName};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{LeaderboardSection, Throughput};
use evo_search::insight::Insight;
use evo_space::text::quote;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::execute::{SweepOutcome, ends_object, ends_text};
use super::plan::{SweepPlan, SweepSubject};
use super::subject::LiveSubject;
use crate::budget::StopReason;
use crate::cli::args::ProfileWhen;
use crate::cli::call::total_is_over;
use crate::cli::profile::{CounterLook, CounterOrder, error_of, look, write_profile};
use crate::cli::{Answer, Call, CliError, ExitCode, Result, output, session};
use crate::engine::{RunSummary, SanitizePlan};
use crate::inspect::profile::KnownSources;
use crate::journal::leaderboard::verdict_mix;
use crate::journal::record::{LaneAccount, SanitizeTally};
use crate::report::closing::{self, Details, Ending, RecordedCost};
use crate::report::failures::{self, FirstFailure};
use crate::report::styled::{StyledLine, Tone};
use crate::report::text;
use crate::report::width::{stdout_width, wrapped};
use crate::study::KeptProfile;

const ROWS: usize = 5;

/// The exit code says why the run ended. Beside the result is what came of profiling the champion.
pub fn report(
    plan: &SweepPlan,
    outcome: &SweepOutcome,
    profile: Option<Value>,
    call: &Call,
) -> Result<Answer> {
    let exit = exit_code(&outcome.summary, &outcome.study.history.evaluations);
    let is_missing = exit == ExitCode::Done && lacks_answer(plan.options.sanitize, &outcome.summary);
    let exit = if is_missing { ExitCode::Failed } else { exit };
    let mut answer = Answer::from(exit);
    if call.is_json() {
        answer = Answer::of(exit, &object(plan, outcome, profile));
    } else {
        output::styled(&page(plan, outcome, stdout_width()))?;
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

fn ended_by(plan: &SweepPlan, outcome: &SweepOutcome, call: &Call) -> Option<CliError> {
    if let Some(trouble) = &outcome.summary.trouble {
        return Some(CliError::harness(trouble.text.as_str()).with_hint(trouble.hint.as_str()));
    }
    let (reason, resume) = (outcome.summary.end.reason, "the same command with `--resume` continues");
    match (reason, plan.arguments.limits.total) {
        // The last line of the page says these, so only an object needs them.
        (StopReason::Interrupted, _) if call.is_json() => {
            Some(CliError::interrupted(reason.describe()).with_hint(resume))
        }
        (StopReason::DeviceLost, _) if call.is_json() => Some(CliError::device(reason.describe())),
        // A budget is spent on purpose; only a limit that is shorter cuts anything off.
        (StopReason::Wall, Some(limit)) if plan.options.budget.wall == Some(limit) => {
            call.hit(LimitName::Total);
            Some(total_is_over(limit).with_hint(resume))
        }
        _ => None,
    }
}

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

/// The last object of `evo sweep --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SweepAnswer {
    event: &'static str,
    #[schemars(with = "String")]
    reason: StopReason,
    evaluations: u64,
    evaluations_this_run: u64,
    passed_over: u64,
    taken_over: u64,
    not_final: u64,
    trouble: Option<Value>,
    throughput: Throughput,
    wall_seconds: f64,
    finalists_left: usize,
    #[schemars(with = "Option<Value>")]
    sanitized: Option<SanitizeTally>,
    study: String,
    leaderboard: Option<String>,
    verdicts: BTreeMap<String, u64>,
    passed: usize,
    failures: Vec<Value>,
    default_failure: Option<Value>,
    section: Option<LeaderboardSection>,
    kept: Option<Value>,
    #[schemars(with = "Option<Value>")]
    insight: Option<Insight>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_problem: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Value>")]
    lanes: Vec<LaneAccount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_limits: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<Value>,
    /// What came of profiling the champion.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Value>,
    result: SweepBrief,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SweepBrief {
    passed: usize,
    confirmed: usize,
}

fn object(plan: &SweepPlan, outcome: &SweepOutcome, profile: Option<Value>) -> SweepAnswer {
    let (end, evaluations) = (&outcome.summary.end, &outcome.study.history.evaluations);
    let header = outcome.study.header();
    let failures = failures::first_of_each(header, evaluations);
    let passed = failures::passed(evaluations);
    let replay = match &plan.subject {
        SweepSubject::Replayed(replayed) => {
            let cost = RecordedCost::of(evaluations);
            Some(json!({
                "recording": replayed.path,
                "gpu": replayed.recording.gpu,
                "compile_ms": cost.compile_ms,
                "device_ms": cost.device_ms,
                "best": closing::best(&outcome.study.history).map(|best| json!({
                    "number": best.number, "configuration": best.configuration, "objective_ns": best.objective_ns,
                })),
            }))
        }
        SweepSubject::Live(_) => None,
    };
    SweepAnswer {
        event: "result",
        reason: end.reason,
        evaluations: end.evaluations,
        evaluations_this_run: end.evaluations_this_run,
        passed_over: end.passed_over,
        taken_over: end.taken_over,
        not_final: end.not_final,
        trouble: (outcome.summary.trouble.as_ref())
            .map(|trouble| json!({ "message": trouble.text, "hint": trouble.hint })),
        throughput: end.throughput,
        wall_seconds: plan.options.clock.elapsed().as_secs_f64(),
        finalists_left: outcome.summary.left_out,
        sanitized: end.sanitized,
        // Paths as text: they need not be UTF-8.
        study: outcome.study.folder().display().to_string(),
        leaderboard: outcome.leaderboard.as_ref().map(|path| path.display().to_string()),
        verdicts: verdict_mix(evaluations),
        passed,
        failures: failures.iter().map(FirstFailure::json).collect(),
        default_failure: failures::of_default(header, evaluations).as_ref().map(FirstFailure::json),
        section: outcome.section.clone(),
        kept: outcome.kept.as_ref().map(|kept| {
            json!({
                "study": kept.study.name,
                "number": kept.champion.number,
                "configuration": kept.champion.configuration,
                "objective_ns": kept.champion.objective_ns,
                "speedup": kept.champion.speedup,
            })
        }),
        insight: outcome.summary.insight.clone(),
        per_problem: ends_object(&outcome.study, &outcome.bounds),
        lanes: end.lanes.clone(),
        // As text, because a count may have more digits than a number holds.
        device_limits: plan.subject.within().map(|within| {
            json!({
                "excluded": within.excluded.to_string(), "of": within.of.to_string(), "limits": within.limits,
            })
        }),
        replay,
        profile,
        result: SweepBrief { passed, confirmed: outcome.summary.confirmed },
    }
}

fn page(plan: &SweepPlan, outcome: &SweepOutcome, width: usize) -> Vec<StyledLine> {
    let (header, history) = (outcome.study.header(), &outcome.study.history);
    let (tries_special_values, how) = match &plan.subject {
        SweepSubject::Live(live) => (live.tries_special_values(), "screened"),
        SweepSubject::Replayed(_) => (true, "recorded"),
    };
    let table = match &outcome.section {
        _ if failures::passed(&history.evaluations) == 0 => {
            failures::text(&failures::first_of_each(header, &history.evaluations))
        }
        Some(section) if plan.arguments.verbose => text::untitled(section, width),
        Some(section) => text::first_rows(section, ROWS, width),
        None => text::unconfirmed(&history.evaluations, ROWS, how, width),
    };
    let ending = Ending {
        header,
        history,
        section: outcome.section.as_ref(),
        kept: outcome.kept.as_deref(),
        left_out: outcome.summary.left_out,
        tries_special_values,
        out: &plan.arguments.out.display().to_string(),
    };
    let styled =
        |tone: Tone, text: &str| -> Vec<_> { text.lines().map(|line| StyledLine::new(tone, line)).collect() };
    let mut lines = Vec::new();
    if plan.arguments.verbose {
        let details = Details {
            ending,
            run: &outcome.summary.end,
            insight: outcome.summary.insight.as_ref(),
            folder: outcome.study.folder(),
            per_problem: &ends_text(&outcome.study, &outcome.bounds, usize::MAX),
        };
        lines.extend(styled(Tone::Plain, &details.text(width)));
    }
    let title = text::title(&header.kernel, &header.device, &header.problems);
    lines.extend(styled(Tone::Strong, &wrapped(&title, width)));
    // Read last, so that it is the time of the whole command.
    let run = closing::run_line(&outcome.summary.end, plan.options.clock.elapsed(), width);
    lines.extend(styled(Tone::Plain, &format!("{run}{table}\n")));
    lines.extend(closing::answer(&ending, width));
    lines
}

/// With less time than this left a profiler would only be started to be killed.
const LEAST: Duration = Duration::from_secs(5);

/// Gives the field of the sweep's object.
pub fn champion(plan: &SweepPlan, outcome: &SweepOutcome, call: &Call) -> Option<Value> {
    if plan.arguments.profile == ProfileWhen::Off {
        return None;
    }
    Some(profiled(plan, outcome, call).unwrap_or_else(|why| {
        output::say(&format!("note: the champion is not profiled: {why}"));
        json!({ "status": "not_run", "file": null, "bottleneck": null, "reason": why })
    }))
}

/// The same, or why nobody looked.
fn profiled(plan: &SweepPlan, outcome: &SweepOutcome, call: &Call) -> Result<Value, String> {
    let SweepSubject::Live(live) = &plan.subject else { return Err("a recording has no counters".into()) };
    let Some(section) = &outcome.section else { return Err("this run confirmed none".into()) };
    if outcome.summary.end.reason.is_early() {
        return Err("the run did not end by itself".into());
    }
    // A wall budget covers the whole command.
    let left = plan.options.budget.wall.map(|wall| wall.saturating_sub(plan.options.clock.elapsed()));
    let most = plan.arguments.limits.tool;
    let limit = left.map_or(most, |left| left.min(most));
    if limit < LEAST {
        return Err("no time is left for it".into());
    }
    let looked = looked(plan.seed, live, section, limit).map_err(|error| error.to_string())?;
    let file = keep(plan, outcome, live, section, &looked, call.facts());
    let file = file.map_err(|error| error.to_string())?.display().to_string();
    let diagnosis = looked.profile.diagnosis();
    let bottleneck = diagnosis.bottleneck.as_str();
    let reason = looked.profile.counters.as_ref().err().map(|none| error_of(none).envelope().message);
    output::say(&match &reason {
        Some(why) => format!("note: the champion has no counters: {why}; kept: {file}"),
        None => format!("the champion's bottleneck: {bottleneck} ({}); {file}", diagnosis.because),
    });
    let status = if reason.is_some() { "not_run" } else { "pass" };
    Ok(json!({ "status": status, "file": file, "bottleneck": bottleneck, "reason": reason }))
}

fn looked(
    seed: u64,
    live: &LiveSubject,
    section: &LeaderboardSection,
    limit: Duration,
) -> Result<CounterLook> {
    let champion = &section.champion;
    let (job, options) = live.job_of(seed, &champion.configuration)?;
    let plan = job.timed.first().ok_or_else(|| CliError::harness("the champion has no timed problem"))?;
    let result = champion.results.iter().find(|one| one.problem == plan.name);
    let time = result.and_then(|one| one.modes.get(section.ranking.as_str()));
    let sources = KnownSources {
        device: &section.device,
        plan,
        resources: &champion.resources,
        // Those of the first problem.
        attributes: champion.attributes.get(..plan.launches.len()).unwrap_or_default(),
        time_ns: time.map(|time| time.p50_ns),
        mode: section.ranking.timing(),
    };
    look(&CounterOrder::light(options, &job, sources, limit))
}

/// The file's path, or that of an earlier one with counters.
fn keep(
    plan: &SweepPlan,
    outcome: &SweepOutcome,
    live: &LiveSubject,
    section: &LeaderboardSection,
    looked: &CounterLook,
    facts: CommandEnvelope,
) -> Result<PathBuf> {
    let champion = &section.champion;
    let (study, space) = (&outcome.study.header().study, session::space_word(&live.file));
    let words: Vec<String> = champion
        .configuration
        .iter()
        .map(|(name, value)| quote(&format!("{name}={value}")).into_owned())
        .collect();
    let repro = format!(
        "evo profile {} {} --problem {} --device {} --seed {}",
        quote(&space),
        words.join(" "),
        quote(&looked.profile.problem),
        live.device_word(&plan.arguments.device),
        plan.seed
    );
    let candidate = json!({
        "space": space, "kernel": section.kernel, "configuration": champion.configuration,
        "configuration_hash": champion.configuration_hash, "kind": "champion", "from": study,
        "number": champion.number,
    });
    let facts = CommandEnvelope { candidate: Some(candidate), repro, ..facts };
    let hashes = [champion.source_hash.as_ref(), champion.code_hash.as_ref()];
    let unopened = |error| CliError::harness(format!("cannot open the folder of study `{study}`: {error}"));
    let folder = outcome.study.out().folder(study).map_err(unopened)?;
    Ok(match write_profile(&folder, &facts, &champion.configuration_hash, hashes, looked)? {
        KeptProfile::Written { profile, .. } | KeptProfile::Earlier { profile } => profile,
    })
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
