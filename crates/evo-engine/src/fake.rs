//! Compilers, a device and a recipe that cost nothing, for tests of the engine.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evo_journal::record::{JournalRecord, ProblemWork};
use evo_protocol::binary::EntryResources;
use evo_protocol::device::Telemetry;
use evo_protocol::facts::Facts;
use evo_protocol::leaderboard::{PairedDecision, PairedProblem};
use evo_protocol::measurement::{StopRule, TimingMode};
use evo_protocol::verdict::{Cause, Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_report::event::{Event, Observer};
use evo_space::genome::{Configuration, ContentHash};
use evo_supervise::job::{Judgement, Standing, example};
use evo_supervise::renewal::Renewal;

use super::ports::{
    BuildRecord, Compilers, Evaluate, Identity, JobOrder, Message, PairAnswer, Recipe, Refused, Rivals,
};

/// `A` and `B` change the source; `DEAD` changes nothing; `LATE` changes the source, not the machine
/// code; `GRID` changes the plan only. `A = 7` is refused, `A = 8` cannot
/// be rendered for reasons of the machine, `A = 6` does not compile; else it takes 10 + `A` registers.
pub(super) struct FakeRecipe {
    pub conditions: Option<ContentHash>,
}

fn int(configuration: &Configuration, name: &str) -> i64 {
    configuration.get(name).and_then(|value| value.as_int()).unwrap_or(0)
}

/// What a configuration comes to: `code A B // LATE` and a grid.
pub(super) struct FakePrepared {
    source: String,
    grid: i64,
}

/// The code without what compiling removes.
#[derive(Clone)]
pub(super) struct FakeBinary {
    code: String,
}

/// What the fake device is handed.
#[derive(Clone)]
pub(super) struct FakeJob {
    pub label: String,
    pub deep: bool,
}

impl Recipe for FakeRecipe {
    type Prepared = FakePrepared;
    type Binary = FakeBinary;
    type Job = FakeJob;

    fn prepare(&self, configuration: &Configuration) -> Result<FakePrepared, Refused> {
        let [a, b, late, grid] = ["A", "B", "LATE", "GRID"].map(|name| int(configuration, name));
        if a == 7 {
            let verdict = Box::new(Verdict::new(VerdictKind::StaticReject, "A is 7").with_cause("seven"));
            return Err(Refused { gate: Gate::StaticLimits, verdict });
        }
        if a == 8 {
            let verdict = Verdict::new(VerdictKind::HarnessError, "it cannot be rendered here");
            return Err(Refused { gate: Gate::StaticLimits, verdict: Box::new(verdict) });
        }
        Ok(FakePrepared { source: format!("code {a} {b} // {late}"), grid })
    }

    fn identity(&self, prepared: &FakePrepared) -> Identity {
        let source = ContentHash::of(prepared.source.as_bytes());
        let (plan, conditions) = (ContentHash::of(&prepared.grid.to_le_bytes()), self.conditions.clone());
        Identity { text: Some(source.clone()), source, plan, conditions }
    }

    fn record(&self, _prepared: &FakePrepared, binary: &FakeBinary) -> BuildRecord {
        let a = binary.code.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0u32);
        let resources = EntryResources { registers: Some(10 + a), ..Default::default() };
        let code = ContentHash::of(binary.code.as_bytes());
        BuildRecord {
            compile_ms: 1.0,
            resources: vec![resources],
            binary_hash: Some(code.clone()),
            code_hash: Some(code),
            facts: Some(Facts { registers: Some(f64::from(10 + a)), ..Facts::default() }),
            toolchain: "fake 1".into(),
        }
    }

    fn job(
        &self,
        _prepared: &FakePrepared,
        _binary: &FakeBinary,
        order: JobOrder,
    ) -> Result<FakeJob, Refused> {
        Ok(FakeJob { label: order.label, deep: order.deep.is_some() })
    }

    fn work(&self, _prepared: &FakePrepared) -> Vec<ProblemWork> {
        vec![ProblemWork {
            problem: "p".into(),
            sizes: BTreeMap::new(),
            weight: 1.0,
            flops: None,
            bytes: None,
            half: false,
            launches: Vec::new(),
        }]
    }
}

/// Answers at once, except for `A = 99`, which compiles for ever.
pub(super) struct FakeCompilers {
    pub sender: Sender<Message<FakeBinary>>,
    pub log: Arc<Mutex<Log>>,
    pub compiling: usize,
    pub trouble: Option<CompileTrouble>,
    pub idle: bool,
}

/// What goes wrong with a source that the compilers are given for the n-th time in this run, from 1.
pub(super) type CompileTrouble = Arc<dyn Fn(&str, usize) -> Option<Verdict> + Send + Sync>;

/// What fakes saw.
#[derive(Default, Debug)]
pub(super) struct Log {
    pub compiled: Vec<u64>,
    pub sources: Vec<String>,
    /// How many sources were compiling at each cancellation.
    pub cancelled: Vec<usize>,
    pub evaluated: Vec<String>,
    /// Those among them that had nothing to be slower than.
    pub unrivaled: Vec<String>,
    pub deep: Vec<String>,
    /// Paired comparisons made.
    pub paired: usize,
    /// How long each of them could take.
    pub within: Vec<Option<Duration>>,
    /// The baseline's drifts in the comparisons to come; none after the last.
    pub drifts: VecDeque<f64>,
    /// Labels of what the sanitizer looked at.
    pub sanitized: Vec<String>,
    /// How long each of its looks could take, and what it was told to expect.
    pub looks_within: Vec<Option<Duration>>,
    pub looks_ahead: Vec<Vec<String>>,
}

impl Compilers<FakePrepared> for FakeCompilers {
    fn submit(&mut self, ticket: u64, prepared: &FakePrepared) {
        let source = &prepared.source;
        let mut log = self.log.lock().unwrap();
        log.compiled.push(ticket);
        log.sources.push(source.clone());
        let tries = log.sources.iter().filter(|own| *own == source).count();
        drop(log);
        if let Some(verdict) = self.trouble.as_ref().and_then(|trouble| trouble(source, tries)) {
            let _ = self.sender.send(Message::Compiled(ticket, Err(Box::new(verdict))));
            return;
        }
        if source.starts_with("code 99 ") {
            self.compiling += 1;
            return;
        }
        let answer = if source.starts_with("code 6") {
            Err(Box::new(Verdict::new(VerdictKind::CompileError, "six")))
        } else if source.starts_with("code 9") {
            Err(Box::new(Verdict::new(VerdictKind::HarnessError, "no room").with_cause(Cause::Cache)))
        } else {
            Ok(FakeBinary { code: source.split(" // ").next().unwrap().to_string() })
        };
        let _ = self.sender.send(Message::Compiled(ticket, answer));
    }

    fn cancel(&mut self) {
        self.log.lock().unwrap().cancelled.push(std::mem::take(&mut self.compiling));
    }

    fn jobs(&self) -> usize {
        if self.idle { 12 } else { 2 }
    }

    fn disturb_timing(&self) -> bool {
        !self.idle
    }

    fn busy_seconds(&self) -> f64 {
        0.0
    }
}

/// What the fake device does with a job: the label and whether it is deep decide.
pub(super) type Script = Arc<dyn Fn(&FakeJob) -> Judgement + Send + Sync>;

/// What a fake device's launcher does when a new worker is owed.
pub(super) type RenewScript = Arc<dyn Fn() -> Renewal + Send + Sync>;

pub(super) struct FakeDevice {
    pub script: Script,
    pub renew: Option<RenewScript>,
    pub log: Arc<Mutex<Log>>,
    pub played: Option<PlayedTime>,
}

/// A clock that moves only when the device is at work. Scripts move it for evaluations.
#[derive(Clone)]
pub(super) struct PlayedTime {
    pub milliseconds: Arc<AtomicU64>,
    /// What a comparison and a noise floor take.
    pub pair_ms: u64,
    pub floor_ms: u64,
}

impl PlayedTime {
    pub(super) fn pass(&self, milliseconds: u64) {
        self.milliseconds.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// Milliseconds since the command began.
    pub(super) fn now(&self) -> u64 {
        self.milliseconds.load(Ordering::Relaxed)
    }
}

impl Evaluate<FakeJob> for FakeDevice {
    fn evaluate(&mut self, job: &FakeJob, standing: &Standing) -> Judgement {
        let mut log = self.log.lock().unwrap();
        if !job.deep && standing.objective_ns.is_none() {
            log.unrivaled.push(job.label.clone());
        }
        if job.deep {
            log.deep.push(job.label.clone())
        } else {
            log.evaluated.push(job.label.clone())
        };
        drop(log);
        (self.script)(job)
    }

    fn pair(&mut self, rivals: &Rivals<FakeJob>) -> Vec<PairAnswer> {
        let [baseline_ns, finalist_ns] = [&rivals.baseline, &rivals.finalist].map(objective_of);
        let ratio = finalist_ns / baseline_ns;
        let mut log = self.log.lock().unwrap();
        log.paired += 1;
        log.within.push(rivals.within);
        self.played.iter().for_each(|played| played.pass(played.pair_ms));
        let mut pair = || {
            Ok(PairedProblem {
                problem: "p".into(),
                ratio,
                ratio_low: ratio,
                ratio_high: ratio,
                processes: 3,
                pairs: 12,
                decision: if ratio < 1.0 { PairedDecision::Faster } else { PairedDecision::Same },
                baseline_ns,
                finalist_ns,
                baseline_drift: log.drifts.pop_front(),
            })
        };
        rivals.problems.iter().map(|_| pair()).collect()
    }

    fn noise_floor(&mut self, _job: &FakeJob, _problems: usize) -> Result<f64, String> {
        self.played.iter().for_each(|played| played.pass(played.floor_ms));
        Ok(0.01)
    }

    /// Every evaluation heats it by a degree.
    fn telemetry(&mut self) -> Option<Telemetry> {
        let evaluated = self.log.lock().unwrap().evaluated.len() as u32;
        Some(Telemetry { temperature_c: Some(30 + evaluated), ..Telemetry::default() })
    }

    fn renew(&mut self) -> Option<Renewal> {
        self.renew.as_ref().map(|renew| renew())
    }
}

/// 1000 + 10·A + B nanoseconds, from the label.
pub(super) fn objective_of(job: &FakeJob) -> f64 {
    let value = |name: &str| {
        let pair = job.label.split(' ').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        pair.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0)
    };
    1000.0 + 10.0 * value("A") + value("B")
}

/// A result with this verdict.
pub(super) fn lane_result(job: &FakeJob, kind: VerdictKind) -> Judgement {
    let passed = kind == VerdictKind::Pass;
    let time = objective_of(job);
    let report = |gate: &Gate| GateReport {
        state: if passed { GateState::Pass } else { GateState::Fail },
        cases: 1,
        ..GateReport::not_run(*gate, "")
    };
    let gates =
        [Gate::Launch, Gate::TinyShapes, Gate::FullShapes, Gate::Repeatability, Gate::Timing, Gate::Honesty];
    let measurement = example::measurement("p", TimingMode::Hot, time, StopRule::Interval);
    Judgement {
        verdict: Verdict::new(kind, ""),
        gates: gates.iter().map(report).collect(),
        measurements: if passed { vec![measurement] } else { Vec::new() },
        objective_ns: passed.then_some(time),
        attributes: Vec::new(),
        recovery: None,
        device_ms: 1.0,
        lost: false,
        second_look: None,
        owes_worker: false,
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
    pub journal: PathBuf,
}

impl Observer for Watcher {
    fn observe(&mut self, event: &Event) {
        if let Event::Finished { evaluation, .. } | Event::NotFinal { evaluation } = event {
            let journal = evo_journal::reader::read(&self.journal).unwrap();
            let last = journal.records.last().unwrap();
            let (JournalRecord::Evaluation(one) | JournalRecord::NotFinal(one)) = last else {
                panic!("told of {evaluation:?} after {last:?}");
            };
            assert_eq!(one.number, evaluation.number, "told before it was in the journal");
        }
        self.events.push(format!("{event:?}"));
    }
}
