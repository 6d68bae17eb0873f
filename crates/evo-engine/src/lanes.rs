//! What several lanes bring: a variant that has to be seen by another device, a lane that is lost or suspected, and what
//! the end says of each.
//!
//! A lane that dies takes nothing with it. What it was working on goes back to the queue, and only what happens on two
//! devices counts against a variant.

use evo_protocol::evaluation::Recovery;
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::confirm::Deep;
use super::error::EngineError;
use super::fleet::{LaneRecord, Strike};
use super::lane::Task;
use super::ports::{LaneAnswer, Recipe, Rivals};
use super::run::Engine;
use evo_journal::budget::StopReason;
use evo_journal::record::{LaneAccount, RepeatedComparison};
use evo_report::event::{Event, LaneActivity, LaneProgress};
use evo_supervise::blame::after_two;
use evo_supervise::job::{Judgement, SecondLook};
use evo_supervise::renewal::Renewal;

impl<R: Recipe> Engine<'_, R> {
    /// Decides whether a result counts. `None` where another device has to see the variant first, which is queued for
    /// it then.
    pub(super) fn second_look(
        &mut self,
        lane: usize,
        number: u64,
        mut result: Judgement,
    ) -> Result<Option<Judgement>, EngineError> {
        let Some(first) = self.fleet.strikes.remove(&number) else {
            let Some(_) = result.second_look.filter(|_| !self.ending.is_early()) else {
                self.settled(lane, number);
                return Ok(Some(result));
            };
            let strike = Strike { verdict: result.verdict, lane, lost: false };
            self.fleet.strikes.insert(number, strike);
            self.again_elsewhere(lane, number);
            return Ok(None);
        };
        self.settled(lane, number);
        let is_broken = result.second_look == Some(SecondLook::Broken);
        let is_same = first.verdict.label() == result.verdict.label();
        if is_broken && !first.lost {
            result.verdict = after_two(&first.verdict, result.verdict);
        }
        // One lane alone sees a variant twice itself.
        if first.lane != lane && !is_same && !first.lost {
            self.suspect(first.lane, number)?;
        }
        Ok(Some(result))
    }

    /// Journals which lane has a variant, so that a crash can be laid at its door.
    pub(super) fn taken(&mut self, lane: usize, number: u64) -> Result<(), EngineError> {
        let Some(variant) = self.flight.variants.get(&number) else { return Ok(()) };
        Ok(self.study.started(number, &variant.configuration, u32::try_from(lane).ok())?)
    }

    /// A lane's verdict stands.
    fn settled(&mut self, lane: usize, number: u64) {
        self.lanes.settle(number);
        self.fleet.lanes[lane].note_verdict();
    }

    /// Queues what a lane did not settle for another one.
    fn again_elsewhere(&mut self, lane: usize, number: u64) {
        if self.lanes.queue_again(number, lane) {
            self.flight.on_lane.push(number);
            self.fleet.lanes[lane].given_back += 1;
        }
    }

    /// A variant broke on this lane and was well on another device.
    fn suspect(&mut self, lane: usize, number: u64) -> Result<(), EngineError> {
        let is_enough = self.fleet.lanes[lane].suspect(number);
        if !is_enough || self.lanes.is_out(lane) || self.lanes.live() < 2 {
            return Ok(());
        }
        self.put_out(lane, "two variants that broke on it were well on another device")
    }

    /// Gives a lane nothing more, and says why.
    pub(super) fn put_out(&mut self, lane: usize, why: &str) -> Result<(), EngineError> {
        self.lanes.put_out(lane);
        self.fleet.lanes[lane].out = Some(why.to_string());
        let left = self.lanes.live();
        self.notice(format!("{} takes no more variants: {why}; {left} left", self.fleet.shown(lane)))
    }

    /// A lane has no device any more. Its variant goes to the others, unless it has cost two devices.
    pub(super) fn lane_lost(
        &mut self,
        lane: usize,
        number: u64,
        result: Judgement,
    ) -> Result<(), EngineError> {
        let why = result.verdict.message.lines().next().unwrap_or_default().to_string();
        let first = self.fleet.strikes.remove(&number);
        let now = self.seconds();
        self.fleet.lanes[lane].lose(&why, now);
        if !self.fleet.is_several() {
            return self.device_lost(number, &result);
        }
        if self.lanes.live() == 0 {
            return self.all_lost(&why);
        }
        // Nobody may be left to measure what they wait for.
        self.release_lanes();
        self.compare_lanes()?;
        let configuration = self
            .flight
            .variants
            .get(&number)
            .map_or(String::new(), |own| format!(" with `{}` on it", own.configuration));
        let (shown, left) = (self.fleet.shown(lane), self.lanes.live());
        self.notice(format!("{shown} is lost{configuration}: {why}; {left} left"))?;
        let Some(first) = first.filter(|first| first.lane != lane) else {
            let strike = Strike { verdict: result.verdict, lane, lost: true };
            self.fleet.strikes.insert(number, strike);
            self.again_elsewhere(lane, number);
            return Ok(());
        };
        self.lanes.settle(number);
        let message = format!(
            "it was on two devices when they failed: {} on {}, and then {why} on {shown}",
            first.verdict.label(),
            self.fleet.shown(first.lane)
        );
        let verdict = Verdict::new(VerdictKind::WorkerDied, message).with_cause("device_lost");
        let judgement = Judgement { verdict, lost: false, second_look: None, ..result };
        self.judged(lane, 1.0, number, judgement)
    }

    /// Seconds since the run began.
    pub(super) fn seconds(&self) -> f64 {
        self.time.clock.started.elapsed().as_secs_f64()
    }

    /// A lane that waited for its next worker has it, or is lost.
    pub(super) fn renewed(&mut self, lane: usize, renewal: Renewal) -> Result<(), EngineError> {
        let Renewal { recovery, lost, host, device_uuid } = renewal;
        let now = self.seconds();
        let own = &mut self.fleet.lanes[lane];
        match lost {
            Some(why) => {
                own.lose(&why, now - recovery.elapsed_ms / 1e3);
                self.lost_idle(lane, &why)
            }
            None => {
                let device_uuid = device_uuid.unwrap_or(own.identity.device_uuid.clone());
                own.lead_to(host, device_uuid);
                self.replaced(lane, recovery);
                self.check_device(lane)
            }
        }
    }

    /// A lane has a new worker.
    pub(super) fn replaced(&mut self, lane: usize, recovery: Recovery) {
        let Recovery { level, elapsed_ms } = recovery;
        self.observer.observe(&Event::Recovered { worker: lane, level, elapsed_ms });
        self.fleet.lanes[lane].restarts += 1;
        self.fleet.lanes[lane].absent += elapsed_ms / 1e3;
        self.anchor_after_fault(lane);
    }

    /// A lane is lost that has no variant.
    pub(super) fn lost_idle(&mut self, lane: usize, why: &str) -> Result<(), EngineError> {
        if self.lanes.live() == 0 {
            return self.all_lost(why);
        }
        let (shown, left) = (self.fleet.shown(lane), self.lanes.live());
        self.notice(format!("{shown} is lost: {why}; {left} left"))?;
        // Another lane may be the one to compare with now.
        self.release_lanes();
        self.compare_lanes()
    }

    /// A launcher may have given a new worker the device of another lane.
    fn check_device(&mut self, lane: usize) -> Result<(), EngineError> {
        let uuid = &self.fleet.lanes[lane].identity.device_uuid;
        let is_same = |(at, own): &(usize, &LaneRecord)| {
            *at != lane && own.out.is_none() && own.identity.device_uuid == *uuid
        };
        let Some((other, _)) = self.fleet.lanes.iter().enumerate().find(is_same) else { return Ok(()) };
        let why = format!("its new worker has the device of {}", self.fleet.shown(other));
        self.put_out(lane, &why)
    }

    /// No lane is left: the run ends, and a resumed one goes on with as many as it finds.
    pub(super) fn all_lost(&mut self, why: &str) -> Result<(), EngineError> {
        self.notice(format!("all {} lanes are lost; the last one: {why}", self.fleet.lanes.len()))?;
        self.abandon(StopReason::DeviceLost);
        self.flight.variants.clear();
        self.flight.on_lane.clear();
        Ok(())
    }

    /// A finalist's comparison once more on a second device: a win on one card alone may be that card's. `None` where
    /// there is none, or no time.
    pub(super) fn repeated(
        &mut self,
        baseline: &Deep<R>,
        finalist: &Deep<R>,
        floor: Option<f64>,
    ) -> Result<Option<RepeatedComparison>, EngineError> {
        let first = &self.fleet.lanes[self.fleet.confirming].identity.device_uuid;
        let mut others = self.fleet.lanes.iter().enumerate();
        let is_ready = |lane: usize| !self.lanes.is_renewing(lane);
        let second = others
            .find(|(lane, own)| own.out.is_none() && own.identity.device_uuid != *first && is_ready(*lane));
        let Some(second) = second.map(|(lane, _)| lane) else { return Ok(None) };
        let within = self.time.wall.left();
        let problems: Vec<usize> = (0..finalist.work.len()).collect();
        if problems.is_empty() || !self.time.wall.fits_pairs(problems.len(), within) {
            return Ok(None);
        }
        let (baseline, finalist) = (baseline.job.clone(), finalist.job.clone());
        let rivals = Rivals { baseline, finalist, problems, noise_floor: floor.unwrap_or(0.0), within };
        self.lanes.send(second, Task::Pair(Box::new(rivals)));
        let Some(LaneAnswer::Paired(answers)) = self.answer_of(second)? else { return Ok(None) };
        let mut pairs = Vec::new();
        for answer in answers {
            match answer {
                Ok(pair) => pairs.push(pair),
                Err(message) => {
                    let shown = self.fleet.shown(second);
                    self.notice(format!("no comparison on {shown}: {message}"))?;
                }
            }
        }
        let device_uuid = self.fleet.lanes[second].identity.device_uuid.clone();
        let lane = u32::try_from(second).unwrap_or(u32::MAX);
        Ok((!pairs.is_empty()).then_some(RepeatedComparison { lane, device_uuid, pairs }))
    }

    /// What observers learn of each lane, where there are several.
    pub(super) fn tell_lanes(&mut self) {
        if !self.fleet.is_several() {
            return;
        }
        let wall = self.time.clock.started.elapsed().as_secs_f64();
        let activity = |lane: usize| match &self.fleet.lanes[lane].out {
            Some(_) => LaneActivity::Out,
            None if self.lanes.is_renewing(lane) => LaneActivity::Waiting,
            None if self.lanes.is_working(lane) => LaneActivity::Working,
            None => LaneActivity::Idle,
        };
        let progress = self.accounts().into_iter().enumerate().map(|(lane, account)| LaneProgress {
            activity: activity(lane),
            busy: if wall > 0.0 { (account.busy_seconds / wall).min(1.0) } else { 0.0 },
            account,
        });
        let lanes = progress.collect();
        self.observer.observe(&Event::LaneProgress { lanes });
    }

    /// Seconds that a lane was without a worker, until the search was over.
    fn absent(&self, lane: usize) -> f64 {
        let own = &self.fleet.lanes[lane];
        match own.searched_at {
            Some(at) => own.absent_until(at),
            None => own.absent_until(self.seconds()) + self.lanes.renewing_for(lane).as_secs_f64(),
        }
    }

    /// One account for each lane; none where there is one lane.
    pub(super) fn accounts(&self) -> Vec<LaneAccount> {
        if !self.fleet.is_several() {
            return Vec::new();
        }
        let accounts =
            (0u32..).zip(self.fleet.lanes.iter().enumerate()).map(|(lane, (at, own))| LaneAccount {
                lane,
                name: own.identity.name.clone(),
                host: own.identity.host.clone(),
                device_uuid: own.identity.device_uuid.clone(),
                evaluations: own.evaluations,
                busy_seconds: own.searched.unwrap_or_else(|| self.lanes.busy_of(at).as_secs_f64()),
                restarts: own.restarts,
                given_back: own.given_back,
                absent_seconds: self.absent(at),
                ratio: own.ratio,
                anchors: self.fleet.anchor_ratios(at),
                pooled: own.is_pooled,
                out: own.why_out(),
            });
        accounts.collect()
    }
}
