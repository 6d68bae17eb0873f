//! `evo gate`: a candidate beside a committed baseline, for CI. Both are measured in this run; what could not be seen never
//! passes.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use evo_protocol::envelope::{EnvelopeStatus, ErrorCode, ErrorPlace};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::{Known, told};
use evo_protocol::leaderboard::PairedDecision;
use evo_protocol::measurement::Measurement;
use evo_protocol::plan::ProblemPlan;
use evo_space::diagnostic::nearest;
use evo_space::genome::{Configuration, ContentHash};
use serde_json::json;

use super::answer::Answer;
use super::call::Call;
use super::candidate::{self, CandidateArgs, named};
use super::error::CliError;
use super::evaluate::{self, share};
use super::exit_code::ExitCode;
use super::judge::{self, Aim, AskedCandidate, JobDepth, Judged, limit_hit, ranking_rival, samples, time_of};
use super::one_args::{RunArgs, TestOneArgs};
use super::profile::{CounterLook, CounterOrder, CounterSubject, error_of, look};
use super::rival::ChosenRival;
use super::{bench as bench_command, device_lane, output, peers, session, words};
use crate::bench::{self, BenchOrder, BenchRow, RowStatus};
use crate::engine::candidate::{
    CandidateKind, CandidateRequest, ConfigurationChoice, TextChoice, differences, resolve,
};
use crate::engine::regress::{ComparedProblem, compare_rounds};
use crate::engine::single::Single;
use crate::inspect::profile::{KnownSources, MetricSet};
use crate::journal::baseline::{
    BASELINE_SCHEMA, BASELINE_VERSION, BaselineError, BaselineTimes, GateBaseline,
};
use crate::journal::error::JournalError;
use crate::journal::iterations::{GateRun, GateRunProblem};
use crate::journal::iterations::{IterationCandidate, IterationLog};
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;
use crate::kernel::catalog;
use crate::kernel::launch_file::LaunchFile;
use crate::kernel::load::problem_line;
use crate::kernel::render::render;
use crate::kernel::spec::{FasterGoal, GoalsSpec, KernelSpec, MetricGoal};
use crate::peer::SHIPPED;
use crate::regular;
use crate::report::envelope::ResultAlone;
use crate::report::gate::{
    GateInit, GateOutcome, GateResult, GateSheet, GatedDecision, GatedProblem, GoalState, JudgedGoal, percent,
};
use crate::report::github;
use crate::report::profile::ProfileResult;
use crate::supervise::lane::LaneOptions;
use crate::timing::acceptance::tail_ratio;
use crate::timing::paired::claimable;
use crate::timing::rank_test::{cliffs_delta, mann_whitney_p};
use crate::timing::regression::RegressionDecision;
use crate::timing::stats::median;
use crate::tool::{GitState, ToolPlaces, git_state};

/// Runs the command.
pub fn run(arguments: &GateArgs, call: &Call) -> Result<Answer, CliError> {
    if arguments.init {
        return init(arguments, call);
    }
    let baseline = GateBaseline::read(&arguments.baseline).map_err(unreadable)?;
    check_place(&arguments.baseline)?;
    let space = arguments.space.clone().unwrap_or_else(|| baseline.space.clone());
    let rival = rival(arguments, &space, &baseline)?;
    let one = arguments.one(&space, Some(&baseline.configuration));
    let asked = judge::ask(&one, call, Aim::Gate)?;
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
        check(kernel, &space)?;
    }
    // From here on others wait: two candidates at once would disturb each other's times.
    let log = evaluate::take_log(&one.candidate.out, &kernel.name, &asked.setup.choice)?;
    let gate = judge(&one, call, &asked, Some(&rival), &arguments.demands(kernel))?;
    if let Some(hit) = limit_hit(&gate.judged.evaluation().verdict, &one) {
        call.hit(hit);
    }
    let mut sheet = sheet(arguments, &asked, &gate, &baseline, &rival);
    if let Some(goals) = kernel.goals.as_ref().filter(|_| arguments.goals) {
        sheet.goals = judge_goals(arguments, &asked, goals, &gate)?;
    }
    let parts = GateParts { arguments, asked: &asked, gate: &gate, baseline: &baseline, sheet: &sheet };
    let recorded = record(&parts, &log)?;
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
    if baseline.source_hash.as_ref() != Some(&hash_alone(&baseline.source)) {
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
    gate: &JudgedGate,
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
        timed.iter().map(|name| problem(name, asked, gate, baseline)).collect();
    let gone = baseline.problems.keys().filter(|name| !timed.contains(name));
    problems.extend(gone.map(|name| {
        let why = format!("the baseline has `{name}`, and the space times no such problem");
        GatedProblem {
            stored_p50_ns: stored(baseline, name),
            ..GatedProblem::blank(name, GatedDecision::Missing, why)
        }
    }));
    let mut notes = rival.notes.clone();
    if baseline.space_hash != space_hash(asked) {
        notes.push("the space file was edited since the baseline was made".to_string());
    }
    let embedded = catalog::names().contains(&asked.setting.space.as_str());
    GateSheet {
        kernel: asked.setting.kernel.clone(),
        baseline: arguments.baseline.display().to_string(),
        device: gate.judged.device.as_ref().map_or(asked.setting.device.clone(), |own| own.name.clone()),
        threshold: arguments.threshold,
        file: (!embedded).then(|| file.path.display().to_string()),
        problems,
        goals: Vec::new(),
        missing: gate.judged.findings.missing.clone(),
        not_compared: gate.judged.findings.not_compared.clone(),
        notes,
    }
}

fn sizes_in_words(sizes: &BTreeMap<String, i64>) -> String {
    sizes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(" ")
}

/// The baseline's time when it was made.
fn stored(baseline: &GateBaseline, name: &str) -> Known<f64> {
    let time = baseline.problems.get(name).map(|times| times.p50_ns);
    Known::of(time, "the baseline has no time at these sizes")
}

fn problem(name: &str, asked: &AskedCandidate, gate: &JudgedGate, baseline: &GateBaseline) -> GatedProblem {
    let with = |decision, why: String| GatedProblem {
        line: problem_line(&asked.candidate.file.text, name),
        correct: Known::Is(gate.is_correct()),
        stored_p50_ns: stored(baseline, name),
        ..GatedProblem::blank(name, decision, why)
    };
    let verdict = &gate.judged.evaluation().verdict;
    if !gate.is_correct() {
        let why = format!("the candidate is refused: {}: {}", verdict.label(), verdict.message);
        return with(GatedDecision::Incorrect, why);
    }
    let plans = gate.judged.plans();
    let at = plans.iter().position(|plan| plan.name == name);
    let Some((plan, times)) = at.and_then(|at| Some((&plans[at], gate.compared.get(at)?))) else {
        let why = gate.judged.findings.not_compared.clone().unwrap_or_else(|| "it was not timed".into());
        return with(GatedDecision::NotRun, why);
    };
    // Under its name there is another problem now: what the baseline was good at was not looked at.
    if let Some(before) = baseline.problems.get(name).filter(|before| before.sizes != plan.sizes) {
        let [before, now] = [&before.sizes, &plan.sizes].map(sizes_in_words);
        let why = format!("the baseline has `{name}` with {before}, and the space times it with {now}");
        let stored_p50_ns = Known::Unknown("the baseline has no time at these sizes".into());
        return GatedProblem { stored_p50_ns, ..with(GatedDecision::Missing, why) };
    }
    let Some(found) = times.finding else {
        return with(GatedDecision::NotRun, times.error.clone().unwrap_or_default());
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
    let number = |value| Known::number(Some(value), "it was not compared");
    let ranked = |value| Known::number(value, "all times are equal");
    GatedProblem {
        baseline_p50_ns: number(median(&times.baseline_ns)),
        candidate_p50_ns: number(median(&times.candidate_ns)),
        ratio: number(found.ratio),
        ratio_low: number(found.ratio_low),
        ratio_high: number(found.ratio_high),
        floor: number(found.floor),
        rounds: Known::Is(times.rounds),
        p: number(found.p),
        mann_whitney_p: ranked(mann_whitney_p(&times.candidate_ns, &times.baseline_ns)),
        cliffs_delta: ranked(cliffs_delta(&times.candidate_ns, &times.baseline_ns)),
        ..with(GatedDecision::Compared(found.decision), why)
    }
}

fn answer(parts: &GateParts<'_>, call: &Call, recorded: RecordedGate) -> Result<Answer, CliError> {
    let GateParts { arguments, sheet, .. } = parts;
    let (outcome, why) = sheet.outcome();
    let (exit, status) = match outcome {
        GateOutcome::Pass => (ExitCode::Done, EnvelopeStatus::Pass),
        GateOutcome::Fail => (ExitCode::Failed, EnvelopeStatus::Fail),
        GateOutcome::NotRun => (ExitCode::Failed, EnvelopeStatus::NotRun),
        GateOutcome::Noisy => (ExitCode::Failed, EnvelopeStatus::Noisy),
    };
    let result = GateResult {
        files: Some(&recorded.files),
        updated: Some(recorded.updated),
        ..sheet.result(recorded.number)
    };
    let allowed_goals = sheet.goals.iter().filter(|goal| goal.is_allowed).map(|goal| goal.name.to_string());
    let mut allowed_not_run: Vec<String> =
        parts.gate.judged.allowed.iter().cloned().chain(allowed_goals).collect();
    allowed_not_run.dedup();
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
    Ok(Answer { status, allowed_not_run, ..Answer::of(exit, &ResultAlone { result }) })
}

/// Appends the table to the page that GitHub shows of the step. Where that fails, the answer stays what it is.
fn summarize(table: &str) {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else { return };
    let path = Path::new(&path);
    if let Err(error) = append(path, table) {
        output::say(&format!(
            "warning: cannot append to `{}` (GITHUB_STEP_SUMMARY): {error}",
            path.display()
        ));
    }
}

/// Refuses goals that nothing could ever reach, before the candidate is judged.
fn check(kernel: &KernelSpec, space: &str) -> Result<(), CliError> {
    let Some(goals) = &kernel.goals else {
        let text = format!("`{space}` has no `[goals]`");
        return Err(CliError::usage(text).with_hint("add [goals] to the space file, or leave `--goals` out"));
    };
    let unknown = goals.faster_than.iter().find(|own| peers::named(&own.peer, &kernel.peers).is_none());
    let Some(FasterGoal { peer, .. }) = unknown else { return Ok(()) };
    let known = kernel.peers.iter().map(|own| own.name.as_str()).chain(SHIPPED.iter().copied());
    let hint = match nearest(peer, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}; [[peers]] adds others", known.collect::<Vec<_>>().join(", ")),
    };
    let text = format!("`faster_than` in [goals] of `{space}` names the peer `{peer}`, which nobody has");
    Err(CliError::usage(text)
        .with_hint(hint)
        .with_code(ErrorCode::BadFile)
        .at(ErrorPlace::file(Path::new(space))))
}

/// Judges all goals.
///
/// # Errors
/// evo's own folders and files. What a tool does not answer is in the goals.
fn judge_goals(
    arguments: &GateArgs,
    asked: &AskedCandidate,
    goals: &GoalsSpec,
    gate: &JudgedGate,
) -> Result<Vec<JudgedGoal>, CliError> {
    let mut found = faster_than(arguments, asked, &goals.faster_than, gate)?;
    found.extend(goals.p90_not_worse.then(|| p90(gate, asked.seed)));
    found.extend(metrics(arguments, asked.kernel()?, &goals.metrics, gate)?);
    for goal in &mut found {
        goal.is_allowed =
            goal.state == GoalState::NotRun && arguments.allow_not_run.iter().any(|own| own == goal.name);
    }
    Ok(found)
}

fn goal(name: &'static str, goal: String, state: GoalState, why: impl Into<String>) -> JudgedGoal {
    JudgedGoal { name, goal, state, why: why.into(), is_allowed: false }
}

/// Whether the candidate is faster than peers.
fn faster_than(
    arguments: &GateArgs,
    asked: &AskedCandidate,
    goals: &[FasterGoal],
    gate: &JudgedGate,
) -> Result<Vec<JudgedGoal>, CliError> {
    let none = |_| (GoalState::NotRun, "the candidate did not pass its gates".to_string());
    let found = match gate.is_correct() {
        true => judge_peers(arguments, asked, goals)?,
        false => goals.iter().map(none).collect(),
    };
    let one = |(own, (state, why)): (&FasterGoal, PeerFinding)| {
        let text = format!("faster_than {} by {} on {} problems", own.peer, percent(own.by), own.problems);
        goal("faster_than", text, state, why)
    };
    Ok(goals.iter().zip(found).map(one).collect())
}

/// Whether the slowest calls are no slower than the baseline's, beyond noise.
fn p90(gate: &JudgedGate, seed: u64) -> JudgedGoal {
    let text = "p90 not worse".to_string();
    let (Some(baseline), Some(job)) = (&gate.baseline, &gate.judged.job) else {
        return goal("p90", text, GoalState::NotRun, "nothing was compared");
    };
    let mut worst: Option<(String, f64)> = None;
    for (at, plan) in job.timed.iter().enumerate() {
        let floor = gate.compared.get(at).and_then(|own| own.finding).map(|found| found.floor);
        let own = samples(gate.judged.evaluation(), plan, gate.judged.mode);
        let tail = tail_ratio(&own, &samples(baseline, plan, gate.judged.mode), seed);
        let (Some(tail), Some(floor)) = (tail, floor.filter(|floor| floor.is_finite())) else {
            let why = format!("`{}` has too few samples to compare its p90", plan.name);
            return goal("p90", text, GoalState::NotRun, why);
        };
        let loss = tail.low - 1.0;
        if loss > claimable(floor) && worst.as_ref().is_none_or(|(_, most)| loss > *most) {
            worst = Some((plan.name.clone(), loss));
        }
    }
    match worst {
        Some((name, loss)) => {
            let why = format!("the p90 of `{name}` is worse by {} at least", percent(loss));
            goal("p90", text, GoalState::Unmet, why)
        }
        None => goal("p90", text, GoalState::Met, "no p90 is worse beyond the noise"),
    }
}

/// Whether a profiler's counters keep to their bounds, in every launch of every canonical problem.
fn metrics(
    arguments: &GateArgs,
    kernel: &KernelSpec,
    goals: &[MetricGoal],
    gate: &JudgedGate,
) -> Result<Vec<JudgedGoal>, CliError> {
    if goals.is_empty() {
        return Ok(Vec::new());
    }
    let all = |state: GoalState, why: &str| -> Vec<JudgedGoal> {
        goals.iter().map(|own| goal("metrics", own.text.clone(), state, why)).collect()
    };
    let (Some(job), Some(device), Some(options)) = (&gate.judged.job, &gate.judged.device, &gate.options)
    else {
        return Ok(all(GoalState::NotRun, "the candidate did not reach the device"));
    };
    if !gate.is_correct() {
        return Ok(all(GoalState::NotRun, "the candidate did not pass its gates"));
    }
    let is_canonical =
        |plan: &&ProblemPlan| kernel.problems.iter().any(|own| own.name == plan.name && own.canonical);
    let mut seen: Vec<(String, ProfileResult)> = Vec::new();
    for plan in job.timed.iter().filter(is_canonical) {
        let sources = KnownSources {
            device,
            plan,
            resources: &gate.judged.evaluation().resources,
            attributes: &[],
            time_ns: None,
            mode: gate.judged.mode,
        };
        let order = CounterOrder {
            set: MetricSet::Wide,
            further: &[],
            ncu: None,
            keep_report: false,
            limit: arguments.run.limits.limit_tool,
        };
        let CounterLook { profile, .. } = look(&CounterSubject { options, job, sources }, &order)?;
        if let Err(none) = &profile.counters {
            return Ok(all(GoalState::NotRun, &error_of(none).to_string()));
        }
        seen.push((plan.name.clone(), ProfileResult::of(&profile)));
    }
    if seen.is_empty() {
        return Ok(all(GoalState::NotRun, "no canonical problem was timed"));
    }
    Ok(goals.iter().map(|own| metric(own, &seen)).collect())
}

fn metric(own: &MetricGoal, seen: &[(String, ProfileResult)]) -> JudgedGoal {
    let text = own.text.clone();
    let mut values = Vec::new();
    for (problem, profile) in seen {
        for launch in &profile.launches {
            let Some(value) = launch.metrics.get(&own.metric).and_then(Known::value).copied() else {
                let why = format!("`{}` of `{problem}` has no value", own.metric);
                return goal("metrics", text, GoalState::NotRun, why);
            };
            values.push((problem, value));
        }
    }
    match values.iter().find(|(_, value)| !own.holds(*value)) {
        Some((problem, value)) => {
            goal("metrics", text, GoalState::Unmet, format!("it is {value} on `{problem}`"))
        }
        None if values.is_empty() => goal("metrics", text, GoalState::NotRun, "no launch was profiled"),
        None => goal("metrics", text, GoalState::Met, "it holds in every launch"),
    }
}

/// A candidate beside the baseline.
struct JudgedGate {
    judged: Judged,
    /// The baseline, where it passed its gates.
    baseline: Option<Evaluation>,
    /// For each timed problem; empty where nothing was compared.
    compared: Vec<ComparedProblem>,
    /// Of a candidate without a baseline.
    noise_floor: Option<f64>,
    /// What workers are told, for a profiler; absent where the candidate did not reach the device.
    options: Option<LaneOptions>,
}

impl JudgedGate {
    /// Whether the candidate passed.
    fn is_correct(&self) -> bool {
        self.judged.evaluation().verdict.is_pass()
    }
}

/// Judges the candidate, and compares it with the baseline where both pass; without one, only its own noise floor is
/// measured.
fn judge(
    one: &TestOneArgs,
    call: &Call,
    asked: &AskedCandidate,
    baseline: Option<&ChosenRival>,
    demands: &GateDemands,
) -> Result<JudgedGate, CliError> {
    let alone = |judged| JudgedGate {
        judged,
        baseline: None,
        compared: Vec::new(),
        noise_floor: None,
        options: None,
    };
    if let Some(refused) = asked.refused() {
        return Ok(alone(Judged::refused(Single::refused(refused), asked.mode()?)));
    }
    let mut opened = asked.open(one, call)?;
    let mut gate = alone(judge::judge(one, asked, &mut opened, JobDepth::DEEP, None, |_| ())?);
    let Some(job) = gate.judged.job.clone() else { return Ok(gate) };
    let kernel = asked.kernel()?;
    gate.options =
        Some(device_lane::lane_options(&asked.setup, one.run.worker_command.as_deref(), Some(kernel))?);
    gate.judged.findings.not_compared = None;
    if gate.is_correct() {
        let count = job.timed.len();
        match baseline {
            Some(rival) => match ranking_rival(one, &mut opened, asked, rival)? {
                Ok((evaluation, against)) => {
                    opened.lane.expect_pairs();
                    let (lane, threshold) = (&mut opened.lane, demands.threshold);
                    gate.compared = compare_rounds(lane, &against, &job, count, threshold, asked.seed);
                    gate.baseline = Some(evaluation);
                }
                Err(why) => {
                    gate.judged.findings.not_compared = Some(why.replace("the rival", "the baseline"));
                }
            },
            None => {
                let floor = opened.lane.noise_floor(&job, count);
                gate.noise_floor = floor.ok().map(|found| found.floor).filter(|floor| floor.is_finite());
            }
        }
    }
    // Its process holds the device, which the sanitizer's is to have for itself.
    drop(opened);
    if demands.sanitizer {
        evaluate::sanitize(one, asked, &mut gate.judged)?;
    }
    Ok(gate)
}

/// The candidate in rows. No peer can have this name.
const OWN: &str = "@candidate";

/// What became of a goal, and why.
type PeerFinding = (GoalState, String);

/// The rows of a run with one peer, or why there are none.
type PeerRows = Result<Vec<BenchRow>, String>;

/// Judges goals of a candidate that passed its gates. Each peer has a run of its own, so that the best right
/// implementation of a row is that peer's.
///
/// # Errors
/// The device is lost, or evo or the machine failed. What a peer does not do is in the findings.
fn judge_peers(
    arguments: &GateArgs,
    asked: &AskedCandidate,
    goals: &[FasterGoal],
) -> Result<Vec<PeerFinding>, CliError> {
    let mut seen: BTreeMap<&str, PeerRows> = BTreeMap::new();
    for goal in goals {
        if !seen.contains_key(goal.peer.as_str()) {
            seen.insert(&goal.peer, beside(arguments, asked, &goal.peer)?);
        }
    }
    let one = |goal: &FasterGoal| match seen.get(goal.peer.as_str()) {
        Some(Ok(rows)) => decide(goal, rows),
        Some(Err(why)) => (GoalState::NotRun, why.clone()),
        None => (GoalState::NotRun, "nothing was compared".to_string()),
    };
    Ok(goals.iter().map(one).collect())
}

/// Runs the candidate beside a peer.
fn beside(arguments: &GateArgs, asked: &AskedCandidate, name: &str) -> Result<PeerRows, CliError> {
    let kernel = asked.kernel()?;
    let Some(spec) = peers::named(name, &kernel.peers) else {
        return Ok(Err(format!("there is no peer `{name}`")));
    };
    let setup = &asked.setup;
    let seats = match peers::start(&[spec], &setup.choice.spec, false) {
        Ok(seats) => seats,
        Err(error) => return Ok(Err(error.to_string().lines().next().unwrap_or_default().to_string())),
    };
    let mut lane = device_lane::lane(setup, arguments.run.worker_command.as_deref(), Some(kernel))?;
    let mut shapes = bench::of_problems(kernel, setup.choice.kind);
    shapes.retain(|shape| !shape.problem.on_request);
    let problems: Vec<_> = shapes.iter().map(|shape| &shape.problem).collect();
    let own = bench_command::own_candidate(OWN, &asked.candidate, &problems, setup, &lane, asked.seed)?;
    let ranking = kernel.objective.ranking.timing();
    let order = BenchOrder {
        lane: &mut lane,
        kernel,
        own: vec![own],
        peers: seats,
        shapes: &shapes,
        modes: &[ranking],
        ranking,
        rounds: bench_command::ROUNDS,
        // The gate has just looked at the candidate for as long as at a finalist.
        deep: false,
        until: None,
        seed: asked.seed,
        cache: setup.farm.cache.clone(),
    };
    let done = bench::run(order, &mut |prepared| judge::compile(setup, prepared), &mut |_, _| Ok(()));
    done.map(|(rows, _)| Ok(rows)).map_err(bench_command::ended)
}

/// The candidate beside the peer on one problem.
enum Beside {
    /// By the share at least: the whole interval says so.
    Faster(String),
    NotFaster(String),
    Unknown(String),
}

/// Three values: problems of which nothing is known may decide either way.
fn decide(goal: &FasterGoal, rows: &[BenchRow]) -> PeerFinding {
    let own = rows.iter().filter(|row| row.implementation == OWN);
    let (mut faster, mut others, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for row in own {
        match on_problem(goal, row, rows) {
            Beside::Faster(text) => faster.push(text),
            Beside::NotFaster(text) => others.push(text),
            Beside::Unknown(text) => open.push(text),
        }
    }
    let count = faster.len() + others.len() + open.len();
    if faster.len() >= goal.problems {
        return (GoalState::Met, faster.join(", "));
    }
    if count < goal.problems {
        let why = format!("it asks for {} problems, and this device times {count}", goal.problems);
        return (GoalState::NotRun, why);
    }
    if faster.len() + open.len() >= goal.problems {
        return (GoalState::NotRun, open.join("; "));
    }
    others.extend(open);
    (
        GoalState::Unmet,
        format!("faster by {} on {} of {count}: {}", percent(goal.by), faster.len(), others.join(", ")),
    )
}

fn on_problem(goal: &FasterGoal, own: &BenchRow, rows: &[BenchRow]) -> Beside {
    let problem = &own.problem;
    if own.status != RowStatus::Pass {
        let why = own.reason.as_deref().unwrap_or("it was not timed");
        return Beside::Unknown(format!("the candidate on `{problem}`: {why}"));
    }
    let peers = || rows.iter().filter(|row| row.problem == *problem && row.implementation != OWN);
    let told = |row: &BenchRow| {
        let why = row.reason.as_deref().unwrap_or("it did not run");
        format!("`{}` on `{problem}`: {why}", row.implementation)
    };
    // The one that did not run may be the fastest of them.
    if let Some(row) = peers().find(|row| row.status == RowStatus::NotRun) {
        return Beside::Unknown(told(row));
    }
    if !peers().any(|row| row.status == RowStatus::Pass) {
        let why: Vec<String> = peers().map(told).collect();
        let none = || format!("`{}` has no answer on `{problem}`", goal.peer);
        return Beside::Unknown(if why.is_empty() { none() } else { why.join("; ") });
    }
    let (Some(ratio), Some(high), Some(decision)) = (own.ratio_to_best_peer, own.ratio_high, own.decision)
    else {
        return Beside::Unknown(format!("the noise floor of `{problem}` is not known"));
    };
    // The speed-up is the inverse of the ratio of times, and so its lower end that of the ratio's upper one.
    let text = format!("`{problem}` {:.3}× (at least {:.3}×)", 1.0 / ratio, 1.0 / high);
    match decision == PairedDecision::Faster && 1.0 / high >= 1.0 + goal.by {
        true => Beside::Faster(text),
        false => Beside::NotFaster(text),
    }
}

/// The folder of the last run's files.
const FOLDER: &str = "gate";

/// All that is known of a run.
struct GateParts<'a> {
    pub arguments: &'a GateArgs,
    pub asked: &'a AskedCandidate,
    pub gate: &'a JudgedGate,
    pub baseline: &'a GateBaseline,
    pub sheet: &'a GateSheet,
}

/// What was written.
struct RecordedGate {
    /// Of the line.
    pub number: u64,
    pub files: Vec<String>,
    /// Whether the candidate is the baseline now.
    pub updated: bool,
}

/// Appends the line, writes the files, and after a pass the baseline where `--update` asks for that.
fn record(parts: &GateParts<'_>, log: &IterationLog) -> Result<RecordedGate, CliError> {
    let (outcome, why) = parts.sheet.outcome();
    let git = git_state(Path::new("."), &ToolPlaces::of_environment());
    let line = log.append(line(parts, &git, outcome, &why))?;
    let files = write_files(parts, line.number)?;
    let updated = parts.arguments.update && outcome == GateOutcome::Pass;
    if updated {
        write_baseline(&parts.arguments.baseline, &baseline(parts.asked, parts.gate, git)?)?;
    }
    Ok(RecordedGate { number: line.number, files, updated })
}

fn line(parts: &GateParts<'_>, git: &GitState, outcome: GateOutcome, why: &str) -> GateRun {
    let GateParts { asked, gate, sheet, baseline, .. } = parts;
    let own = &asked.candidate;
    let is_source = own.provenance.kind == CandidateKind::Source;
    let kernel = own.file.kernel.as_ref().filter(|_| is_source);
    let problem = |row: &GatedProblem| GateRunProblem {
        problem: row.problem.clone(),
        baseline_p50_ns: row.baseline_p50_ns.value().copied(),
        candidate_p50_ns: row.candidate_p50_ns.value().copied(),
        ratio: row.ratio.value().copied(),
        decision: row.decision.as_str().to_string(),
    };
    GateRun {
        format: 0,
        number: 0,
        at: now(),
        kernel: sheet.kernel.clone(),
        space: asked.setting.space.clone(),
        device: sheet.device.clone(),
        baseline: sheet.baseline.clone(),
        baseline_source_hash: baseline.source_hash.clone(),
        candidate: IterationCandidate {
            configuration: own.configuration.clone(),
            configuration_hash: own.configuration.hash(),
            source_hash: own.provenance.source_hash.clone(),
            code_hash: gate.judged.evaluation().code_hash.clone(),
            source: kernel.and_then(|kernel| render(kernel, &own.configuration).ok()).map(|own| own.text),
            launch: None,
        },
        threshold: sheet.threshold,
        decision: outcome.as_str().to_string(),
        why: why.to_string(),
        problems: sheet.problems.iter().map(problem).collect(),
        git_commit: git.commit.clone(),
        git_dirty: git.is_dirty,
    }
}

/// `gate.json` and `gate.md` of the last run.
fn write_files(parts: &GateParts<'_>, number: u64) -> Result<Vec<String>, CliError> {
    let GateParts { arguments, asked, gate, sheet, .. } = parts;
    let out = &arguments.files.out;
    let fail = |error| CliError::from(JournalError::io("write", &out.join(FOLDER), error));
    let folder = OwnFolder::create(out).and_then(|out| out.create_folder(FOLDER)).map_err(fail)?;
    let (result, reasons) = told(&ResultAlone { result: sheet.result(number) });
    let conditions =
        gate.judged.device.as_ref().map(|device| session::conditions(device, asked.seed, &names(gate)));
    let object = json!({
        "schema": "evo.gate.run", "version": 1, "at": now(), "kernel": sheet.kernel, "space": asked.setting.space,
        "device": sheet.device, "repro": asked.setting.repro,
        "conditions": conditions, "result": result["result"], "reasons": reasons,
    });
    let texts = [("gate.json", format!("{object:#}\n")), ("gate.md", sheet.markdown())];
    let mut files = Vec::new();
    for (name, text) in texts {
        JournalError::refuse_irregular(&folder, name)?;
        folder.replace(name, text.as_bytes(), true).map_err(fail)?;
        files.push(folder.place(name).display().to_string());
    }
    Ok(files)
}

fn names(gate: &JudgedGate) -> Vec<String> {
    let plans = gate.judged.plans();
    plans.iter().map(|plan| plan.name.clone()).collect()
}

/// The hash of a candidate's space file.
fn space_hash(asked: &AskedCandidate) -> ContentHash {
    ContentHash::of(asked.candidate.file.text.as_bytes())
}

/// Runs `evo gate --init`.
fn init(arguments: &GateArgs, call: &Call) -> Result<Answer, CliError> {
    let path = &arguments.baseline;
    check_place(path)?;
    refuse_another(path)?;
    let space = words::space_name(arguments.space.as_deref())?;
    let one = arguments.one(&space, None);
    let asked = judge::ask(&one, call, Aim::Gate)?;
    let demands = arguments.demands(asked.kernel()?);
    let kernel = asked.kernel()?.name.clone();
    let log = evaluate::take_log(&one.candidate.out, &kernel, &asked.setup.choice)?;
    let gate = judge(&one, call, &asked, None, &demands)?;
    let verdict = &gate.judged.evaluation().verdict;
    let (status, why) = match (gate.is_correct(), gate.judged.findings.missing.is_empty()) {
        (false, _) => (EnvelopeStatus::Fail, format!("{}: {}", verdict.label(), verdict.message)),
        (_, false) => (
            EnvelopeStatus::NotRun,
            format!("did not run, though demanded: {}", gate.judged.findings.missing.join(", ")),
        ),
        _ => (EnvelopeStatus::Pass, "it passed its gates".to_string()),
    };
    let is_written = status == EnvelopeStatus::Pass;
    if is_written {
        // Another call may have made one while this one waited for the device.
        refuse_another(path)?;
        let git = git_state(Path::new("."), &ToolPlaces::of_environment());
        write_baseline(path, &baseline(&asked, &gate, git)?)?;
    }
    drop(log);
    if !call.is_json() {
        let text = if is_written { "is the baseline now: commit it" } else { "was not written" };
        output::stdout(&format!("{why}\n`{}` {text}\n", path.display()))?;
    }
    let exit = if is_written { ExitCode::Done } else { ExitCode::Failed };
    let result =
        GateInit { decision: status, why, baseline: path.display().to_string(), updated: is_written };
    let allowed_not_run = gate.judged.allowed;
    Ok(Answer { status, allowed_not_run, ..Answer::of(exit, &ResultAlone { result }) })
}

fn baseline(asked: &AskedCandidate, gate: &JudgedGate, git: GitState) -> Result<GateBaseline, CliError> {
    let kernel = asked.kernel()?;
    let own = &asked.candidate;
    let source = render(kernel, &own.configuration).map_err(|verdict| {
        CliError::harness(format!("the candidate does not render again: {}", verdict.message))
    })?;
    let launches = LaunchFile::of(kernel, &own.configuration);
    let device = gate.judged.device.as_ref().ok_or_else(|| CliError::harness("no device was opened"))?;
    let mut problems = BTreeMap::new();
    for plan in gate.judged.plans() {
        let Some(time) = time_of(gate.judged.evaluation(), plan, gate.judged.mode) else { continue };
        let Measurement { p50_ns, p90_ns, ci_low_ns, ci_high_ns, .. } = *time;
        let sizes = plan.sizes.clone();
        problems.insert(plan.name.clone(), BaselineTimes { sizes, p50_ns, p90_ns, ci_low_ns, ci_high_ns });
    }
    let floors = gate.compared.iter().filter_map(|own| own.finding).map(|found| found.floor);
    let noise_floor = gate.noise_floor.or_else(|| floors.reduce(f64::max)).filter(|floor| floor.is_finite());
    Ok(GateBaseline {
        schema: BASELINE_SCHEMA.into(),
        version: BASELINE_VERSION,
        at: now(),
        kernel: kernel.name.clone(),
        space: asked.setting.space.clone(),
        space_hash: space_hash(asked),
        device: device.name.clone(),
        device_kind: device.kind,
        problems,
        configuration: own.configuration.clone(),
        launch: launches.is_usable().then_some(launches.object),
        source_hash: Some(hash_alone(&source.text)),
        source: source.text,
        code_hash: gate.judged.evaluation().code_hash.clone(),
        toolchain: Some(gate.judged.single.toolchain.clone()),
        noise_floor,
        git_commit: git.commit,
        git_dirty: git.is_dirty,
        conditions: session::conditions(device, asked.seed, &names(gate)),
    })
}

/// The hash of the stored text.
fn hash_alone(text: &str) -> ContentHash {
    ContentHash::of(text.as_bytes())
}

/// Refuses a place where no baseline can be.
fn check_place(path: &Path) -> Result<(), CliError> {
    let refused =
        |text: String| Err(CliError::bad_file(text, path).with_hint("`--baseline FILE` names another"));
    let shown = path.display();
    if path.file_name().and_then(|name| name.to_str()).is_none() {
        return refused(format!("`{shown}` is not a name of a file"));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return refused(format!("`{shown}` is a link, which evo does not follow here"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return refused(format!("there is no folder `{}`", folder.display()));
    }
    regular::check(path).or_else(|error| refused(format!("`{shown}` cannot be a baseline: {error}")))
}

/// Refuses to make a baseline where there is one.
fn refuse_another(path: &Path) -> Result<(), CliError> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    Err(CliError::usage(format!("`{}` is there already", path.display()))
        .with_hint("`evo gate --update` rewrites it after a pass; `--baseline FILE` names another"))
}

fn write_baseline(path: &Path, baseline: &GateBaseline) -> Result<(), CliError> {
    baseline
        .write(path)
        .map_err(|error| CliError::harness(format!("cannot write `{}`: {error}", path.display())))
}

/// Appends to a file that is there or can be made, and waits for nobody.
fn append(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    regular::check(path)?;
    let mut file = File::options().append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")
}

const BASELINE_FILE: &str = "evo-baseline.json";

/// `evo gate`
#[derive(Debug, Args)]
pub struct GateArgs {
    /// Space file, or the name of an embedded space [default: that of the baseline]
    #[arg(value_name = "SPACE")]
    pub space: Option<String>,
    /// What to compare with
    #[arg(long, value_name = "FILE", default_value = BASELINE_FILE)]
    pub baseline: PathBuf,
    /// Values, or @NAME, in one word: "BLOCK=64 VEC=4" [default: the baseline's configuration with today's source]
    #[arg(long = "candidate", value_name = "CANDIDATE", id = "named_candidate", value_parser = named)]
    pub candidate: Option<String>,
    #[command(flatten)]
    pub files: CandidateArgs,
    /// A slowdown of a problem above this is a regression
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share, allow_negative_numbers = true)]
    pub threshold: f64,
    /// Judge [goals] of the space file too
    #[arg(long)]
    pub goals: bool,
    /// Demand compute-sanitizer's answer on the candidate, as `[check] sanitize = "required"` does
    #[arg(long)]
    pub sanitize: bool,
    /// After a pass, make the candidate the baseline
    #[arg(long, conflicts_with = "init")]
    pub update: bool,
    /// Write the baseline's file, which must not be there, from the candidate [default: the default configuration]
    #[arg(long, conflicts_with = "goals")]
    pub init: bool,
    /// A table, or annotations for GitHub [default: `github` where GITHUB_ACTIONS is `true`]
    #[arg(long, value_enum)]
    pub format: Option<GateFormat>,
    /// Let a gate, or `faster_than`, `metrics` or `p90` of the goals, not run and pass all the same (repeatable)
    #[arg(long = "allow-not-run", value_name = "NAME")]
    pub allow_not_run: Vec<String>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GateFormat {
    Github,
    Text,
}

/// What `evo gate` demands of a candidate beside its gates.
#[derive(Clone, Copy, Debug)]
struct GateDemands {
    /// The slowdown above which a problem regresses.
    pub threshold: f64,
    /// compute-sanitizer's answer.
    pub sanitizer: bool,
}

impl GateArgs {
    /// Whether GitHub reads what is printed.
    fn is_for_github(&self) -> bool {
        match self.format {
            Some(format) => format == GateFormat::Github,
            None => std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true"),
        }
    }

    /// What is demanded of a candidate.
    fn demands(&self, kernel: &KernelSpec) -> GateDemands {
        let sanitizer = self.sanitize || kernel.check.demands_sanitizer;
        GateDemands { threshold: self.threshold, sanitizer }
    }

    /// The candidate as the commands that take one candidate have it. `usual` is its configuration where the command
    /// line names none.
    fn one(&self, space: &str, usual: Option<&Configuration>) -> TestOneArgs {
        let mut words = vec![space.to_string()];
        match (&self.candidate, usual) {
            (Some(named), _) => words.extend(named.split_whitespace().map(String::from)),
            (None, Some(usual)) if self.files.config.is_none() => {
                words.extend(usual.iter().map(|(name, value)| format!("{name}={value}")));
            }
            (None, _) => {}
        }
        TestOneArgs {
            words,
            space: None,
            candidate: self.files.clone(),
            problems: Vec::new(),
            allow_not_run: self.allow_not_run.clone(),
            run: self.run.clone(),
            grid: Vec::new(),
        }
    }
}

#[cfg(test)]
mod peers_tests {
    use super::*;

    fn row(implementation: &str, problem: &str, status: RowStatus) -> BenchRow {
        let reason = (status != RowStatus::Pass).then(|| format!("why {implementation}"));
        BenchRow { reason, ..BenchRow::unmeasured(implementation, problem, status) }
    }

    /// The candidate beside a right peer, with the upper end of its ratio of times.
    fn pair(problem: &str, high: f64, decision: PairedDecision) -> Vec<BenchRow> {
        let own = BenchRow {
            ratio_to_best_peer: Some(high * 0.9),
            ratio_low: Some(high * 0.8),
            ratio_high: Some(high),
            decision: Some(decision),
            ..row(OWN, problem, RowStatus::Pass)
        };
        vec![own, row("a/x", problem, RowStatus::Pass)]
    }

    #[track_caller]
    fn check(rows: &[BenchRow], problems: usize, expected: GoalState, told: &str) {
        let goal = FasterGoal { peer: "a".into(), by: 0.1, problems };
        let (state, why) = decide(&goal, rows);
        assert_eq!(state, expected, "{why}");
        assert!(why.contains(told), "{why}");
    }

    #[test]
    fn the_lower_end_of_the_interval_decides_and_what_is_not_known_is_never_met() {
        use GoalState::{Met, NotRun, Unmet};
        use PairedDecision::{Ambiguous, Faster};
        let faster = pair("p", 1.0 / 1.101, Faster);
        check(&faster, 1, Met, "`p`");
        check(&pair("p", 1.0 / 1.099, Faster), 1, Unmet, "on 0 of 1");
        check(&pair("p", 0.5, Ambiguous), 1, Unmet, "on 0 of 1");
        check(&faster, 2, NotRun, "asks for 2");
        let more = |rows: Vec<BenchRow>| [faster.clone(), rows].concat();
        let dead = vec![row(OWN, "q", RowStatus::Pass), row("a", "q", RowStatus::NotRun)];
        check(&more(dead.clone()), 1, Met, "`p`");
        check(&more(dead.clone()), 2, NotRun, "why a");
        check(&[pair("p", 1.0, Faster), dead].concat(), 2, Unmet, "on 0 of 2");
        // A problem with a right implementation and one that died, one without a right one, one without any.
        let mut half = pair("p", 0.5, Faster);
        half.push(row("a/y", "p", RowStatus::NotRun));
        check(&half, 1, NotRun, "a/y");
        let mut other = pair("p", 0.5, Faster);
        other.push(row("a/y", "p", RowStatus::Fail));
        check(&other, 1, Met, "`p`");
        other.remove(1);
        check(&other, 1, NotRun, "why a/y");
        check(&other[..1], 1, NotRun, "has no answer");
        // A comparison without a noise floor, and a candidate that was not timed.
        let mut open = pair("p", 0.5, Faster);
        open[0].decision = None;
        check(&open, 1, NotRun, "noise floor");
        open[0] = row(OWN, "p", RowStatus::Fail);
        check(&open, 1, NotRun, "the candidate on");
        check(&[], 1, NotRun, "asks for 1");
    }
}
