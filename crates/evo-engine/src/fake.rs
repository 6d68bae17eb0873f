//! Compilers, a device, a recipe and a sanitizer that cost nothing, and a study in a temporary folder that runs with them,
//! for tests of the engine.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evo_journal::budget::{Budget, CommandClock};
use evo_journal::definition::Conditions;
use evo_journal::example::header;
use evo_journal::line::LineWriter;
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::JOURNAL;
use evo_journal::record::{JournalRecord, LaneAccount, ProblemWork, StudyHeader, now};
use evo_journal::replay::History;
use evo_protocol::binary::EntryResources;
use evo_protocol::device::{DeviceKind, Telemetry};
use evo_protocol::evaluation::{Evaluation, Facts};
use evo_protocol::leaderboard::{PairedDecision, PairedProblem};
use evo_protocol::measurement::{StopRule, TimingMode};
use evo_protocol::verdict::{Cause, Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_report::event::{Event, Observer};
use evo_report::study::{EarlierLimits, EarlierResults, Study, StudyError, StudyRequest, StudyWish};
use evo_search::registry::create;
use evo_search::strategy::{Outcome, Proposal, Strategy};
use evo_space::genome::{Configuration, ContentHash, Genome};
use evo_space::space::SearchSpace;
use evo_supervise::job::{Judgement, Standing, example};
use evo_supervise::lane::Renewal;
use minijinja::value::Serde;
use serde::Serialize;

use crate::ports::{
    BuildRecord, Compilers, Evaluate, Identity, Inbox, JobOrder, LanePart, Message, NoSanitizer, PairAnswer,
    Recipe, Refused, Rivals, Sanitizer, SanitizerAnswer,
};
use crate::run::{Engine, Options, Parts, RunSummary, SanitizePlan};
use crate::take_over::ago;
use crate::trouble::EngineResult;

/// `A` and `B` change the source; `DEAD` changes nothing; `LATE` changes the source, not the machine
/// code; `GRID` changes the plan only. `A = 7` is refused, `A = 8` cannot
/// be rendered for reasons of the machine, `A = 6` does not compile; else it takes 10 + `A` registers.
pub(super) struct FakeRecipe {
    pub conditions: Option<ContentHash>,
}

fn int(configuration: &Configuration, name: &str) -> i64 {
    configuration.get(name).and_then(|value| value.as_int()).unwrap_or(0)
}

pub(super) struct FakePrepared {
    source: String,
    grid: i64,
}

#[derive(Clone)]
pub(super) struct FakeBinary {
    code: String,
}

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
}

/// What goes wrong with a source that the compilers are given for the n-th time in this run, from 1.
pub(super) type CompileTrouble = Arc<dyn Fn(&str, usize) -> Option<Verdict> + Send + Sync>;

#[derive(Default, Debug, Serialize)]
pub(super) struct Log {
    pub compiled: Vec<u64>,
    pub sources: Vec<String>,
    pub cancelled: Vec<usize>,
    pub evaluated: Vec<String>,
    /// Those among them that had nothing to be slower than.
    pub unrivaled: Vec<String>,
    pub deep: Vec<String>,
    pub paired: usize,
    pub within: Vec<Option<Duration>>,
    /// The baseline's drifts in the comparisons to come; none after the last.
    pub drifts: VecDeque<f64>,
    pub sanitized: Vec<String>,
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
        2
    }

    fn busy_seconds(&self) -> f64 {
        0.0
    }
}

pub(super) type Script = Arc<dyn Fn(&FakeJob) -> Judgement + Send + Sync>;

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
    pub pair_ms: u64,
    pub floor_ms: u64,
}

impl PlayedTime {
    pub(super) fn pass(&self, milliseconds: u64) {
        self.milliseconds.fetch_add(milliseconds, Ordering::Relaxed);
    }

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
        device_ms: 1.0,
        ..Judgement::begin()
    }
}

pub(super) fn passed(job: &FakeJob) -> Judgement {
    lane_result(job, VerdictKind::Pass)
}

pub(super) fn judging(kind: impl Fn(&FakeJob) -> VerdictKind + Send + Sync + 'static) -> Script {
    Arc::new(move |job| lane_result(job, kind(job)))
}

pub(super) fn all_pass() -> Script {
    judging(|_| VerdictKind::Pass)
}

/// Everything passes but what is hit.
pub(super) fn failing(kind: VerdictKind, hits: impl Fn(&FakeJob) -> bool + Send + Sync + 'static) -> Script {
    judging(move |job| if hits(job) { kind } else { VerdictKind::Pass })
}

/// `A=2` is wrong, and one variant hangs.
pub(super) fn mixed() -> Script {
    judging(mixed_kind)
}

pub(super) fn mixed_kind(job: &FakeJob) -> VerdictKind {
    match job.label.as_str() {
        label if label.starts_with("A=2") => VerdictKind::WrongAnswer,
        label if label.starts_with("A=3 B=1") => VerdictKind::Hang,
        _ => VerdictKind::Pass,
    }
}

/// The verdicts of a run in which everything passes.
pub(super) fn undisturbed(space: &str) -> BTreeMap<String, String> {
    let bench = TestStudy::new(space);
    bench.run(all_pass());
    bench.verdicts()
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

pub(super) type Asked<'a> = Box<dyn FnMut(&mut dyn Strategy, usize) -> Vec<Proposal> + 'a>;

type Reconsider<'a> = Box<dyn FnMut(&Genome, &Facts) -> bool + 'a>;

/// Another strategy, of whose answers a test changes or watches some.
pub(super) struct ScriptedStrategy<'a> {
    pub inner: Box<dyn Strategy + 'a>,
    pub ask: Asked<'a>,
    pub tell: Box<dyn FnMut(&Outcome) + 'a>,
    pub reconsider: Reconsider<'a>,
}

impl<'a> ScriptedStrategy<'a> {
    pub(super) fn new(inner: Box<dyn Strategy + 'a>) -> ScriptedStrategy<'a> {
        ScriptedStrategy {
            inner,
            ask: Box::new(|inner, n| inner.ask(n)),
            tell: Box::new(|_| {}),
            reconsider: Box::new(|_, _| true),
        }
    }
}

impl Strategy for ScriptedStrategy<'_> {
    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        (self.ask)(&mut *self.inner, n)
    }

    fn tell(&mut self, outcome: &Outcome) {
        (self.tell)(outcome);
        self.inner.tell(outcome);
    }

    fn reconsider(&mut self, genome: &Genome, facts: &Facts) -> bool {
        (self.reconsider)(genome, facts)
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }
}

pub(super) type FakeSanitizer = Arc<dyn Fn(&FakeJob) -> SanitizerAnswer + Send + Sync>;

pub(super) struct PlayedSanitizer {
    pub answers: Option<FakeSanitizer>,
    pub log: Arc<Mutex<Log>>,
}

impl Sanitizer<FakeJob> for PlayedSanitizer {
    fn is_there(&self) -> bool {
        self.answers.is_some()
    }

    fn look_ahead(&mut self, configurations: Vec<Configuration>) {
        let labels = configurations.iter().map(ToString::to_string).collect();
        self.log.lock().unwrap().looks_ahead.push(labels);
    }

    fn sanitize(
        &mut self,
        job: &FakeJob,
        _configuration: &Configuration,
        within: Option<Duration>,
    ) -> SanitizerAnswer {
        self.log.lock().unwrap().looks_within.push(within);
        let Some(answers) = &self.answers else { return NoSanitizer("there is none").answer() };
        self.log.lock().unwrap().sanitized.push(job.label.clone());
        answers(job)
    }
}

pub(super) struct TestStudy {
    pub out: tempfile::TempDir,
    pub space: SearchSpace,
    pub strategy: &'static str,
    pub options: Options,
    /// How the baseline drifts in the first comparisons.
    pub drifts: Vec<f64>,
    pub trouble: Option<CompileTrouble>,
    pub conditions: Conditions,
    pub name: String,
    pub played: Option<PlayedTime>,
    pub sanitizer: Option<FakeSanitizer>,
    pub more_lanes: Vec<Script>,
    pub renew: Option<RenewScript>,
    /// Whether the device passes for a GPU: lanes on a host are not corrected.
    pub on_gpu: bool,
    /// Whether the study has the problems `p` and `q`, and whether they are searched apart.
    pub two_problems: Option<bool>,
    /// What came of the runs so far, for snapshots.
    told: RefCell<String>,
}

pub(super) struct Ran {
    pub summary: RunSummary,
    pub log: Log,
    pub events: Vec<String>,
}

impl Ran {
    pub(super) fn tells(&self, part: &str) -> bool {
        self.events.iter().any(|event| event.contains(part))
    }

    #[track_caller]
    pub(super) fn said(&self, part: &str) {
        assert!(self.tells(part), "no `{part}` in {:#?}", self.events);
    }
}

impl TestStudy {
    pub(super) fn new(space: &str) -> TestStudy {
        let space = SearchSpace::parse(space).unwrap();
        let valid = space.count();
        let options = Options {
            budget: Budget::default(),
            clock: CommandClock::start(),
            population: NonZeroU32::new(4).expect("is not 0"),
            finalists: 0,
            valid,
            run_all: false,
            remeasure: false,
            sanitize: SanitizePlan::default(),
        };
        TestStudy {
            out: tempfile::tempdir().unwrap(),
            space,
            strategy: "exhaustive",
            options,
            drifts: Vec::new(),
            trouble: None,
            conditions: Conditions::default(),
            name: "s".to_string(),
            played: None,
            sanitizer: None,
            more_lanes: Vec::new(),
            renew: None,
            on_gpu: false,
            two_problems: None,
            told: RefCell::default(),
        }
    }

    pub(super) fn with(&mut self, change: impl FnOnce(&mut TestStudy)) -> &mut TestStudy {
        change(self);
        self
    }

    pub(super) fn budget(&mut self, evaluations: impl Into<Option<u64>>) -> &mut TestStudy {
        self.with(|own| own.options.budget.evaluations = evaluations.into())
    }

    pub(super) fn edit(&mut self, space: &str) -> &mut TestStudy {
        self.space = SearchSpace::parse(space).unwrap();
        self.options.valid = self.space.count();
        self
    }

    /// The next runs are those of a study of this name beside the others.
    pub(super) fn named(&mut self, name: &str) -> &mut TestStudy {
        self.with(|own| own.name = name.to_string())
    }

    pub(super) fn confirming(space: &str, finalists: usize) -> TestStudy {
        let mut bench = TestStudy::new(space);
        bench.options.finalists = finalists;
        bench
    }

    /// Plays the time: a comparison takes `pair_ms` and a noise floor `floor_ms`.
    pub(super) fn play_time(&mut self, pair_ms: u64, floor_ms: u64) -> PlayedTime {
        let played = PlayedTime { milliseconds: Arc::default(), pair_ms, floor_ms };
        self.options.clock = CommandClock::scripted(&played.milliseconds);
        self.played = Some(played.clone());
        played
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.out.path().join(&self.name).join("journal.jsonl")
    }

    pub(super) fn folder(&self) -> OwnFolder {
        OwnFolder::open(&self.out.path().join(&self.name)).unwrap()
    }

    pub(super) fn open(&self) -> Study {
        self.try_open().unwrap()
    }

    pub(super) fn history(&self) -> History {
        History::replay(evo_journal::reader::read(&self.journal()).unwrap())
    }

    pub(super) fn find(&self, name: &str) -> Evaluation {
        let mut all = self.history().evaluations.into_iter();
        all.find(|evaluation| evaluation.configuration.to_string() == name).unwrap()
    }

    pub(super) fn confirmed(&self) -> Vec<String> {
        let all = self.history().confirmations;
        all.iter().map(|confirmation| confirmation.evaluation.configuration.to_string()).collect()
    }

    pub(super) fn append(&self, record: &JournalRecord) {
        let length = std::fs::metadata(self.journal()).unwrap().len();
        LineWriter::append_after(&self.folder(), JOURNAL, length).unwrap().append(record).unwrap();
    }

    /// As a run leaves the journal that dies with a variant on the device.
    pub(super) fn crash(&self, number: u64, configuration: Configuration) {
        self.append(&JournalRecord::Started { number, configuration, lane: None, at_ms: None });
    }

    fn header(&self) -> StudyHeader {
        let space_hash = ContentHash::of(format!("{:?}", self.space.parameters()).as_bytes());
        let demands_sanitizer = self.options.sanitize.demanded;
        let mut device = header().device;
        if self.on_gpu {
            device.kind = DeviceKind::Cuda;
        }
        let conditions = Some(self.conditions.clone());
        let per_problem = self.two_problems == Some(true);
        let problems: &[&str] = if self.two_problems.is_some() { &["p", "q"] } else { &["p"] };
        let problems = problems.iter().map(ToString::to_string).collect();
        StudyHeader { space_hash, conditions, demands_sanitizer, device, problems, per_problem, ..header() }
    }

    pub(super) fn try_open(&self) -> EngineResult<Study> {
        let name = Some(self.name.as_str());
        let request =
            StudyRequest { out: self.out.path(), name, default_name: "s", wish: StudyWish::ResumeOrBegin };
        Study::open(&request, self.header(), self.options.clock.clone()).map_err(|error| match error {
            StudyError::Journal(error) => error.into(),
            other => panic!("{other}"),
        })
    }

    pub(super) fn run(&self, script: Script) -> Ran {
        self.run_with(|_| script)
    }

    /// `script` is made with the inbox's sender, to play the user.
    pub(super) fn run_with(&self, script: impl FnOnce(Sender<Message<FakeBinary>>) -> Script) -> Ran {
        self.run_strategy(create(self.strategy, &self.space, 1).unwrap(), script).unwrap()
    }

    pub(super) fn try_run(&self, script: Script) -> EngineResult<Ran> {
        self.run_strategy(create(self.strategy, &self.space, 1).unwrap(), |_| script)
    }

    pub(super) fn run_strategy(
        &self,
        strategy: Box<dyn Strategy + '_>,
        script: impl FnOnce(Sender<Message<FakeBinary>>) -> Script,
    ) -> EngineResult<Ran> {
        let study = &mut self.try_open()?;
        let log = Log { drifts: self.drifts.clone().into(), ..Log::default() };
        let log = Arc::new(Mutex::new(log));
        let inbox = Inbox::default();
        let script = script(inbox.sender());
        let earlier = EarlierResults::beside(study.out(), study.header(), EarlierLimits::default());
        let mut watcher = Watcher { journal: self.journal(), events: Vec::new() };
        let parts = Parts {
            study,
            space: &self.space,
            strategy,
            recipe: &FakeRecipe { conditions: Some(self.conditions.hash()) },
            compilers: Box::new(FakeCompilers {
                sender: inbox.sender(),
                log: Arc::clone(&log),
                compiling: 0,
                trouble: self.trouble.clone(),
            }),
            lanes: self.lanes(script, &log),
            observer: &mut watcher,
            inbox,
            earlier,
        };
        let summary = Engine::new(parts, self.options.clone())?.run()?;
        let log = std::mem::take(&mut *log.lock().unwrap());
        let ran = Ran { summary, log, events: watcher.events };
        let told = self.tell(&ran);
        self.told.borrow_mut().push_str(&told);
        Ok(ran)
    }

    /// What came of a run, what it said, and what the study holds then.
    fn tell(&self, ran: &Ran) -> String {
        let (RunSummary { end, confirmed, trouble, .. }, history) = (&ran.summary, self.history());
        let mut evaluations: Vec<_> = history.evaluations.iter().chain(&history.not_final).collect();
        evaluations.sort_by_key(|one| one.number);
        let evaluations = evaluations.into_iter();
        let board = evo_journal::leaderboard::section(&history);
        let entries = board.iter().flat_map(|board| board.entries());
        let notices = ran.events.iter().filter_map(|event| event.strip_prefix("Notice { message: "));
        let told = minijinja::render!(
            include_str!("told.j2"),
            name => self.name.as_str(),
            end => Serde(end),
            confirmed => confirmed,
            log => Serde(&ran.log),
            set_aside => history.set_aside.len(),
            notices => Serde(notices.map(|notice| notice.trim_end_matches(" }")).collect::<Vec<_>>()),
            trouble => trouble.as_ref().map(|trouble| &trouble.text),
            evaluations => Serde(
                evaluations
                    .map(|one| (one, one.configuration.to_string(), one.verdict.label()))
                    .collect::<Vec<_>>()
            ),
            slices => (0..).map_while(|generation| self.slice(generation)).collect::<Vec<_>>(),
            board => Serde(&board),
            entries => Serde(entries.map(|own| (own, own.configuration.to_string())).collect::<Vec<_>>()),
        );
        let (folder, long_ago) = (self.out.path().display().to_string(), ago(&header().started_at, &now()));
        let told = told.replace(&folder, "OUT").replace(&long_ago, "long ago");
        // Once: what stays as it was is not told again.
        let before = self.told.borrow();
        let is_new = |line: &&str| !(line.contains('#') && before.lines().any(|own| own == *line));
        told.lines().filter(is_new).flat_map(|line| [line, "\n"]).collect()
    }

    /// Evaluations that count in the file of a generation.
    fn slice(&self, generation: u32) -> Option<usize> {
        let path = self.journal().with_file_name(format!("gen-{generation:03}.json"));
        let slice: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).unwrap();
        let all = slice["evaluations"].as_array().unwrap();
        Some(all.iter().filter(|one| one["verdict"]["kind"] != "passed_over").count())
    }

    fn lanes(&self, first: Script, log: &Arc<Mutex<Log>>) -> Vec<LanePart<FakeJob>> {
        let scripts = std::iter::once(first).chain(self.more_lanes.iter().cloned());
        let part = |(lane, script)| {
            let (log, played) = (Arc::clone(log), self.played.clone());
            let sanitizer = PlayedSanitizer { answers: self.sanitizer.clone(), log: Arc::clone(&log) };
            let (name, device_uuid) = (format!("fake:{lane}"), format!("FAKE-{lane}"));
            let account = LaneAccount { name, device_uuid, ..LaneAccount::default() };
            LanePart {
                device: Box::new(FakeDevice { script, renew: self.renew.clone(), log, played }),
                sanitizer: Box::new(sanitizer),
                account,
                utilization: None,
            }
        };
        (0..).zip(scripts).map(|(lane, script): (u32, Script)| part((lane, script))).collect()
    }

    pub(super) fn verdicts(&self) -> BTreeMap<String, String> {
        verdicts_in(&self.journal())
    }
}

/// Studies that are played one after the other: what came of each run, for a snapshot.
#[derive(Default)]
pub(super) struct Plays(pub String);

impl Plays {
    pub(super) fn play(&mut self, title: &str, space: &str, runs: impl FnOnce(&mut TestStudy)) {
        let mut bench = TestStudy::new(space);
        runs(&mut bench);
        self.0 += &format!("# {title}\n{}\n", bench.told.take());
    }
}

pub(super) fn verdicts_in(journal: &Path) -> BTreeMap<String, String> {
    let history = History::replay(evo_journal::reader::read(journal).unwrap());
    let pair = |one: &Evaluation| (one.configuration.to_string(), one.verdict.label());
    let map: BTreeMap<_, _> = history.evaluations.iter().map(pair).collect();
    assert_eq!(map.len(), history.evaluations.len(), "a configuration was evaluated twice");
    map
}
