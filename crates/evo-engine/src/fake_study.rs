//! A study in a temporary folder that runs with fakes, for tests of the engine.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use evo_journal::budget::Budget;
use evo_journal::clock::CommandClock;
use evo_journal::conditions::Conditions;
use evo_journal::example::header;
use evo_journal::own_folder::OwnFolder;
use evo_journal::record::StudyHeader;
use evo_protocol::device::DeviceKind;
use evo_report::study::{EarlierLimits, EarlierResults, Study, StudyError, StudyRequest, StudyWish};
use evo_search::registry::{StrategyOptions, create};
use evo_search::strategy::Strategy;
use evo_space::genome::ContentHash;
use evo_space::space::SearchSpace;

use super::error::EngineError;
use super::fake::{
    CompileTrouble, FakeBinary, FakeCompilers, FakeDevice, FakeJob, FakeRecipe, Log, PlayedTime, RenewScript,
    Script, Watcher,
};
use super::fake_sanitizer::{FakeSanitizer, PlayedSanitizer};
use super::options::{Options, RunSummary, SanitizePlan};
use super::ports::{Inbox, LaneIdentity, LanePart, Message};
use super::run::{Engine, Parts};

/// The label of evo's own anchors.
pub(super) const OWN_ANCHOR: &str = "own";

/// A study in a temporary folder that can be run again and again.
pub(super) struct TestStudy {
    pub out: tempfile::TempDir,
    pub space: SearchSpace,
    pub strategy: &'static str,
    pub options: Options,
    /// How the baseline drifts in the first comparisons.
    pub drifts: Vec<f64>,
    /// What goes wrong with the compilers.
    pub trouble: Option<CompileTrouble>,
    /// Whether there are more compilers than the run needs, which disturb nothing.
    pub idle_compilers: bool,
    /// What decides verdicts beside the variants.
    pub conditions: Conditions,
    /// The name of the study in `out`.
    pub name: String,
    /// The clock, where it is not the real one.
    pub played: Option<PlayedTime>,
    pub sanitizer: Option<FakeSanitizer>,
    /// Further lanes, each with a device of its own.
    pub more_lanes: Vec<Script>,
    /// What the lanes' launchers do when a new worker is owed.
    pub renew: Option<RenewScript>,
    /// Whether there are anchors of evo's own.
    pub anchors: bool,
    /// Whether the device passes for a GPU: lanes on a host are not corrected.
    pub on_gpu: bool,
    /// Whether the study has the problems `p` and `q`, and whether they are searched apart.
    pub two_problems: Option<bool>,
}

/// The result of one run.
pub(super) struct Ran {
    pub summary: RunSummary,
    pub log: Log,
    pub events: Vec<String>,
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
        let (out, drifts) = (tempfile::tempdir().unwrap(), Vec::new());
        let (name, conditions) = ("s".to_string(), Conditions::default());
        let (trouble, played, sanitizer) = (None, None, None);
        TestStudy {
            out,
            space,
            strategy: "exhaustive",
            options,
            drifts,
            trouble,
            idle_compilers: false,
            conditions,
            name,
            played,
            sanitizer,
            more_lanes: Vec::new(),
            renew: None,
            anchors: false,
            on_gpu: false,
            two_problems: None,
        }
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

    /// What a run of it writes first.
    fn header(&self) -> StudyHeader {
        let texts = self
            .space
            .parameters()
            .iter()
            .map(|one| format!("{} {:?} {}", one.name, one.values, one.default));
        let text: Vec<String> = texts.collect();
        let space_hash = ContentHash::of(text.join("\n").as_bytes());
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

    /// The same where the study may not open.
    pub(super) fn try_open(&self) -> Result<Study, EngineError> {
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
        self.try_run_with(script).unwrap()
    }

    /// The same where the engine may stop with an error.
    pub(super) fn try_run_with<F>(&self, script: F) -> Result<Ran, EngineError>
    where
        F: FnOnce(Sender<Message<FakeBinary>>) -> Script,
    {
        let strategy = create(self.strategy, &self.space, StrategyOptions { seed: 1, population: 4 });
        self.run_strategy(strategy.unwrap(), script)
    }

    /// The same where the study may not open either.
    pub(super) fn try_to_run<F>(&self, script: F) -> Result<Ran, EngineError>
    where
        F: FnOnce(Sender<Message<FakeBinary>>) -> Script,
    {
        let strategy = create(self.strategy, &self.space, StrategyOptions { seed: 1, population: 4 });
        self.run_in(&mut self.try_open()?, strategy.unwrap(), script)
    }

    /// The same with a strategy that is not registered.
    pub(super) fn run_strategy(
        &self,
        strategy: Box<dyn Strategy + '_>,
        script: impl FnOnce(Sender<Message<FakeBinary>>) -> Script,
    ) -> Result<Ran, EngineError> {
        self.run_in(&mut self.open(), strategy, script)
    }

    fn run_in(
        &self,
        study: &mut Study,
        strategy: Box<dyn Strategy + '_>,
        script: impl FnOnce(Sender<Message<FakeBinary>>) -> Script,
    ) -> Result<Ran, EngineError> {
        let log = Log { drifts: self.drifts.clone().into(), ..Log::default() };
        let log = Arc::new(Mutex::new(log));
        let inbox = Inbox::new();
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
                idle: self.idle_compilers,
            }),
            lanes: self.lanes(script, &log),
            anchors: self.anchors.then(|| FakeJob { label: OWN_ANCHOR.into(), deep: false }),
            observer: &mut watcher,
            inbox,
            earlier,
        };
        let summary = Engine::new(parts, self.options.clone())?.run()?;
        let log = std::mem::take(&mut *log.lock().unwrap());
        Ok(Ran { summary, log, events: watcher.events })
    }

    /// The lane of a script, and further ones.
    fn lanes(&self, first: Script, log: &Arc<Mutex<Log>>) -> Vec<LanePart<FakeJob>> {
        let scripts = std::iter::once(first).chain(self.more_lanes.iter().cloned());
        let part = |(lane, script)| {
            let (log, played) = (Arc::clone(log), self.played.clone());
            let sanitizer = PlayedSanitizer { answers: self.sanitizer.clone(), log: Arc::clone(&log) };
            let identity = LaneIdentity {
                name: format!("fake:{lane}"),
                device_uuid: format!("FAKE-{lane}"),
                ..LaneIdentity::default()
            };
            LanePart {
                device: Box::new(FakeDevice { script, renew: self.renew.clone(), log, played }),
                sanitizer: Box::new(sanitizer),
                identity,
                utilization: None,
            }
        };
        (0..).zip(scripts).map(|(lane, script): (u32, Script)| part((lane, script))).collect()
    }

    /// Configuration to verdict, from the journal.
    pub(super) fn verdicts(&self) -> BTreeMap<String, String> {
        verdicts_in(&self.journal())
    }
}

pub(super) fn verdicts_in(journal: &Path) -> BTreeMap<String, String> {
    let journal = evo_journal::reader::read(journal).unwrap();
    let history = evo_journal::replay::History::replay(journal);
    let pair =
        |one: &evo_protocol::evaluation::Evaluation| (one.configuration.to_string(), one.verdict.label());
    let map: BTreeMap<_, _> = history.evaluations.iter().map(pair).collect();
    assert_eq!(map.len(), history.evaluations.len(), "a configuration was evaluated twice");
    map
}
