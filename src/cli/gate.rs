//! `evo gate`: a candidate beside a committed baseline, for CI. Both are measured in this run; what could not be seen never
//! passes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use evo_protocol::device::DeviceInfo;
use evo_protocol::envelope::{EnvelopeStatus, ErrorCode, ErrorPlace};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::{Known, told};
use evo_protocol::leaderboard::PairedDecision;
use evo_protocol::measurement::Measurement;
use evo_protocol::plan::ProblemPlan;
use evo_space::document::suggestion;
use evo_space::genome::{Configuration, ContentHash};
use serde_json::{Value, json};

use super::candidate::named;
use super::evaluate::{self, share};
use super::judge::{self, Aim, AskedCandidate, Judged, note_limit, samples, time_of};
use super::profile::{CounterLook, CounterOrder, error_of, look};
use super::rival::{ChosenRival, built};
use super::sanitize::sanitize;
use super::{
    Answer, Call, CliError, ExitCode, Result, TestOneArgs, bench as bench_command, output, peers, session,
    words,
};
use crate::bench::{self, BenchRow, RowStatus};
use crate::engine::candidate::{TextChoice, differences};
use crate::engine::regress::{ComparedProblem, compare_rounds};
use crate::inspect::profile::MetricSet;
use crate::journal::baseline::{
    BASELINE_SCHEMA, BASELINE_VERSION, BaselineError, BaselineTimes, GateBaseline,
};
use crate::journal::error::JournalError;
use crate::journal::iterations::{GateRun, GateRunProblem, IterationLog};
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
    GateInit, GateResult, GatedDecision, GatedProblem, GoalState, JudgedGoal, percent,
};
use crate::report::judged::Setting;
use crate::report::profile::ProfileResult;
use crate::timing::acceptance::tail_ratio;
use crate::timing::paired::claimable;
use crate::timing::regression::RegressionDecision;
use crate::timing::stats::median;
use crate::tool::{GIT_PATIENCE, GitState, ToolPlaces, git_state};

pub fn run(arguments: &GateArgs, call: &Call) -> Result<Answer> {
    if arguments.init {
        return init(arguments, call);
    }
    let path = &arguments.baseline;
    let baseline = GateBaseline::read(path).map_err(unreadable)?;
    check_place(path)?;
    let named = words::named_space(&arguments.one.words).named;
    let space = named.map_or_else(|| baseline.space.clone(), String::from);
    let rival = rival(arguments, &space, &baseline)?;
    let asked = judge::ask(&arguments.asked(&space, Some(&baseline.configuration)), call, Aim::Gate)?;
    let kernel = asked.kernel()?;
    let (kind, before) = (asked.setup.choice.kind, baseline.device_kind);
    if kind != before {
        let (shown, before, kind) = (path.display(), before.as_str(), kind.as_str());
        let text = format!("the baseline `{shown}` was made on {before}, and this run is on {kind}");
        return Err(CliError::usage(text).with_hint("keep a baseline for each: `--baseline FILE`"));
    }
    let goals = arguments.goals.then(|| known_goals(kernel, &space)).transpose()?;
    // From here on others wait: two candidates at once would disturb each other's times.
    let log = evaluate::take_log(&asked.options.candidate.out, &kernel.name, &asked.setup.choice)?;
    let gate = JudgedGate::of(arguments, call, &asked, Some(&rival))?;
    note_limit(call, &gate.judged.evaluation().verdict, &asked.options);
    let goals = goals.map_or(Ok(Vec::new()), |goals| gate.goals(goals))?;
    let mut result = gate.result(&baseline, &rival, goals);
    gate.record(&baseline, &log, &mut result)?;
    answer(arguments, call, &gate, result)
}

fn unreadable(error: BaselineError) -> CliError {
    let hint = "`evo gate SPACE --init` makes a baseline; `--baseline FILE` names another";
    let refused = CliError::usage(error.to_string()).with_hint(hint).with_code(ErrorCode::BadFile);
    let (file, line, column) = match error {
        BaselineError::Unreadable { path, .. } => (path, None, None),
        BaselineError::Malformed { path, line, column, .. } => (path, line, column),
    };
    refused.at(ErrorPlace { file, line, column })
}

/// The baseline as a candidate of its own source in the space as it is now.
fn rival(arguments: &GateArgs, space: &str, baseline: &GateBaseline) -> Result<ChosenRival> {
    let file = words::space(space, arguments.one.run.limits.access())?;
    let kernel = session::kernel_of(&file)?;
    let shown = arguments.baseline.display();
    let other = |differences: Vec<String>| {
        let text = format!("the baseline `{shown}` is of another space:\n  {}", differences.join("\n  "));
        let error = CliError::usage(text).at(ErrorPlace::file(&arguments.baseline));
        error.with_hint("name its space, or make a baseline of this one with `--init`")
    };
    if kernel.name != baseline.kernel {
        let (today, before) = (&kernel.name, &baseline.kernel);
        return Err(other(vec![format!("its kernel is `{before}`, that of `{space}` is `{today}`")]));
    }
    // A baseline that was made slower by hand would let every regression through.
    if baseline.source_hash.as_ref() != Some(&ContentHash::of(baseline.source.as_bytes())) {
        let text = format!("the source in the baseline `{shown}` is not the one whose hash it carries");
        let error = CliError::bad_file(text, &arguments.baseline);
        return Err(error.with_hint("take the committed file, or make a baseline anew with `--init`"));
    }
    let configuration = &baseline.configuration;
    let Some(genome) = file.space.genome(configuration) else {
        return Err(other(differences(configuration, &file.space)));
    };
    let launch = baseline.launch.as_ref().map(|launch| format!("{launch:#}"));
    let [source_name, launch_name] = ["kernel.cu", "launch.json"].map(|name| format!("{shown}: {name}"));
    let source = Some(TextChoice::Given { name: &source_name, text: &baseline.source });
    let launch = launch.as_deref().map(|text| TextChoice::Given { name: &launch_name, text });
    let resolved = built(&arguments.one, file, genome, source, launch);
    let resolved = resolved.map_err(|error| other(vec![error.to_string()]))?;
    let (name, why) = ("baseline".to_string(), "`--baseline` names it".to_string());
    Ok(ChosenRival { resolved, name, why, incumbent: None, notes: Vec::new() })
}

struct JudgedGate<'a> {
    arguments: &'a GateArgs,
    asked: &'a AskedCandidate,
    judged: Judged,
    /// The baseline, where it passed its gates.
    baseline: Option<Evaluation>,
    /// For each timed problem; empty where nothing was compared.
    compared: Vec<ComparedProblem>,
    /// Of a candidate without a baseline.
    noise_floor: Option<f64>,
}

impl<'a> JudgedGate<'a> {
    /// Judges the candidate, and compares it with the baseline where both pass; without one, only its own noise floor is
    /// measured.
    fn of(
        arguments: &'a GateArgs,
        call: &Call,
        asked: &'a AskedCandidate,
        rival: Option<&ChosenRival>,
    ) -> Result<JudgedGate<'a>> {
        let (mut baseline, mut compared, mut noise_floor) = (None, Vec::new(), None);
        let (mut judged, _) = asked.on_device(call, Aim::Gate, |opened, judged| {
            opened.compare(judged, Aim::Gate, None)?;
            let Some(job) = judged.job.clone() else { return Ok(()) };
            judged.findings.not_compared = None;
            if !judged.findings.correct {
                return Ok(());
            }
            let count = job.timed.len();
            match rival.map(|rival| opened.ranking_rival(rival)).transpose()? {
                Some(Ok((evaluation, against))) => {
                    opened.lane.expect_pairs();
                    let pair = |is_same, problems: &[usize], blocks| {
                        let rival = if is_same { &against } else { &job };
                        let times = opened.lane.pair(&against, rival, problems, blocks);
                        times.map_err(|error| error.to_string())
                    };
                    compared = compare_rounds(pair, count, arguments.threshold, asked.seed);
                    baseline = Some(evaluation);
                }
                Some(Err(why)) => {
                    judged.findings.not_compared = Some(why.replace("the rival", "the baseline"));
                }
                None => {
                    let floor = opened.lane.noise_floor(&job, count);
                    noise_floor = floor.ok().map(|found| found.floor).filter(|floor| floor.is_finite());
                }
            }
            Ok(())
        })?;
        // Its process, which held the device that the sanitizer's is to have for itself, is gone by now.
        if arguments.sanitize || asked.kernel()?.check.demands_sanitizer {
            sanitize(asked, &mut judged, true)?;
        }
        Ok(JudgedGate { arguments, asked, judged, baseline, compared, noise_floor })
    }

    fn is_correct(&self) -> bool {
        self.judged.evaluation().verdict.is_pass()
    }

    /// The rows, in the order of the space file, and behind them what only the baseline has.
    fn result(&self, baseline: &GateBaseline, rival: &ChosenRival, goals: Vec<JudgedGoal>) -> GateResult {
        let JudgedGate { arguments, asked, judged, .. } = self;
        let file = &asked.candidate.file;
        let all = asked.kernel().and_then(|kernel| session::problems(kernel, asked.setup.choice.kind, &[]));
        let timed = all.iter().flatten().filter(|problem| problem.timed);
        let timed: Vec<&str> = timed.map(|problem| problem.name.as_str()).collect();
        let gone = baseline.problems.iter().filter(|(name, _)| !timed.contains(&name.as_str()));
        let gone = gone.map(|(name, times)| GatedProblem {
            problem: name.clone(),
            decision: GatedDecision::Missing,
            why: format!("the baseline has `{name}`, and the space times no such problem"),
            stored_p50_ns: Some(times.p50_ns),
            ..GatedProblem::default()
        });
        let mut notes = rival.notes.clone();
        if baseline.space_hash != ContentHash::of(file.text.as_bytes()) {
            notes.push("the space file was edited since the baseline was made".to_string());
        }
        let embedded = catalog::names().contains(&asked.setting.space.as_str());
        let result = GateResult {
            baseline: arguments.baseline.display().to_string(),
            threshold_percent: arguments.threshold * 100.0,
            problems: timed.iter().map(|name| self.problem(name, baseline)).chain(gone).collect(),
            goals,
            missing: judged.findings.missing.clone(),
            informational: GateResult::INFORMATIONAL,
            notes,
            kernel: asked.setting.kernel.clone(),
            device: judged.device_name(asked),
            file: (!embedded).then(|| file.path.display().to_string()),
            not_compared: judged.findings.not_compared.clone(),
            ..GateResult::default()
        };
        result.decided()
    }

    fn problem(&self, name: &str, baseline: &GateBaseline) -> GatedProblem {
        let judged = &self.judged;
        let before = baseline.problems.get(name);
        let with = |decision, why: String| GatedProblem {
            line: problem_line(&self.asked.candidate.file.text, name),
            correct: Some(self.is_correct()),
            stored_p50_ns: before.map(|times| times.p50_ns),
            problem: name.to_string(),
            decision,
            why,
            ..GatedProblem::default()
        };
        if !self.is_correct() {
            let verdict = &judged.evaluation().verdict;
            let why = format!("the candidate is refused: {}: {}", verdict.label(), verdict.message);
            return with(GatedDecision::Incorrect, why);
        }
        let mut timed = judged.plans().iter().zip(&self.compared);
        let Some((plan, times)) = timed.find(|(plan, _)| plan.name == name) else {
            let why = judged.findings.not_compared.clone().unwrap_or_else(|| "it was not timed".into());
            return with(GatedDecision::NotRun, why);
        };
        // Under its name there is another problem now: what the baseline was good at was not looked at.
        if let Some(before) = before.filter(|before| before.sizes != plan.sizes) {
            let [before, now] = [&before.sizes, &plan.sizes].map(|sizes| {
                sizes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(" ")
            });
            let why = format!("the baseline has `{name}` with {before}, and the space times it with {now}");
            return GatedProblem { stored_p50_ns: None, ..with(GatedDecision::Missing, why) };
        }
        let Some(found) = times.finding else {
            return with(GatedDecision::NotRun, times.error.clone().unwrap_or_default());
        };
        let [gap, low] = [found.ratio, found.ratio_low].map(|ratio| (ratio - 1.0) * 100.0);
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
            baseline_p50_ns: Some(median(&times.baseline_ns)),
            candidate_p50_ns: Some(median(&times.candidate_ns)),
            ratio: Some(found.ratio),
            ratio_low: Some(found.ratio_low),
            ratio_high: Some(found.ratio_high),
            floor: Some(found.floor),
            rounds: Some(times.rounds),
            p: Some(found.p),
            ..with(found.decision.into(), why)
        }
    }

    /// Judges all goals. Only a lost device and trouble of evo's or of the machine's are errors: what a tool or a peer does
    /// not do is in the goals.
    fn goals(&self, goals: &GoalsSpec) -> Result<Vec<JudgedGoal>> {
        let mut judged = Vec::new();
        let mut add = |name: &'static str, goal: String, (state, why): GoalFinding| {
            let is_allowed = state == GoalState::NotRun && self.asked.is_allowed(name);
            judged.push(JudgedGoal { name, goal, state, why, is_allowed });
        };
        // Each peer has a run of its own, so that the best right implementation of a row is that peer's.
        let mut rows: BTreeMap<&str, PeerRows> = BTreeMap::new();
        for goal in &goals.faster_than {
            let FasterGoal { peer, by, problems } = goal;
            if !rows.contains_key(peer.as_str()) {
                let found = match self.is_correct() {
                    true => beside(self.asked, peer)?,
                    false => Err(NOT_PASSED.to_string()),
                };
                rows.insert(peer, found);
            }
            let finding = match &rows[peer.as_str()] {
                Ok(rows) => decide(goal, rows),
                Err(why) => (GoalState::NotRun, why.clone()),
            };
            let text = format!("faster_than {peer} by {} on {problems} problems", percent(*by));
            add("faster_than", text, finding);
        }
        if goals.p90_not_worse {
            add("p90", "p90 not worse".to_string(), self.p90());
        }
        if !goals.metrics.is_empty() {
            let profiles = self.profiles()?;
            for goal in &goals.metrics {
                let finding = match &profiles {
                    Ok(profiles) => metric(goal, profiles),
                    Err(why) => (GoalState::NotRun, why.clone()),
                };
                add("metrics", goal.text.clone(), finding);
            }
        }
        Ok(judged)
    }

    /// Whether the slowest calls are no slower than the baseline's, beyond noise.
    fn p90(&self) -> GoalFinding {
        let (Some(baseline), judged) = (&self.baseline, &self.judged) else {
            return (GoalState::NotRun, "nothing was compared".to_string());
        };
        let mut worst: Option<(&str, f64)> = None;
        for (plan, times) in judged.plans().iter().zip(&self.compared) {
            let floor = times.finding.map(|found| found.floor).filter(|floor| floor.is_finite());
            let [own, other] =
                [judged.evaluation(), baseline].map(|evaluation| samples(evaluation, plan, judged.mode));
            let (Some(tail), Some(floor)) = (tail_ratio(&own, &other, self.asked.seed), floor) else {
                let why = format!("`{}` has too few samples to compare its p90", plan.name);
                return (GoalState::NotRun, why);
            };
            let loss = tail.low - 1.0;
            if loss > claimable(floor) && worst.is_none_or(|(_, most)| loss > most) {
                worst = Some((&plan.name, loss));
            }
        }
        match worst {
            Some((name, loss)) => {
                (GoalState::Unmet, format!("the p90 of `{name}` is worse by {} at least", percent(loss)))
            }
            None => (GoalState::Met, "no p90 is worse beyond the noise".to_string()),
        }
    }

    /// What a profiler counts in every launch of every canonical problem; the inner error is why there is nothing.
    fn profiles(&self) -> Result<Result<Vec<(String, ProfileResult)>, String>> {
        let JudgedGate { asked, judged, .. } = self;
        if judged.job.is_none() {
            return Ok(Err("the candidate did not reach the device".to_string()));
        }
        if !self.is_correct() {
            return Ok(Err(NOT_PASSED.to_string()));
        }
        let problems = &asked.kernel()?.problems;
        let is_canonical =
            |plan: &&ProblemPlan| problems.iter().any(|own| own.name == plan.name && own.canonical);
        let mut profiles = Vec::new();
        for plan in judged.plans().iter().filter(is_canonical) {
            let light = CounterOrder::of(asked, judged, plan)?;
            let CounterLook { profile, .. } = look(&CounterOrder { set: MetricSet::Wide, ..light })?;
            if let Err(none) = &profile.counters {
                return Ok(Err(error_of(none).to_string()));
            }
            profiles.push((plan.name.clone(), ProfileResult::of(&profile)));
        }
        let none = || "no canonical problem was timed".to_string();
        Ok(if profiles.is_empty() { Err(none()) } else { Ok(profiles) })
    }

    /// Appends the line, writes the files, and after a pass the baseline where `--update` asks for that.
    fn record(&self, baseline: &GateBaseline, log: &IterationLog, result: &mut GateResult) -> Result<()> {
        let JudgedGate { arguments, asked, .. } = self;
        let git = git_state(Path::new("."), &ToolPlaces::of_environment(), GIT_PATIENCE);
        let problem = |row: &GatedProblem| GateRunProblem {
            problem: row.problem.clone(),
            baseline_p50_ns: row.baseline_p50_ns,
            candidate_p50_ns: row.candidate_p50_ns,
            ratio: row.ratio,
            decision: row.decision.as_str().to_string(),
        };
        let line = log.append(GateRun {
            format: 0,
            number: 0,
            at: now(),
            kernel: result.kernel.clone(),
            space: asked.setting.space.clone(),
            device: result.device.clone(),
            baseline: result.baseline.clone(),
            baseline_source_hash: baseline.source_hash.clone(),
            candidate: evaluate::recorded_candidate(asked, &self.judged),
            threshold: arguments.threshold,
            decision: result.decision.as_str().to_string(),
            why: result.why.clone(),
            problems: result.problems.iter().map(problem).collect(),
            git_commit: git.commit.clone(),
            git_dirty: git.is_dirty,
        })?;
        result.number = line.number;
        result.files = Some(self.write_files(result)?);
        let updated = arguments.update && result.decision == EnvelopeStatus::Pass;
        if updated {
            self.write_baseline(git)?;
        }
        result.updated = Some(updated);
        Ok(())
    }

    fn write_files(&self, result: &GateResult) -> Result<Vec<String>> {
        let out = &self.arguments.one.candidate.out;
        let fail = |error| CliError::from(JournalError::io("write", &out.join(FOLDER), error));
        let folder = OwnFolder::create(out).and_then(|out| out.create_folder(FOLDER)).map_err(fail)?;
        let (told, reasons) = told(&ResultAlone { result });
        let Setting { space, repro, .. } = &self.asked.setting;
        let conditions = self.judged.device.as_ref().map(|device| self.conditions(device));
        let object = json!({
            "schema": "evo.gate.run", "version": 1, "at": now(), "kernel": result.kernel, "space": space,
            "device": result.device, "repro": repro,
            "conditions": conditions, "result": told["result"], "reasons": reasons,
        });
        let texts = [("gate.json", format!("{object:#}\n")), ("gate.md", result.markdown())];
        let mut files = Vec::new();
        for (name, text) in texts {
            JournalError::refuse_irregular(&folder, name)?;
            folder.replace(name, text.as_bytes(), true).map_err(fail)?;
            files.push(folder.place(name).display().to_string());
        }
        Ok(files)
    }

    fn conditions(&self, device: &DeviceInfo) -> Value {
        let names: Vec<String> = self.judged.plans().iter().map(|plan| plan.name.clone()).collect();
        session::conditions(device, self.asked.seed, &names)
    }

    fn write_baseline(&self, git: GitState) -> Result<()> {
        let JudgedGate { asked, judged, .. } = self;
        let (kernel, configuration) = (asked.kernel()?, &asked.candidate.configuration);
        let source = render(kernel, configuration).map_err(|verdict| {
            CliError::harness(format!("the candidate does not render again: {}", verdict.message))
        })?;
        let launches = LaunchFile::of(kernel, configuration);
        let device = judged.device.as_ref().ok_or_else(|| CliError::harness("no device was opened"))?;
        let problems = judged.plans().iter().filter_map(|plan| {
            let time = time_of(judged.evaluation(), plan, judged.mode)?;
            let Measurement { p50_ns, p90_ns, ci_low_ns, ci_high_ns, .. } = *time;
            let sizes = plan.sizes.clone();
            Some((plan.name.clone(), BaselineTimes { sizes, p50_ns, p90_ns, ci_low_ns, ci_high_ns }))
        });
        let floors = self.compared.iter().filter_map(|times| times.finding).map(|found| found.floor);
        let noise_floor = self.noise_floor.or_else(|| floors.reduce(f64::max));
        let baseline = GateBaseline {
            schema: BASELINE_SCHEMA.into(),
            version: BASELINE_VERSION,
            at: now(),
            kernel: kernel.name.clone(),
            space: asked.setting.space.clone(),
            space_hash: ContentHash::of(asked.candidate.file.text.as_bytes()),
            device: device.name.clone(),
            device_kind: device.kind,
            problems: problems.collect(),
            configuration: configuration.clone(),
            launch: launches.is_usable().then_some(launches.object),
            source_hash: Some(ContentHash::of(source.text.as_bytes())),
            source: source.text,
            code_hash: judged.evaluation().code_hash.clone(),
            toolchain: Some(judged.single.toolchain.clone()),
            noise_floor: noise_floor.filter(|floor| floor.is_finite()),
            git_commit: git.commit,
            git_dirty: git.is_dirty,
            conditions: self.conditions(device),
        };
        let path = &self.arguments.baseline;
        baseline.write(path).map_err(|error| CliError::lost_file(path, &error))
    }
}

const FOLDER: &str = "gate";

const NOT_PASSED: &str = "the candidate did not pass its gates";

type GoalFinding = (GoalState, String);

fn answer(arguments: &GateArgs, call: &Call, gate: &JudgedGate<'_>, result: GateResult) -> Result<Answer> {
    let status = result.decision;
    let exit = if status == EnvelopeStatus::Pass { ExitCode::Done } else { ExitCode::Failed };
    let allowed_goals = result.goals.iter().filter(|goal| goal.is_allowed).map(|goal| goal.name.to_string());
    let mut allowed_not_run: Vec<String> = gate.judged.allowed.iter().cloned().chain(allowed_goals).collect();
    allowed_not_run.dedup();
    let table = result.markdown();
    if arguments.is_for_github() {
        let commands = result.github_commands();
        match call.is_json() {
            true => commands.iter().for_each(|line| output::say(line)),
            false => output::stdout(&commands.iter().map(|line| format!("{line}\n")).collect::<String>())?,
        }
        summarize(&table);
    }
    let updated = if result.updated == Some(true) { ", and is the baseline now" } else { "" };
    call.show(&format!("{table}\n{}: {}{updated}\n", status.as_str(), result.why))?;
    Ok(Answer { status, allowed_not_run, ..Answer::of(exit, &ResultAlone { result }) })
}

/// Appends the table to the page that GitHub shows of the step. Where that fails, the answer stays what it is.
fn summarize(table: &str) {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else { return };
    let path = Path::new(&path);
    // It waits for nobody.
    let append = || {
        regular::check(path)?;
        let mut file = File::options().append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        file.write_all(format!("{table}\n").as_bytes())
    };
    if let Err(error) = append() {
        let shown = path.display();
        output::say(&format!("warning: cannot append to `{shown}` (GITHUB_STEP_SUMMARY): {error}"));
    }
}

/// The goals of a kernel; those that nothing could ever reach are refused before the candidate is judged.
fn known_goals<'a>(kernel: &'a KernelSpec, space: &str) -> Result<&'a GoalsSpec> {
    let Some(goals) = &kernel.goals else {
        let text = format!("`{space}` has no `[goals]`");
        return Err(CliError::usage(text).with_hint("add [goals] to the space file, or leave `--goals` out"));
    };
    let unknown = goals.faster_than.iter().find(|goal| peers::named(&goal.peer, &kernel.peers).is_none());
    let Some(FasterGoal { peer, .. }) = unknown else { return Ok(goals) };
    let known = kernel.peers.iter().map(|peer| peer.name.as_str()).chain(SHIPPED.iter().copied());
    let all = || format!("there are {}; [[peers]] adds others", known.clone().collect::<Vec<_>>().join(", "));
    let hint = suggestion(peer, known.clone(), all);
    let text = format!("`faster_than` in [goals] of `{space}` names the peer `{peer}`, which nobody has");
    Err(CliError::bad_file(text, Path::new(space)).with_hint(hint))
}

fn metric(goal: &MetricGoal, profiles: &[(String, ProfileResult)]) -> GoalFinding {
    let mut values = Vec::new();
    for (problem, profile) in profiles {
        for launch in &profile.launches {
            let Some(value) = launch.metrics.get(&goal.metric).and_then(Known::value).copied() else {
                return (GoalState::NotRun, format!("`{}` of `{problem}` has no value", goal.metric));
            };
            values.push((problem, value));
        }
    }
    match values.iter().find(|(_, value)| !goal.holds(*value)) {
        Some((problem, value)) => (GoalState::Unmet, format!("it is {value} on `{problem}`")),
        None if values.is_empty() => (GoalState::NotRun, "no launch was profiled".to_string()),
        None => (GoalState::Met, "it holds in every launch".to_string()),
    }
}

/// The candidate in rows. No peer can have this name.
const OWN: &str = "@candidate";

type PeerRows = Result<Vec<BenchRow>, String>;

fn beside(asked: &AskedCandidate, name: &str) -> Result<PeerRows> {
    let kernel = asked.kernel()?;
    let Some(spec) = peers::named(name, &kernel.peers) else {
        return Ok(Err(format!("there is no peer `{name}`")));
    };
    let setup = &asked.setup;
    let seats = match peers::start(&[spec], &setup.choice.spec, false) {
        Ok(seats) => seats,
        Err(error) => return Ok(Err(error.first_line())),
    };
    let mut lane = session::lane(setup, Some(kernel))?;
    let mut shapes = bench::of_kernel(kernel, setup.choice.kind);
    shapes.retain(|shape| !shape.on_request);
    // The gate has just looked at the candidate for as long as at a finalist, which is not done again.
    let named = [(OWN, &asked.candidate)];
    bench_command::rows(&named, seats, &shapes, setup, &mut lane, asked.seed, false).map(Ok)
}

/// Three values: problems of which nothing is known may decide either way.
fn decide(goal: &FasterGoal, rows: &[BenchRow]) -> GoalFinding {
    let own = rows.iter().filter(|row| row.implementation == OWN);
    let found: Vec<GoalFinding> = own.map(|row| on_problem(goal, row, rows)).collect();
    let [faster, slower, open] = [GoalState::Met, GoalState::Unmet, GoalState::NotRun].map(|wanted| {
        found.iter().filter(|(state, _)| *state == wanted).map(|(_, text)| text.as_str()).collect::<Vec<_>>()
    });
    let (count, FasterGoal { problems, by, .. }) = (found.len(), goal);
    if faster.len() >= *problems {
        (GoalState::Met, faster.join(", "))
    } else if count < *problems {
        (GoalState::NotRun, format!("it asks for {problems} problems, and this device times {count}"))
    } else if faster.len() + open.len() >= *problems {
        (GoalState::NotRun, open.join("; "))
    } else {
        let others = [slower, open].concat().join(", ");
        (GoalState::Unmet, format!("faster by {} on {} of {count}: {others}", percent(*by), faster.len()))
    }
}

/// Whether the candidate is faster by the share at least, which the whole interval has to say.
fn on_problem(goal: &FasterGoal, own: &BenchRow, rows: &[BenchRow]) -> GoalFinding {
    let problem = &own.problem;
    let others = rows.iter().filter(|row| row.problem == *problem && row.implementation != OWN);
    let peers: Vec<&BenchRow> = others.collect();
    let told = |row: &BenchRow| {
        let why = row.reason.as_deref().unwrap_or("it did not run");
        match row.implementation == OWN {
            true => format!("the candidate on `{problem}`: {why}"),
            false => format!("`{}` on `{problem}`: {why}", row.implementation),
        }
    };
    let silent = Some(own).filter(|own| own.status != RowStatus::Pass);
    // The peer that did not run may be the fastest of them.
    let silent = silent.or(peers.iter().copied().find(|row| row.status == RowStatus::NotRun));
    if let Some(row) = silent {
        return (GoalState::NotRun, told(row));
    }
    if !peers.iter().any(|row| row.status == RowStatus::Pass) {
        let why: Vec<String> = peers.iter().map(|row| told(row)).collect();
        let none = format!("`{}` has no answer on `{problem}`", goal.peer);
        return (GoalState::NotRun, if why.is_empty() { none } else { why.join("; ") });
    }
    let (Some(ratio), Some(high), Some(decision)) = (own.ratio_to_best_peer, own.ratio_high, own.decision)
    else {
        return (GoalState::NotRun, format!("the noise floor of `{problem}` is not known"));
    };
    // The speed-up is the inverse of the ratio of times, and so its lower end that of the ratio's upper one.
    let is_faster = decision == PairedDecision::Faster && 1.0 / high >= 1.0 + goal.by;
    let state = if is_faster { GoalState::Met } else { GoalState::Unmet };
    (state, format!("`{problem}` {:.3}× (at least {:.3}×)", 1.0 / ratio, 1.0 / high))
}

fn init(arguments: &GateArgs, call: &Call) -> Result<Answer> {
    let path = &arguments.baseline;
    check_place(path)?;
    refuse_another(path)?;
    let space = words::named_space(&arguments.one.words).space()?;
    let asked = judge::ask(&arguments.asked(&space, None), call, Aim::Gate)?;
    let log = evaluate::take_log(&asked.options.candidate.out, &asked.kernel()?.name, &asked.setup.choice)?;
    let gate = JudgedGate::of(arguments, call, &asked, None)?;
    let (verdict, missing) = (&gate.judged.evaluation().verdict, &gate.judged.findings.missing);
    let (decision, why) = if !gate.is_correct() {
        (EnvelopeStatus::Fail, format!("{}: {}", verdict.label(), verdict.message))
    } else if !missing.is_empty() {
        (EnvelopeStatus::NotRun, format!("did not run, though demanded: {}", missing.join(", ")))
    } else {
        (EnvelopeStatus::Pass, "it passed its gates".to_string())
    };
    let updated = decision == EnvelopeStatus::Pass;
    if updated {
        // Another call may have made one while this one waited for the device.
        refuse_another(path)?;
        gate.write_baseline(git_state(Path::new("."), &ToolPlaces::of_environment(), GIT_PATIENCE))?;
    }
    drop(log);
    let text = if updated { "is the baseline now: commit it" } else { "was not written" };
    call.show(&format!("{why}\n`{}` {text}\n", path.display()))?;
    let exit = if updated { ExitCode::Done } else { ExitCode::Failed };
    let allowed_not_run = gate.judged.allowed;
    let result = GateInit { decision, why, baseline: path.display().to_string(), updated };
    Ok(Answer { status: decision, allowed_not_run, ..Answer::of(exit, &ResultAlone { result }) })
}

fn check_place(path: &Path) -> Result<()> {
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

fn refuse_another(path: &Path) -> Result<()> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    Err(CliError::usage(format!("`{}` is there already", path.display()))
        .with_hint("`evo gate --update` rewrites it after a pass; `--baseline FILE` names another"))
}

const BASELINE_FILE: &str = "evo-baseline.json";

#[derive(Debug, Args)]
pub struct GateArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// What to compare with
    #[arg(long, value_name = "FILE", default_value = BASELINE_FILE)]
    pub baseline: PathBuf,
    /// Values, or @NAME, in one word: "BLOCK=64 VEC=4" [default: the space and the configuration of the baseline, with today's source]
    #[arg(long = "candidate", value_name = "CANDIDATE", id = "named_candidate", value_parser = named)]
    pub candidate: Option<String>,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GateFormat {
    Github,
    Text,
}

impl GateArgs {
    fn is_for_github(&self) -> bool {
        match self.format {
            Some(format) => format == GateFormat::Github,
            None => std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true"),
        }
    }

    fn asked(&self, space: &str, usual: Option<&Configuration>) -> TestOneArgs {
        let mut one = self.one.clone();
        let mut values = words::named_space(&one.words).values.to_vec();
        values.extend(self.candidate.iter().flat_map(|named| named.split_whitespace().map(String::from)));
        if values.is_empty() && one.candidate.config.is_none() {
            let pairs = usual.into_iter().flat_map(Configuration::iter);
            values.extend(pairs.map(|(name, value)| format!("{name}={value}")));
        }
        one.words = [space.to_string()].into_iter().chain(values).collect();
        one
    }
}

#[cfg(test)]
mod peers_tests {
    use super::*;

    fn row(implementation: &str, problem: &str, status: RowStatus) -> BenchRow {
        let reason = (status != RowStatus::Pass).then(|| format!("why {implementation}"));
        BenchRow { reason, ..BenchRow::unmeasured(implementation, problem, status) }
    }

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

    #[test]
    fn the_lower_end_of_the_interval_decides_and_what_is_not_known_is_never_met() {
        use GoalState::{Met, NotRun, Unmet};
        use PairedDecision::{Ambiguous, Faster};
        use RowStatus::{Fail, Pass};
        let (faster, far) = (pair("p", 1.0 / 1.101, Faster), pair("p", 0.5, Faster));
        let dead = vec![row(OWN, "q", Pass), row("a", "q", RowStatus::NotRun)];
        let more = [faster.clone(), dead.clone()].concat();
        let beside = |status| [far.clone(), vec![row("a/y", "p", status)]].concat();
        let wrong_alone = vec![far[0].clone(), row("a/y", "p", Fail)];
        let no_floor = vec![BenchRow { decision: None, ..far[0].clone() }, far[1].clone()];
        let untimed = vec![row(OWN, "p", Fail), far[1].clone()];
        for (rows, problems, expected, told) in [
            (&faster, 1, Met, "`p`"),
            (&pair("p", 1.0 / 1.099, Faster), 1, Unmet, "on 0 of 1"),
            (&pair("p", 0.5, Ambiguous), 1, Unmet, "on 0 of 1"),
            (&faster, 2, NotRun, "asks for 2"),
            (&more, 1, Met, "`p`"),
            (&more, 2, NotRun, "why a"),
            (&[pair("p", 1.0, Faster), dead].concat(), 2, Unmet, "on 0 of 2"),
            // A problem with a right implementation and one that died, or that is wrong; one without a right one, without any.
            (&beside(RowStatus::NotRun), 1, NotRun, "a/y"),
            (&beside(Fail), 1, Met, "`p`"),
            (&wrong_alone, 1, NotRun, "why a/y"),
            (&wrong_alone[..1].to_vec(), 1, NotRun, "has no answer"),
            // A comparison without a noise floor, and a candidate that was not timed.
            (&no_floor, 1, NotRun, "noise floor"),
            (&untimed, 1, NotRun, "the candidate on"),
            (&Vec::new(), 1, NotRun, "asks for 1"),
        ] {
            let (state, why) = decide(&FasterGoal { peer: "a".into(), by: 0.1, problems }, rows);
            assert!(state == expected && why.contains(told), "{told}: {why}");
        }
    }
}
