//! `evo gate`: a candidate beside a committed baseline, for CI. Both are measured in this run; what could not be seen never
//! passes.

use std::collections::BTreeMap;
use std::path::Path;

use evo_protocol::envelope::{EnvelopeStatus, ErrorCode, ErrorPlace};
use serde_json::json;

use super::aim::Aim;
use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::gate_args::GateArgs;
use super::gate_judge::{JudgedGate, judge};
use super::gate_record::{self, GateParts};
use super::rival::ChosenRival;
use super::trial::AskedCandidate;
use super::{candidate, evaluate_rule, gate_goals, output, session, trial, verdict_answer, words};
use crate::engine::candidate::{CandidateRequest, ConfigurationChoice, TextChoice, differences, resolve};
use crate::journal::baseline::{BaselineError, GateBaseline};
use crate::kernel::catalog;
use crate::kernel::place::problem_line;
use crate::report::gate::{GateOutcome, GateSheet, GatedDecision, GatedProblem};
use crate::report::github;
use crate::timing::rank_test::{cliffs_delta, mann_whitney_p};
use crate::timing::regression::RegressionDecision;
use crate::timing::stats::median;

/// Runs the command.
pub fn run(arguments: &GateArgs, call: &Call) -> Result<Answer, CliError> {
    if arguments.init {
        return gate_record::init(arguments, call);
    }
    let baseline = GateBaseline::read(&arguments.baseline).map_err(unreadable)?;
    gate_record::check_place(&arguments.baseline)?;
    let space = arguments.space.clone().unwrap_or_else(|| baseline.space.clone());
    let rival = rival(arguments, &space, &baseline)?;
    let one = arguments.one(&space, Some(&baseline.configuration));
    let asked = trial::ask(&one, call, Aim::Gate)?;
    let kernel = asked.kernel()?;
    let kind = asked.setup.choice.kind;
    if kind != baseline.device_kind {
        let text = format!(
            "the baseline `{}` was made on {}, and this run is on {}",
            arguments.baseline.display(),
            baseline.device_kind.as_str(),
            kind.as_str()
        );
        return Err(CliError::usage(text).with_hint("keep a baseline for each: `--baseline FILE`"));
    }
    if arguments.goals {
        gate_goals::check(kernel, &space)?;
    }
    // From here on others wait: two candidates at once would disturb each other's times.
    let log = evaluate_rule::take_log(&one.candidate.out, &kernel.name, &asked.setup.choice)?;
    let judged = judge(&one, call, &asked, Some(&rival), &arguments.demands(kernel))?;
    if let Some(hit) = verdict_answer::limit_hit(&judged.single.evaluation.verdict, &one) {
        call.hit(hit);
    }
    let mut sheet = sheet(arguments, &asked, &judged, &baseline, &rival);
    if let Some(goals) = kernel.goals.as_ref().filter(|_| arguments.goals) {
        sheet.goals = gate_goals::judge(arguments, &asked, goals, &judged)?;
    }
    let parts = GateParts { arguments, asked: &asked, judged: &judged, baseline: &baseline, sheet: &sheet };
    let recorded = gate_record::record(&parts, &log)?;
    answer(&parts, call, recorded)
}

fn unreadable(error: BaselineError) -> CliError {
    let hint = "`evo gate SPACE --init` makes a baseline; `--baseline FILE` names another";
    let own = CliError::usage(error.to_string()).with_hint(hint).with_code(ErrorCode::BadFile);
    let (file, line, column) = match error {
        BaselineError::Unreadable { path, .. } => (path, None, None),
        BaselineError::Malformed { path, line, column, .. } => (path, line, column),
    };
    own.at(ErrorPlace { file, line, column })
}

/// The baseline as a candidate of its own source in the space as it is now.
fn rival(arguments: &GateArgs, space: &str, baseline: &GateBaseline) -> Result<ChosenRival, CliError> {
    let file = words::named_space(&[space.to_string()]).open(arguments.run.access.access())?;
    let kernel = session::kernel_of(&file)?;
    let shown = arguments.baseline.display();
    let other = |differences: Vec<String>| {
        let text = format!("the baseline `{shown}` is of another space:\n  {}", differences.join("\n  "));
        let error = CliError::usage(text).at(ErrorPlace::file(&arguments.baseline));
        error.with_hint("name its space, or make a baseline of this one with `--init`")
    };
    if kernel.name != baseline.kernel {
        let (own, its) = (&kernel.name, &baseline.kernel);
        return Err(other(vec![format!("its kernel is `{its}`, that of `{space}` is `{own}`")]));
    }
    // A baseline that was made slower by hand would let every regression through.
    if baseline.source_hash.as_ref() != Some(&gate_record::hash_alone(&baseline.source)) {
        let text = format!("the source in the baseline `{shown}` is not the one whose hash it carries");
        let error = CliError::bad_file(text, &arguments.baseline);
        return Err(error.with_hint("take the committed file, or make a baseline anew with `--init`"));
    }
    let configuration = &baseline.configuration;
    let Some(genome) = file.space.genome(configuration) else {
        return Err(other(differences(configuration, &file.space)));
    };
    // Candidates are read from files; these lie in a folder that is gone when they have been read.
    let place =
        tempfile::tempdir().map_err(|error| CliError::harness(format!("no temporary folder: {error}")))?;
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text)
            .map(|()| path)
            .map_err(|error| CliError::harness(format!("cannot keep {name}: {error}")))
    };
    let source = write("kernel.cu", &baseline.source)?;
    let launch = baseline.launch.as_ref().map(|own| write("launch.json", &format!("{own:#}"))).transpose()?;
    let request = CandidateRequest {
        configuration: ConfigurationChoice::Words(genome),
        source: Some(TextChoice::File(&source)),
        launch: launch.as_deref().map(TextChoice::File),
        out: &arguments.files.out,
        study: None,
        device: candidate::kind_of(&arguments.run.device),
        render_apart: true,
    };
    let resolved = resolve(file, &request).map_err(|error| {
        let folder = format!("{}/", place.path().display());
        other(vec![error.to_string().replace(&folder, &format!("{shown}: "))])
    })?;
    let (name, why) = ("baseline".to_string(), "`--baseline` names it".to_string());
    Ok(ChosenRival { resolved, name, why, incumbent: None, notes: Vec::new() })
}

/// The rows, in the order of the space file, and behind them what only the baseline has.
fn sheet(
    arguments: &GateArgs,
    asked: &AskedCandidate,
    judged: &JudgedGate,
    baseline: &GateBaseline,
    rival: &ChosenRival,
) -> GateSheet {
    let file = &asked.candidate.file;
    let timed = asked.kernel().map(|kernel| {
        let kind = asked.setup.choice.kind;
        let all = session::problems(kernel, kind, &[]).unwrap_or_default();
        all.into_iter().filter(|own| own.timed).map(|own| own.name.clone()).collect::<Vec<String>>()
    });
    let timed = timed.unwrap_or_default();
    let mut problems: Vec<GatedProblem> =
        timed.iter().map(|name| problem(name, asked, judged, baseline)).collect();
    let gone = baseline.problems.keys().filter(|name| !timed.contains(name));
    problems.extend(gone.map(|name| {
        let why = format!("the baseline has `{name}`, and the space times no such problem");
        blank(name, baseline, GatedDecision::Missing, why)
    }));
    let mut notes = rival.notes.clone();
    if baseline.space_hash != gate_record::space_hash(asked) {
        notes.push("the space file was edited since the baseline was made".to_string());
    }
    let embedded = catalog::names().contains(&asked.setting.space.as_str());
    GateSheet {
        kernel: asked.setting.kernel.clone(),
        baseline: arguments.baseline.display().to_string(),
        device: judged.device.as_ref().map_or(asked.setting.device.clone(), |own| own.name.clone()),
        threshold: arguments.threshold,
        file: (!embedded).then(|| file.path.display().to_string()),
        problems,
        goals: Vec::new(),
        missing: judged.missing.clone(),
        not_compared: judged.not_compared.clone(),
        notes,
    }
}

fn blank(name: &str, baseline: &GateBaseline, decision: GatedDecision, why: String) -> GatedProblem {
    GatedProblem {
        problem: name.to_string(),
        line: None,
        decision,
        why,
        correct: None,
        finding: None,
        rounds: None,
        baseline_p50_ns: None,
        candidate_p50_ns: None,
        mann_whitney_p: None,
        cliffs_delta: None,
        stored_p50_ns: baseline.problems.get(name).map(|own| own.p50_ns),
    }
}

fn sizes_in_words(sizes: &BTreeMap<String, i64>) -> String {
    sizes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(" ")
}

fn problem(name: &str, asked: &AskedCandidate, judged: &JudgedGate, baseline: &GateBaseline) -> GatedProblem {
    let line = problem_line(&asked.candidate.file.text, name);
    let with = |decision, why: String| GatedProblem { line, ..blank(name, baseline, decision, why) };
    let verdict = &judged.single.evaluation.verdict;
    if !judged.is_correct() {
        let why = format!("the candidate is refused: {}: {}", verdict.label(), verdict.message);
        return GatedProblem { correct: Some(false), ..with(GatedDecision::Incorrect, why) };
    }
    let plans = judged.job.as_ref().map(|job| &job.timed[..]).unwrap_or_default();
    let at = plans.iter().position(|plan| plan.name == name);
    let compared = at.and_then(|at| Some((&plans[at], judged.compared.get(at)?)));
    let Some((plan, own)) = compared else {
        let why = judged.not_compared.clone().unwrap_or_else(|| "it was not timed".into());
        return GatedProblem { correct: Some(true), ..with(GatedDecision::NotRun, why) };
    };
    let stored = baseline.problems.get(name);
    // Under its name there is another problem now: what the baseline was good at was not looked at.
    if let Some(before) = stored.filter(|own| own.sizes != plan.sizes) {
        let [before, now] = [&before.sizes, &plan.sizes].map(sizes_in_words);
        let why = format!("the baseline has `{name}` with {before}, and the space times it with {now}");
        let correct = Some(true);
        return GatedProblem { correct, stored_p50_ns: None, ..with(GatedDecision::Missing, why) };
    }
    let stored_p50_ns = stored.map(|own| own.p50_ns);
    let Some(found) = own.finding else {
        let why = own.error.clone().unwrap_or_default();
        return GatedProblem { correct: Some(true), stored_p50_ns, ..with(GatedDecision::NotRun, why) };
    };
    let gap = (found.ratio - 1.0) * 100.0;
    let low = (found.ratio_low - 1.0) * 100.0;
    let why = match found.decision {
        RegressionDecision::Pass => String::new(),
        RegressionDecision::Regression => {
            format!("slower by {gap:.1} % (at least {low:.1} %) than the baseline")
        }
        RegressionDecision::Noisy => {
            format!("{gap:+.1} % under a noise floor of {:.1} %: it cannot be told", found.floor * 100.0)
        }
    };
    GatedProblem {
        correct: Some(true),
        finding: Some(found),
        rounds: Some(own.rounds),
        baseline_p50_ns: Some(median(&own.baseline_ns)).filter(|time| time.is_finite()),
        candidate_p50_ns: Some(median(&own.candidate_ns)).filter(|time| time.is_finite()),
        mann_whitney_p: mann_whitney_p(&own.candidate_ns, &own.baseline_ns),
        cliffs_delta: cliffs_delta(&own.candidate_ns, &own.baseline_ns),
        stored_p50_ns,
        ..with(GatedDecision::Compared(found.decision), why)
    }
}

fn answer(
    parts: &GateParts<'_>,
    call: &Call,
    recorded: gate_record::RecordedGate,
) -> Result<Answer, CliError> {
    let GateParts { arguments, sheet, .. } = parts;
    let (outcome, why) = sheet.outcome();
    let (exit, status) = match outcome {
        GateOutcome::Pass => (ExitCode::Done, EnvelopeStatus::Pass),
        GateOutcome::Fail => (ExitCode::Failed, EnvelopeStatus::Fail),
        GateOutcome::NotRun => (ExitCode::Failed, EnvelopeStatus::NotRun),
        GateOutcome::Noisy => (ExitCode::Failed, EnvelopeStatus::Noisy),
    };
    let (mut result, mut reasons) = sheet.fields();
    result["number"] = recorded.number.into();
    result["files"] = json!(recorded.files);
    result["updated"] = recorded.updated.into();
    let allowed_goals = sheet.goals.iter().filter(|goal| goal.is_allowed).map(|goal| goal.name.to_string());
    let mut allowed_not_run: Vec<String> =
        parts.judged.allowed.iter().cloned().chain(allowed_goals).collect();
    allowed_not_run.dedup();
    if sheet.problems.is_empty() {
        reasons.insert("result.problems".into(), why.clone());
    }
    let table = sheet.markdown();
    if arguments.is_for_github() {
        let commands = github::commands(sheet.annotations());
        let text = || commands.iter().map(|line| format!("{line}\n")).collect::<String>();
        match call.is_json() {
            true => commands.iter().for_each(|line| output::say(line)),
            false => output::stdout(&text())?,
        }
        summarize(&table);
    }
    if !call.is_json() {
        let updated = if recorded.updated { ", and is the baseline now" } else { "" };
        output::stdout(&format!("{table}\n{}: {why}{updated}\n", outcome.as_str()))?;
    }
    Ok(Answer { status, reasons, allowed_not_run, ..Answer::from(exit) }.in_brief(result))
}

/// Appends the table to the page that GitHub shows of the step. Where that fails, the answer stays what it is.
fn summarize(table: &str) {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else { return };
    let path = Path::new(&path);
    if let Err(error) = gate_record::append(path, table) {
        output::say(&format!(
            "warning: cannot append to `{}` (GITHUB_STEP_SUMMARY): {error}",
            path.display()
        ));
    }
}
