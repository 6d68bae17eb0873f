//! The order of the gates: cheap gates run on every variant, expensive gates run only on contenders. A
//! plain sequential function over a small trait, so that tests need no worker.
//!
//! Every variant is loaded, checked against the device's resources, and run at tiny shapes. Each timed
//! problem, cheapest first, then gets a quick check at full size and a screening of a few samples. A
//! variant that is too far behind the incumbent ends as `too_slow`, with the measured time. Contenders are
//! raced: sampled in the ranking mode until it is decided whether they could beat the incumbent. Who cannot
//! ends as `too_slow` as well, with a time that is good enough to rank. Only the others go on: every seed and
//! input family, repeatability, a full measurement in the mode that ranks with output checks in between. So
//! nothing becomes the incumbent without all of it; and a finalist, raced or not, is a job marked `deep`, which
//! runs everything and is timed in every mode.

use std::time::{Duration, Instant};

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceError;
use evo_protocol::measurement::{Measurement, StopRule, TimingMode};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{Depth, GateAnswer, MeasureAnswer, SamplePolicy};
use evo_space::text::counted;

use super::deadline::work;
use super::job::{Contest, Job, JobReach, Judgement, Standing, TinyNotes};
use super::race::{ScreenRace, least, objective};
use evo_timing::policy;

pub trait Station {
    type Broken;
    /// What sampling one problem in one mode may take; none where its interval alone decides.
    fn sampling_max(&self) -> Option<Duration> {
        None
    }
    fn load(&mut self, job: &Job) -> Result<Result<f64, DeviceError>, Self::Broken>;
    fn gate(&mut self, gate: Gate, depth: Depth, plans: &[ProblemPlan]) -> Result<GateAnswer, Self::Broken>;
    fn measure(
        &mut self,
        plan: &ProblemPlan,
        mode: TimingMode,
        policy: &SamplePolicy,
    ) -> Result<MeasureAnswer, Self::Broken>;
}

/// A variant this far behind on one problem is not measured further; where several problems count,
/// one may be this much worse, since others can make up for it.
const HOPELESS_ONE: f64 = 1.25;
const HOPELESS_OF_MANY: f64 = 1.6;
/// A variant that screens within this factor of the incumbent's objective is a contender.
const CONTENDER: f64 = 1.10;
/// A race is lost where the time is certainly above the incumbent's by more than this: within it two measurements of
/// one variant differ from one minute to the next.
const WITHIN_NOISE: f64 = 1.01;

/// `judgement` receives the findings, also those of a walk that broke off. Returns whether the process has seen a
/// sticky error and must be replaced.
pub fn run<S: Station>(
    station: &mut S,
    job: &Job,
    standing: &Standing,
    judgement: &mut Judgement,
) -> Result<bool, (Gate, S::Broken)> {
    let mut walk = GateWalk { station, job, standing, found: judgement, sticky: false };
    let end = walk.through();
    let sticky = walk.sticky;
    let (why, result) = match end {
        Ok(())
            if matches!(
                job.reach,
                JobReach::Tiny | JobReach::Hint | JobReach::Anchor | JobReach::Watched
            ) =>
        {
            ("it was not asked for".to_string(), Ok(sticky))
        }
        Ok(()) => ("not reached: pass".to_string(), Ok(sticky)),
        Err(WalkEnd::Verdict(verdict)) => {
            judgement.verdict = *verdict;
            (format!("not reached: {}", judgement.verdict.label()), Ok(sticky))
        }
        Err(WalkEnd::Broken(gate, broken)) => {
            (format!("not reached: the worker was lost in {}", gate.as_str()), Err((gate, broken)))
        }
    };
    complete(&mut judgement.gates, &why);
    mark(&mut judgement.gates, job.candidate.check.checks);
    result
}

const OWN: [Gate; 6] =
    [Gate::Launch, Gate::TinyShapes, Gate::FullShapes, Gate::Repeatability, Gate::Timing, Gate::Honesty];

fn complete(gates: &mut Vec<GateReport>, why: &str) {
    // Every gate gets a report, because a missing one could be taken for a pass.
    for gate in OWN {
        if !gates.iter().any(|report| report.gate == gate) {
            gates.push(GateReport::not_run(gate, why));
        }
    }
    gates.sort_by_key(|report| report.gate);
}

/// Says in each report which checks were left out, so that nobody takes it for a variant's that may rank.
fn mark(gates: &mut [GateReport], checks: CheckSet) {
    let names: Vec<&str> = checks.left_out().map(GateCheck::as_str).collect();
    for report in gates.iter_mut().filter(|_| !checks.are_all()) {
        report.evidence.insert(CheckSet::EVIDENCE, names.clone());
    }
}

/// The evidence lets a variant rank without this gate, and the board say so.
fn tails_not_checked(notes: &TinyNotes) -> GateReport {
    let why = match notes.absent.as_str() {
        "" => "no tiny shape was asked for; tails not checked",
        why => why,
    };
    let mut report = GateReport::not_run(Gate::TinyShapes, why);
    let tails = if notes.not_derived { GateReport::NOT_DERIVED } else { GateReport::NOT_CHECKED };
    report.evidence.insert(GateReport::TAILS, tails);
    report
}

enum WalkEnd<B> {
    Verdict(Box<Verdict>),
    Broken(Gate, B),
}

struct GateWalk<'a, S> {
    station: &'a mut S,
    job: &'a Job,
    standing: &'a Standing,
    found: &'a mut Judgement,
    sticky: bool,
}

impl<'a, S: Station> GateWalk<'a, S> {
    fn through(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let job = self.job;
        self.load()?;
        let all = job.all_checked();
        // This gate launches nothing, so it comes before everything that can hang or crash.
        self.gate(Gate::Launch, Depth::Quick, &all)?;
        if job.tiny.is_empty() {
            self.note(tails_not_checked(&job.tiny_notes));
        } else {
            // Hangs and crashes show here at the lowest price: the deadline is short, and so is a good run.
            // The time seen also predicts launches at full shapes, from which their deadlines follow.
            self.gate(Gate::TinyShapes, Depth::Quick, &job.tiny)?;
        }
        if job.reach == JobReach::Hint {
            return self.time_hint();
        }
        if job.reach == JobReach::Anchor {
            return self.measure_quickly();
        }
        if job.reach == JobReach::Watched {
            // Stacks and shared memory that hold other patterns in each run show what is read unset.
            self.gate(Gate::TinyShapes, Depth::Full, &job.tiny)?;
            return self.gate(Gate::FullShapes, Depth::Full, &all);
        }
        // Most variants of a space are slow or broken. They end here, before seeds, families, repetitions and
        // long measurements are spent on them.
        if !job.deep && job.reach != JobReach::Tiny {
            self.screen()?;
            self.race()?;
        }
        // Every correctness gate comes before the full measurement: only a correct variant's time may rank.
        // Small shapes meet every input family: there it is cheap, and tails meet them too.
        let depth = if job.deep { Depth::Deep } else { Depth::Full };
        if !job.tiny.is_empty() {
            let small = [&job.tiny[..], &job.several[..]].concat();
            self.gate(Gate::TinyShapes, Depth::Full, &small)?;
            // More questions of the same kind, as many as time allows: for few variants that is worth it.
            if job.deep {
                let further = if job.drawn.is_empty() { &job.tiny } else { &job.drawn };
                self.gate(Gate::TinyShapes, Depth::Deep, further)?;
            }
        }
        if job.reach == JobReach::Tiny {
            return Ok(());
        }
        self.gate(Gate::FullShapes, depth, &all)?;
        self.gate(Gate::Repeatability, depth, &all)?;
        match job.reach {
            JobReach::Screening if !job.deep => self.measure_quickly(),
            _ => self.measure_all(),
        }
    }

    fn load(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let loaded = self.station.load(self.job).map_err(|broken| WalkEnd::Broken(Gate::Launch, broken))?;
        let Err(error) = loaded else { return Ok(()) };
        self.sticky |= error.sticky;
        let failed =
            // Loading has no gate of its own; what cannot be loaded cannot be launched.
            GateReport { state: GateState::Fail, ..GateReport::not_run(Gate::Launch, &error.message) };
        self.note(failed);
        Err(WalkEnd::Verdict(Box::new(error.verdict())))
    }

    fn gate(&mut self, gate: Gate, depth: Depth, plans: &[ProblemPlan]) -> Result<(), WalkEnd<S::Broken>> {
        let reply = self.station.gate(gate, depth, plans).map_err(|broken| WalkEnd::Broken(gate, broken))?;
        self.note(reply.report);
        // Only the launch gate reads attributes back, and the answers of later gates must not erase them.
        if !reply.attributes.is_empty() {
            self.found.attributes = reply.attributes;
        }
        self.sticky |= reply.sticky;
        let Some(verdict) = reply.verdict else { return Ok(()) };
        Err(WalkEnd::Verdict(Box::new(self.job.tiny_notes.about(gate, *verdict))))
    }

    /// A gate that ran before keeps its place and its evidence, and adds up cases and time.
    fn note(&mut self, report: GateReport) {
        let report = self.job.tiny_notes.told(report);
        match self.found.gates.iter_mut().find(|own| own.gate == report.gate) {
            Some(own) => {
                let (cases, elapsed_ms) = (own.cases + report.cases, own.elapsed_ms + report.elapsed_ms);
                let mut evidence = std::mem::take(&mut own.evidence);
                report.evidence.iter().for_each(|(name, value)| evidence.insert(name, value.clone()));
                *own = GateReport { cases, elapsed_ms, evidence, ..report };
            }
            None => self.found.gates.push(report),
        }
    }

    /// Slow variants end here.
    fn screen(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let races = self.job.candidate.check.checks.include(GateCheck::Screening);
        let mut race = ScreenRace::default();
        for plan in self.cheapest_first() {
            // Checked before it is timed: a kernel that skips work is fast.
            self.gate(Gate::FullShapes, Depth::Quick, std::slice::from_ref(plan))?;
            let hopeless = if self.job.timed.len() > 1 { HOPELESS_OF_MANY } else { HOPELESS_ONE };
            let incumbent = self.standing.problems.get(&plan.name).copied().filter(|_| races);
            let policy = policy::screen(incumbent.map(|ns| ns * hopeless));
            let measurement = self.measure(plan, self.job.ranking.timing(), &policy)?;
            let abandoned = measurement.stop == StopRule::Abandoned;
            // An abandoned series is too short for a median. Its fastest sample is the reading that favors
            // the variant, so the ratio that is reported stays a cautious one.
            let seen = if abandoned { measurement.min_ns } else { measurement.p50_ns };
            self.keep(measurement);
            // Without an incumbent there is nothing to be behind.
            let Some(incumbent) = incumbent else { continue };
            race.add(plan, seen, incumbent);
            // Where problems are searched apart, the next one may be the one that it is good at.
            if self.standing.contest == Contest::Mean && (abandoned || seen > incumbent * hopeless) {
                return Err(self.too_slow(&race, abandoned));
            }
        }
        if self.standing.contest == Contest::EachProblem {
            return match race.least_ratio() {
                Some(ratio) if ratio > CONTENDER => Err(self.behind_everywhere(race)),
                _ => Ok(()),
            };
        }
        // Only after the last problem: a variant may be slower on one and make up for it on the others.
        if race.ratio().is_some_and(|ratio| ratio > CONTENDER) {
            return Err(self.too_slow(&race, false));
        }
        Ok(())
    }

    /// A measurement buys a decision: who cannot beat the incumbent needs no further seed, family, repetition or
    /// mode.
    fn race(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let races = self.job.candidate.check.checks.include(GateCheck::Screening);
        let Some(incumbent) = self.standing.objective_ns.filter(|_| races) else { return Ok(()) };
        if self.standing.contest == Contest::EachProblem {
            return self.race_each();
        }
        let (rival, mode) = (incumbent * WITHIN_NOISE, self.job.ranking.timing());
        // Of several problems none decides alone.
        let decides = (self.job.timed.len() == 1).then_some(rival);
        for plan in self.cheapest_first() {
            let measurement = self.measure(plan, mode, &policy::race(decides))?;
            self.keep(measurement);
            if least(&self.found.measurements, &self.job.timed, mode).is_some_and(|least| least > rival) {
                return Err(self.outraced(incumbent));
            }
        }
        Ok(())
    }

    /// A variant goes on as soon as it could beat the best of one problem. Those on which it screened as a contender
    /// are raced, the most promising first.
    fn race_each(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let mode = self.job.ranking.timing();
        let standing = self.standing;
        let best = |plan: &ProblemPlan| standing.problems.get(&plan.name).copied();
        let screened = |plan: &ProblemPlan| {
            let own = self.found.measurements.iter().find(|own| own.mode == mode && own.problem == plan.name);
            let own = own.filter(|own| own.stop != StopRule::Abandoned);
            own.zip(best(plan)).map(|(own, best)| own.p50_ns / best)
        };
        let plans = self.cheapest_first();
        let mut contended: Vec<(f64, &ProblemPlan)> =
            plans.into_iter().filter_map(|plan| Some((screened(plan)?, plan))).collect();
        contended.retain(|(ratio, _)| *ratio <= CONTENDER);
        contended.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut race = ScreenRace::default();
        for (_, plan) in contended {
            let Some(incumbent) = best(plan) else { return Ok(()) };
            let rival = incumbent * WITHIN_NOISE;
            let measurement = self.measure(plan, mode, &policy::race(Some(rival)))?;
            let seen = measurement.p50_ns;
            self.keep(measurement);
            let own = least(&self.found.measurements, std::slice::from_ref(plan), mode);
            if own.is_none_or(|least| least <= rival) {
                return Ok(());
            }
            race.add(plan, seen, incumbent);
        }
        match race.least_ratio() {
            Some(_) => Err(self.behind_everywhere(race)),
            // Nothing to be behind.
            None => Ok(()),
        }
    }

    fn outraced(&mut self, incumbent: f64) -> WalkEnd<S::Broken> {
        let mode = self.job.ranking.timing();
        self.found.objective_ns = objective(&self.found.measurements, &self.job.timed, mode);
        let seen = self.found.objective_ns.unwrap_or(f64::NAN);
        let (seen_us, incumbent_us) = (seen / 1e3, incumbent / 1e3);
        let message = format!("{seen_us:.2} µs in a race, where the best so far takes {incumbent_us:.2} µs");
        let verdict = Verdict::new(VerdictKind::TooSlow, &message)
            .with("measured_ns", seen)
            .with("incumbent_ns", incumbent)
            .with("ratio", seen / incumbent)
            .with(Verdict::RACED, true);
        self.conclude_race(message);
        WalkEnd::Verdict(Box::new(verdict))
    }

    /// Makes a loser cost as little as possible.
    fn cheapest_first(&self) -> Vec<&'a ProblemPlan> {
        let job: &'a Job = self.job;
        let mut plans: Vec<&ProblemPlan> = job.timed.iter().collect();
        plans.sort_by(|a, b| self.cost(a).total_cmp(&self.cost(b)));
        plans
    }

    fn cost(&self, plan: &ProblemPlan) -> f64 {
        self.standing.problems.get(&plan.name).copied().unwrap_or_else(|| work(plan))
    }

    fn too_slow(&mut self, race: &ScreenRace, abandoned: bool) -> WalkEnd<S::Broken> {
        let ratio = race.ratio().unwrap_or(f64::NAN);
        // An estimate for the strategy, which learns more from a number than from a bare `too_slow`.
        self.found.objective_ns = self.standing.objective_ns.map(|best| best * ratio);
        let (problem, seen, incumbent) = &race.last;
        let (seen_us, incumbent_us) = (seen / 1e3, incumbent / 1e3);
        let message =
            format!("{seen_us:.2} µs on `{problem}`, where the best so far takes {incumbent_us:.2} µs");
        let verdict = Verdict::new(VerdictKind::TooSlow, &message)
            .with("problem", problem.as_str())
            .with("measured_ns", *seen)
            .with("incumbent_ns", *incumbent)
            .with("ratio", ratio)
            .with("abandoned", abandoned);
        self.conclude_race(message);
        WalkEnd::Verdict(Box::new(verdict))
    }

    /// Behind the best of each problem. The objective is an estimate, because series of samples end early where a
    /// variant is far behind.
    fn behind_everywhere(&mut self, race: ScreenRace) -> WalkEnd<S::Broken> {
        let ratio = race.least_ratio().unwrap_or(f64::NAN);
        let race = race.decided_by_nearest();
        let (problem, seen, incumbent) = &race.last;
        let (seen_us, incumbent_us) = (seen / 1e3, incumbent / 1e3);
        self.found.objective_ns =
            objective(&self.found.measurements, &self.job.timed, self.job.ranking.timing());
        let message = format!(
            "behind the best of each problem: at the least on `{problem}`, {seen_us:.2} µs against {incumbent_us:.2} µs"
        );
        let verdict = Verdict::new(VerdictKind::TooSlow, &message)
            .with("problem", problem.as_str())
            .with("measured_ns", *seen)
            .with("incumbent_ns", *incumbent)
            .with("ratio", ratio)
            .with(Verdict::EVERYWHERE, true);
        self.conclude_race(message);
        WalkEnd::Verdict(Box::new(verdict))
    }

    fn conclude_race(&mut self, message: String) {
        self.conclude_timing(GateState::Fail, message);
        if let Some(full) = self.found.gates.iter_mut().find(|own| own.gate == Gate::FullShapes) {
            // The gate keeps its pass, so the message must say that the full check never ran.
            full.message = format!("quick depth only: {}", full.message);
        }
    }

    /// A screening of answers that nobody has checked. Who is hopelessly behind the best of them is abandoned.
    fn time_hint(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let mode = self.job.ranking.timing();
        let mut race = ScreenRace::default();
        for plan in &self.job.timed {
            let incumbent = self.standing.problems.get(&plan.name).copied();
            let policy = policy::screen(incumbent.map(|ns| ns * HOPELESS_OF_MANY));
            let measurement = self.measure(plan, mode, &policy)?;
            let (stop, seen) = (measurement.stop, measurement.min_ns);
            self.keep(measurement);
            if let (StopRule::Abandoned, Some(incumbent)) = (stop, incumbent) {
                race.add(plan, seen, incumbent);
                return Err(self.too_slow(&race, true));
            }
        }
        self.found.objective_ns = objective(&self.found.measurements, &self.job.timed, mode);
        let timed = counted(self.job.timed.len(), "problem");
        self.conclude_timing(GateState::Pass, format!("{timed}, a few samples each, answers not checked"));
        Ok(())
    }

    fn measure_quickly(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let ranking = self.job.ranking.timing();
        let plans: Vec<&ProblemPlan> = self.job.timed.iter().collect();
        for plan in &plans {
            let measurement = self.measure(plan, ranking, &policy::quick())?;
            self.keep(measurement);
        }
        if plans.is_empty() {
            return self.measure_all();
        }
        self.found.objective_ns = objective(&self.found.measurements, &self.job.timed, ranking);
        let message =
            format!("{}, some ten samples each: nothing to rank by", counted(plans.len(), "problem"));
        self.conclude_timing(GateState::Pass, message);
        Ok(())
    }

    fn deep_policy(&self) -> SamplePolicy {
        if self.job.busy { policy::warm(policy::deep()) } else { policy::deep() }
    }

    fn measure_all(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let began = Instant::now();
        let ranking = self.job.ranking.timing();
        let other = if ranking == TimingMode::Hot { TimingMode::Cold } else { TimingMode::Hot };
        let modes = [ranking, other, TimingMode::Eager];
        // Only finalists are asked for times that do not rank: the lane has most of its time from those that are not
        // going to be among them.
        let modes = if self.job.deep { &modes[..] } else { &modes[..1] };
        let races = self.job.candidate.check.checks.include(GateCheck::Screening);
        // Where problems are searched apart, not all of them were raced.
        let all_raced = self.standing.contest == Contest::Mean;
        let raced = races && !self.job.deep && all_raced && self.standing.objective_ns.is_some();
        let mut is_first = true;
        let sampling_max = self.station.sampling_max().into_iter().chain(self.job.sampling_max).min();
        for mode in modes {
            // Eager times never rank, so they do not get the long measurement.
            let thorough = self.job.deep && *mode != TimingMode::Eager;
            let policy = match (thorough, *mode == ranking) {
                (true, _) => self.deep_policy(),
                (false, true) => policy::contender(),
                (false, false) => policy::eager(),
            };
            let policy = policy::within(policy, sampling_max);
            for plan in &self.job.timed {
                // The measurement before has just kept the device busy, at the clocks of this one; and who was raced has
                // been sampled a moment ago.
                let policy = match is_first {
                    _ if raced => SamplePolicy { warmup_ms: 0.0, ..policy },
                    true => policy,
                    false => policy::warm(policy),
                };
                is_first = false;
                let measurement = self.measure(plan, *mode, &policy)?;
                self.keep(measurement);
            }
        }
        self.found.objective_ns = objective(&self.found.measurements, &self.job.timed, ranking);
        if self.job.timed.is_empty() {
            self.note(GateReport::not_run(Gate::Timing, "no problem is timed"));
            self.note(GateReport::not_run(Gate::Honesty, "no problem is timed"));
            return Ok(());
        }
        let message = self.told_timing(modes.len(), raced, sampling_max);
        self.conclude_timing(GateState::Pass, message);
        if let Some(timing) = self.found.gates.iter_mut().find(|own| own.gate == Gate::Timing) {
            timing.elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
        }
        Ok(())
    }

    fn told_timing(&self, modes: usize, raced: bool, sampling_max: Option<Duration>) -> String {
        let modes = if modes == 1 { "the mode that ranks".to_string() } else { format!("{modes} modes") };
        let first = if self.job.deep { self.deep_policy() } else { policy::contender() };
        let warm_up = match raced {
            true => "no warm-up, because the race has just sampled them".to_string(),
            false => format!(
                "warm-up of {} ms before the first, and a short one before the others",
                policy::within(first, sampling_max).warmup_ms
            ),
        };
        let mut message = format!("{} in {modes}; {warm_up}", counted(self.job.timed.len(), "problem"));
        if let Some(most) = sampling_max {
            message.push_str(&format!("; each sampled for {} ms at most, as asked for", most.as_millis()));
        }
        message
    }

    fn measure(
        &mut self,
        plan: &ProblemPlan,
        mode: TimingMode,
        policy: &SamplePolicy,
    ) -> Result<Measurement, WalkEnd<S::Broken>> {
        let reply = self
            .station
            .measure(plan, mode, policy)
            .map_err(|broken| WalkEnd::Broken(Gate::Timing, broken))?;
        self.sticky |= reply.sticky;
        let dishonest = reply.honesty.as_ref().is_some_and(|report| report.state == GateState::Fail);
        if let Some(honesty) = reply.honesty {
            self.note(honesty);
        }
        match (reply.verdict, reply.measurement) {
            (None, Some(measurement)) => Ok(*measurement),
            (verdict, _) => {
                let missing =
                    || Box::new(Verdict::new(VerdictKind::HarnessError, "the worker sent no measurement"));
                let verdict = verdict.unwrap_or_else(missing);
                // A failed output check belongs to the honesty gate; timing itself has not failed then.
                if !dishonest {
                    self.conclude_timing(GateState::Fail, verdict.message.clone());
                }
                Err(WalkEnd::Verdict(verdict))
            }
        }
    }

    fn keep(&mut self, measurement: Measurement) {
        let own = &mut self.found.measurements;
        own.retain(|old| old.mode != measurement.mode || old.problem != measurement.problem);
        own.push(measurement);
    }

    fn conclude_timing(&mut self, state: GateState, message: String) {
        let cases = self.found.measurements.len() as u32;
        self.note(GateReport { state, cases, ..GateReport::not_run(Gate::Timing, message) });
    }
}

#[cfg(test)]
#[path = "cascade_tests.rs"]
mod tests;
