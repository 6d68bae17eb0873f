//! `evo bench`: candidates and other people's implementations over a grid of shapes, judged and timed in one run.

use std::io;
use std::time::{Duration, Instant};

use evo_protocol::envelope::EnvelopeStatus;
use evo_protocol::measurement::TimingMode;
use serde_json::{Value, json};

use super::answer::Answer;
use super::bench_args::BenchArgs;
use super::bench_plan::{self, BenchPlan};
use super::call::Call;
use super::device_lane;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::session::{self, DeviceSetup};
use super::{bench_table, cache, described, evaluate, judge, output, peers, seed};
use crate::bench::{
    self, BenchError, BenchFolder, BenchOrder, BenchOutcome, BenchRow, Implementation, OwnCandidate,
    PeerSeat, RowStatus,
};
use crate::engine::candidate::ResolvedCandidate;
use crate::journal::error::JournalError;
use crate::kernel::spec::ProblemSpec;
use crate::report::envelope::KnownSoFar;
use crate::supervise::lane::Lane;

/// Rounds of two blocks: twelve blocks give an interval, and six are the fewest of which one is claimed.
pub const ROUNDS: u32 = 6;
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
        described::candidate(call, only);
    }
    check_allowed(arguments, &plan)?;
    let seats = peers::start(&plan.peers, &setup.choice.spec, arguments.quick)?;
    let kernel = session::kernel_of(&plan.space)?;
    let mut lane = device_lane::lane(&setup, arguments.run.worker_command.as_deref(), Some(kernel))?;
    let names: Vec<String> = plan.shapes.iter().map(|shape| shape.problem.name.clone()).collect();
    let device = lane.info().clone();
    call.know(|facts| {
        facts.device = Some(device.name.clone());
        facts.conditions = Some(described::conditions(&device, seed, &names));
    });
    let own = own(&plan, &setup, &mut lane, seed)?;
    let asked = AskedBench { arguments, plan: &plan, setup: &setup, seed, repro };
    // From here on others wait: two at once would disturb each other's times.
    let _turn = evaluate::take_turn(&arguments.out, &setup.choice)?;
    let made = asked.folder(&mut lane);
    let mut folder = made.map_err(|error| JournalError::io("make", &arguments.out.join("bench"), error))?;
    let path = folder.path().display().to_string();
    call.know(|facts| {
        let own = asked.fields(&path);
        facts.so_far =
            Some(KnownSoFar { own, result: json!({ "folder": path }), reasons: Default::default() });
    });
    let (rows, implementations) = asked.run(&mut lane, own, seats, &mut folder)?;
    let outcome = bench::outcome(&rows, &implementations, !plan.peers.is_empty(), &arguments.allow_not_run);
    let status = if outcome.status == EnvelopeStatus::Pass { "pass" } else { word(outcome.status) };
    folder.finish(status, &outcome.why, &rows, &implementations).map_err(|error| files(&error))?;
    asked.answer(call, &path, &rows, &implementations, outcome)
}

fn word(status: EnvelopeStatus) -> &'static str {
    if status == EnvelopeStatus::Fail { "fail" } else { "not_run" }
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

/// Our own implementations, which nobody has built yet.
fn own<'a>(
    plan: &'a BenchPlan,
    setup: &DeviceSetup,
    lane: &mut Lane,
    seed: u64,
) -> Result<Vec<OwnCandidate<'a>>, CliError> {
    let mut all = Vec::new();
    for (name, resolved) in &plan.candidates {
        let problems: Vec<_> = plan.shapes.iter().map(|shape| &shape.problem).collect();
        let own = own_candidate(name, resolved, &problems, setup, lane, seed)?;
        if all.is_empty() {
            let kernel = session::kernel_of(&resolved.file)?;
            judge::rehearse(lane, kernel, &problems, &resolved.configuration, &own.recipe)?;
        }
        all.push(own);
    }
    Ok(all)
}

/// A candidate that nobody has built yet, as rows name it. `problems` are those that it will be asked for.
pub fn own_candidate<'a>(
    name: &str,
    resolved: &'a ResolvedCandidate,
    problems: &[&ProblemSpec],
    setup: &DeviceSetup,
    lane: &Lane,
    seed: u64,
) -> Result<OwnCandidate<'a>, CliError> {
    let recipe = session::recipe(session::kernel_of(&resolved.file)?, &[], setup, lane, seed)?;
    let recipe = recipe.serving(problems.iter().copied());
    let version = resolved.provenance.source_hash.as_ref().map(|hash| hash.short().to_string());
    let (space, configuration) = (&resolved.file.space, resolved.configuration.clone());
    Ok(OwnCandidate::new(name.to_string(), version, space, configuration, recipe))
}

/// What ended a run.
pub fn ended(error: BenchError<CliError>) -> CliError {
    match error {
        BenchError::Compile(error) => error,
        BenchError::Lost(why) => CliError::device(why),
        BenchError::Files(error) => files(&error),
    }
}

/// A command line with everything that it names.
struct AskedBench<'a> {
    arguments: &'a BenchArgs,
    plan: &'a BenchPlan,
    setup: &'a DeviceSetup,
    seed: u64,
    repro: String,
}

impl AskedBench<'_> {
    fn rounds(&self) -> u32 {
        self.arguments.rounds.unwrap_or(if self.arguments.quick { ROUNDS_QUICK } else { ROUNDS })
    }

    /// The fields above the rows, in the command's object and in `bench.json`.
    fn fields(&self, folder: &str) -> Value {
        let modes: Vec<&str> = self.plan.modes.iter().copied().map(TimingMode::as_str).collect();
        json!({
            "name": self.plan.name,
            "folder": folder,
            "space": session::space_word(&self.plan.space),
            "kernel": self.plan.space.kernel.as_ref().map(|kernel| kernel.name.as_str()),
            "seed": self.seed,
            "quick": self.arguments.quick,
            "modes": modes,
            "ranking_mode": self.plan.ranking.as_str(),
            "rounds": self.rounds(),
        })
    }

    fn folder(&self, lane: &mut Lane) -> io::Result<BenchFolder> {
        let info = lane.info().clone();
        let now = jiff::Timestamp::now();
        let mut head = self.fields("");
        if let Some(fields) = head.as_object_mut() {
            // The folder may be moved; it knows where it is.
            fields.remove("folder");
        }
        head["schema"] = "evo.bench-rows".into();
        head["version"] = 1.into();
        head["device"] = info.name.as_str().into();
        head["at"] = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
        head["command"] = self.repro.as_str().into();
        head["why"] = json!([]);
        let peers = self.plan.peers.iter();
        let peers: Vec<Value> = peers
            .map(|own| json!({ "name": own.name, "command": own.command, "timeout_s": own.timeout_s }))
            .collect();
        let environment = json!({
            "evo": env!("CARGO_PKG_VERSION"),
            "at": head["at"],
            "command": self.repro,
            "environment": cache::look(),
            "device": info,
            "telemetry": lane.telemetry(),
            "gates": lane.judge(),
            "seed": self.seed,
            "peers": peers,
        });
        let date = now.strftime("%Y-%m-%d").to_string();
        BenchFolder::create(&self.arguments.out, &info.name, &date, &self.plan.name, head, &environment)
    }

    fn run(
        &self,
        lane: &mut Lane,
        own: Vec<OwnCandidate<'_>>,
        peers: Vec<PeerSeat>,
        folder: &mut BenchFolder,
    ) -> Result<(Vec<BenchRow>, Vec<Implementation>), CliError> {
        let order = BenchOrder {
            lane,
            kernel: session::kernel_of(&self.plan.space)?,
            own,
            peers,
            shapes: &self.plan.shapes,
            modes: &self.plan.modes,
            ranking: self.plan.ranking,
            rounds: self.rounds(),
            deep: !self.arguments.quick,
            until: self.arguments.quick.then(|| Instant::now() + QUICK),
            seed: self.seed,
            cache: self.setup.farm.cache.clone(),
        };
        let mut keep = |rows: &[BenchRow], all: &[Implementation]| folder.keep(rows, all);
        let done = bench::run(order, &mut |prepared| judge::compile(self.setup, prepared), &mut keep);
        done.map_err(ended)
    }

    fn answer(
        &self,
        call: &Call,
        path: &str,
        rows: &[BenchRow],
        implementations: &[Implementation],
        outcome: BenchOutcome,
    ) -> Result<Answer, CliError> {
        let exit = if outcome.status == EnvelopeStatus::Pass { ExitCode::Done } else { ExitCode::Failed };
        let mut fields = self.fields(path);
        fields["implementations"] = json!(implementations);
        fields["rows"] = json!(rows);
        let means = bench::summary(rows, implementations);
        fields["summary"] = json!(means);
        fields["why"] = json!(outcome.why);
        let count = |status: RowStatus| rows.iter().filter(|row| row.status == status).count();
        let statuses = [RowStatus::Pass, RowStatus::Fail, RowStatus::Skipped, RowStatus::NotRun];
        let counts: serde_json::Map<String, Value> =
            statuses.iter().map(|status| (status.as_str().to_string(), count(*status).into())).collect();
        let result = json!({ "folder": path, "rows": counts, "summary": means, "why": outcome.why });
        if !call.is_json() {
            output::stdout(&bench_table::text(rows, implementations, self.plan.ranking))?;
            let lines: String = means.iter().map(|mean| format!("{}\n", mean.sentence())).collect();
            output::stdout(&lines)?;
            output::stdout(&format!("kept in {path}\n"))?;
        }
        for why in outcome.why.iter().take(10) {
            output::say(&format!("{}: {why}", word(outcome.status)));
        }
        let mut answer = Answer { status: outcome.status, ..Answer::object(exit, &fields) }.in_brief(result);
        answer.allowed_not_run = outcome.allowed;
        Ok(answer)
    }
}
