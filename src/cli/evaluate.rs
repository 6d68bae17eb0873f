//! `evo evaluate`: one candidate through every gate, its time, its time beside a rival's in fresh processes, and what
//! to do with it. Each evaluation leaves a line in `iterations.jsonl`.

use std::path::Path;

use evo_device::probe::DeviceChoice;
use evo_protocol::envelope::{EnvelopeStatus, LimitName};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::Measurement;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{GateReport, GateState, Verdict, VerdictKind};
use evo_space::text::quote;
use serde_json::{Value, json};

use super::aim::{Aim, SANITIZE};
use super::answer::Answer;
use super::call::Call;
use super::counters::{CounterOrder, CounterSubject, look, sources_of};
use super::error::CliError;
use super::evaluate_args::{EvaluateArgs, Requirement};
use super::exit_code::ExitCode;
use super::host_twin::{HostTwin, look_beside};
use super::judged_candidate::{JudgedCandidate, problems, so_far, without_comparison};
use super::one_args::TestOneArgs;
use super::rival::{self, ChosenRival};
use super::sanitize::tool_on;
use super::trial::{self, AskedCandidate, OpenedCandidate};
use super::{device_lane, output, session, verdict_answer};
use crate::engine;
use crate::engine::candidate::CandidateKind;
use crate::engine::single::Single;
use crate::inspect::profile::MetricSet;
use crate::inspect::sanitize::{LookOrder, look as look_at};
use crate::journal::error::JournalError;
use crate::journal::iterations::{
    self, ITERATIONS, Incumbent, Iteration, IterationCandidate, IterationLog, IterationProblem, read,
};
use crate::journal::lock::DeviceTurn;
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;
use crate::kernel::render::render;
use crate::kernel::spec::KernelSpec;
use crate::report::benchmark::{self, Compared, Measured};
use crate::report::evaluate::{self, Evaluated, Reasoned};
use crate::report::profile::fields;
use crate::report::{parity, single};
use crate::supervise::job::{Job, JobReach, Standing};
use crate::timing::acceptance::{
    AcceptanceRule, RivalDecision, RivalProblem, Ruling, TimeRatio, decide, tail_ratio,
};
use crate::tool::{ToolPlaces, git_state};

/// Runs the command.
pub fn run(arguments: &EvaluateArgs, call: &Call) -> Result<Answer, CliError> {
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
        sanitize(&one, &asked, &mut judged)?;
    }
    let profile = arguments.profile.then(|| profile(&one, &asked, &judged)).transpose()?;
    let ruling = decide(&rule(arguments), &judged.findings);
    let parts = EvaluateParts { arguments, asked: &asked, rival: &rival, judged: &judged, ruling: &ruling };
    let recorded = record(&parts, &log, incumbent)?;
    answer(&parts, &recorded, bottleneck(profile.as_ref()), call)
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

/// Looks for faults with a sanitizer. A finding is the candidate's verdict; an answer that is missing counts among the
/// gates that were demanded and did not run.
pub fn sanitize(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    judged: &mut JudgedCandidate,
) -> Result<(), CliError> {
    let Some(job) = judged.job.as_ref().filter(|_| judged.findings.correct) else { return Ok(()) };
    let (report, verdict) = sanitized(one, asked, job, false)?;
    let is_missing = report.state == GateState::NotRun;
    judged.single.evaluation.sanitized(&report, verdict.as_ref());
    if let Some(verdict) = verdict {
        judged.findings.correct = false;
        judged.findings.not_compared = Some(format!("the sanitizer found a fault: {}", verdict.label()));
        judged.score = None;
    } else if is_missing {
        let is_allowed = one.allow_not_run.iter().any(|name| name == SANITIZE);
        let names = if is_allowed { &mut judged.allowed } else { &mut judged.findings.missing };
        names.push(SANITIZE.to_string());
    }
    Ok(())
}

/// The gate's report on a job, and the verdict on what was found: by compute-sanitizer, and beside it by the host device.
/// Where nobody demands it, the small shapes are enough.
pub fn sanitized(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    job: &Job,
    small_only: bool,
) -> Result<(GateReport, Option<Verdict>), CliError> {
    let kind = asked.setup.choice.kind;
    let options =
        device_lane::lane_options(&asked.setup, one.run.worker_command.as_deref(), Some(asked.kernel()?))?;
    let tool = tool_on(kind, None);
    let order = LookOrder {
        kind,
        tool: tool.as_ref(),
        checks: &asked.kernel()?.check.sanitizers,
        options: &options,
        job,
        small_only,
        limit: one.run.limits.limit_tool,
        within: None,
    };
    let twin = HostTwin::beside(kind, &asked.candidate.file, asked.setup.sandbox, asked.seed);
    let look = look_beside(twin.as_ref(), asked, order.limit, || look_at(&order));
    Ok((look.report(), look.verdict()))
}

/// A profile of a candidate that passed, on its first timed problem; an inner error is why there is none.
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
    let sources = sources_of(device, plan, job, &judged.single, judged.mode);
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

/// Judges the candidate, and compares it with its rival where both pass.
pub fn judge(
    one: &TestOneArgs,
    call: &Call,
    asked: &AskedCandidate,
    rival: &ChosenRival,
) -> Result<JudgedCandidate, CliError> {
    let kernel = asked.kernel()?;
    let mode = kernel.objective.ranking.timing();
    if let Some(refused) = asked.refused() {
        return Ok(without_comparison(Single::refused(refused), mode));
    }
    let mut opened = asked.open(one, call)?;
    let note = |evaluation: &Evaluation| call.know(|facts| facts.so_far = Some(so_far(Some(evaluation))));
    judge_opened(one, asked, &mut opened, JobDepth::DEEP, Some(rival), note)
}

/// How much of a candidate is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobDepth {
    /// Every gate at full depth, and the full measurement.
    pub deep: bool,
    pub reach: JobReach,
}

impl JobDepth {
    pub const DEEP: JobDepth = JobDepth { deep: true, reach: JobReach::Whole };
}

/// The same on a device that is open, and only as deep as that; compared with a rival where there is one. `note` gets
/// the verdict as soon as it is known.
pub fn judge_opened(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    opened: &mut OpenedCandidate<'_>,
    depth: JobDepth,
    rival: Option<&ChosenRival>,
    note: impl FnOnce(&Evaluation),
) -> Result<JudgedCandidate, CliError> {
    let kernel = asked.kernel()?;
    let mode = kernel.objective.ranking.timing();
    let device = opened.lane.info().clone();
    let (single, job) = match opened.job(depth.deep)? {
        Ok((begun, job)) => {
            let job = Job { reach: depth.reach, ..job };
            (begun.judged(opened.lane.evaluate(&job, &Standing::default())), job)
        }
        Err(evaluation) => {
            let single = Single::refused(*evaluation);
            trouble_of(&single)?;
            return Ok(JudgedCandidate { device: Some(device), ..without_comparison(single, mode) });
        }
    };
    note(&single.evaluation);
    trouble_of(&single)?;
    let canonical = canonical(kernel, &job.timed);
    let missing = verdict_answer::missing(&single.evaluation, Aim::Evaluate);
    let (allowed, missing): (Vec<&str>, Vec<&str>) =
        missing.into_iter().partition(|name| one.allow_not_run.iter().any(|own| own == name));
    let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect::<Vec<String>>();
    let mut judged = JudgedCandidate { device: Some(device), canonical, ..without_comparison(single, mode) };
    judged.allowed = owned(allowed);
    judged.findings.missing = owned(missing);
    let may_compare = judged.findings.correct && judged.findings.missing.is_empty();
    if let Some(rival) = rival.filter(|_| may_compare) {
        judged.findings.not_compared = None;
        compare(one, opened, asked, rival, &job, &mut judged)?;
    }
    judged.job = Some(job);
    Ok(judged)
}

/// What says nothing about a candidate is an error of the command's.
fn trouble_of(single: &Single) -> Result<(), CliError> {
    let verdict = &single.evaluation.verdict;
    if single.lost {
        return Err(CliError::device(verdict.message.as_str()));
    }
    match verdict.is_trouble() {
        true => Err(session::trouble("the candidate could not be judged", verdict)),
        false => Ok(()),
    }
}

/// Which timed problems are canonical; all of them where this run has none that is marked.
fn canonical(kernel: &KernelSpec, plans: &[ProblemPlan]) -> Vec<bool> {
    let is_marked =
        |plan: &ProblemPlan| kernel.problems.iter().any(|own| own.name == plan.name && own.canonical);
    let marked: Vec<bool> = plans.iter().map(is_marked).collect();
    if marked.contains(&true) { marked } else { vec![true; plans.len()] }
}

/// A rival that passed its gates.
pub struct JudgedRival {
    pub evaluation: Evaluation,
    pub job: Job,
}

/// Judges a rival, deep as the candidate's so that the samples of both were taken in one way. The inner error says why
/// there is nothing to compare with.
pub fn ranking_rival(
    one: &TestOneArgs,
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    rival: &ChosenRival,
) -> Result<Result<JudgedRival, String>, CliError> {
    Ok(match judge_rival(one, opened, asked, rival, JobDepth::DEEP)? {
        Ok((evaluation, _)) if !evaluation.may_rank() => {
            Err(format!("the rival does not pass its gates: {}", evaluation.verdict.label()))
        }
        Ok((evaluation, job)) => Ok(JudgedRival { evaluation, job }),
        Err(why) => Err(why),
    })
}

/// Judges the rival, and times both side by side.
fn compare(
    one: &TestOneArgs,
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    rival: &ChosenRival,
    job: &Job,
    judged: &mut JudgedCandidate,
) -> Result<(), CliError> {
    let JudgedRival { evaluation: against, job: rival_job } = match ranking_rival(one, opened, asked, rival)?
    {
        Ok(rival) => rival,
        Err(why) => {
            judged.findings.not_compared = Some(why);
            return Ok(());
        }
    };
    let (against, lane) = (&against, &mut opened.lane);
    let code = judged.single.evaluation.code_hash.as_ref();
    let launches = |job: &Job| job.timed.iter().map(|plan| plan.launches.clone()).collect::<Vec<_>>();
    if code.is_some() && code == against.code_hash.as_ref() && launches(job) == launches(&rival_job) {
        judged.findings.is_same_code = true;
        return Ok(());
    }
    let times = engine::single::compare(lane, &rival_job, job, job.timed.len());
    judged.findings.noise_floor = times.noise_floor;
    judged.pairs = times.problems;
    let rows: Vec<RivalProblem> =
        job.timed.iter().enumerate().map(|(at, plan)| row(judged, against, plan, at, asked.seed)).collect();
    judged.score = score(&rows, &job.timed);
    judged.findings.problems = rows;
    Ok(())
}

/// The rival's gates and times, or why there are none.
pub fn judge_rival(
    one: &TestOneArgs,
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    rival: &ChosenRival,
    depth: JobDepth,
) -> Result<Result<(Evaluation, Job), String>, CliError> {
    let (setup, lane) = (&asked.setup, &mut opened.lane);
    let own = &rival.resolved;
    let kernel = session::kernel_of(&own.file)?;
    if let Some(refused) = engine::single::constraint_verdict(&own.file.space, &own.configuration) {
        return Ok(Err(format!("the rival is not valid: {}", refused.verdict.message)));
    }
    let problems = asked.problems(kernel, one)?;
    let recipe = session::recipe(kernel, &problems, setup, lane, asked.seed)?;
    let (genome, configuration) = (own.genome.clone(), own.configuration.clone());
    let begun = engine::single::job(&recipe, genome, configuration, depth.deep, |prepared| {
        trial::compile(setup, prepared)
    })?;
    let (begun, job) = match begun {
        Ok((begun, job)) => (begun, Job { reach: depth.reach, ..job }),
        Err(refused) => return Ok(Err(format!("the rival is refused: {}", refused.verdict.label()))),
    };
    let single = begun.judged(lane.evaluate(&job, &Standing::default()));
    if single.lost {
        return Err(CliError::device("the device was lost while the rival was judged"));
    }
    Ok(Ok((single.evaluation, job)))
}

fn row(
    judged: &JudgedCandidate,
    against: &Evaluation,
    plan: &ProblemPlan,
    at: usize,
    seed: u64,
) -> RivalProblem {
    let samples = |evaluation: &Evaluation| {
        let is_own = |one: &&Measurement| one.problem == plan.name && one.mode == judged.mode;
        evaluation.measurements.iter().find(is_own).map(|one| one.raw_ns.clone()).unwrap_or_default()
    };
    let pair = judged.pairs.get(at).and_then(|pair| pair.as_ref().ok());
    RivalProblem {
        problem: plan.name.clone(),
        canonical: judged.canonical.get(at).copied().unwrap_or(true),
        ratio: pair.map(|pair| TimeRatio { median: pair.ratio, low: pair.ratio_low, high: pair.ratio_high }),
        tail: tail_ratio(&samples(&judged.single.evaluation), &samples(against), seed),
    }
}

/// The weighted geometric mean of the speed-ups; `None` unless all canonical problems have one.
fn score(rows: &[RivalProblem], plans: &[ProblemPlan]) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (row, plan) in rows.iter().zip(plans).filter(|(row, _)| row.canonical) {
        sum -= plan.weight * row.ratio?.median.ln();
        weights += plan.weight;
    }
    Some((sum / weights).exp()).filter(|score| score.is_finite() && *score > 0.0)
}

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

/// What a command line demands of a candidate that is to be accepted.
pub fn rule(arguments: &EvaluateArgs) -> AcceptanceRule {
    AcceptanceRule {
        accept: arguments.accept,
        on: usize::from(arguments.on),
        revert_above: arguments.revert_above,
    }
}

/// The folder of a kernel on a kind of device, once nobody else holds it or times anything on the device.
pub fn take_log(out: &Path, kernel: &str, device: &DeviceChoice) -> Result<IterationLog, CliError> {
    let name = format!("{kernel}-{}", device.kind.as_str());
    let path = out.join(&name);
    let folder = OwnFolder::create(out).and_then(|out| out.create_folder(&name));
    let folder = folder.map_err(|error| JournalError::io("make", &path, error))?;
    // The device first, in every command: two that each hold what the other waits for would wait for ever.
    let turn = take_turn(out, device)?;
    Ok(IterationLog::take(folder)?.with_turn(turn))
}

/// The turn of a command that times candidates on a device.
pub fn take_turn(out: &Path, device: &DeviceChoice) -> Result<DeviceTurn, CliError> {
    let folder = OwnFolder::create(out).map_err(|error| JournalError::io("make", out, error))?;
    let on_wait =
        || output::say(&format!("note: waiting for another command that times on `{}`", device.spec));
    Ok(DeviceTurn::take(&folder, &device.spec, on_wait)?)
}
