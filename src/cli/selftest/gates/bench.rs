//! Builds a fixture and judges it with all checks but some.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use evo_device::probe::DeviceChoice;
use evo_protocol::binary::{Binary, CompileOutcome, KernelSource};
use evo_protocol::check::CheckSet;
use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict};
use evo_space::genome::{Configuration, ContentHash};
use evo_space::value::Value;

use super::rows::{GateRow, Handling, ROWS};
use crate::cli::device_lane;
use crate::cli::error::CliError;
use crate::cli::session::{self, DeviceSetup};
use crate::compile::{CompileFarm, FarmOptions, compile_one};
use crate::engine::prepared::PreparedKernel;
use crate::engine::recipe::KernelRecipe;
use crate::engine::single;
use crate::kernel::render::{render, render_reference, render_single_reference};
use crate::kernel::spec::SpaceFile;
use crate::supervise::deadline::Deadlines;
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::{Lane, LaneLimits};

/// A launch of a fixture that should not end.
const LAUNCHED: Duration = Duration::from_millis(400);
/// What a fixture that prints too much may print.
const OUTPUT_BYTES: u64 = 32 << 10;
/// A rival that is faster than any kernel, nanoseconds.
const RIVAL_NS: f64 = 10.0;

/// A verdict on a fixture, and the gate that gave it.
#[derive(Clone, Debug)]
pub struct GateFinding {
    pub verdict: Verdict,
    pub gate: Option<Gate>,
}

/// A row's fixture, ready to be compiled.
struct Fixture<'a> {
    row: &'a GateRow,
    file: SpaceFile,
}

impl Fixture<'_> {
    fn open(row: &GateRow) -> Result<Fixture<'_>, CliError> {
        Ok(Fixture { row, file: row.task.open(row.fixture)? })
    }

    fn configuration(&self) -> Configuration {
        let pairs = self.file.space.parameters().iter().map(|parameter| {
            let own = if &*parameter.name == "FIXTURE" {
                Value::from(self.row.fixture)
            } else {
                parameter.default_value().clone()
            };
            (parameter.name.clone(), own)
        });
        Configuration::new(pairs.collect())
    }

    /// The sources of everything that may be compiled for it.
    fn sources(&self, kind: DeviceKind) -> Result<Vec<KernelSource>, CliError> {
        let kernel = session::kernel_of(&self.file)?;
        let Ok(source) = render(kernel, &self.configuration()) else {
            return Ok(Vec::new());
        };
        let instrumented = KernelSource { instrumented: true, ..source.clone() };
        let second = (kind == DeviceKind::Host && self.row.slips_through()).then_some(instrumented);
        let references = render_reference(kernel).into_iter().chain(render_single_reference(kernel));
        Ok(references.chain([source]).chain(second).collect())
    }
}

/// The sources of all fixtures that run on a kind of device.
pub fn sources(kind: DeviceKind) -> Result<Vec<KernelSource>, CliError> {
    let rows = ROWS.iter().filter(|row| row.runs_on(kind));
    let sources: Result<Vec<_>, CliError> = rows.map(|row| Fixture::open(row)?.sources(kind)).collect();
    Ok(sources?.into_iter().flatten().collect())
}

/// What the compilers made of fixtures, by source.
type Built = BTreeMap<ContentHash, CompileOutcome>;

/// A device, its compilers and what they have made.
pub struct GateBench<'a> {
    setup: &'a DeviceSetup,
    lane: Lane,
    seed: u64,
    built: Built,
}

impl<'a> GateBench<'a> {
    /// Starts the device and compiles the fixtures of these rows side by side.
    pub fn start(setup: &'a DeviceSetup, rows: &[&GateRow], seed: u64) -> Result<GateBench<'a>, CliError> {
        let mut sources = BTreeMap::new();
        for row in rows {
            for source in Fixture::open(row)?.sources(setup.choice.kind)? {
                sources.insert(key(&source), source);
            }
        }
        let built = build(&setup.farm, sources)?;
        let lane = device_lane::lane(setup, None, None)?;
        Ok(GateBench { setup, lane, seed, built })
    }

    pub fn choice(&self) -> &DeviceChoice {
        &self.setup.choice
    }

    /// Facts of the device.
    pub fn info(&self) -> Result<serde_json::Value, CliError> {
        Ok(serde_json::to_value(self.lane.info())?)
    }

    /// Judges a row's fixture by these checks.
    pub fn judge(&mut self, row: &GateRow, checks: CheckSet) -> Result<GateFinding, CliError> {
        let fixture = Fixture::open(row)?;
        let mut job = match self.job(&fixture, checks)? {
            Ok(job) => job,
            Err(finding) => return Ok(*finding),
        };
        // The instrumented build stays: a contender becomes a finalist before it can rank.
        job.deep = row.handling == Handling::Finalist;
        if row.handling == Handling::OtherBinary {
            job.candidate.builds[0].variant_hash = ContentHash::of(b"another variant");
        }
        let standing = match row.handling {
            Handling::FastRival => {
                Standing::new(job.timed.iter().map(|plan| (plan.name.clone(), RIVAL_NS)).collect(), RIVAL_NS)
            }
            _ => Standing::default(),
        };
        let judgement = match self.limits(row.handling) {
            Some(limits) => {
                device_lane::lane_within(self.setup, None, None, limits)?.evaluate(&job, &standing)
            }
            None => self.lane.evaluate(&job, &standing),
        };
        Ok(GateFinding { gate: failed(&judgement.gates), verdict: judgement.verdict })
    }

    /// The limits of a lane of its own, where a row needs one.
    fn limits(&self, handling: Handling) -> Option<LaneLimits> {
        let limits = LaneLimits { spare: false, ..LaneLimits::default() };
        match handling {
            Handling::NewWorker => Some(limits),
            Handling::ShortDeadlines => {
                let deadlines = Deadlines::tiny(self.setup.choice.kind).with_launched(LAUNCHED);
                Some(LaneLimits { deadlines: Some(deadlines), ..limits })
            }
            Handling::LittleOutput => Some(LaneLimits { output_bytes_max: OUTPUT_BYTES, ..limits }),
            _ => None,
        }
    }

    fn job(
        &self,
        fixture: &Fixture<'_>,
        checks: CheckSet,
    ) -> Result<Result<Job, Box<GateFinding>>, CliError> {
        let kernel = session::kernel_of(&fixture.file)?;
        let problems = session::problems(kernel, self.setup.choice.kind, &[])?;
        let farm = FarmOptions { checks, ..self.setup.farm.clone() };
        let compile = |source: &KernelSource| -> Result<CompileOutcome, CliError> {
            match self.built.get(&key(source)) {
                // A source that a guard refused says nothing about a judgement without that guard.
                Some(outcome) if outcome.is_ok() || checks.are_all() => Ok(outcome.clone()),
                _ => Ok(compile_one(&farm, source.clone())?),
            }
        };
        let reference = match render_reference(kernel) {
            Some(source) => {
                let entries = source.entries.clone();
                let binary: Result<Binary, Box<Verdict>> = compile(&source)?;
                let told = |verdict: Box<Verdict>| {
                    CliError::harness(format!("a reference does not compile: {}", verdict.message))
                };
                Some((binary.map_err(told)?, entries))
            }
            None => None,
        };
        let single = match render_single_reference(kernel) {
            Some(source) => compile(&source)?.ok(),
            None => None,
        };
        let info = self.lane.info();
        let recipe = KernelRecipe::new(kernel, info.limits.clone(), &problems, reference, self.seed);
        let recipe = recipe.with_single(single.as_ref());
        let recipe = recipe.on_device(info).on_kind(info.kind).judged_by(checks);
        let configuration = fixture.configuration();
        let genome = fixture.file.space.genome(&configuration);
        let genome = genome.ok_or_else(|| CliError::harness("a fixture is not a value of its task"))?;
        // An instrumented build comes with a deep job.
        let deep = fixture.row.slips_through();
        let answer = single::job(&recipe, genome, configuration, deep, |prepared: &PreparedKernel| {
            let all = prepared.sources.iter().map(&compile);
            Ok::<_, CliError>(all.collect::<Result<Vec<_>, _>>()?.into_iter().collect())
        })?;
        let refused = |evaluation: Box<Evaluation>| {
            Box::new(GateFinding { gate: failed(&evaluation.gates), verdict: evaluation.verdict })
        };
        Ok(answer.map(|(_, job)| job).map_err(refused))
    }
}

/// The first gate that failed.
fn failed(gates: &[GateReport]) -> Option<Gate> {
    gates.iter().find(|report| report.state == GateState::Fail).map(|report| report.gate)
}

fn key(source: &KernelSource) -> ContentHash {
    let build: &[u8] = if source.instrumented { b"instrumented" } else { b"plain" };
    ContentHash::of_parts([build, source.text.as_bytes(), source.options.join("\n").as_bytes()])
}

/// Compiles all sources, as many at once as there are cores.
fn build(options: &FarmOptions, sources: BTreeMap<ContentHash, KernelSource>) -> Result<Built, CliError> {
    let (sender, receiver) = mpsc::channel();
    let on_done = Box::new(move |ticket: u64, outcome: CompileOutcome| {
        // Nobody listens any more only where this function was left by an error.
        let _ = sender.send((ticket, outcome));
    });
    let farm = CompileFarm::start(options.clone(), on_done)?;
    let keys: Vec<ContentHash> = sources.keys().cloned().collect();
    for (ticket, source) in sources.into_values().enumerate() {
        farm.submit(ticket as u64, source);
    }
    let mut built = Built::new();
    for _ in 0..keys.len() {
        let answer = receiver.recv();
        let (ticket, outcome) = answer.map_err(|_| CliError::harness("the compile farm ended early"))?;
        built.insert(keys[ticket as usize].clone(), outcome);
    }
    Ok(built)
}
