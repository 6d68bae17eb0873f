//! The loop itself: when to propose, when to wait, when to end.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use evo_protocol::device::Telemetry;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_search::insight::Insight;
use evo_search::strategy::{Outcome, Strategy};
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;

use super::error::EngineError;
use super::lane::{LaneHandle, Task};
use super::options::{Options, RunSummary};
use super::ports::{Compilers, Evaluate, Inbox, LaneAnswer, Message, Recipe};
use super::variant::{Codes, Sources, Variant};
use crate::budget::StopReason;
use crate::event::{Earlier, Event, Observer};
use crate::journal::leaderboard::verdict_mix;
use crate::journal::record::{End, Throughput, now};
use crate::study::Study;
use crate::supervise::job::Standing;

/// How often lane shares are told and the wall clock is looked at.
const TICK: Duration = Duration::from_millis(250);

/// Tasks given to the lane at once: the one at work and the next, so that syncing the journal never
/// keeps the device waiting.
pub(super) const LANE_DEPTH: usize = 2;

/// In flight at this many crashes: evaluated after everything else.
const SUSPECT: u32 = 2;

/// In flight at this many crashes: given up.
const GIVEN_UP: u32 = 3;

/// One run of a study.
pub struct Engine<'a, R: Recipe> {
    pub(super) study: &'a mut Study,
    pub(super) space: &'a SearchSpace,
    pub(super) strategy: Box<dyn Strategy + 'a>,
    pub(super) recipe: &'a R,
    pub(super) compilers: Box<dyn Compilers<R::Prepared> + 'a>,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) options: Options,
    pub(super) lane: LaneHandle<R::Job>,
    pub(super) inbox: Inbox<R::Binary>,
    /// In flight, by number.
    pub(super) variants: BTreeMap<u64, Variant<R::Prepared>>,
    /// Compiled and waiting for the lane.
    pub(super) ready: BTreeMap<u64, R::Job>,
    pub(super) on_lane: Vec<u64>,
    pub(super) sources: Sources<R::Binary>,
    pub(super) codes: Codes,
    pub(super) compiling: usize,
    /// Everything proposed or evaluated, by whomever.
    pub(super) known: HashSet<Genome>,
    /// In flight at a crash, to be evaluated first; suspects, to be evaluated last.
    pub(super) again: VecDeque<Variant<R::Prepared>>,
    pub(super) suspects: VecDeque<Variant<R::Prepared>>,
    pub(super) next_number: u64,
    pub(super) used_numbers: HashSet<u64>,
    /// Position of an evaluation in the history, by number.
    pub(super) index: HashMap<u64, usize>,
    pub(super) standing: Standing,
    pub(super) stop: Option<StopReason>,
    /// The user wants out at once.
    pub(super) at_once: bool,
    pub(super) started: Instant,
    pub(super) last_verdict: Duration,
    pub(super) finished_before: u64,
    /// Passed over in this study; and since a variant was run.
    pub(super) passed_over: u64,
    pub(super) passed_over_in_a_row: u32,
    device_at_start: Option<Telemetry>,
    ticked: Instant,
    device_busy_seconds: f64,
    compile_busy_seconds: f64,
}

/// The parts that an engine works with.
pub struct Parts<'a, R: Recipe> {
    pub study: &'a mut Study,
    pub space: &'a SearchSpace,
    pub strategy: Box<dyn Strategy + 'a>,
    pub recipe: &'a R,
    pub compilers: Box<dyn Compilers<R::Prepared> + 'a>,
    pub device: Box<dyn Evaluate<R::Job>>,
    pub observer: &'a mut dyn Observer,
    pub inbox: Inbox<R::Binary>,
}

impl<'a, R: Recipe> Engine<'a, R> {
    /// An engine that is ready to run.
    pub fn new(parts: Parts<'a, R>, options: Options) -> Engine<'a, R> {
        let mut device = parts.device;
        let device_at_start = device.telemetry();
        let lane = LaneHandle::start(device, parts.inbox.sender());
        let evaluations = &parts.study.history.evaluations;
        let passed_over = evaluations.iter().filter(|one| !one.is_counted()).count() as u64;
        let finished_before = evaluations.len() as u64 - passed_over;
        Engine {
            study: parts.study,
            space: parts.space,
            strategy: parts.strategy,
            recipe: parts.recipe,
            compilers: parts.compilers,
            observer: parts.observer,
            options,
            lane,
            inbox: parts.inbox,
            variants: BTreeMap::new(),
            ready: BTreeMap::new(),
            on_lane: Vec::new(),
            sources: HashMap::new(),
            codes: HashMap::new(),
            compiling: 0,
            known: HashSet::new(),
            again: VecDeque::new(),
            suspects: VecDeque::new(),
            next_number: 0,
            used_numbers: HashSet::new(),
            index: HashMap::new(),
            standing: Standing::default(),
            stop: None,
            at_once: false,
            started: Instant::now(),
            last_verdict: Duration::ZERO,
            finished_before,
            passed_over,
            passed_over_in_a_row: 0,
            device_at_start,
            ticked: Instant::now(),
            device_busy_seconds: 0.0,
            compile_busy_seconds: 0.0,
        }
    }

    /// Runs until a limit, the end of the space, or an interrupt; then confirms the finalists.
    pub fn run(mut self) -> Result<RunSummary, EngineError> {
        self.restore()?;
        self.announce();
        self.started = Instant::now();
        self.search()?;
        let throughput = self.throughput();
        let reason = self.stop.unwrap_or(StopReason::StrategyDone);
        let mut confirmed = 0;
        if !reason.is_early() {
            confirmed = self.confirm()?;
        }
        let reason = self.stop.unwrap_or(reason);
        self.finish(reason, throughput, confirmed)
    }

    fn search(&mut self) -> Result<(), EngineError> {
        loop {
            let proposed = self.propose()?;
            self.feed_lane()?;
            let is_idle = self.variants.is_empty();
            if is_idle && proposed == 0 && self.stop.is_some() {
                return Ok(());
            }
            // While proposals are refused without any work, only look for interrupts.
            let patience = if proposed > 0 || is_idle { Duration::ZERO } else { self.patience() };
            self.take_messages(patience)?;
            if self.at_once {
                return Ok(());
            }
            self.check_wall();
            self.tick();
        }
    }

    /// How long to wait for a message: until the next tick or the end of the wall budget.
    fn patience(&self) -> Duration {
        let left = self.options.budget.wall.map(|wall| wall.saturating_sub(self.started.elapsed()));
        let left = if self.stop.is_some() { None } else { left };
        left.map_or(TICK, |left| left.min(TICK)).max(Duration::from_millis(1))
    }

    fn take_messages(&mut self, patience: Duration) -> Result<(), EngineError> {
        let mut next = match self.inbox.receiver.recv_timeout(patience) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(EngineError::Stopped("device lane")),
        };
        while let Some(message) = next {
            match message {
                Message::Compiled(ticket, outcome) => self.compiled(ticket, outcome)?,
                Message::Lane(answer) => {
                    if let LaneAnswer::Evaluated { number, result } = *answer {
                        self.evaluated(number, *result)?;
                    }
                }
                Message::Interrupt(count) => {
                    self.interrupted(count);
                    self.abandon(StopReason::Interrupted);
                }
            }
            self.feed_lane()?;
            next = self.inbox.receiver.try_recv().ok();
        }
        Ok(())
    }

    pub(super) fn interrupted(&mut self, count: u32) {
        if count > 1 {
            self.at_once = true;
        } else {
            let message = "interrupted: finishing the variant on the device (once more to stop at once)";
            self.observer.observe(&Event::Notice { message: message.to_string() });
        }
        self.stop = Some(StopReason::Interrupted);
    }

    fn check_wall(&mut self) {
        let over = self.options.budget.wall.is_some_and(|wall| self.started.elapsed() >= wall);
        if over && self.stop.is_none() {
            self.abandon(StopReason::Wall);
        }
    }

    /// Stops, dropping everything that is not on the device. What is dropped was never evaluated and
    /// will be proposed again by a resumed study.
    pub(super) fn abandon(&mut self, reason: StopReason) {
        self.stop = Some(reason);
        // Now and not at the end: what still compiled would take the host's cores from the confirmation's timings.
        self.compilers.cancel();
        self.compiling = 0;
        let cancelled = self.lane.cancel_queued();
        self.on_lane.retain(|number| !cancelled.contains(number));
        let on_lane = self.on_lane.clone();
        self.variants.retain(|number, _| on_lane.contains(number));
        self.ready.clear();
        self.again.clear();
        self.suspects.clear();
    }

    /// Takes up what earlier runs left: evaluations are told, what was in flight is queued again.
    fn restore(&mut self) -> Result<(), EngineError> {
        let mut given_up = Vec::new();
        for struck in std::mem::take(&mut self.study.history.struck) {
            let Some(genome) = self.space.genome(&struck.configuration) else { continue };
            self.used_numbers.insert(struck.number);
            self.known.insert(genome.clone());
            let variant = Variant::new(struck.number, genome, struck.configuration, "again", true);
            match struck.strikes {
                GIVEN_UP.. => given_up.push(variant),
                SUSPECT => self.suspects.push_back(variant),
                _ => self.again.push_back(variant),
            }
        }
        for position in 0..self.study.history.evaluations.len() {
            self.remember(position);
        }
        for variant in given_up {
            let message = format!("it was on the device when evo died, {GIVEN_UP} times");
            let verdict = Verdict::new(VerdictKind::Interrupted, message);
            let evaluation = variant.evaluation(verdict, Vec::new());
            self.record(&variant.genome.clone(), evaluation)?;
        }
        Ok(())
    }

    fn remember(&mut self, position: usize) {
        let evaluation = self.study.history.evaluations[position].clone();
        self.index.insert(evaluation.number, position);
        self.used_numbers.insert(evaluation.number);
        self.improve_standing(&evaluation);
        self.remember_code(&evaluation);
        if let Some(genome) = self.space.genome(&evaluation.configuration) {
            self.known.insert(genome.clone());
            self.strategy.tell(&Outcome {
                genome,
                class: evaluation.verdict.kind.class(),
                objective_ns: evaluation.objective_ns,
                facts: evaluation.facts,
            });
        }
    }

    fn announce(&mut self) {
        let header = self.study.header();
        let earlier = self.earlier();
        let event = Event::Started {
            study: header.study.clone(),
            device: header.device.name.clone(),
            valid: self.options.valid,
            // A budget below what was done already is used up, not overdrawn.
            total: self.options.total().map(|total| total.max(earlier.evaluations)),
            earlier,
        };
        self.observer.observe(&event);
        for message in std::mem::take(&mut self.study.notices) {
            self.observer.observe(&Event::Notice { message });
        }
    }

    /// What is known before the first proposal; what was given up counts as done.
    fn earlier(&self) -> Earlier {
        let evaluations = &self.study.history.evaluations;
        let passing = evaluations.iter().filter(|one| one.verdict.is_pass());
        let timed = passing.filter_map(|one| Some((one.objective_ns?, one)));
        let best = timed.min_by(|a, b| a.0.total_cmp(&b.0));
        Earlier {
            evaluations: self.counted(),
            best: best.map(|(objective, one)| (objective, one.configuration.clone())),
            verdicts: verdict_mix(evaluations),
        }
    }

    fn tick(&mut self) {
        if self.ticked.elapsed() < TICK {
            return;
        }
        self.ticked = Instant::now();
        let wall = self.started.elapsed().as_secs_f64();
        let event = Event::Lanes {
            compile_busy: self.compilers.busy_seconds() / (self.compilers.jobs().max(1) as f64 * wall),
            device_busy: self.lane.busy().as_secs_f64() / wall,
            compile_queue: self.compiling,
            device_queue: self.ready.len() + self.on_lane.len(),
        };
        self.observer.observe(&event);
    }

    /// Notes how busy the lanes are at the time of a verdict, so that the shares cover the search.
    pub(super) fn note_verdict(&mut self) {
        self.last_verdict = self.started.elapsed();
        self.device_busy_seconds = self.lane.busy().as_secs_f64();
        self.compile_busy_seconds = self.compilers.busy_seconds();
    }

    fn throughput(&self) -> Throughput {
        let seconds = self.last_verdict.as_secs_f64();
        let jobs = self.compilers.jobs().max(1);
        let share = |busy: f64| if seconds > 0.0 { (busy / seconds).min(1.0) } else { 0.0 };
        let evaluations = self.counted() - self.finished_before;
        Throughput {
            search_seconds: seconds,
            evaluations_per_second: share_of(evaluations as f64, seconds),
            device_busy: share(self.device_busy_seconds),
            compile_busy: share(self.compile_busy_seconds / jobs as f64),
            compile_jobs: jobs as u32,
        }
    }

    /// The lane is idle at the end, unless the user did not want to wait for it.
    fn device_at_end(&mut self, reason: StopReason) -> Option<Telemetry> {
        if self.at_once || reason == StopReason::DeviceLost {
            return None;
        }
        self.lane.send(Task::Telemetry);
        match self.lane_answer() {
            Ok(Some(LaneAnswer::Telemetry(telemetry))) => telemetry,
            _ => None,
        }
    }

    fn finish(
        mut self,
        reason: StopReason,
        throughput: Throughput,
        confirmed: usize,
    ) -> Result<RunSummary, EngineError> {
        let evaluations = self.counted();
        let evaluations_this_run = evaluations - self.finished_before;
        let device_at_start = self.device_at_start.take();
        let device_at_end = self.device_at_end(reason);
        let end = End {
            at: now(),
            reason,
            evaluations,
            evaluations_this_run,
            passed_over: self.passed_over,
            throughput,
            device_at_start,
            device_at_end,
        };
        self.study.end(end.clone())?;
        self.write_open_generation()?;
        let (evaluations, seed) = (&self.study.history.evaluations, self.study.header().seed);
        let insight = (!self.at_once).then(|| Insight::of(self.space, evaluations, seed));
        self.study.write_views(insight.as_ref())?;
        self.observer.observe(&Event::Stopped { reason });
        Ok(RunSummary { end, confirmed, insight })
    }
}

fn share_of(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
