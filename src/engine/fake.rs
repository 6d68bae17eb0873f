//! Compilers, a device and a recipe that cost nothing, for tests of the engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use evo_protocol::binary::{Binary, EntryResources, HEADER_END, KernelSource};
use evo_protocol::device::Telemetry;
use evo_protocol::measurement::{Measurement, RankingMode, TimingMode};
use evo_protocol::plan::{LaunchPlan, ProblemPlan};
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{CheckPlan, ReferencePlan};
use evo_search::registry::{StrategyOptions, create};
use evo_search::strategy::Strategy;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::space::SearchSpace;

use super::error::EngineError;
pub(crate) use super::fake_header::header;
use super::options::{Options, Summary};
use super::ports::{Build, Compilers, Evaluate, Inbox, Message, Prepared, Recipe, Refused, Rivals};
use super::run::{Engine, Parts};
use crate::budget::Budget;
use crate::event::{Event, Observer};
use crate::journal::record::{Decision, PairedProblem, ProblemWork};
use crate::study::{Study, StudyRequest};
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::LaneResult;

/// `A` and `B` change the source; `DEAD` changes nothing; `LATE` changes the source, not the machine
/// code; `GRID` changes the plan only. `A = 7` is refused, `A = 6` does not compile; else it takes 10 + `A` registers.
pub(super) struct FakeRecipe;

fn int(configuration: &Configuration, name: &str) -> i64 {
    configuration.get(name).and_then(|value| value.as_int()).unwrap_or(0)
}

impl Recipe for FakeRecipe {
    fn prepare(&self, configuration: &Configuration) -> Result<Prepared, Refused> {
        let [a, b, late, grid] = ["A", "B", "LATE", "GRID"].map(|name| int(configuration, name));
        if a == 7 {
            let verdict = Box::new(Verdict::new(VerdictKind::StaticReject, "A is 7").with_cause("seven"));
            return Err(Refused { gate: Gate::StaticLimits, verdict });
        }
        let launch = LaunchPlan {
            entry: "fake".into(),
            grid: [grid.max(1), 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            cluster: None,
            cooperative: false,
            programmatic: false,
            arguments: Vec::new(),
        };
        let plan = ProblemPlan {
            name: "p".into(),
            sizes: BTreeMap::new(),
            weight: 1.0,
            buffers: Vec::new(),
            scalars: Vec::new(),
            launches: vec![launch],
            reference_launches: Vec::new(),
            flops: None,
            bytes: None,
        };
        let source = KernelSource {
            text: format!("// {}\n{HEADER_END}code {a} {b} // {late}", configuration.hash()),
            options: Vec::new(),
            entries: vec!["fake".into()],
            file_name: "fake.cu".into(),
            variant_hash: configuration.hash(),
        };
        Ok(Prepared { source, tiny: Vec::new(), checked: Vec::new(), timed: vec![plan] })
    }

    fn job(&self, prepared: &Prepared, build: Build<'_>) -> Result<Job, Refused> {
        let check = CheckPlan {
            reference: ReferencePlan::Kernel,
            atol: None,
            rtol: None,
            trusted_factor: 1.0,
            seed: 1,
            seeds: 1,
            families: Vec::new(),
            deterministic: true,
            repeats: 1,
        };
        Ok(Job {
            number: build.number,
            label: build.label,
            variant_hash: build.variant_hash,
            binary: build.binary.clone(),
            entries: vec!["fake".into()],
            reference: None,
            check,
            tiny: Vec::new(),
            checked: Vec::new(),
            timed: prepared.timed.clone(),
            ranking: RankingMode::Hot,
            deep: build.deep,
        })
    }

    fn work(&self, _prepared: &Prepared) -> Vec<ProblemWork> {
        Vec::new()
    }
}

/// Answers at once, except for `A = 8`, which compiles for ever.
pub(super) struct FakeCompilers {
    sender: Sender<Message>,
    log: Arc<Mutex<Log>>,
    compiling: usize,
}

/// What fakes saw.
#[derive(Default, Debug)]
pub(super) struct Log {
    pub compiled: Vec<u64>,
    /// How many sources were compiling at each cancellation.
    pub cancelled: Vec<usize>,
    pub evaluated: Vec<String>,
    pub deep: Vec<String>,
}

impl Compilers for FakeCompilers {
    fn submit(&mut self, ticket: u64, source: KernelSource) {
        self.log.lock().unwrap().compiled.push(ticket);
        let body = source.text.split_once(HEADER_END).unwrap().1.to_string();
        if body.starts_with("code 8") {
            self.compiling += 1;
            return;
        }
        let outcome = if body.starts_with("code 6") {
            Err(Box::new(Verdict::new(VerdictKind::CompileError, "six")))
        } else if body.starts_with("code 9") {
            Err(Box::new(Verdict::new(VerdictKind::HarnessError, "no room").with_cause("cache")))
        } else {
            let code = body.split(" // ").next().unwrap();
            let a: u32 = code.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
            Ok(Binary {
                hash: ContentHash::of(body.as_bytes()),
                code_hash: ContentHash::of(code.as_bytes()),
                path: PathBuf::from("/nowhere"),
                resources: vec![EntryResources { registers: Some(10 + a), ..Default::default() }],
                toolchain: "fake 1".into(),
                compile_ms: 1.0,
                cached: false,
                log: String::new(),
            })
        };
        let _ = self.sender.send(Message::Compiled(ticket, outcome));
    }

    fn cancel(&mut self) {
        self.log.lock().unwrap().cancelled.push(std::mem::take(&mut self.compiling));
    }

    fn jobs(&self) -> usize {
        2
    }

    fn busy_seconds(&self) -> f64 {
        0.0
    }
}

/// What the fake device does with a job: the label and whether it is deep decide.
pub(super) type Script = Arc<dyn Fn(&Job) -> LaneResult + Send + Sync>;

pub(super) struct FakeDevice {
    script: Script,
    log: Arc<Mutex<Log>>,
}

impl Evaluate for FakeDevice {
    fn evaluate(&mut self, job: &Job, _standing: &Standing) -> LaneResult {
        let mut log = self.log.lock().unwrap();
        if job.deep {
            log.deep.push(job.label.clone())
        } else {
            log.evaluated.push(job.label.clone())
        };
        drop(log);
        (self.script)(job)
    }

    fn pair(&mut self, rivals: &Rivals) -> Result<PairedProblem, String> {
        let [baseline_ns, finalist_ns] = [&rivals.baseline, &rivals.finalist].map(objective_of);
        let ratio = finalist_ns / baseline_ns;
        Ok(PairedProblem {
            problem: "p".into(),
            ratio,
            ratio_low: ratio,
            ratio_high: ratio,
            processes: 3,
            pairs: 12,
            decision: if ratio < 1.0 { Decision::Faster } else { Decision::Same },
            baseline_ns,
            finalist_ns,
        })
    }

    fn noise_floor(&mut self, _job: &Job, _problem: usize) -> Result<f64, String> {
        Ok(0.01)
    }

    /// Every evaluation heats it by a degree.
    fn telemetry(&mut self) -> Option<Telemetry> {
        let evaluated = self.log.lock().unwrap().evaluated.len() as u32;
        Some(Telemetry { temperature_c: Some(30 + evaluated), ..Telemetry::default() })
    }
}

/// 1000 + 10·A + B nanoseconds, from the label.
pub(super) fn objective_of(job: &Job) -> f64 {
    let value = |name: &str| {
        let pair = job.label.split(' ').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        pair.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0)
    };
    1000.0 + 10.0 * value("A") + value("B")
}

/// A result with this verdict.
pub(super) fn lane_result(job: &Job, kind: VerdictKind) -> LaneResult {
    let passed = kind == VerdictKind::Pass;
    let time = objective_of(job);
    let report = |gate: &Gate| GateReport {
        state: if passed { GateState::Pass } else { GateState::Fail },
        cases: 1,
        ..GateReport::not_run(*gate, "")
    };
    let gates =
        [Gate::Launch, Gate::TinyShapes, Gate::FullShapes, Gate::Repeatability, Gate::Timing, Gate::Honesty];
    let measurement = Measurement {
        problem: "p".into(),
        mode: TimingMode::Hot,
        samples: 5,
        batch: 1,
        p10_ns: time,
        p50_ns: time,
        p90_ns: time,
        min_ns: time,
        mad_ns: 0.0,
        ci_low_ns: time,
        ci_high_ns: time,
        outliers: 0,
        dropped: 0,
        stop: "interval".into(),
        telemetry: Default::default(),
        raw_ns: Vec::new(),
    };
    LaneResult {
        verdict: Verdict::new(kind, ""),
        gates: gates.iter().map(report).collect(),
        measurements: if passed { vec![measurement] } else { Vec::new() },
        objective_ns: passed.then_some(time),
        attributes: Vec::new(),
        recovery: None,
        device_ms: 1.0,
        lost: false,
    }
}

/// Everything passes.
pub(super) fn all_pass() -> Script {
    Arc::new(|job| lane_result(job, VerdictKind::Pass))
}

/// Keeps events as text, and checks at each verdict that the journal has it.
#[derive(Default)]
pub(super) struct Watcher {
    pub events: Vec<String>,
    journal: PathBuf,
}

impl Observer for Watcher {
    fn observe(&mut self, event: &Event) {
        if let Event::Finished { evaluation, .. } = event {
            let journal = crate::journal::reader::read(&self.journal).unwrap();
            let last = journal.records.last().unwrap();
            let written = matches!(last, crate::journal::record::Record::Evaluation(one)
                if one.number == evaluation.number);
            assert!(written, "a verdict was told before it was in the journal");
        }
        self.events.push(format!("{event:?}"));
    }
}

/// A study in a temporary folder that can be run again and again.
pub(super) struct Bench {
    pub out: tempfile::TempDir,
    pub space: SearchSpace,
    pub strategy: &'static str,
    pub options: Options,
}

/// The result of one run.
pub(super) struct Ran {
    pub summary: Summary,
    pub log: Log,
    pub events: Vec<String>,
}

impl Bench {
    pub(super) fn new(space: &str) -> Bench {
        let space = SearchSpace::parse(space).unwrap();
        let valid = space.count();
        let options =
            Options { budget: Budget::default(), population: 4, finalists: 0, valid, run_all: false };
        Bench { out: tempfile::tempdir().unwrap(), space, strategy: "exhaustive", options }
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.out.path().join("s/journal.jsonl")
    }

    pub(super) fn open(&self) -> Study {
        let request = StudyRequest { out: self.out.path(), name: Some("s"), default_name: "s", resume: true };
        Study::open(&request, header()).unwrap()
    }

    pub(super) fn run(&self, script: Script) -> Ran {
        self.run_with(|_| script)
    }

    /// `script` is made with the inbox's sender, to play the user.
    pub(super) fn run_with(&self, script: impl FnOnce(Sender<Message>) -> Script) -> Ran {
        self.try_run_with(script).unwrap()
    }

    /// The same where the engine may stop with an error.
    pub(super) fn try_run_with<F>(&self, script: F) -> Result<Ran, EngineError>
    where
        F: FnOnce(Sender<Message>) -> Script,
    {
        let strategy = create(self.strategy, &self.space, StrategyOptions { seed: 1, population: 4 });
        self.run_strategy(strategy.unwrap(), script)
    }

    /// The same with a strategy that is not registered.
    pub(super) fn run_strategy(
        &self,
        strategy: Box<dyn Strategy + '_>,
        script: impl FnOnce(Sender<Message>) -> Script,
    ) -> Result<Ran, EngineError> {
        let mut study = self.open();
        let log = Arc::new(Mutex::new(Log::default()));
        let inbox = Inbox::new();
        let script = script(inbox.sender());
        let mut watcher = Watcher { journal: self.journal(), events: Vec::new() };
        let parts = Parts {
            study: &mut study,
            space: &self.space,
            strategy,
            recipe: &FakeRecipe,
            compilers: Box::new(FakeCompilers {
                sender: inbox.sender(),
                log: Arc::clone(&log),
                compiling: 0,
            }),
            device: Box::new(FakeDevice { script, log: Arc::clone(&log) }),
            observer: &mut watcher,
            inbox,
        };
        let summary = Engine::new(parts, self.options.clone()).run()?;
        let log = std::mem::take(&mut *log.lock().unwrap());
        Ok(Ran { summary, log, events: watcher.events })
    }

    /// Configuration to verdict, from the journal.
    pub(super) fn verdicts(&self) -> BTreeMap<String, String> {
        verdicts_in(&self.journal())
    }
}

pub(super) fn verdicts_in(journal: &Path) -> BTreeMap<String, String> {
    let journal = crate::journal::reader::read(journal).unwrap();
    let history = crate::journal::replay::History::replay(journal);
    let pair =
        |one: &evo_protocol::evaluation::Evaluation| (one.configuration.to_string(), one.verdict.label());
    let map: BTreeMap<_, _> = history.evaluations.iter().map(pair).collect();
    assert_eq!(map.len(), history.evaluations.len(), "a configuration was evaluated twice");
    map
}
