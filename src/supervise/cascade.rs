//! The order of the gates: cheap gates run on every variant, expensive gates run only on contenders. A
//! plain sequential function over a small trait, so that tests need no worker.
//!
//! Every variant is loaded, checked against the device's resources, and run at tiny shapes. Each timed
//! problem, cheapest first, then gets a quick check at full size and a screening of a few samples. A
//! variant that is too far behind the incumbent ends as `too_slow`, with the measured time. Contenders are
//! raced: sampled in the ranking mode until it is decided whether they could beat the incumbent. Who cannot
//! ends as `too_slow` as well, with a time that is good enough to rank. Only the others go on: every seed and
//! input family, repeatability, full measurements in both modes with output checks in between. So nothing
//! becomes the incumbent without all of it; and a finalist, raced or not, is a job marked `deep`, which runs
//! everything.

use std::time::Instant;

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceError;
use evo_protocol::measurement::{Measurement, StopRule, TimingMode};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{Depth, GateAnswer, MeasureAnswer, SamplePolicy};

use super::deadline::work;
use super::job::{Job, Judgement, Standing};
use crate::timing::policy;

/// Does the work: a worker process, or a script in tests.
pub trait Station {
    /// What can come between a question and its answer: a death, a flood of output.
    type Broken;
    /// Loads the candidate; milliseconds.
    fn load(&mut self, job: &Job) -> Result<Result<f64, DeviceError>, Self::Broken>;
    /// Runs one gate.
    fn gate(&mut self, gate: Gate, depth: Depth, plans: &[ProblemPlan]) -> Result<GateAnswer, Self::Broken>;
    /// Times one problem.
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
/// How far a screening's median may be above the median of many samples.
const SCREENED: f64 = 0.97;

/// Takes a job through the gates. `judgement` receives the findings, also those of a walk that broke off.
/// Returns whether the process has seen a sticky error and must be replaced.
///
/// # Errors
/// What came between a question and its answer, and at which gate.
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

/// The weighted geometric mean of p50 over timed problems in one mode; none while one is missing.
pub fn objective(measurements: &[Measurement], timed: &[ProblemPlan], mode: TimingMode) -> Option<f64> {
    mean_of(measurements, timed, mode, |own| own.p50_ns)
}

/// The least that the objective can be: the lower ends of all intervals.
fn least(measurements: &[Measurement], timed: &[ProblemPlan], mode: TimingMode) -> Option<f64> {
    let low = |own: &Measurement| match own.stop {
        // Too few samples for an interval.
        StopRule::Screen => own.p50_ns * SCREENED,
        _ => own.ci_low_ns,
    };
    mean_of(measurements, timed, mode, low)
}

fn mean_of(
    measurements: &[Measurement],
    timed: &[ProblemPlan],
    mode: TimingMode,
    time: impl Fn(&Measurement) -> f64,
) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for plan in timed {
        let own = measurements.iter().find(|own| own.mode == mode && own.problem == plan.name)?;
        let time = time(own);
        if !(time.is_finite() && time > 0.0) {
            return None;
        }
        // Logarithms, so that a ratio on a short problem counts as much as the same ratio on a long one.
        sum += plan.weight * time.ln();
        weights += plan.weight;
    }
    (weights > 0.0).then(|| (sum / weights).exp())
}

/// The gates that a lane answers for.
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

/// Every report says which checks were left out, so that nobody takes it for a variant's that may rank.
fn mark(gates: &mut [GateReport], checks: CheckSet) {
    let names: Vec<&str> = checks.left_out().map(GateCheck::as_str).collect();
    for report in gates.iter_mut().filter(|_| !checks.are_all()) {
        report.evidence.insert(CheckSet::EVIDENCE, names.clone());
    }
}

/// The report of the tiny gate where there is no shape to run. The evidence lets a variant rank without
/// this gate, and the board say so.
fn tails_not_checked(why: &str) -> GateReport {
    let why = if why.is_empty() { "no tiny shape was asked for; tails not checked" } else { why };
    let mut report = GateReport::not_run(Gate::TinyShapes, why);
    report.evidence.insert(GateReport::TAILS, GateReport::NOT_CHECKED);
    report
}

/// What ends a walk before the last gate.
enum WalkEnd<B> {
    Verdict(Box<Verdict>),
    Broken(Gate, B),
}

/// One job on its way through the gates.
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
            self.note(tails_not_checked(&job.tiny_notes.absent));
        } else {
            // Hangs and crashes show here at the lowest price: the deadline is short, and so is a good run.
            // The time seen also predicts launches at full shapes, from which their deadlines follow.
            self.gate(Gate::TinyShapes, Depth::Quick, &job.tiny)?;
        }
        // Most variants of a space are slow or broken. They end here, before seeds, families, repetitions and
        // long measurements are spent on them.
        if !job.deep {
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
        self.gate(Gate::FullShapes, depth, &all)?;
        self.gate(Gate::Repeatability, depth, &all)?;
        self.measure_all()
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

    /// Adds a report; a gate that ran before keeps its place and its evidence, and adds up cases and time.
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

    /// The cheap path: a quick check and few samples, problem by problem. Slow variants end here.
    fn screen(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let races = self.job.candidate.check.checks.include(GateCheck::Screening);
        let mut race = Race::default();
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
            if abandoned || seen > incumbent * hopeless {
                return Err(self.too_slow(&race, abandoned));
            }
        }
        // Only after the last problem: a variant may be slower on one and make up for it on the others.
        if race.ratio().is_some_and(|ratio| ratio > CONTENDER) {
            return Err(self.too_slow(&race, false));
        }
        Ok(())
    }

    /// Samples a contender until it is decided whether it could beat the incumbent. A measurement buys a decision:
    /// who cannot needs no further seed, family, repetition or mode.
    fn race(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let races = self.job.candidate.check.checks.include(GateCheck::Screening);
        let Some(incumbent) = self.standing.objective_ns.filter(|_| races) else { return Ok(()) };
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

    /// The cheapest problem first, so that a loser costs as little as possible.
    fn cheapest_first(&self) -> Vec<&'a ProblemPlan> {
        let job: &'a Job = self.job;
        let mut plans: Vec<&ProblemPlan> = job.timed.iter().collect();
        plans.sort_by(|a, b| self.cost(a).total_cmp(&self.cost(b)));
        plans
    }

    /// What orders problems for screening: the incumbent's time where known, else the work.
    fn cost(&self, plan: &ProblemPlan) -> f64 {
        self.standing.problems.get(&plan.name).copied().unwrap_or_else(|| work(plan))
    }

    fn too_slow(&mut self, race: &Race, abandoned: bool) -> WalkEnd<S::Broken> {
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

    /// The reports of a variant that was right as far as it was asked, and not fast enough for more.
    fn conclude_race(&mut self, message: String) {
        self.conclude_timing(GateState::Fail, message);
        if let Some(full) = self.found.gates.iter_mut().find(|own| own.gate == Gate::FullShapes) {
            // The gate keeps its pass, so the message must say that the full check never ran.
            full.message = format!("quick depth only: {}", full.message);
        }
    }

    /// Every timed problem in the ranking mode first, then in the others.
    fn measure_all(&mut self) -> Result<(), WalkEnd<S::Broken>> {
        let began = Instant::now();
        let ranking = self.job.ranking.timing();
        let other = if ranking == TimingMode::Hot { TimingMode::Cold } else { TimingMode::Hot };
        let modes = [ranking, other, TimingMode::Eager];
        let modes = if self.job.deep { &modes[..] } else { &modes[..2] };
        let mut is_first = true;
        for mode in modes {
            // Eager times never rank, so they do not get the long measurement.
            let thorough = self.job.deep && *mode != TimingMode::Eager;
            let policy = match (thorough, *mode == ranking) {
                (true, _) => policy::deep(),
                (false, true) => policy::contender(),
                (false, false) => policy::contender_beside(),
            };
            for plan in &self.job.timed {
                // The measurement before has just kept the device busy, at the clocks of this one.
                let policy = if is_first { policy } else { policy::warm(policy) };
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
        let first_ms = if self.job.deep { policy::deep() } else { policy::contender() }.warmup_ms;
        let message = format!(
            "{} problems in {} modes; warm-up of {first_ms} ms before the first, and a short one before the others",
            self.job.timed.len(),
            modes.len()
        );
        self.conclude_timing(GateState::Pass, message);
        if let Some(timing) = self.found.gates.iter_mut().find(|own| own.gate == Gate::Timing) {
            timing.elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
        }
        Ok(())
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

    /// Keeps a measurement in place of a screening of the same problem and mode.
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

/// The newcomer against the incumbent, problem by problem.
#[derive(Default)]
struct Race {
    log_sum: f64,
    weights: f64,
    last: (String, f64, f64),
}

impl Race {
    fn add(&mut self, plan: &ProblemPlan, seen_ns: f64, incumbent_ns: f64) {
        self.log_sum += plan.weight * (seen_ns / incumbent_ns).ln();
        self.weights += plan.weight;
        self.last = (plan.name.clone(), seen_ns, incumbent_ns);
    }

    /// The weighted geometric mean of the ratios so far, by which the objective is estimated.
    fn ratio(&self) -> Option<f64> {
        (self.weights > 0.0).then(|| (self.log_sum / self.weights).exp())
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::device::Telemetry;

    use super::*;
    use crate::supervise::job::example;

    /// Answers every gate with pass, and every measurement with the problem's time.
    #[derive(Default)]
    struct Script {
        times: Vec<(&'static str, f64)>,
        fail: Option<(Gate, VerdictKind)>,
        die_at: Option<Gate>,
        load_error: Option<DeviceError>,
        asked: Vec<String>,
    }

    impl Station for Script {
        type Broken = &'static str;

        fn load(&mut self, _job: &Job) -> Result<Result<f64, DeviceError>, &'static str> {
            self.asked.push("load".into());
            Ok(self.load_error.clone().map_or(Ok(1.0), Err))
        }

        fn gate(
            &mut self,
            gate: Gate,
            depth: Depth,
            plans: &[ProblemPlan],
        ) -> Result<GateAnswer, &'static str> {
            let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
            self.asked.push(format!("{} {depth:?} {}", gate.as_str(), names.join(",")));
            if self.die_at == Some(gate) {
                return Err("dead");
            }
            let verdict = self
                .fail
                .filter(|(own, _)| *own == gate)
                .map(|(_, kind)| Box::new(Verdict::new(kind, "so it is")));
            let state = if verdict.is_some() { GateState::Fail } else { GateState::Pass };
            let report = GateReport { state, cases: plans.len() as u32, ..GateReport::not_run(gate, "") };
            Ok(GateAnswer { report, verdict, attributes: Vec::new(), sticky: false })
        }

        fn measure(
            &mut self,
            plan: &ProblemPlan,
            mode: TimingMode,
            policy: &SamplePolicy,
        ) -> Result<MeasureAnswer, &'static str> {
            let kind = match (policy.race, policy.screen) {
                (Some(race), _) if race.rival_ns.is_some() => "race alone",
                (Some(_), _) => "race",
                (None, true) => "screen",
                (None, false) => "measure",
            };
            self.asked.push(format!("{kind} {} {}", plan.name, mode.as_str()));
            let time = self.times.iter().find(|(name, _)| *name == plan.name).map_or(100.0, |own| own.1);
            let abandoned = policy.abandon_above_ns.is_some_and(|above| time > above);
            let measurement = Measurement {
                problem: plan.name.clone(),
                mode,
                samples: 3,
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
                stop: match (abandoned, kind) {
                    (true, _) => StopRule::Abandoned,
                    (false, "screen") => StopRule::Screen,
                    (false, _) => StopRule::Interval,
                },
                telemetry: Telemetry::default(),
                raw_ns: Vec::new(),
            };
            let honesty =
                GateReport { state: GateState::Pass, cases: 1, ..GateReport::not_run(Gate::Honesty, "") };
            let honesty = (!policy.screen).then_some(honesty);
            Ok(MeasureAnswer {
                measurement: Some(Box::new(measurement)),
                honesty,
                ..MeasureAnswer::default()
            })
        }
    }

    fn standing(times: &[(&str, f64)], objective_ns: f64) -> Standing {
        Standing::new(times.iter().map(|(name, ns)| (name.to_string(), *ns)).collect(), objective_ns)
    }

    /// A job's whole way; a station that breaks is not expected.
    fn judge(script: &mut Script, job: &Job, standing: &Standing) -> Judgement {
        let mut judgement = Judgement::begin();
        assert!(!run(script, job, standing, &mut judgement).unwrap());
        judgement
    }

    fn states(outcome: &Judgement) -> String {
        let state = |report: &GateReport| {
            let letter = match report.state {
                GateState::Pass => "pass",
                GateState::Fail => "FAIL",
                GateState::NotRun => "-",
            };
            format!("{}:{letter}", report.gate.as_str())
        };
        outcome.gates.iter().map(state).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_variant_goes_all_the_way() {
        let mut script = Script::default();
        let outcome =
            judge(&mut script, &example::job(&[("big", 9.0), ("small", 1.0)]), &Standing::default());
        assert!(outcome.verdict.is_pass());
        assert!((outcome.objective_ns.unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(outcome.measurements.len(), 4);
        assert!(outcome.gates.iter().all(|report| report.state == GateState::Pass));
        insta::assert_snapshot!(script.asked.join("\n"), @r"
        load
        launch Quick big,small
        tiny_shapes Quick tiny:1
        full_shapes Quick small
        screen small hot
        full_shapes Quick big
        screen big hot
        tiny_shapes Full tiny:1
        full_shapes Full big,small
        repeatability Full big,small
        measure big hot
        measure small hot
        measure big cold
        measure small cold
        ");
    }

    #[test]
    fn a_slow_but_right_variant_is_too_slow_with_its_time() {
        let mut script = Script { times: vec![("p", 900.0)], ..Script::default() };
        let outcome = judge(&mut script, &example::job(&[("p", 1.0)]), &standing(&[("p", 100.0)], 100.0));
        assert_eq!(
            states(&outcome),
            "launch:pass tiny_shapes:pass full_shapes:pass repeatability:- timing:FAIL honesty:-"
        );
        let verdict = outcome.verdict;
        assert_eq!(verdict.kind, VerdictKind::TooSlow);
        assert_eq!(verdict.evidence.get("measured_ns"), Some(&900.0.into()));
        assert!((outcome.objective_ns.unwrap() - 900.0).abs() < 1e-9);
        assert_eq!(outcome.measurements.len(), 1);
        assert_eq!(script.asked.last().unwrap(), "screen p hot");
    }

    #[test]
    fn who_cannot_win_is_raced_and_asked_nothing_more() {
        let check = |time, label: &str, asked: &[&str]| {
            let mut script = Script { times: vec![("p", time)], ..Script::default() };
            let best = standing(&[("p", 100.0)], 100.0);
            let outcome = judge(&mut script, &example::job(&[("p", 1.0)]), &best);
            assert_eq!(outcome.verdict.label(), label, "{time}");
            assert_eq!(script.asked[3..], *asked, "{time}");
            outcome
        };
        let all = [
            "full_shapes Quick p",
            "screen p hot",
            "race alone p hot",
            "tiny_shapes Full tiny:1",
            "full_shapes Full p",
            "repeatability Full p",
            "measure p hot",
            "measure p cold",
        ];
        let outcome = check(103.0, "too_slow", &all[..3]);
        assert_eq!(outcome.objective_ns, Some(103.0f64.ln().exp()));
        assert!(outcome.measurements.len() == 1 && outcome.measurements[0].problem == "p");
        assert_eq!(outcome.verdict.evidence.get(Verdict::RACED), Some(&true.into()));
        assert_eq!(
            states(&outcome),
            "launch:pass tiny_shapes:pass full_shapes:pass repeatability:- timing:FAIL honesty:-"
        );
        // Within the noise.
        check(100.5, "pass", &all);
        check(90.0, "pass", &all);
    }

    #[test]
    fn several_problems_are_raced_until_their_mean_decides() {
        let check = |times: [f64; 2], races: &[&str], kind| {
            let times = vec![("a", times[0]), ("b", times[1])];
            let mut script = Script { times, ..Script::default() };
            let best = standing(&[("a", 100.0), ("b", 100.0)], 100.0);
            let outcome = judge(&mut script, &example::job(&[("a", 1.0), ("b", 2.0)]), &best);
            assert_eq!(outcome.verdict.kind, kind);
            let asked: Vec<&String> = script.asked.iter().filter(|own| own.starts_with("race")).collect();
            assert_eq!(asked, races);
        };
        check([106.0, 106.0], &["race a hot"], VerdictKind::TooSlow);
        check([102.0, 102.0], &["race a hot", "race b hot"], VerdictKind::TooSlow);
        check([104.0, 97.0], &["race a hot", "race b hot"], VerdictKind::Pass);
    }

    #[test]
    fn one_weak_problem_does_not_condemn_where_others_make_up_for_it() {
        let check = |times: [f64; 2], expected| {
            let times = vec![("a", times[0]), ("b", times[1])];
            let mut script = Script { times, ..Script::default() };
            let best = standing(&[("a", 100.0), ("b", 200.0)], 141.0);
            let outcome = judge(&mut script, &example::job(&[("a", 1.0), ("b", 2.0)]), &best);
            assert_eq!(outcome.verdict.kind, expected);
        };
        check([130.0, 130.0], VerdictKind::Pass);
        check([140.0, 200.0], VerdictKind::TooSlow);
        check([170.0, 100.0], VerdictKind::TooSlow);
        check([105.0, 190.0], VerdictKind::Pass);
    }

    #[test]
    fn a_deep_job_skips_the_screening_and_runs_everything() {
        let mut script = Script { times: vec![("p", 900.0)], ..Script::default() };
        let mut job = example::job(&[("p", 1.0)]);
        job.deep = true;
        let outcome = judge(&mut script, &job, &standing(&[("p", 100.0)], 100.0));
        assert!(outcome.verdict.is_pass());
        assert_eq!(outcome.objective_ns, Some(900.0f64.ln().exp()));
        assert_eq!(outcome.measurements.len(), 3);
        assert!(!script.asked.iter().any(|asked| asked.starts_with("screen")));
    }

    #[test]
    fn the_first_failure_decides_and_later_gates_did_not_run() {
        let fail = Some((Gate::TinyShapes, VerdictKind::OobWrite));
        let mut script = Script { fail, ..Script::default() };
        let outcome = judge(&mut script, &example::job(&[("p", 1.0)]), &Standing::default());
        assert_eq!(
            states(&outcome),
            "launch:pass tiny_shapes:FAIL full_shapes:- repeatability:- timing:- honesty:-"
        );
        assert_eq!(outcome.gates[2].message, "not reached: oob_write");
        assert_eq!(outcome.verdict.kind, VerdictKind::OobWrite);
        assert_eq!(outcome.objective_ns, None);
    }

    #[test]
    fn without_small_shapes_tails_are_not_checked_and_derived_ones_come_with_a_hint() {
        let mut job = example::job(&[("p", 1.0)]);
        job.tiny_notes.hint = Some("say `multiple_of`");
        let fail = Some((Gate::TinyShapes, VerdictKind::WrongAnswer));
        let mut script = Script { fail, ..Script::default() };
        let outcome = judge(&mut script, &job, &Standing::default());
        assert_eq!(outcome.verdict.evidence.get("hint"), Some(&"say `multiple_of`".into()));
        job.tiny.clear();
        job.tiny_notes.absent = "no shape; tails not checked".into();
        let outcome = judge(&mut Script::default(), &job, &Standing::default());
        assert!(outcome.verdict.is_pass());
        let tiny = outcome.gates.iter().find(|report| report.gate == Gate::TinyShapes).unwrap();
        assert!(tiny.lacks_shapes());
        assert_eq!(tiny.message, "no shape; tails not checked");
    }

    #[test]
    fn a_death_names_its_gate() {
        let mut script = Script { die_at: Some(Gate::Repeatability), ..Script::default() };
        let mut judgement = Judgement::begin();
        let job = example::job(&[("p", 1.0)]);
        let broken = run(&mut script, &job, &Standing::default(), &mut judgement).unwrap_err();
        assert_eq!(broken, (Gate::Repeatability, "dead"));
        assert_eq!(judgement.gates[5].message, "not reached: the worker was lost in repeatability");
    }

    #[test]
    fn a_refused_binary_is_a_launch_failure() {
        let error = DeviceError::plain(VerdictKind::LoadError, "no image").with_cause("arch");
        let mut script = Script { load_error: Some(error), ..Script::default() };
        let outcome = judge(&mut script, &example::job(&[("p", 1.0)]), &Standing::default());
        assert!(states(&outcome).starts_with("launch:FAIL"));
        assert_eq!(outcome.verdict.label(), "load_error:arch");
    }

    #[test]
    fn an_objective_needs_every_problem() {
        let job = example::job(&[("a", 1.0), ("b", 1.0)]);
        let mut script = Script { times: vec![("a", 100.0), ("b", 400.0)], ..Script::default() };
        let all = judge(&mut script, &job, &Standing::default()).measurements;
        let value = objective(&all, &job.timed, TimingMode::Hot).unwrap();
        assert!((value - 200.0).abs() < 1e-9);
        assert_eq!(objective(&all[..1], &job.timed, TimingMode::Hot), None);
        assert_eq!(objective(&all, &job.timed, TimingMode::Eager), None);
    }
}
