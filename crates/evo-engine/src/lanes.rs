//! What several lanes bring: a second look by another device, a lane that is lost or suspected, and their accounts.
//!
//! A lane that dies takes nothing with it. What it was working on goes back to the queue, and only what happens on two
//! devices counts against a variant.

use evo_journal::budget::StopReason;
use evo_journal::record::{LaneAccount, RepeatedComparison};
use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::{Evaluation, Recovery};
use evo_protocol::measurement::Measurement;
use evo_protocol::verdict::{Verdict, VerdictClass, VerdictKind};
use evo_report::event::{Event, LaneActivity, LaneProgress};
use evo_supervise::blame::after_two;
use evo_supervise::job::{Judgement, SecondLook, Standing};
use evo_supervise::lane::Renewal;

use crate::confirm::Deep;
use crate::fleet::{EVERY, LaneRecord, LaneTimes, PATIENCE, Strike};
use crate::lane::Task;
use crate::ports::Recipe;
use crate::run::Engine;
use crate::trouble::EngineResult;

impl<R: Recipe> Engine<'_, R> {
    /// `None` where another device has to see the variant first, which is queued for it then.
    pub(super) fn second_look(
        &mut self,
        lane: usize,
        number: u64,
        mut result: Judgement,
    ) -> EngineResult<Option<Judgement>> {
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
    pub(super) fn taken(&mut self, lane: usize, number: u64) -> EngineResult {
        let Some(variant) = self.flight.variants.get(&number) else { return Ok(()) };
        Ok(self.study.started(number, &variant.configuration, u32::try_from(lane).ok())?)
    }

    fn settled(&mut self, lane: usize, number: u64) {
        self.lanes.settle(number);
        self.fleet.lanes[lane].note_verdict();
    }

    fn again_elsewhere(&mut self, lane: usize, number: u64) {
        if self.lanes.queue_again(number, lane) {
            self.flight.on_lane.push(number);
            self.fleet.lanes[lane].account.given_back += 1;
        }
    }

    fn suspect(&mut self, lane: usize, number: u64) -> EngineResult {
        let is_enough = self.fleet.lanes[lane].suspect(number);
        if !is_enough || self.lanes.is_out(lane) || self.lanes.live() < 2 {
            return Ok(());
        }
        self.put_out(lane, "two variants that broke on it were well on another device")
    }

    pub(super) fn put_out(&mut self, lane: usize, why: &str) -> EngineResult {
        self.lanes.put_out(lane);
        self.fleet.lanes[lane].account.out = Some(why.to_string());
        let left = self.lanes.live();
        self.notice(format!("{} takes no more variants: {why}; {left} left", self.fleet.shown(lane)))
    }

    /// A lane has no device any more. Its variant goes to the others, unless it has cost two devices.
    pub(super) fn lane_lost(&mut self, lane: usize, number: u64, result: Judgement) -> EngineResult {
        let first = self.fleet.strikes.remove(&number);
        if !self.fleet.is_several() {
            return self.device_lost(number, &result);
        }
        let why = result.verdict.message.lines().next().unwrap_or_default().to_string();
        if !self.lane_gone(lane, &why, self.seconds(), Some(number))? {
            return Ok(());
        }
        let Some(first) = first.filter(|first| first.lane != lane) else {
            let strike = Strike { verdict: result.verdict, lane, lost: true };
            self.fleet.strikes.insert(number, strike);
            self.again_elsewhere(lane, number);
            return Ok(());
        };
        self.lanes.settle(number);
        let message = format!(
            "it was on two devices when they failed: {} on {}, and then {why} on {}",
            first.verdict.label(),
            self.fleet.shown(first.lane),
            self.fleet.shown(lane)
        );
        let verdict = Verdict::new(VerdictKind::WorkerDied, message).with_cause("device_lost");
        let judgement = Judgement { verdict, lost: false, second_look: None, ..result };
        self.judged(lane, 1.0, number, judgement)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.clock.started.elapsed().as_secs_f64()
    }

    pub(super) fn renewed(&mut self, lane: usize, renewal: Renewal) -> EngineResult {
        let Renewal { recovery, lost, host, device_uuid } = renewal;
        match lost {
            Some(why) => {
                let at = self.seconds() - recovery.elapsed_ms / 1e3;
                self.lane_gone(lane, &why, at, None).map(drop)
            }
            None => {
                let own = &mut self.fleet.lanes[lane];
                let device_uuid = device_uuid.unwrap_or(own.account.device_uuid.clone());
                own.lead_to(host, device_uuid);
                self.replaced(lane, recovery);
                self.check_device(lane)
            }
        }
    }

    pub(super) fn replaced(&mut self, lane: usize, recovery: Recovery) {
        let Recovery { level, elapsed_ms } = recovery;
        self.observer.observe(&Event::Recovered { worker: lane, level, elapsed_ms });
        self.fleet.lanes[lane].account.restarts += 1;
        self.fleet.lanes[lane].absent += elapsed_ms / 1e3;
        self.anchor_after_fault(lane);
    }

    /// A lane was lost at some second of the run, with a variant on it or idle. Whether others are left.
    fn lane_gone(&mut self, lane: usize, why: &str, at: f64, with: Option<u64>) -> EngineResult<bool> {
        self.fleet.lanes[lane].lose(why, at);
        let left = self.lanes.live();
        if left == 0 {
            self.notice(format!("all {} lanes are lost; the last one: {why}", self.fleet.lanes.len()))?;
            // A resumed run goes on with as many as it finds.
            self.abandon(StopReason::DeviceLost);
            self.flight.leave_lanes();
            return Ok(false);
        }
        let variant = with.and_then(|number| self.flight.variants.get(&number));
        let with = variant.map_or(String::new(), |own| format!(" with `{}` on it", own.configuration));
        self.notice(format!("{} is lost{with}: {why}; {left} left", self.fleet.shown(lane)))?;
        // Nobody may be left to measure what they wait for, and another lane may be the one to compare with now.
        self.release_lanes();
        self.compare_lanes().map(|()| true)
    }

    /// A launcher may have given a new worker the device of another lane.
    fn check_device(&mut self, lane: usize) -> EngineResult {
        let uuid = &self.fleet.lanes[lane].account.device_uuid;
        let is_same = |(at, own): &(usize, &LaneRecord)| {
            *at != lane && own.account.out.is_none() && own.account.device_uuid == *uuid
        };
        let Some((other, _)) = self.fleet.lanes.iter().enumerate().find(is_same) else { return Ok(()) };
        let why = format!("its new worker has the device of {}", self.fleet.shown(other));
        self.put_out(lane, &why)
    }

    /// A win on one card alone may be that card's. `None` where there is no second device, or no time.
    pub(super) fn repeated(
        &mut self,
        baseline: &Deep<R>,
        finalist: &Deep<R>,
        floor: Option<f64>,
    ) -> EngineResult<Option<RepeatedComparison>> {
        let first = &self.fleet.lanes[self.fleet.confirming].account.device_uuid;
        let mut others = self.fleet.lanes.iter().enumerate();
        let is_ready = |lane: usize| !self.lanes.is_renewing(lane);
        let second = others.find(|(lane, own)| {
            own.account.out.is_none() && own.account.device_uuid != *first && is_ready(*lane)
        });
        let Some(second) = second.map(|(lane, _)| lane) else { return Ok(None) };
        let problems: Vec<usize> = (0..finalist.work.len()).collect();
        if problems.is_empty() || !self.wall.fits_pairs(problems.len()) {
            return Ok(None);
        }
        let answers = self.compare_on(second, baseline, finalist, problems, floor)?;
        let mut pairs = Vec::new();
        for answer in answers.into_iter().flatten() {
            match answer {
                Ok(pair) => pairs.push(pair),
                Err(message) => {
                    let shown = self.fleet.shown(second);
                    self.notice(format!("no comparison on {shown}: {message}"))?;
                }
            }
        }
        let device_uuid = self.fleet.lanes[second].account.device_uuid.clone();
        let lane = u32::try_from(second).unwrap_or(u32::MAX);
        Ok((!pairs.is_empty()).then_some(RepeatedComparison { lane, device_uuid, pairs }))
    }

    pub(super) fn tell_lanes(&mut self) {
        if !self.fleet.is_several() {
            return;
        }
        let wall = self.clock.started.elapsed().as_secs_f64();
        let activity = |lane: usize| match &self.fleet.lanes[lane].account.out {
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

    pub(super) fn lane_times(&self, lane: usize) -> LaneTimes {
        let own = &self.fleet.lanes[lane];
        let lost = own.lost_at.map_or(0.0, |lost| (self.seconds() - lost).max(0.0));
        LaneTimes {
            busy_seconds: self.lanes.busy_of(lane).as_secs_f64(),
            absent_seconds: own.absent + lost + self.lanes.renewing_for(lane).as_secs_f64(),
            waits: self.lanes.is_renewing(lane),
        }
    }

    /// One account for each lane; none where there is one lane.
    pub(super) fn accounts(&self) -> Vec<LaneAccount> {
        if !self.fleet.is_several() {
            return Vec::new();
        }
        let accounts = self.fleet.lanes.iter().enumerate().map(|(at, own)| {
            let LaneTimes { busy_seconds, absent_seconds, waits } =
                own.at_end.unwrap_or_else(|| self.lane_times(at));
            let waits = (own.at_end.is_some() && waits)
                .then(|| "it was still without a new worker at the end".to_string());
            let out = own.account.out.clone().or(waits);
            LaneAccount { busy_seconds, absent_seconds, out, ..own.account.clone() }
        });
        accounts.collect()
    }

    /// Makes the lanes comparable before a resumed study goes on: its baseline is known already.
    pub(super) fn calibrate(&mut self) -> EngineResult {
        if !self.fleet.is_several() {
            return Ok(());
        }
        for lane in 1..self.fleet.lanes.len() {
            self.lanes.hold(lane, true);
        }
        let ranked = self.ranked();
        let Some(number) = self.baseline(&ranked).filter(|_| !ranked.is_empty()) else { return Ok(()) };
        let Some(rebuilt) = self.rebuilt(number, None)? else { return Ok(()) };
        self.anchor_all(number, rebuilt.job, 2);
        Ok(())
    }

    pub(super) fn release_lanes(&mut self) {
        if self.fleet.anchor.is_none() {
            (0..self.fleet.lanes.len()).for_each(|lane| self.lanes.hold(lane, false));
        }
    }

    /// All lanes measure the anchor, the first one so many times.
    pub(super) fn anchor_all(&mut self, number: u64, job: R::Job, first: u32) {
        self.fleet.anchor = Some((number, job));
        for lane in 0..self.fleet.lanes.len() {
            self.anchor(lane, if lane == 0 { first } else { 2 });
        }
    }

    fn anchor(&mut self, lane: usize, times: u32) {
        let Some((number, job)) = self.fleet.anchor.clone() else { return };
        if self.lanes.is_out(lane) || self.fleet.lanes[lane].anchoring > 0 {
            return;
        }
        for _ in 0..times {
            self.lanes.send(lane, Task::Anchor { job: Box::new(job.clone()), number });
        }
        self.fleet.lanes[lane].anchoring = times;
        self.fleet.lanes[lane].anchored_at = Some(self.wall.elapsed());
    }

    pub(super) fn anchor_when_due(&mut self) {
        if !self.fleet.is_several() || self.ending.stop.is_some() {
            return;
        }
        let now = self.wall.elapsed();
        for lane in 0..self.fleet.lanes.len() {
            let at = self.fleet.lanes[lane].anchored_at;
            if at.is_some_and(|at| now.saturating_sub(at) >= EVERY) {
                self.anchor(lane, 1);
            }
        }
        let judged: u64 = self.fleet.lanes.iter().map(|lane| lane.account.evaluations).sum();
        if judged >= PATIENCE {
            self.release_lanes();
        }
    }

    /// The lane that judged the anchor has measured it too.
    pub(super) fn anchor_judged(&mut self, lane: usize, ratio: f64, evaluation: &Evaluation) -> EngineResult {
        if self.fleet.anchor.as_ref().is_none_or(|(number, _)| *number != evaluation.number) {
            return Ok(());
        }
        if !evaluation.verdict.is_pass() {
            self.fleet.anchor = None;
            return Ok(());
        }
        self.note_anchor(lane, ratio, &evaluation.measurements);
        self.compare_lanes()
    }

    fn note_anchor(&mut self, lane: usize, ratio: f64, measurements: &[Measurement]) {
        let mode = self.study.header().ranking.timing();
        let times = measurements.iter().filter(|one| one.mode == mode);
        self.fleet.lanes[lane].note_anchor(times.map(|one| (one.problem.clone(), one.p50_ns * ratio)));
    }

    /// A lane whose worker was replaced may be another one than before.
    pub(super) fn anchor_after_fault(&mut self, lane: usize) {
        if self.fleet.is_several() && self.ending.stop.is_none() {
            self.anchor(lane, 1);
        }
    }

    pub(super) fn anchored(&mut self, lane: usize, number: u64, result: &Judgement) -> EngineResult {
        let own = &mut self.fleet.lanes[lane];
        own.anchoring = own.anchoring.saturating_sub(1);
        if result.lost {
            let why = result.verdict.message.lines().next().unwrap_or_default();
            return self.lane_gone(lane, why, self.seconds(), None).map(drop);
        }
        if result.verdict.is_pass() {
            own.broken_anchors = 0;
            self.note_anchor(lane, 1.0, &result.measurements);
        } else if self.evaluation_of(number).is_some_and(|evaluation| evaluation.verdict.is_pass()) {
            self.contradicted(lane, result)?;
        }
        // A lane that cannot measure the anchor goes on without.
        if self.fleet.lanes[lane].anchoring == 0 && !result.verdict.is_pass() {
            self.lanes.hold(lane, false);
        }
        self.compare_lanes()
    }

    /// A lane refuses a variant that is known to be well. Somebody may have killed its worker, so that counts when it
    /// happens again.
    fn contradicted(&mut self, lane: usize, result: &Judgement) -> EngineResult {
        if result.second_look.is_some() {
            let own = &mut self.fleet.lanes[lane];
            own.broken_anchors += 1;
            if own.broken_anchors < 2 {
                self.anchor_after_fault(lane);
                return Ok(());
            }
        } else if !matches!(
            result.verdict.kind.class(),
            VerdictClass::Wrong | VerdictClass::Crash | VerdictClass::Hang
        ) {
            return Ok(());
        }
        if self.lanes.live() > 1 {
            let why = format!("it says `{}` of a variant that passed elsewhere", result.verdict.label());
            self.put_out(lane, &why)?;
        }
        Ok(())
    }

    pub(super) fn compare_lanes(&mut self) -> EngineResult {
        let reference = self.fleet.reference();
        self.lanes.hold(reference, false);
        for lane in 0..self.fleet.lanes.len() {
            if lane == reference || self.fleet.lanes[lane].account.out.is_some() {
                continue;
            }
            let Some(ratio) = self.fleet.compare(lane) else { continue };
            let ratio = if self.is_on_host() { 1.0 } else { ratio };
            self.fleet.lanes[lane].account.ratio = ratio;
            self.lanes.set_ratio(lane, ratio);
            // Until it has measured the anchor, which `release_lanes` does not wait for for ever.
            if self.fleet.lanes[lane].anchoring == 0 && self.fleet.anchor.is_some() {
                self.lanes.hold(lane, false);
            }
        }
        Ok(())
    }

    /// Lanes on one processor take turns with it: what one takes longer says nothing of the next moment.
    fn is_on_host(&self) -> bool {
        self.study.header().device.kind == DeviceKind::Host
    }

    /// Measures the best variants of other lanes on the confirming one, as many as may become finalists.
    pub(super) fn measure_apart(&mut self) -> EngineResult {
        if self.is_on_host() {
            return Ok(());
        }
        let confirming = self.fleet.lanes[self.fleet.confirming].account.device_uuid.clone();
        let is_elsewhere = |one: &Evaluation| one.device_uuid.as_ref().is_some_and(|own| *own != confirming);
        for number in self.ranked().into_iter().take(2 * self.options.finalists) {
            if self.ending.is_early() || !self.wall.fits_finalist() {
                return Ok(());
            }
            if !self.evaluation_of(number).is_some_and(is_elsewhere) {
                continue;
            }
            let Some(rebuilt) = self.rebuilt(number, None)? else { continue };
            let result = self.judge(number, rebuilt.job, Standing::default())?;
            let Some(result) = result else { return Ok(()) };
            if let Some(time) = result.objective_ns.filter(|_| result.verdict.is_pass()) {
                self.fleet.adjusted.insert(number, (time, result.measurements));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use evo_journal::reader;
    use evo_journal::record::JournalRecord;
    use evo_protocol::evaluation::RecoveryLevel;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::fake::{FakeJob, Ran, Script, TestStudy, all_pass, lane_result, passed, undisturbed};

    const PLAIN: &str = "[parameters]\nA = [0, 1, 2, 3, 4, 5]\nB = [0, 1, 2, 3]\n";

    fn lost(job: &FakeJob) -> Judgement {
        let verdict = Verdict::new(VerdictKind::DeviceLost, "two new workers failed in a row");
        Judgement { verdict, lost: true, ..lane_result(job, VerdictKind::DeviceLost) }
    }

    fn broken(job: &FakeJob) -> Judgement {
        let verdict = Verdict::new(VerdictKind::WorkerDied, "the worker exited").with_cause("exit_9");
        let recovery = Some(Recovery { level: RecoveryLevel::R2, elapsed_ms: 1.0 });
        let second_look = Some(SecondLook::Broken);
        Judgement { verdict, recovery, second_look, ..lane_result(job, VerdictKind::WorkerDied) }
    }

    #[derive(Clone, Default)]
    struct Calls(Arc<AtomicUsize>);

    impl Calls {
        fn next(&self) -> usize {
            self.0.fetch_add(1, Ordering::SeqCst) + 1
        }

        fn wait_for(&self, calls: usize) {
            let until = Instant::now() + Duration::from_secs(20);
            while self.0.load(Ordering::SeqCst) < calls && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// The first lane's script: passes everything but its first job only after `calls` calls of another lane.
    fn patient(other: &Calls, calls: usize) -> Script {
        let (own, other) = (Calls::default(), other.clone());
        Arc::new(move |job| {
            if own.next() > 1 {
                other.wait_for(calls);
            }
            passed(job)
        })
    }

    fn counted(
        calls: &Calls,
        script: impl Fn(usize, &FakeJob) -> Judgement + Send + Sync + 'static,
    ) -> Script {
        let calls = calls.clone();
        Arc::new(move |job| {
            // Counted after the answer is made, so that who waits for the count finds the effect.
            let answer = script(calls.0.load(Ordering::SeqCst) + 1, job);
            calls.next();
            answer
        })
    }

    /// Everything passes but what is hit.
    fn where_hit(hits: &'static str, answer: fn(&FakeJob) -> Judgement) -> Script {
        Arc::new(move |job| if job.label == hits { answer(job) } else { passed(job) })
    }

    fn no_lane_is_out(ran: &Ran) {
        let lanes = &ran.summary.end.lanes;
        assert!(lanes.iter().all(|lane| lane.out.is_none()), "{lanes:?}");
    }

    /// A run on the lanes of these scripts, the first one's first.
    fn on_lanes(mut scripts: Vec<Script>) -> (TestStudy, Ran) {
        let mut bench = TestStudy::new(PLAIN);
        let first = scripts.remove(0);
        bench.more_lanes = scripts;
        let ran = bench.run(first);
        (bench, ran)
    }

    fn undisturbed_on(scripts: Vec<Script>) -> (TestStudy, Ran) {
        let (bench, ran) = on_lanes(scripts);
        assert_eq!(bench.verdicts(), undisturbed(PLAIN));
        (bench, ran)
    }

    #[test]
    fn lanes_share_the_work_and_every_record_names_its_device() {
        let calls = Calls::default();
        let second = counted(&calls, |_, job| passed(job));
        // Two anchors and then variants.
        let (bench, ran) = undisturbed_on(vec![patient(&calls, 4), second, patient(&calls, 4)]);
        let all = bench.history().evaluations;
        assert!(all.iter().all(|one| {
            let lane = one.lane.unwrap();
            one.device_uuid.as_deref() == Some(&format!("FAKE-{lane}")) && one.lane_ratio.is_none()
        }));
        assert!(all.iter().any(|one| one.lane == Some(1)), "{all:?}");
        let lanes = &ran.summary.end.lanes;
        assert_eq!(lanes.iter().map(|lane| lane.evaluations).sum::<u64>(), all.len() as u64);
        let begun =
            reader::read(&bench.journal()).unwrap().records.into_iter().filter_map(|record| match record {
                JournalRecord::Started { number, lane: Some(lane), .. } => Some((number, lane)),
                _ => None,
            });
        let judged = all.iter().map(|one| (one.number, one.lane.unwrap()));
        assert_eq!(begun.collect::<BTreeMap<_, _>>(), judged.collect::<BTreeMap<_, _>>());
        assert!(lanes.iter().all(|lane| lane.out.is_none()));
    }

    #[test]
    fn a_study_of_one_lane_says_nothing_of_lanes() {
        let bench = TestStudy::new(PLAIN);
        let ran = bench.run(all_pass());
        let text = std::fs::read_to_string(bench.journal()).unwrap();
        assert!(!text.contains("\"lane") && !text.contains("device_uuid"), "{text}");
        assert!(ran.summary.end.lanes.is_empty());
    }

    #[test]
    fn a_lost_lane_takes_nothing_with_it() {
        let calls = Calls::default();
        let dies = counted(&calls, |call, job| match call {
            ..=2 => passed(job),
            _ => lost(job),
        });
        let (_, ran) = undisturbed_on(vec![patient(&calls, 3), dies]);
        assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
        let lane = &ran.summary.end.lanes[1];
        assert_eq!(lane.out.as_deref(), Some("two new workers failed in a row"));
        ran.said("lane 1 (fake:1) is lost with `A=");
    }

    #[test]
    fn what_breaks_on_two_devices_is_the_variants_doing_and_puts_no_lane_out() {
        for hit in ["A=2 B=1", "A=0 B=0"] {
            let (bench, ran) = on_lanes(vec![where_hit(hit, broken); 3]);
            let verdicts = bench.verdicts();
            assert_eq!(verdicts[hit], "worker_died:exit_9");
            assert_eq!(verdicts.values().filter(|label| *label == "pass").count(), 23);
            no_lane_is_out(&ran);
            // The default is the anchor too.
            if hit != "A=0 B=0" {
                assert_eq!(ran.log.evaluated.iter().filter(|label| *label == hit).count(), 2);
                assert_eq!(ran.summary.end.lanes.iter().map(|lane| lane.restarts).sum::<u64>(), 2);
            }
        }
    }

    #[test]
    fn a_lane_on_which_well_variants_break_is_put_out() {
        let calls = Calls::default();
        // Its anchors are well, and every other variant breaks.
        let breaks = counted(&calls, |_, job| match job.label.as_str() {
            "A=0 B=0" => passed(job),
            _ => broken(job),
        });
        let (_, ran) = undisturbed_on(vec![patient(&calls, 3), breaks]);
        let why = ran.summary.end.lanes[1].out.clone();
        if ran.summary.end.lanes[1].restarts >= 2 {
            assert_eq!(why.as_deref(), Some("two variants that broke on it were well on another device"));
        }
    }

    #[test]
    fn a_variant_that_costs_two_devices_is_not_tried_on_a_third() {
        let (bench, ran) = on_lanes(vec![where_hit("A=1 B=1", lost); 3]);
        let verdicts = bench.verdicts();
        assert_eq!(verdicts["A=1 B=1"], "worker_died:device_lost");
        assert_eq!(verdicts.len(), 24);
        assert_eq!(ran.summary.end.lanes.iter().filter(|lane| lane.out.is_some()).count(), 2);
    }

    #[test]
    fn without_lanes_the_run_stops_and_goes_on_with_another_number() {
        let dies = |after: usize| {
            counted(&Calls::default(), move |call, job| match call > after {
                true => lost(job),
                false => passed(job),
            })
        };
        let (mut bench, ran) = on_lanes(vec![dies(5), dies(4)]);
        assert_eq!(ran.summary.end.reason, StopReason::DeviceLost);
        assert!(ran.summary.end.evaluations < 24);
        ran.said("all 2 lanes are lost");
        bench.more_lanes = vec![all_pass(), all_pass()];
        let ran = bench.run(all_pass());
        assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
        assert_eq!(bench.verdicts(), undisturbed(PLAIN));
        bench.more_lanes = Vec::new();
        bench.run(all_pass());
        assert_eq!(bench.verdicts(), undisturbed(PLAIN));
    }

    /// A card that takes so many times as long as others, and `drift` more with every job.
    fn slower(factor: f64, drift: f64) -> Script {
        let calls = Calls::default();
        Arc::new(move |job| {
            let now = factor * (1.0 + drift * calls.next() as f64);
            passed(job).scaled(now)
        })
    }

    #[test]
    fn slower_cards_do_not_change_the_champion() {
        let space = "[parameters]\nA = [5, 4, 3, 2, 1, 0]\nB = [3, 2, 1, 0]\n";
        for factors in [[0.95, 1.0, 1.05], [1.03, 1.3, 0.97]] {
            let mut bench = TestStudy::new(space);
            bench.on_gpu = true;
            bench.options.finalists = 3;
            let more = [factors[1], factors[2]].map(|factor| slower(factor, 1e-5));
            bench.more_lanes = more.to_vec();
            let ran = bench.run(slower(factors[0], 0.0));
            assert!(ran.summary.confirmed >= 3, "{factors:?} {:#?}", ran.events);
            let evaluations = bench.history().evaluations;
            let timed = evaluations.iter().filter_map(|one| Some((one.objective_ns?, one)));
            let (_, best) = timed.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            assert!(best.configuration.to_string().starts_with("A=0"), "{factors:?} {best:?}");
            assert!(bench.confirmed().contains(&"A=0 B=0".to_string()), "{factors:?}");
            for lane in &ran.summary.end.lanes {
                let expected = factors[lane.lane as usize] / factors[0];
                let seen = if (expected - 1.0).abs() <= 0.005 { 1.0 } else { expected };
                assert!((lane.ratio - seen).abs() < 1e-3, "{factors:?} {lane:?}");
            }
        }
    }

    #[test]
    fn eight_cards_that_drift_find_what_one_finds() {
        let space = "[parameters]\nA = [35, 30, 25, 20, 15, 10, 5, 0]\nB = [20, 0]\n";
        for seed in 0..20 {
            let mut chance = ChaCha8Rng::seed_from_u64(seed);
            let mut bench = TestStudy::new(space);
            bench.on_gpu = true;
            bench.options.finalists = 3;
            let mut card = || slower(chance.random_range(0.95..1.05), chance.random_range(-1e-4..1e-4));
            bench.more_lanes = (0..7).map(|_| card()).collect();
            bench.run(card());
            let mut confirmed = bench.history().confirmations;
            confirmed.retain(|one| !one.pairs.is_empty());
            confirmed.sort_by(|a, b| a.pairs[0].ratio.total_cmp(&b.pairs[0].ratio));
            assert_eq!(confirmed[0].evaluation.configuration.to_string(), "A=0 B=0", "{seed}");
        }
    }

    #[test]
    fn a_card_that_is_faster_on_some_kernels_only_does_not_decide() {
        let space = "[parameters]\nA = [5, 4, 3, 2, 1, 0]\nB = [3, 2, 1, 0]\n";
        let mut bench = TestStudy::confirming(space, 2);
        bench.on_gpu = true;
        let calls = Calls::default();
        // As fast as the first lane with the default, and far too fast with another one.
        bench.more_lanes = vec![counted(&calls, |_, job| {
            passed(job).scaled(if job.label == "A=3 B=3" { 0.9 } else { 1.0 })
        })];
        bench.run(patient(&calls, 5));
        let confirmed = bench.confirmed();
        let [far, best] = ["A=3 B=3", "A=0 B=0"].map(|name| confirmed.contains(&name.to_string()));
        assert!(!far && best, "{confirmed:?}");
    }

    #[test]
    fn the_first_lane_may_be_lost_with_the_default_on_it() {
        let mut bench = TestStudy::confirming(PLAIN, 2);
        bench.more_lanes = vec![all_pass(), all_pass()];
        let ran = bench.run(Arc::new(lost));
        assert_eq!(bench.verdicts(), undisturbed(PLAIN));
        let lanes = &ran.summary.end.lanes;
        assert!(lanes[0].out.is_some() && lanes[1].out.is_none() && lanes[2].out.is_none(), "{lanes:?}");
        assert!(ran.summary.confirmed >= 2);
    }

    #[test]
    fn a_lane_that_is_lost_in_the_confirmation_leaves_it_to_the_next() {
        let mut bench = TestStudy::confirming(PLAIN, 2);
        bench.more_lanes = vec![all_pass()];
        let ran = bench.run(Arc::new(|job| if job.deep { lost(job) } else { passed(job) }));
        assert!(ran.summary.confirmed >= 2, "{:?}", ran.summary);
        assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
        assert!(bench.history().confirmations.iter().all(|one| one.evaluation.lane == Some(1)));
    }

    #[test]
    fn a_win_is_compared_on_a_second_device() {
        let mut bench = TestStudy::confirming("[parameters]\nA = [5, 4, 0]\nB = [0]\n", 1);
        bench.more_lanes = vec![all_pass()];
        bench.run(all_pass());
        let confirmations = bench.history().confirmations;
        let repeated: Vec<_> = confirmations.iter().filter_map(|one| one.repeated.as_ref()).collect();
        assert_eq!(repeated.len(), 1, "the baseline has no rival");
        assert_eq!((repeated[0].lane, repeated[0].device_uuid.as_str()), (1, "FAKE-1"));
    }

    /// Calls of the second lane before its worker dies: two anchors and a variant.
    const WELL: usize = 3;

    fn renewal(lost: Option<&str>, device: Option<&str>) -> Renewal {
        Renewal {
            recovery: Recovery { level: RecoveryLevel::R1, elapsed_ms: 1500.0 },
            lost: lost.map(String::from),
            host: "node7".into(),
            device_uuid: device.map(String::from),
        }
    }

    fn cut_off(job: &FakeJob) -> Judgement {
        let verdict = Verdict::new(VerdictKind::WorkerDied, "no sign of life").with_cause("cut_off");
        Judgement { verdict, recovery: None, owes_worker: true, ..broken(job) }
    }

    /// The second lane of a study that all went well with, whose worker died and had this successor.
    fn renewed(renew: impl Fn() -> Renewal + Send + Sync + 'static) -> (LaneAccount, Ran) {
        let mut bench = TestStudy::new(PLAIN);
        bench.renew = Some(Arc::new(renew));
        let calls = Calls::default();
        bench.more_lanes = vec![counted(&calls, |call, job| match call == WELL + 1 {
            true => cut_off(job),
            false => passed(job),
        })];
        // The first lane leaves something to the second one until that happened.
        let ran = bench.run(patient(&calls, WELL + 1));
        assert_eq!(bench.verdicts(), undisturbed(PLAIN));
        (ran.summary.end.lanes[1].clone(), ran)
    }

    #[test]
    fn a_lane_that_waits_for_its_next_worker_holds_nothing_up() {
        let (ended, end) = channel::<()>();
        let end = Mutex::new(end);
        let (lane, _) = renewed(move || {
            let _ = end.lock().unwrap().recv();
            renewal(None, None)
        });
        let why = Some("it was still without a new worker at the end");
        assert_eq!((lane.restarts, lane.given_back, lane.out.as_deref()), (0, 1, why), "{lane:?}");
        drop(ended);
    }

    /// The study may be over before the news is read.
    #[test]
    fn a_lane_goes_on_with_the_worker_that_came_or_is_lost_and_that_is_said() {
        let (lane, _) = renewed(|| renewal(None, Some("FAKE-7")));
        assert_eq!(lane.given_back, 1, "{lane:?}");
        if lane.restarts == 1 {
            assert_eq!(lane.out, None);
            assert_eq!((lane.host.as_str(), lane.device_uuid.as_str()), ("node7", "FAKE-7"));
            assert!((lane.absent_seconds - 1.5).abs() < 1e-9, "{lane:?}");
        }
        let (lane, ran) = renewed(|| renewal(Some("no node is free"), None));
        if lane.out.as_deref() == Some("no node is free") {
            assert_eq!(lane.given_back, 1);
            ran.said("lane 1 (fake:1) is lost: no node is free; 1 left");
        }
        let (lane, _) = renewed(|| renewal(None, Some("FAKE-0")));
        if lane.restarts == 1 {
            assert_eq!(lane.out.as_deref(), Some("its new worker has the device of lane 0 (fake:0)"));
        }
    }
}
