//! `evo bench`: candidates and other people's implementations over a grid of shapes, judged and timed in one run.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use evo_protocol::bench::{BenchRun, MeanRatio};
use evo_protocol::envelope::EnvelopeStatus;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::Answer;
use super::bench_plan::{self, BenchArgs, BenchPlan};
use super::call::Call;
use super::device_lane;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::session::{self, DeviceSetup};
use super::{cache, evaluate, judge, output, peers, seed};
use crate::bench::{
    self, BenchError, BenchFolder, BenchOrder, BenchOutcome, BenchRow, BenchShape, Implementation,
    OwnCandidate, RowStatus,
};
use crate::engine::candidate::ResolvedCandidate;
use crate::journal::error::JournalError;
use crate::peer::PeerSeat;
use crate::report::envelope::KnownSoFar;
use crate::supervise::lane::Lane;

/// Rounds of two blocks: twelve blocks give an interval, and six are the fewest of which one is claimed.
const ROUNDS: u32 = 6;
const ROUNDS_QUICK: u32 = 3;
/// A quick run begins no shape after this.
const QUICK: Duration = Duration::from_secs(45);

/// Runs the command.
pub fn run(arguments: &BenchArgs, call: &Call) -> Result<Answer, CliError> {
    arguments.run.limits.begin(call)?;
    let setup = session::setup_for(&arguments.run)?;
    let plan = bench_plan::plan(arguments, &setup)?;
    let seed = arguments.run.seed.map_or_else(seed::random, Ok)?;
    let repro = call.chose(Some(&setup.choice.spec), seed);
    if let [(_, only)] = &plan.candidates[..] {
        session::candidate(call, only);
    }
    check_allowed(arguments, &plan)?;
    let seats = peers::start(&plan.peers, &setup.choice.spec, arguments.quick)?;
    let kernel = session::kernel_of(&plan.space)?;
    let mut lane = device_lane::lane(&setup, arguments.run.worker_command.as_deref(), Some(kernel))?;
    let names: Vec<String> = plan.shapes.iter().map(|shape| shape.problem.name.clone()).collect();
    let device = lane.info().clone();
    call.know(|facts| {
        facts.device = Some(device.name.clone());
        facts.conditions = Some(session::conditions(&device, seed, &names));
    });
    let quick = arguments.quick;
    let run = BenchRun {
        name: plan.name.clone(),
        space: session::space_word(&plan.space),
        kernel: kernel.name.clone(),
        seed,
        quick,
        modes: plan.modes.clone(),
        ranking_mode: plan.ranking,
        rounds: arguments.rounds.unwrap_or(if quick { ROUNDS_QUICK } else { ROUNDS }),
    };
    let named: Vec<_> = plan.candidates.iter().map(|(name, own)| (name.as_str(), own)).collect();
    let own = candidates(&named, &plan.shapes, &setup, &mut lane, seed)?;
    // From here on others wait: two at once would disturb each other's times.
    let _turn = evaluate::take_turn(&arguments.out, &setup.choice)?;
    let made = folder(&arguments.out, &plan, &run, &mut lane, repro);
    let mut folder = made.map_err(|error| JournalError::io("make", &arguments.out.join("bench"), error))?;
    let path = folder.path().display().to_string();
    call.know(|facts| {
        let brief = BenchBrief { folder: &path, rows: BTreeMap::new(), summary: &[], why: &[] };
        let (mut own, result) = (json!(run), json!(brief));
        own["folder"] = path.as_str().into();
        facts.so_far = Some(KnownSoFar { own, result, reasons: Default::default() });
    });
    let order = BenchOrder {
        lane: &mut lane,
        kernel,
        own,
        peers: seats,
        shapes: &plan.shapes,
        modes: &plan.modes,
        ranking: plan.ranking,
        rounds: run.rounds,
        deep: !quick,
        until: quick.then(|| Instant::now() + QUICK),
        seed,
        cache: setup.farm.cache.clone(),
    };
    let mut keep = |rows: &[BenchRow], all: &[Implementation]| folder.keep(("unfinished", &[]), rows, all);
    let (rows, implementations) =
        bench::run(order, &mut |prepared| judge::compile(&setup, prepared), &mut keep)?;
    let BenchOutcome { status, why, allowed } =
        bench::outcome(&rows, &implementations, !plan.peers.is_empty(), &arguments.allow_not_run);
    folder.keep((word(status), &why), &rows, &implementations).map_err(|error| files(&error))?;

    let means = bench::summary(&rows, &implementations);
    let count = |status: &RowStatus| rows.iter().filter(|row| row.status == *status).count();
    let counts = RowStatus::ALL.iter().map(|status| (status.as_str(), count(status))).collect();
    if !call.is_json() {
        let sentences: String = means.iter().map(|mean| format!("{}\n", bench::sentence(mean))).collect();
        let lines = bench::lines(&rows, &implementations, plan.ranking);
        output::stdout(&format!("{lines}{sentences}kept in {path}\n"))?;
    }
    for why in why.iter().take(10) {
        output::say(&format!("{}: {why}", word(status)));
    }
    let exit = if status == EnvelopeStatus::Pass { ExitCode::Done } else { ExitCode::Failed };
    let own = BenchAnswer {
        run: &run,
        folder: &path,
        implementations: &implementations,
        rows: &rows,
        summary: &means,
        why: &why,
        result: BenchBrief { folder: &path, rows: counts, summary: &means, why: &why },
    };
    Ok(Answer { status, allowed_not_run: allowed, ..Answer::of(exit, &own) })
}

/// The answer of `evo bench`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BenchAnswer<'a> {
    #[serde(flatten)]
    run: &'a BenchRun,
    folder: &'a str,
    implementations: &'a [Implementation],
    rows: &'a [BenchRow],
    summary: &'a [MeanRatio],
    why: &'a [String],
    result: BenchBrief<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BenchBrief<'a> {
    folder: &'a str,
    /// How many have each status.
    rows: BTreeMap<&'static str, usize>,
    summary: &'a [MeanRatio],
    why: &'a [String],
}

/// The run's folder, with what it runs on.
fn folder(
    out: &Path,
    plan: &BenchPlan,
    run: &BenchRun,
    lane: &mut Lane,
    repro: String,
) -> io::Result<BenchFolder> {
    let info = lane.info().clone();
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let peers = plan.peers.iter();
    let peers: Vec<Value> = peers
        .map(|own| json!({ "name": own.name, "command": own.command, "timeout_s": own.timeout_s }))
        .collect();
    let environment = json!({
        "evo": env!("CARGO_PKG_VERSION"),
        "at": at,
        "command": repro,
        "environment": cache::look(),
        "device": info,
        "telemetry": lane.telemetry(),
        "gates": lane.judge(),
        "seed": run.seed,
        "peers": peers,
    });
    BenchFolder::create(out, BenchFolder::report(run.clone(), info.name, at, repro), &environment)
}

fn word(status: EnvelopeStatus) -> &'static str {
    match status {
        EnvelopeStatus::Pass => "pass",
        EnvelopeStatus::Fail => "fail",
        _ => "not_run",
    }
}

/// Trouble with the run's own files.
fn files(error: &io::Error) -> CliError {
    let text = format!("cannot write the files of the benchmark: {error}");
    CliError::harness(text)
        .with_hint("the folder of `--out` and the cache (`EVO_CACHE_DIR`) need room on the disk")
}

/// Refuses names of `--allow-not-run` that nothing can have.
fn check_allowed(arguments: &BenchArgs, plan: &BenchPlan) -> Result<(), CliError> {
    let mut known: Vec<&str> = plan.peers.iter().map(|own| own.name.as_str()).collect();
    known.extend(plan.candidates.iter().map(|(name, _)| name.as_str()));
    known.extend(plan.shapes.iter().map(|shape| shape.problem.name.as_str()));
    let is_known = |name: &&String| {
        let peer = name.split('/').next().unwrap_or_default();
        known.contains(&name.as_str())
            || (name.contains('/') && plan.peers.iter().any(|own| own.name == peer))
    };
    let Some(unknown) = arguments.allow_not_run.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let hint = match evo_space::diagnostic::nearest(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "name a problem, a peer, or an implementation of one as `PEER/NAME`".to_string(),
    };
    let text = format!("`--allow-not-run {unknown}`: nothing that runs here has this name");
    Err(CliError::usage(text).with_hint(hint))
}

/// Candidates with their names in rows, which nobody has built yet. They will be asked for these shapes.
fn candidates<'a>(
    named: &[(&str, &'a ResolvedCandidate)],
    shapes: &'a [BenchShape],
    setup: &DeviceSetup,
    lane: &mut Lane,
    seed: u64,
) -> Result<Vec<OwnCandidate<'a>>, CliError> {
    let problems: Vec<_> = shapes.iter().map(|shape| &shape.problem).collect();
    let mut all = Vec::new();
    for (name, resolved) in named {
        let kernel = session::kernel_of(&resolved.file)?;
        let recipe = session::recipe(kernel, &[], setup, lane, seed)?.serving(problems.iter().copied());
        if all.is_empty() {
            judge::rehearse(lane, kernel, &problems, &resolved.configuration, &recipe)?;
        }
        let version = resolved.provenance.source_hash.as_ref().map(|hash| hash.short().to_string());
        let (space, configuration) = (&resolved.file.space, resolved.configuration.clone());
        all.push(OwnCandidate::new(name.to_string(), version, space, configuration, recipe));
    }
    Ok(all)
}

/// The rows of candidates and peers in the mode that ranks, for commands that keep none of them.
pub fn rows(
    named: &[(&str, &ResolvedCandidate)],
    peers: Vec<PeerSeat>,
    shapes: &[BenchShape],
    setup: &DeviceSetup,
    lane: &mut Lane,
    seed: u64,
    deep: bool,
) -> Result<Vec<BenchRow>, CliError> {
    let Some((_, first)) = named.first() else { return Ok(Vec::new()) };
    let kernel = session::kernel_of(&first.file)?;
    let ranking = kernel.objective.ranking.timing();
    let own = candidates(named, shapes, setup, lane, seed)?;
    let order = BenchOrder {
        lane,
        kernel,
        own,
        peers,
        shapes,
        modes: &[ranking],
        ranking,
        rounds: ROUNDS,
        deep,
        until: None,
        seed,
        cache: setup.farm.cache.clone(),
    };
    let compile = &mut |prepared: &_| judge::compile(setup, prepared);
    bench::run(order, compile, &mut |_, _| Ok(())).map(|(rows, _)| rows)
}

impl From<BenchError> for CliError {
    fn from(error: BenchError) -> CliError {
        match error {
            BenchError::Lost(why) => CliError::device(why),
            BenchError::Files(error) => files(&error),
        }
    }
}
