//! `evo sweep`: search a space, confirm the best, rank them.

mod prior;
mod replay;

use std::path::Path;

use anyhow::Context;
use evo_protocol::binary::Binary;
use evo_protocol::verdict::VERDICT_VERSION;
use evo_search::registry::{self, StrategyOptions};
use evo_search::strategy::Strategy;
use evo_space::genome::ContentHash;
use evo_space::space::SearchSpace;

use self::prior::Prior;
use super::args::SweepArgs;
use super::exit_code::{ExitCode, UsageError};
use super::session::{self, Place};
use super::{environment, progress};
use crate::budget::{Budget, StopReason};
use crate::compile::CompileFarm;
use crate::engine::{Engine, EngineError, Inbox, Message, Options, Parts, RunSummary, interrupt};
use crate::event::{Event, Observer};
use crate::journal::leaderboard::{self, Section};
use crate::journal::leaderboard_file;
use crate::journal::record::{FORMAT, StudyHeader, now};
use crate::kernel::catalog;
use crate::kernel::spec::{KernelSpec, ProblemSpec, SpaceFile};
use crate::replay::device::PREFIX;
use crate::report::{insight, text};
use crate::study::{Study, StudyRequest};
use crate::supervise::lane::Lane;

/// A search that would not end by itself gets this many generations.
const DEFAULT_GENERATIONS: u32 = 50;

/// Runs the command.
pub fn run(arguments: &SweepArgs) -> anyhow::Result<ExitCode> {
    if let Some(recording) = arguments.device.strip_prefix(PREFIX) {
        return replay::run(arguments, Path::new(recording));
    }
    let file =
        catalog::open(arguments.space.as_deref().unwrap_or(catalog::DEFAULT)).map_err(UsageError::from)?;
    let kernel = session::kernel_of(&file)?;
    let valid = file.space.count();
    let population = arguments.population;
    let mut strategy = strategy(arguments, &file.space)?;
    let prior = Prior::named(arguments, &file.space)?;
    let budget = budget(arguments, strategy.name())?;
    let place = session::place(&arguments.device, arguments.jobs)?;
    let problems = session::problems(kernel, place.choice.kind, &arguments.problems)?;
    let default_name = format!("{}-{}", kernel.name, place.choice.kind.as_str());
    let request = StudyRequest {
        out: &arguments.out,
        name: arguments.study.as_deref(),
        default_name: &default_name,
        resume: arguments.resume,
    };
    request.check().map_err(|error| UsageError::of(&error))?;

    let inbox = Inbox::new();
    let farm = farm(&place, &inbox)?;
    let lane = session::lane(&place, arguments.worker_command.as_deref())?;
    let recipe = session::recipe(kernel, &problems, &place, &lane, arguments.seed)?;
    let header = header(arguments, &file, kernel, &problems, &lane, strategy.name());
    let mut study = Study::open(&request, header).map_err(|error| UsageError::of(&error))?;
    interrupt::watch(inbox.sender()).context("cannot watch for Ctrl-C")?;

    let mut observer = progress::observer(arguments.json);
    let prior = prior.or_beside(arguments, &kernel.name, &file.space, study.folder());
    inherit(&prior, &mut study, &mut *strategy, &mut *observer)?;
    let parts = Parts {
        study: &mut study,
        space: &file.space,
        strategy,
        recipe: &recipe,
        compilers: Box::new(farm),
        device: Box::new(lane),
        observer: &mut *observer,
        inbox,
    };
    let (finalists, run_all) = (arguments.finalists, arguments.run_all);
    let options = Options { budget, population, finalists, valid, run_all };
    let summary = Engine::new(parts, options).run().map_err(stopped)?;
    conclude(arguments, &study, &summary, &mut *observer)
}

/// Compilers whose answers go to the inbox.
fn farm(place: &Place, inbox: &Inbox<Binary>) -> anyhow::Result<CompileFarm> {
    let sender = std::sync::Mutex::new(inbox.sender());
    let deliver = move |ticket, outcome| {
        let sender = sender.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // The engine may be gone already at the end of a run.
        let _ = sender.send(Message::Compiled(ticket, outcome));
    };
    CompileFarm::start(place.farm.clone(), Box::new(deliver)).map_err(session::setup_error)
}

/// The strategy that was asked for, else the one for spaces of this size.
fn strategy<'a>(arguments: &SweepArgs, space: &'a SearchSpace) -> anyhow::Result<Box<dyn Strategy + 'a>> {
    if arguments.population == 0 {
        return Err(UsageError("`--pop 0`: a generation has at least one evaluation".to_string()).into());
    }
    let name = arguments.strategy.as_deref().unwrap_or(registry::default_name(space.count()));
    let options = StrategyOptions { seed: arguments.seed, population: arguments.population as usize };
    Ok(registry::create(name, space, options).map_err(|error| UsageError::of(&error))?)
}

/// Gives the strategy what earlier studies found, and says so.
fn inherit(
    prior: &Prior,
    study: &mut Study,
    strategy: &mut dyn Strategy,
    observer: &mut dyn Observer,
) -> anyhow::Result<()> {
    if let Some(message) = prior.give(strategy) {
        study.note(message.clone()).map_err(|error| UsageError::of(&error))?;
        observer.observe(&Event::Notice { message });
    }
    Ok(())
}

fn budget(arguments: &SweepArgs, strategy: &str) -> anyhow::Result<Budget> {
    let mut budget = Budget { generations: arguments.generations, ..Budget::default() };
    if budget.generations == Some(0) {
        return Err(UsageError("`--gen 0`: nothing would be evaluated".to_string()).into());
    }
    if let Some(text) = &arguments.budget {
        budget = budget.with_limit(text).map_err(|error| UsageError(format!("`--budget`: {error}")))?;
    }
    if strategy != "exhaustive" && budget == Budget::default() {
        budget.generations = Some(DEFAULT_GENERATIONS);
    }
    Ok(budget)
}

fn header(
    arguments: &SweepArgs,
    file: &SpaceFile,
    kernel: &KernelSpec,
    problems: &[&ProblemSpec],
    lane: &Lane,
    strategy: &str,
) -> StudyHeader {
    let names = |timed: bool| {
        problems.iter().filter(|one| one.timed == timed).map(|one| one.name.clone()).collect::<Vec<_>>()
    };
    StudyHeader {
        format: FORMAT,
        verdict_version: VERDICT_VERSION,
        evo: env!("CARGO_PKG_VERSION").to_string(),
        study: String::new(),
        kernel: kernel.name.clone(),
        space: session::space_word(file),
        space_hash: ContentHash::of_parts([file.text.as_bytes(), kernel.source.text.as_bytes()]),
        valid: file.space.count().to_string(),
        problems: names(true),
        checked: names(false),
        seed: arguments.seed,
        strategy: strategy.to_string(),
        population: arguments.population,
        ranking: kernel.objective.ranking,
        device: lane.info().clone(),
        environment: environment::look(),
        started_at: now(),
    }
}

/// Files that cannot be written are the user's to mend; the rest is our own trouble.
fn stopped(error: EngineError) -> anyhow::Error {
    match error {
        EngineError::Journal(_) | EngineError::CacheFull(_) => UsageError::of(&error).into(),
        EngineError::Stopped(_) => anyhow::Error::new(error),
    }
}

/// Writes the leaderboard, shows the table and the last line, chooses the exit code.
fn conclude(
    arguments: &SweepArgs,
    study: &Study,
    summary: &RunSummary,
    observer: &mut dyn Observer,
) -> anyhow::Result<ExitCode> {
    let section = if summary.confirmed > 0 { leaderboard::section(&study.history) } else { None };
    let mut written = None;
    if let Some(section) = &section {
        let merged = leaderboard_file::merge(&arguments.out, vec![section.clone()], &now());
        let merged = merged.map_err(|error| UsageError::of(&error))?;
        if let Some(aside) = &merged.put_aside {
            let message = format!("an unreadable leaderboard was put aside as `{}`", aside.display());
            observer.observe(&Event::Notice { message });
        }
        written = Some(merged.path);
    }
    if arguments.json {
        let mut value = serde_json::json!({
            "event": "result", "reason": summary.end.reason, "evaluations": summary.end.evaluations,
            "evaluations_this_run": summary.end.evaluations_this_run, "passed_over": summary.end.passed_over,
            "throughput": summary.end.throughput,
            "study": study.folder(), "leaderboard": written, "verdicts": leaderboard::verdict_mix(&study.history.evaluations),
        });
        value["section"] = serde_json::to_value(&section)?;
        value["insight"] = serde_json::to_value(&summary.insight)?;
        progress::print_json(&value)?;
    } else {
        show(study, summary, section.as_ref())?;
        tell_insight(summary);
    }
    Ok(exit_code(summary))
}

/// One line on what the study says beyond its winner.
fn tell_insight(summary: &RunSummary) {
    if let Some(line) = summary.insight.as_ref().and_then(insight::line) {
        progress::say(&line);
    }
}

fn exit_code(summary: &RunSummary) -> ExitCode {
    match summary.end.reason {
        StopReason::Interrupted => ExitCode::Interrupted,
        StopReason::DeviceLost => ExitCode::DeviceLost,
        _ => ExitCode::Done,
    }
}

fn show(study: &Study, summary: &RunSummary, section: Option<&Section>) -> anyhow::Result<()> {
    let table = match section {
        Some(section) => text::section(section),
        None => text::screened(&study.history.evaluations, 10),
    };
    super::stdout(&format!(
        "{table}verdicts: {}\nstudy: {}\n{}\n",
        text::mix(&study.history.evaluations),
        study.folder().display(),
        text::last_line(&summary.end)
    ))
}
