//! The loop itself: when to propose, when to wait, when to end; the limits of a run, and its report.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use evo_journal::budget::{Budget, CommandClock, StopReason};
use evo_journal::leaderboard::verdict_mix;
use evo_journal::record::{RunEnd, SanitizeTally, now};
use evo_protocol::device::{DeviceKind, Telemetry};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::Throughput;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_report::event::{Earlier, Event, LaneLoad, Observer};
use evo_report::study::{EarlierResults, Study};
use evo_search::insight::Insight;
use evo_search::strategy::Strategy;
use evo_space::genome::{Configuration, Genome};
use evo_space::space::SearchSpace;
use evo_supervise::job::Standing;

use crate::ahead::Ahead;
use crate::carry::Inheritance;
use crate::fleet::Fleet;
use crate::lane::{LanePool, Task};
use crate::ports::{Compilers, Inbox, LaneAnswer, LanePart, Message, Recipe};
use crate::state::{Ending, Flight, Ledger, RunClock};
use crate::trouble::{EngineError, EngineResult, RunTrouble, Troubles};
use crate::variant::{Twins, Variant};
use crate::wall::Wall;

/// Between two reports of how busy the lanes are, and the longest wait between two looks at the wall clock.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// How long a run waits for the device's state at its end: one with a wall budget or an interrupt, and any other.
const STATE_WITHIN: Duration = Duration::from_millis(500);
const STATE_WITHIN_MAX: Duration = Duration::from_secs(10);

/// A variant that was in flight at this many crashes is not tried again.
const GIVEN_UP: u32 = 3;

pub struct Engine<'a, R: Recipe> {
    pub(super) study: &'a mut Study,
    pub(super) space: &'a SearchSpace,
    pub(super) strategy: Box<dyn Strategy + 'a>,
    pub(super) recipe: &'a R,
    pub(super) compilers: Box<dyn Compilers<R::Prepared> + 'a>,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) options: Options,
    pub(super) lanes: LanePool<R::Job>,
    pub(super) fleet: Fleet<R::Job>,
    pub(super) inbox: Inbox<R::Binary>,
    pub(super) flight: Flight<R>,
    pub(super) twins: Twins<R::Binary>,
    pub(super) ledger: Ledger,
    pub(super) earlier: EarlierResults,
    pub(super) inheritance: Inheritance,
    /// The incumbent's times: what newcomers are measured against.
    pub(super) standing: Standing,
    pub(super) ending: Ending,
    pub(super) undone: Undone,
    pub(super) clock: RunClock,
    pub(super) wall: Wall,
    pub(super) ahead: Ahead,
    pub(super) has_sanitizer: bool,
    pub(super) looks: Option<SanitizeTally>,
}

#[derive(Default)]
pub(super) struct Undone {
    pub troubles: Troubles,
    pub unwritten: Vec<u32>,
    pub unsound: BTreeSet<u64>,
    pub left_out: usize,
}

pub struct Parts<'a, R: Recipe> {
    pub study: &'a mut Study,
    pub space: &'a SearchSpace,
    pub strategy: Box<dyn Strategy + 'a>,
    pub recipe: &'a R,
    pub compilers: Box<dyn Compilers<R::Prepared> + 'a>,
    /// At least one device; finalists are confirmed on the first.
    pub lanes: Vec<LanePart<R::Job>>,
    pub observer: &'a mut dyn Observer,
    pub inbox: Inbox<R::Binary>,
    pub earlier: EarlierResults,
}

impl<'a, R: Recipe> Engine<'a, R> {
    pub fn new(parts: Parts<'a, R>, options: Options) -> Result<Engine<'a, R>, EngineError> {
        let mut lanes = parts.lanes;
        let first = lanes.first_mut().ok_or(EngineError::Stopped("device lane"))?;
        // Read here, because from the start on the lane's thread owns the device.
        let device_at_start = first.device.telemetry();
        let has_sanitizer = first.sanitizer.is_there();
        let utilization = first.utilization.take();
        let fleet = Fleet::new(lanes.iter().map(|lane| lane.account.clone()).collect());
        let lanes = LanePool::start(lanes, &parts.inbox.sender()).map_err(EngineError::Thread)?;
        let ledger = Ledger::new(&parts.study.history.evaluations);
        let (budget, problems) = (options.budget.wall, parts.study.header().problems.len());
        let mut wall = Wall::new(options.clock.clone(), budget, options.finalists, problems);
        wall.costs.is_host = parts.study.header().device.kind == DeviceKind::Host;
        wall.costs.has_sanitizer = has_sanitizer && options.sanitize.finalists;
        wall.costs.demands_sanitizer = options.sanitize.demanded;
        Ok(Engine {
            study: parts.study,
            space: parts.space,
            strategy: parts.strategy,
            recipe: parts.recipe,
            compilers: parts.compilers,
            observer: parts.observer,
            options,
            lanes,
            fleet,
            inbox: parts.inbox,
            flight: Flight::new(),
            twins: Twins { sources: HashMap::new(), codes: HashMap::new() },
            ledger,
            earlier: parts.earlier,
            inheritance: Inheritance::default(),
            standing: Standing::default(),
            ending: Ending::default(),
            undone: Undone::default(),
            clock: RunClock::new(device_at_start, utilization),
            wall,
            ahead: Ahead::default(),
            has_sanitizer,
            looks: None,
        })
    }

    /// Runs until a limit, the end of the space, or an interrupt; then confirms the finalists.
    pub fn run(mut self) -> Result<RunSummary, EngineError> {
        self.restore()?;
        self.announce();
        self.calibrate()?;
        // Only now: replaying a long journal must not lower the rates. It counts against the wall budget all the same.
        self.clock.started = Instant::now();
        self.search()?;
        for lane in 0..self.fleet.lanes.len() {
            self.fleet.lanes[lane].at_end = Some(self.lane_times(lane));
        }
        let throughput = self.throughput();
        let reason = self.ending.stop.unwrap_or(StopReason::StrategyDone);
        let mut confirmed = 0;
        // A lost device measures nothing, and a user who interrupts does not wait for a confirmation.
        if !reason.is_early() && !self.ending.is_early() {
            confirmed = self.confirm()?;
            self.sanitize_generations()?;
        } else if !reason.is_early() {
            // The device was still busy when the wall time was used up.
            self.undone.left_out = self.ranked().len().min(self.options.finalists);
        }
        // Asked again: an interrupt or the loss of the device may also end the confirmation.
        let reason = self.ending.stop.unwrap_or(reason);
        if reason == StopReason::Wall && confirmed == 0 {
            self.tell_too_short(true)?;
        }
        self.finish(reason, throughput, confirmed)
    }

    /// Proposals come first: compilers are the slow stage, and a source that is queued now is a binary
    /// when the device asks for one. The lane is fed before messages are taken as well as after each of
    /// them, so that the device never waits while the journal is synced for another variant.
    fn search(&mut self) -> EngineResult {
        loop {
            let proposed = self.propose()?;
            self.feed_lane()?;
            let is_idle = self.flight.variants.is_empty();
            // `proposed == 0` too, because proposals that are refused at once leave nothing in flight.
            if is_idle && proposed == 0 && self.ending.stop.is_some() {
                return Ok(());
            }
            // While proposals are refused without any work, only look for interrupts and go on.
            let patience = if proposed > 0 || is_idle { Duration::ZERO } else { self.patience() };
            self.take_messages(patience)?;
            if self.ending.at_once {
                return Ok(());
            }
            // After the messages: a verdict that arrived in time still counts.
            self.check_wall()?;
            self.tick();
        }
    }

    fn patience(&self) -> Duration {
        // A run that is ending waits for what is in flight, if need be with the time of the confirmation.
        let left = if self.ending.stop.is_some() { self.wall.left() } else { self.wall.left_to_search() };
        left.map_or(TICK, |left| left.min(TICK)).max(Duration::from_millis(1))
    }

    fn take_messages(&mut self, patience: Duration) -> EngineResult {
        let mut next = match self.inbox.receiver.recv_timeout(patience) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(EngineError::Stopped("device lane")),
        };
        // So that the strategy decides with all verdicts known.
        while let Some(message) = next {
            match message {
                Message::Compiled(ticket, outcome) => self.compiled(ticket, outcome)?,
                // During the search lanes receive nothing but evaluations and anchors.
                Message::Lane(lane, answer) => match *answer {
                    LaneAnswer::Evaluated { number, ratio, result } => {
                        self.evaluated(lane, ratio, number, *result)?;
                    }
                    LaneAnswer::Anchored { number, result } => self.anchored(lane, number, &result)?,
                    LaneAnswer::Taken { number } => self.taken(lane, number)?,
                    LaneAnswer::Renewed(renewal) => self.renewed(lane, *renewal)?,
                    _ => {}
                },
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
        self.wall.cut();
        if count > 1 {
            self.ending.at_once = true;
        } else {
            let message = "interrupted: ending in order (once more to stop at once)";
            self.observer.observe(&Event::Notice { message: message.to_string() });
        }
        // Overrides an earlier reason: a run that was ending by itself then skips the confirmation.
        self.ending.stop = Some(StopReason::Interrupted);
    }

    /// Ends the search when the rest of the wall budget belongs to the confirmation, and leaves the device alone
    /// when nothing of the budget is left.
    fn check_wall(&mut self) -> EngineResult {
        if self.ending.stop.is_none() {
            self.tell_too_short(false)?;
        }
        let is_over = |left: Option<Duration>| left.is_some_and(|left| left.is_zero());
        if is_over(self.wall.left_to_search()) && !self.ending.stop.is_some_and(StopReason::is_cut) {
            let is_on_lane = |number: &u64| self.flight.on_lane.contains(number);
            // A run that only waits for the device keeps its reason: everything that it wanted was begun.
            if self.ending.stop.is_none() || !self.flight.variants.keys().all(is_on_lane) {
                self.abandon(StopReason::Wall);
            }
        }
        // What is on the device cannot be taken back; the process that runs it ends with this one.
        if is_over(self.wall.left()) && !self.flight.on_lane.is_empty() {
            self.leave_lane()?;
        }
        Ok(())
    }

    fn tell_too_short(&mut self, is_over: bool) -> EngineResult {
        let Some(enough) = self.wall.found_too_short(is_over) else { return Ok(()) };
        let seconds = enough.as_secs_f64().ceil();
        self.notice(format!(
            "the budget is too short to confirm anything: the default, one more evaluation and one confirmation take \
             about {seconds} s here"
        ))
    }

    fn leave_lane(&mut self) -> EngineResult {
        let running = self.flight.on_lane.first().and_then(|number| self.flight.variants.get(number));
        if let Some(variant) = running {
            let message = format!(
                "`{}` was still on the device when the run ended: it has no verdict",
                variant.configuration
            );
            self.notice(message)?;
        }
        if self.ending.stop.is_none() {
            self.ending.stop = Some(StopReason::Wall);
        }
        self.ending.at_once = true;
        Ok(())
    }

    /// What is dropped was never evaluated and will be proposed again by a resumed study.
    pub(super) fn abandon(&mut self, reason: StopReason) {
        self.ending.stop = Some(reason);
        // Compilers that went on would take the host's cores from the timings of the confirmation.
        self.compilers.cancel();
        self.ahead.cancelled();
        // The lane decides what has begun. Asking the engine's own list would race with the lane's thread.
        let cancelled = self.lanes.cancel_queued();
        self.fleet.lanes.iter_mut().for_each(|lane| lane.anchoring = 0);
        self.flight.keep_on_lane(&cancelled);
    }

    /// The strategy is told the evaluations of earlier runs, and variants that were in flight are queued again.
    fn restore(&mut self) -> EngineResult {
        self.settle_history()?;
        let mut given_up = Vec::new();
        // What does not hold any more keeps its number in the journal.
        for number in self.study.history.numbers() {
            self.ledger.use_number(number);
        }
        for struck in std::mem::take(&mut self.study.history.struck) {
            let Some(genome) = self.point(&struck.configuration) else { continue };
            // A struck variant keeps its number and is never proposed anew: its strikes belong to it.
            self.ledger.use_number(struck.number);
            self.ledger.known.insert(genome.clone());
            // One strike among many lanes says little; after a second one it shares machine and device with nobody.
            let runs_alone = struck.strikes > 1 || !self.fleet.is_several();
            let variant = Variant::new(struck.number, genome, struck.configuration, "again", runs_alone);
            match struck.strikes {
                GIVEN_UP.. => given_up.push(variant),
                _ => self.flight.again.push_back(variant),
            }
        }
        self.queue_not_final();
        // In journal order: what a strategy proposes depends on the order in which it hears of outcomes.
        for position in 0..self.study.history.evaluations.len() {
            self.remember(position);
        }
        // After the loop above: `record` appends to the history, and the loop would tell the strategy twice.
        for variant in given_up {
            let message = format!("it was on the device when evo died, {GIVEN_UP} times");
            let verdict = Verdict::new(VerdictKind::Interrupted, message);
            let evaluation = variant.evaluation(verdict, Vec::new());
            self.record(&variant.genome.clone(), evaluation)?;
        }
        self.take_over()
    }

    /// Queues the variants that earlier runs could not judge, whatever the budget: they were proposed within it.
    fn queue_not_final(&mut self) {
        for one in &self.study.history.not_final {
            let Some(genome) = self.point(&one.configuration) else { continue };
            self.ledger.use_number(one.number);
            // A crash may have struck the same variant, which is then queued already.
            if self.ledger.known.insert(genome.clone()) {
                let configuration = one.configuration.clone();
                let mut variant = Variant::new(one.number, genome, configuration, &one.origin, false);
                variant.expected = one.expected;
                variant.aimed_at.clone_from(&one.aimed_at);
                self.flight.again.push_back(variant);
            }
        }
    }

    pub(super) fn point(&self, configuration: &Configuration) -> Option<Genome> {
        self.space.genome(configuration).filter(|genome| self.space.contains(genome))
    }

    pub(super) fn evaluation_of(&self, number: u64) -> Option<&Evaluation> {
        self.study.history.evaluations.get(*self.ledger.index.get(&number)?)
    }

    fn remember(&mut self, position: usize) {
        let evaluation = self.study.history.evaluations[position].clone();
        self.ledger.use_number(evaluation.number);
        self.remember_code(&evaluation);
        self.learn(position, self.point(&evaluation.configuration), &evaluation);
    }

    fn announce(&mut self) {
        let header = self.study.header();
        let earlier = self.earlier();
        let event = Event::Started {
            study: header.study.clone(),
            device: header.device.name.clone(),
            seed: header.seed,
            valid: self.options.valid,
            // A budget below what was done already is used up, not overdrawn.
            total: self.options.total(self.taken_over()).map(|total| total.max(earlier.evaluations)),
            earlier,
        };
        self.observer.observe(&event);
        for message in std::mem::take(&mut self.study.notices) {
            self.observer.observe(&Event::Notice { message });
        }
    }

    /// What is known before the first proposal. A variant that was given up counts as done.
    fn earlier(&self) -> Earlier {
        let evaluations = &self.study.history.evaluations;
        let passing = evaluations.iter().filter(|one| one.verdict.is_pass());
        let timed = passing.filter_map(|one| Some((one.objective_ns?, one)));
        let best = timed.min_by(|a, b| a.0.total_cmp(&b.0));
        Earlier {
            evaluations: self.counted(),
            best: best.map(|(objective, one)| (objective, one.configuration.clone())),
            default_ns: evaluations.iter().find(|one| one.is_default()).and_then(|one| one.objective_ns),
            verdicts: verdict_mix(evaluations),
            taken_over: self.taken_over(),
        }
    }

    fn taken_over(&self) -> u64 {
        self.study.history.evaluations.iter().filter(|one| one.taken_over_from.is_some()).count() as u64
    }

    fn tick(&mut self) {
        if self.clock.ticked.elapsed() < TICK {
            return;
        }
        self.clock.ticked = Instant::now();
        self.anchor_when_due();
        self.tell_lanes();
        let wall = self.clock.started.elapsed().as_secs_f64();
        let load = LaneLoad {
            compile_busy: self.compilers.busy_seconds() / (self.compilers.jobs().max(1) as f64 * wall),
            device_busy: self.lanes.busy().as_secs_f64() / wall,
            compile_queue: self.flight.compiling + self.flight.waiting.len(),
            device_queue: self.flight.ready.len() + self.flight.on_lane.len(),
            compile_jobs: self.compilers.jobs(),
            confirm_seconds: self.wall.confirmation(self.options.finalists, true),
            left_seconds: self.wall.left().map(|left| left.as_secs_f64()),
        };
        self.observer.observe(&Event::Lanes(load));
    }

    fn throughput(&self) -> Throughput {
        self.clock.throughput(self.counted() - self.ledger.finished_before, self.compilers.jobs())
    }

    /// The device's state at the end. The lane is idle by then, unless the user did not want to wait.
    fn device_at_end(&mut self, reason: StopReason) -> Option<Telemetry> {
        if self.ending.at_once || reason == StopReason::DeviceLost {
            return None;
        }
        let (sender, state) = channel();
        let call = Task::Call(Box::new(move |device, _| drop(sender.send(device.telemetry()))));
        self.lanes.send(self.fleet.confirming, call);
        // A note in the journal: a run does not fail for lack of it, and nobody who is in a hurry waits for it.
        let within = if self.wall.left().is_some() { STATE_WITHIN } else { STATE_WITHIN_MAX };
        let until = Instant::now() + within;
        let left = || until.saturating_duration_since(Instant::now());
        while let Ok(message) = self.inbox.receiver.recv_timeout(left()) {
            match state.try_recv() {
                Ok(found) => return found,
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            if let Message::Interrupt(count) = message {
                self.interrupted(count);
                if self.ending.at_once {
                    return None;
                }
            }
        }
        None
    }

    fn finish(
        mut self,
        reason: StopReason,
        throughput: Throughput,
        confirmed: usize,
    ) -> EngineResult<RunSummary> {
        let evaluations = self.counted();
        let evaluations_this_run = evaluations - self.ledger.finished_before;
        let taken_over = self.taken_over();
        let device_at_start = self.clock.device_at_start.take();
        let device_at_end = self.device_at_end(reason);
        let end = RunEnd {
            at: now(),
            reason,
            evaluations,
            evaluations_this_run,
            passed_over: self.ledger.uncounted - taken_over,
            taken_over,
            not_final: self.study.history.not_final.len() as u64,
            finalists_left: self.undone.left_out as u64,
            sanitized: self.looks,
            throughput,
            device_at_start,
            device_at_end,
            lanes: self.accounts(),
            at_ms: None,
        };
        // The journal comes first: views can be computed from it again, but not the other way round.
        let end = self.study.end(end)?;
        self.write_open_generations();
        let (evaluations, seed) = (&self.study.history.evaluations, self.study.header().seed);
        // Fitting models takes time, and a user who interrupted twice does not want to wait.
        let insight = (!self.ending.at_once).then(|| Insight::of(self.space, evaluations, seed));
        for error in self.study.write_views(insight.as_ref()) {
            self.warn_of_view(&error, "everything is in the journal, and `--resume` writes it again");
        }
        self.observer.observe(&Event::Stopped { reason });
        let (left_out, trouble) = (self.undone.left_out, self.undone.troubles.stopped);
        Ok(RunSummary { end, confirmed, left_out, insight, trouble })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SanitizePlan {
    pub finalists: bool,
    pub every: Option<NonZeroU32>,
    /// Without an answer a finalist is not confirmed.
    pub demanded: bool,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub budget: Budget,
    /// Began with the command; the wall budget counts from there.
    pub clock: CommandClock,
    /// Evaluations in a generation, a slice of bookkeeping. It is a divisor, so it cannot be 0.
    pub population: NonZeroU32,
    /// How many of the best are confirmed in fresh processes; 0 skips confirmation.
    pub finalists: usize,
    pub valid: u128,
    /// Runs whatever compiles: the strategy is not asked again.
    pub run_all: bool,
    /// Takes nothing over: neither from other studies nor from before an edit of this one.
    pub remeasure: bool,
    pub sanitize: SanitizePlan,
}

impl Options {
    /// The largest number of evaluations that the study may hold, and which limit says so.
    pub fn evaluations_max(&self) -> Option<(u64, StopReason)> {
        let by_count = self.budget.evaluations.map(|count| (count, StopReason::Evaluations));
        let by_generation = self.budget.generations.map(|generations| {
            (u64::from(generations) * u64::from(self.population.get()), StopReason::Generations)
        });
        by_count.into_iter().chain(by_generation).min_by_key(|(count, _)| *count)
    }

    /// Evaluations that a full run makes, if that is known; `taken_over` are known without one.
    pub fn total(&self, taken_over: u64) -> Option<u64> {
        let valid = u64::try_from(self.valid).ok().map(|valid| valid.saturating_sub(taken_over));
        let limit = self.evaluations_max().map(|(count, _)| count);
        match (valid, limit) {
            (Some(valid), Some(limit)) => Some(valid.min(limit)),
            (one, other) => one.or(other),
        }
    }
}

#[derive(Clone, Debug)]
pub struct RunSummary {
    pub end: RunEnd,
    pub confirmed: usize,
    pub left_out: usize,
    /// What the study says beyond its winner; none where the user did not want to wait.
    pub insight: Option<Insight>,
    pub trouble: Option<RunTrouble>,
}
