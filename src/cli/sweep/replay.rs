//! `evo sweep --device replay:FILE`: the same engine, with a recording in the device's place.

use std::path::Path;

use anyhow::Context;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::RankingMode;
use evo_protocol::verdict::VERDICT_VERSION;

use super::prior::Prior;
use super::{budget, exit_code, inherit, stopped, strategy, tell_insight};
use crate::cli::args::SweepArgs;
use crate::cli::exit_code::{ExitCode, UsageError};
use crate::cli::{environment, progress, session};
use crate::engine::{Engine, Inbox, Options, Parts, RunSummary, interrupt};
use crate::event::{Event, Observer};
use crate::journal::leaderboard::verdict_mix;
use crate::journal::record::{FORMAT, StudyHeader, now};
use crate::kernel::catalog;
use crate::kernel::spec::SpaceFile;
use crate::replay::Recording;
use crate::replay::device::{PREFIX, ReplayCompilers, ReplayDevice, ReplayRecipe, info, space_hash};
use crate::report::text;
use crate::study::{Study, StudyRequest};

/// Rows of the table at the end.
const ROWS: usize = 10;

/// Runs the command on the recording at `path`.
pub(super) fn run(arguments: &SweepArgs, path: &Path) -> anyhow::Result<ExitCode> {
    refuse_others(arguments)?;
    let named = arguments.space.as_deref().map(catalog::open).transpose().map_err(UsageError::from)?;
    let told = named.as_ref().map(|file| (session::space_word(file), file.text.clone()));
    let recording = match named {
        Some(SpaceFile { space, .. }) => Recording::open_in(path, space),
        None => Recording::open(path),
    };
    let recording = recording.map_err(|error| UsageError::of(&error))?;
    let (word, space_text) = told.unwrap_or_else(|| (arguments.device.clone(), String::new()));
    let mut strategy = strategy(arguments, &recording.space)?;
    let prior = Prior::named(arguments, &recording.space)?;
    let budget = budget(arguments, strategy.name())?;
    let default_name = folder_name(&recording);
    let request = StudyRequest {
        out: &arguments.out,
        name: arguments.study.as_deref(),
        default_name: &default_name,
        resume: arguments.resume,
    };
    request.check().map_err(|error| UsageError::of(&error))?;
    let mut header = header(arguments, &recording, word, strategy.name());
    header.space_hash = space_hash(&recording, &space_text);
    let mut study = Study::open(&request, header).map_err(|error| UsageError::of(&error))?;
    let inbox = Inbox::new();
    interrupt::watch(inbox.sender()).context("cannot watch for Ctrl-C")?;

    let mut observer = progress::observer(arguments.json);
    tell(&recording, &mut *observer);
    let prior = prior.or_beside(arguments, &recording.kernel, &recording.space, study.folder());
    inherit(&prior, &mut study, &mut *strategy, &mut *observer)?;
    let recipe = ReplayRecipe::new(&recording);
    let parts = Parts {
        study: &mut study,
        space: &recording.space,
        strategy,
        recipe: &recipe,
        compilers: Box::new(ReplayCompilers::new(&recording, arguments.jobs.unwrap_or(1), inbox.sender())),
        device: Box::new(ReplayDevice::new(&recording)),
        observer: &mut *observer,
        inbox,
    };
    // There is nothing to confirm with.
    let valid = recording.space.count();
    let (population, run_all) = (arguments.population, arguments.run_all);
    let options = Options { budget, population, finalists: 0, valid, run_all };
    let summary = Engine::new(parts, options).run().map_err(stopped)?;
    conclude(arguments, &recording, &study, &summary)?;
    if !arguments.json {
        tell_insight(&summary);
    }
    Ok(exit_code(&summary))
}

/// What only a device that runs something can do.
fn refuse_others(arguments: &SweepArgs) -> anyhow::Result<()> {
    let (option, why) = if arguments.worker_command.is_some() {
        ("--worker-command", "a replay has no worker")
    } else if !arguments.problems.is_empty() {
        ("--problem", "a recording has one problem")
    } else {
        return Ok(());
    };
    let text =
        format!("`{option}` cannot go with `--device {}`: {why}\nhint: leave it out", arguments.device);
    Err(UsageError(text).into())
}

/// `KERNEL-replay-GPU` in letters that a folder may have.
fn folder_name(recording: &Recording) -> String {
    let name = format!("{}-replay-{}", recording.kernel, recording.gpu);
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    name.chars().map(plain).collect::<String>().trim_start_matches('.').to_string()
}

fn header(arguments: &SweepArgs, recording: &Recording, space: String, strategy: &str) -> StudyHeader {
    StudyHeader {
        format: FORMAT,
        verdict_version: VERDICT_VERSION,
        evo: env!("CARGO_PKG_VERSION").to_string(),
        study: String::new(),
        kernel: recording.kernel.clone(),
        space,
        space_hash: recording.content.clone(),
        valid: recording.space.count().to_string(),
        problems: vec![recording.problem.clone()],
        checked: Vec::new(),
        seed: arguments.seed,
        strategy: strategy.to_string(),
        population: arguments.population,
        ranking: RankingMode::Hot,
        device: info(recording),
        environment: environment::look(),
        started_at: now(),
    }
}

/// Says that this is a replay, of what, and what is peculiar about the file.
fn tell(recording: &Recording, observer: &mut dyn Observer) {
    let format = recording.format.as_str();
    let (name, rows) = (&recording.name, recording.rows().len());
    let message = format!(
        "a replay: nothing is run, a recording of `{name}` answers ({format}, {rows} configurations)"
    );
    observer.observe(&Event::Notice { message });
    for message in &recording.notices {
        observer.observe(&Event::Notice { message: message.clone() });
    }
}

/// Shows the table and the last line.
fn conclude(
    arguments: &SweepArgs,
    recording: &Recording,
    study: &Study,
    summary: &RunSummary,
) -> anyhow::Result<()> {
    let evaluations = &study.history.evaluations;
    let sum = |of: fn(&Evaluation) -> f64| evaluations.iter().map(of).sum::<f64>();
    let (compile_ms, device_ms) = (sum(|one| one.compile_ms), sum(|one| one.device_ms));
    if arguments.json {
        return progress::print_json(&serde_json::json!({
            "event": "result", "reason": summary.end.reason, "evaluations": summary.end.evaluations,
            "evaluations_this_run": summary.end.evaluations_this_run, "throughput": summary.end.throughput,
            "study": study.folder(), "leaderboard": null, "verdicts": verdict_mix(evaluations), "section": null,
            "insight": summary.insight,
            "replay": {
                "recording": arguments.device.trim_start_matches(PREFIX), "gpu": recording.gpu,
                "compile_ms": compile_ms, "device_ms": device_ms,
                "best": best(evaluations).map(|one| serde_json::json!({
                    "number": one.number, "configuration": one.configuration, "objective_ns": one.objective_ns,
                })),
            },
        }));
    }
    crate::cli::stdout(&format!(
        "{} on {PREFIX}{}\n{}verdicts: {}\nrecorded cost, not waited for: {} compiling, {} on the device\nstudy: {}\n\
         {} evaluations ({} in this run) replayed in {:.1} s; {}\n",
        recording.kernel,
        recording.gpu,
        text::replayed(evaluations, ROWS),
        text::mix(evaluations),
        text::time(compile_ms * 1e6),
        text::time(device_ms * 1e6),
        study.folder().display(),
        summary.end.evaluations,
        summary.end.evaluations_this_run,
        summary.end.throughput.search_seconds,
        summary.end.reason.describe()
    ))
}

fn best(evaluations: &[Evaluation]) -> Option<&Evaluation> {
    let passing = evaluations.iter().filter(|one| one.verdict.is_pass());
    let timed = passing.filter_map(|one| Some((one.objective_ns?, one)));
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, one)| one)
}
