//! Anchors: jobs that every lane measures, so that times of different cards can be compared.
//!
//! Cards of one class differ by several percent. Each lane measures the baseline, the incumbent, and evo's own kernels,
//! of which one is bound by memory and one by arithmetic, before its first variant, every few minutes, and after a fault.
//! Its times are divided by how much longer than the first lane it takes. Where that depends on the kernel, one number
//! does not do: the lane's variants are then measured again on the confirming lane before they are ranked.

use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictClass;
use evo_supervise::job::{Judgement, Standing};

use crate::fleet::{AnchorJob, LaneRecord};
use crate::lane::{LaneJob, Task};
use crate::ports::{LaneAnswer, Recipe};
use crate::run::Engine;
use crate::trouble::EngineError;

const EVERY: Duration = Duration::from_secs(300);

/// Verdicts after which lanes stop waiting for an anchor: where nothing passes there is none.
const PATIENCE: u64 = 4;

impl<R: Recipe> Engine<'_, R> {
    /// Makes the lanes comparable before a resumed study goes on: its baseline is known already.
    pub(super) fn calibrate(&mut self) -> Result<(), EngineError> {
        if !self.fleet.is_several() {
            return Ok(());
        }
        for lane in 1..self.fleet.lanes.len() {
            self.lanes.hold(lane, true);
        }
        for lane in 0..self.fleet.lanes.len() {
            self.anchor_own(lane, 2);
        }
        let ranked = self.ranked();
        let Some(number) = self.baseline(&ranked).filter(|_| !ranked.is_empty()) else { return Ok(()) };
        let Some(rebuilt) = self.rebuilt(number, None)? else { return Ok(()) };
        self.first_anchor(number, rebuilt.job, |_| 2);
        Ok(())
    }

    pub(super) fn release_lanes(&mut self) {
        if self.fleet.anchors.is_empty() {
            (0..self.fleet.lanes.len()).for_each(|lane| self.lanes.hold(lane, false));
        }
    }

    /// As soon as it can be launched: the other lanes measure it while the first one judges it.
    pub(super) fn anchor_default(&mut self, number: u64, job: &R::Job) {
        if !self.fleet.is_several() || !self.fleet.anchors.is_empty() {
            return;
        }
        self.first_anchor(number, job.clone(), |lane| if lane == 0 { 1 } else { 2 });
    }

    /// Has all lanes measure the first of the study's anchors, behind evo's own.
    fn first_anchor(&mut self, number: u64, job: R::Job, times: impl Fn(usize) -> u32) {
        for lane in 0..self.fleet.lanes.len() {
            self.send_anchor(lane, Some(number), &job, times(lane));
        }
        self.fleet.anchors.push(AnchorJob { number, job });
    }

    fn anchor_own(&mut self, lane: usize, times: u32) {
        if let Some(job) = self.fleet.own.clone() {
            self.send_anchor(lane, None, &job, times);
        }
    }

    fn send_anchor(&mut self, lane: usize, number: Option<u64>, job: &R::Job, times: u32) {
        if self.lanes.is_out(lane) {
            return;
        }
        for _ in 0..times {
            self.lanes.send(lane, Task::Anchor { job: Box::new(job.clone()), number });
            self.fleet.lanes[lane].anchoring += 1;
        }
        self.fleet.lanes[lane].anchored_at = Some(self.wall.elapsed());
    }

    fn anchor(&mut self, lane: usize, times: u32) {
        if self.lanes.is_out(lane) || self.fleet.lanes[lane].anchoring > 0 {
            return;
        }
        self.anchor_own(lane, times);
        let anchors: Vec<(u64, R::Job)> =
            self.fleet.anchors.iter().map(|anchor| (anchor.number, anchor.job.clone())).collect();
        for (number, job) in anchors {
            self.send_anchor(lane, Some(number), &job, times);
        }
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
        let judged: u64 = self.fleet.lanes.iter().map(|lane| lane.evaluations).sum();
        if judged >= PATIENCE {
            self.release_lanes();
        }
    }

    pub(super) fn anchor_judged(
        &mut self,
        lane: usize,
        ratio: f64,
        evaluation: &Evaluation,
    ) -> Result<(), EngineError> {
        let number = evaluation.number;
        let sent = self.fleet.sent.remove(&number);
        let is_anchor = self.fleet.anchors.iter().any(|anchor| anchor.number == number);
        if !evaluation.verdict.is_pass() {
            self.fleet.anchors.retain(|anchor| anchor.number != number);
            return Ok(());
        }
        if is_anchor {
            let mode = self.study.header().ranking.timing();
            let times = evaluation.measurements.iter().filter(|one| one.mode == mode);
            let times = times.map(|one| (one.problem.clone(), one.p50_ns * ratio));
            self.fleet.lanes[lane].note_anchor(Some(number), times);
        }
        if self.standing.objective_ns == evaluation.objective_ns {
            self.anchor_incumbent(number, sent);
        }
        if is_anchor { self.compare_lanes() } else { Ok(()) }
    }

    /// A lane whose worker was replaced may be another one than before.
    pub(super) fn anchor_after_fault(&mut self, lane: usize) {
        if self.fleet.is_several() && self.ending.stop.is_none() {
            self.anchor(lane, 1);
        }
    }

    fn anchor_incumbent(&mut self, number: u64, job: Option<R::Job>) {
        let Some(job) = job else { return };
        if self.fleet.anchors.is_empty() {
            self.first_anchor(number, job, |_| 2);
            return;
        }
        self.fleet.anchors.truncate(1);
        if self.fleet.anchors.iter().all(|anchor| anchor.number != number) {
            self.fleet.anchors.push(AnchorJob { number, job });
        }
    }

    pub(super) fn anchored(
        &mut self,
        lane: usize,
        number: Option<u64>,
        result: &Judgement,
    ) -> Result<(), EngineError> {
        let own = &mut self.fleet.lanes[lane];
        own.anchoring = own.anchoring.saturating_sub(1);
        if result.lost {
            let why = result.verdict.message.lines().next().unwrap_or_default().to_string();
            let now = self.seconds();
            self.fleet.lanes[lane].lose(&why, now);
            return self.lost_idle(lane, &why);
        }
        if result.verdict.is_pass() {
            let mode = self.study.header().ranking.timing();
            let times = result.measurements.iter().filter(|one| one.mode == mode);
            own.note_anchor(number, times.map(|one| (one.problem.clone(), one.p50_ns)));
            own.broken_anchors = 0;
        } else if self.has_passed(number) {
            self.contradicted(lane, result)?;
        } else if number.is_none() && self.fleet.own.take().is_some() {
            let (shown, why) = (self.fleet.shown(lane), result.verdict.label());
            self.notice(format!("evo's own anchors are measured no more: {shown} says `{why}` of them"))?;
        }
        // A lane that cannot measure the study's anchor goes on without.
        if self.fleet.lanes[lane].anchoring == 0 && !result.verdict.is_pass() && number.is_some() {
            self.lanes.hold(lane, false);
        }
        self.compare_lanes()
    }

    fn has_passed(&self, number: Option<u64>) -> bool {
        let Some(number) = number else { return self.fleet.lanes.iter().any(LaneRecord::has_own_anchors) };
        self.evaluation_of(number).is_some_and(|evaluation| evaluation.verdict.is_pass())
    }

    /// A lane refuses a variant that is known to be well. Somebody may have killed its worker, so that counts when it
    /// happens again.
    fn contradicted(&mut self, lane: usize, result: &Judgement) -> Result<(), EngineError> {
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

    pub(super) fn compare_lanes(&mut self) -> Result<(), EngineError> {
        let is_host = self.study.header().device.kind == DeviceKind::Host;
        let reference = self.fleet.reference();
        self.lanes.hold(reference, false);
        for lane in 0..self.fleet.lanes.len() {
            if lane == reference || self.fleet.lanes[lane].out.is_some() {
                continue;
            }
            let Some((ratio, agrees, [low, high])) = self.fleet.compare(lane) else { continue };
            // Lanes on one processor take turns with it: what one takes longer says nothing of the next moment.
            let (ratio, agrees) = if is_host { (1.0, true) } else { (ratio, agrees) };
            self.fleet.lanes[lane].ratio = ratio;
            self.lanes.set_ratio(lane, ratio);
            // Until the study has an anchor of its own, which `release_lanes` does not wait for for ever.
            if self.fleet.lanes[lane].anchoring == 0 && !self.fleet.anchors.is_empty() {
                self.lanes.hold(lane, false);
            }
            if !agrees && self.fleet.lanes[lane].is_pooled {
                self.fleet.lanes[lane].is_pooled = false;
                let shown = self.fleet.shown(lane);
                let ratios = self.fleet.anchor_ratios(lane);
                let ratios: Vec<String> =
                    ratios.iter().map(|(name, own)| format!("{name} {own:.3}")).collect();
                let told =
                    if ratios.is_empty() { String::new() } else { format!(" ({})", ratios.join(", ")) };
                self.notice(format!(
                    "{shown} is not pooled with the others: it takes {low:.3} to {high:.3} times as long as {}, \
                     depending on the variant{told}; its best are measured again before they are ranked",
                    self.fleet.shown(reference)
                ))?;
            }
        }
        Ok(())
    }

    /// Measures the best variants of lanes that are not pooled on the confirming lane, as many as may become finalists.
    pub(super) fn measure_apart(&mut self) -> Result<(), EngineError> {
        let mut numbers = self.ranked();
        numbers.retain(|number| self.evaluation_of(*number).is_some_and(|one| self.fleet.is_apart(one)));
        for number in numbers.into_iter().take(2 * self.options.finalists) {
            if self.ending.is_early() || !self.wall.fits_finalist() {
                return Ok(());
            }
            let Some(rebuilt) = self.rebuilt(number, None)? else { continue };
            let job =
                LaneJob { number, job: Box::new(rebuilt.job), standing: Standing::default(), avoid: None };
            let answer = self.ask(self.fleet.confirming, Task::Evaluate(job))?;
            let Some(LaneAnswer::Evaluated { result, .. }) = answer else { return Ok(()) };
            if let Some(time) = result.objective_ns.filter(|_| result.verdict.is_pass()) {
                self.fleet.adjusted.insert(number, time);
            }
        }
        Ok(())
    }

    /// The time by which a variant is ranked: on the confirming lane where its own does not compare.
    pub(super) fn ranking_time(&self, evaluation: &Evaluation) -> Option<f64> {
        self.fleet.adjusted.get(&evaluation.number).copied().or(evaluation.objective_ns)
    }
}
