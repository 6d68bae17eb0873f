//! The order of the gates: cheap gates run on every variant, expensive gates run only on contenders. A
//! plain sequential function of what is answered to its requests, so that tests need no worker.
//!
//! Every variant is loaded, checked against the device's resources, and run at tiny shapes. Each timed
//! problem, cheapest first, then gets a quick check at full size and a screening of a few samples. A
//! variant that is too far behind the incumbent ends as `too_slow`, with the measured time. Contenders are
//! raced: sampled in the ranking mode until it is decided whether they could beat the incumbent. Who cannot
//! ends as `too_slow` as well, with a time that is good enough to rank. Only the others go on: every seed and
//! input family, repeatability, a full measurement in the mode that ranks with output checks in between. So
//! nothing becomes the incumbent without all of it; and a finalist, raced or not, is a `Deep` job, which
//! runs everything and is timed in every mode.

use std::slice;
use std::time::{Duration, Instant};

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::measurement::{Measurement, StopRule, TimingMode};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{Depth, GateAnswer, MeasureAnswer, Request, Response, SamplePolicy};
use evo_space::text::counted;

use super::blame::Blame;
use super::child::LaneError;
use super::deadline::work;
use super::job::{Contest, Job, JobReach, Judgement, Standing, TinyNotes};
use evo_timing::policy;

/// A variant this far behind on one problem is not measured further; where several problems count,
/// one may be this much worse, since others can make up for it.
const HOPELESS_ONE: f64 = 1.25;
const HOPELESS_OF_MANY: f64 = 1.6;
/// A variant that screens within this factor of the incumbent's objective is a contender.
const CONTENDER: f64 = 1.10;
/// A race is lost where the time is certainly above the incumbent's by more than this: within it two measurements of
/// one variant differ from one minute to the next.
const WITHIN_NOISE: f64 = 1.01;

/// What a worker answers, or what its end means.
pub type Ask<'a> = dyn FnMut(&Request) -> Result<Response, Blame> + 'a;

/// `judgement` receives the findings, also those of a walk that broke off. Returns whether the process has seen a
/// sticky error and must be replaced. Sampling one problem in one mode takes `sampling_max` at most; where that is absent
/// its interval alone decides.
pub fn run(
    ask: &mut Ask<'_>,
    job: &Job,
    standing: &Standing,
    sampling_max: Option<Duration>,
    judgement: &mut Judgement,
) -> Result<bool, (Gate, Blame)> {
    let mut walk = GateWalk { ask, job, standing, sampling_max, found: judgement, sticky: false };
    let end = walk.through();
    let sticky = walk.sticky;
    let is_short = matches!(job.reach, JobReach::Tiny | JobReach::Hint | JobReach::Watched);
    let (why, result) = match end {
        Ok(()) if is_short => ("it was not asked for".to_string(), Ok(sticky)),
        Ok(()) => ("not reached: pass".to_string(), Ok(sticky)),
        Err(WalkEnd::Verdict(verdict)) => {
            judgement.verdict = *verdict;
            (format!("not reached: {}", judgement.verdict.label()), Ok(sticky))
        }
        Err(WalkEnd::Died(gate, blame)) => {
            (format!("not reached: the worker was lost in {}", gate.as_str()), Err((gate, *blame)))
        }
    };
    let (gates, checks) = (&mut judgement.gates, job.candidate.check.checks);
    // Every gate gets a report, because a missing one could be taken for a pass.
    for missing in not_run(Gate::Launch, &why) {
        if !gates.iter().any(|report| report.gate == missing.gate) {
            gates.push(missing);
        }
    }
    gates.sort_by_key(|report| report.gate);
    // Says in each report which checks were left out, so that nobody takes it for a variant's that may rank.
    let names: Vec<&str> = checks.left_out().map(GateCheck::as_str).collect();
    for report in gates.iter_mut().filter(|_| !checks.are_all()) {
        report.evidence.insert(CheckSet::EVIDENCE, names.clone());
    }
    result
}

/// All gates of a lane from this one on.
pub(super) fn not_run(from: Gate, why: &str) -> impl Iterator<Item = GateReport> {
    let gates = Gate::ALL.iter().filter(move |gate| (from..=Gate::Honesty).contains(*gate));
    gates.map(move |gate| GateReport::not_run(*gate, why))
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

/// What follows on the launch gate and a quick look at the small shapes.
#[derive(Clone, Copy)]
enum Step {
    /// A screening of answers that nobody has checked.
    Hint,
    /// Most variants of a space are slow or broken. They end here, before seeds, families, repetitions and long
    /// measurements are spent on them.
    Screen,
    Race,
    /// Small shapes meet every input family: there it is cheap, and tails meet them too.
    Small,
    /// More questions of the same kind, as many as time allows: for few variants that is worth it.
    Further,
    Full(Depth),
    Repeat(Depth),
    /// A short measurement.
    Briefly,
    Times,
}

/// How far each job goes. Every correctness gate comes before the full measurement: only a correct variant's time may rank.
fn course(reach: JobReach) -> &'static [Step] {
    use Step::{Briefly, Full, Further, Hint, Race, Repeat, Screen, Small, Times};
    match reach {
        JobReach::Tiny => &[Small],
        // Stacks and shared memory that hold other patterns in each run show what is read unset.
        JobReach::Watched => &[Small, Full(Depth::Full)],
        JobReach::Hint => &[Hint],
        JobReach::Screening => &[Screen, Race, Small, Full(Depth::Full), Repeat(Depth::Full), Briefly],
        JobReach::Whole => &[Screen, Race, Small, Full(Depth::Full), Repeat(Depth::Full), Times],
        JobReach::Deep => &[Small, Further, Full(Depth::Deep), Repeat(Depth::Deep), Times],
    }
}

enum WalkEnd {
    Verdict(Box<Verdict>),
    Died(Gate, Box<Blame>),
}

struct GateWalk<'a> {
    ask: &'a mut Ask<'a>,
    job: &'a Job,
    standing: &'a Standing,
    sampling_max: Option<Duration>,
    found: &'a mut Judgement,
    sticky: bool,
}

impl<'a> GateWalk<'a> {
    fn through(&mut self) -> Result<(), WalkEnd> {
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
        for step in course(job.reach) {
            match step {
                Step::Hint => self.time_briefly(true)?,
                Step::Screen => self.screen()?,
                Step::Race => self.race()?,
                Step::Small | Step::Further if job.tiny.is_empty() => {}
                Step::Small => {
                    let small = [&job.tiny[..], &job.several[..]].concat();
                    self.gate(Gate::TinyShapes, Depth::Full, &small)?;
                }
                Step::Further => {
                    let further = if job.drawn.is_empty() { &job.tiny } else { &job.drawn };
                    self.gate(Gate::TinyShapes, Depth::Deep, further)?;
                }
                Step::Full(depth) => self.gate(Gate::FullShapes, *depth, &all)?,
                Step::Repeat(depth) => self.gate(Gate::Repeatability, *depth, &all)?,
                Step::Briefly => self.time_briefly(false)?,
                Step::Times => self.measure_all()?,
            }
        }
        Ok(())
    }

    fn ask(&mut self, gate: Gate, request: &Request) -> Result<Response, WalkEnd> {
        (self.ask)(request).map_err(|blame| WalkEnd::Died(gate, Box::new(blame)))
    }

    fn load(&mut self) -> Result<(), WalkEnd> {
        // Loading has no gate of its own; what cannot be loaded cannot be launched.
        let gate = Gate::Launch;
        let candidate = Box::new(self.job.candidate.clone());
        let error = match self.ask(gate, &Request::Load { slot: 0, candidate })? {
            Response::Loaded { .. } => return Ok(()),
            Response::Failed { error } => error,
            other => return Err(unexpected(gate, &other)),
        };
        self.sticky |= error.sticky;
        self.note(GateReport { state: GateState::Fail, ..GateReport::not_run(gate, &error.message) });
        Err(WalkEnd::Verdict(Box::new(error.verdict())))
    }

    fn gate(&mut self, gate: Gate, depth: Depth, plans: &[ProblemPlan]) -> Result<(), WalkEnd> {
        let request = Request::Gate { slot: 0, gate, depth, plans: plans.to_vec() };
        let answer = match self.ask(gate, &request)? {
            Response::GateDone(answer) => *answer,
            Response::Failed { error } => GateAnswer::failed(gate, &error),
            other => return Err(unexpected(gate, &other)),
        };
        self.note(answer.report);
        // Only the launch gate reads attributes back, and the answers of later gates must not erase them.
        if !answer.attributes.is_empty() {
            self.found.attributes = answer.attributes;
        }
        self.sticky |= answer.sticky;
        let Some(verdict) = answer.verdict else { return Ok(()) };
        Err(WalkEnd::Verdict(Box::new(self.job.tiny_notes.about(gate, *verdict))))
    }

    /// A gate that ran before keeps its place and its evidence, and adds up cases and time.
    fn note(&mut self, report: GateReport) {
        let report = self.job.tiny_notes.told(report);
        match self.found.gates.iter_mut().find(|old| old.gate == report.gate) {
            Some(old) => {
                let (cases, elapsed_ms) = (old.cases + report.cases, old.elapsed_ms + report.elapsed_ms);
                let mut evidence = std::mem::take(&mut old.evidence);
                report.evidence.iter().for_each(|(name, value)| evidence.insert(name, value.clone()));
                *old = GateReport { cases, elapsed_ms, evidence, ..report };
            }
            None => self.found.gates.push(report),
        }
    }

    fn mode(&self) -> TimingMode {
        self.job.ranking.timing()
    }

    fn best(&self, plan: &ProblemPlan) -> Option<f64> {
        self.standing.problems.get(&plan.name).copied()
    }

    fn objective(&self) -> Option<f64> {
        objective(&self.found.measurements, &self.job.timed, self.mode())
    }

    fn races(&self) -> bool {
        self.job.candidate.check.checks.include(GateCheck::Screening)
    }

    /// Makes a loser cost as little as possible.
    fn cheapest_first(&self) -> Vec<&'a ProblemPlan> {
        let cost = |plan: &ProblemPlan| self.best(plan).unwrap_or_else(|| work(plan));
        let job: &'a Job = self.job;
        let mut plans: Vec<&ProblemPlan> = job.timed.iter().collect();
        plans.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        plans
    }

    /// Slow variants end here.
    fn screen(&mut self) -> Result<(), WalkEnd> {
        let apart = self.standing.contest == Contest::EachProblem;
        let hopeless = if self.job.timed.len() > 1 { HOPELESS_OF_MANY } else { HOPELESS_ONE };
        let mut race = ScreenRace::default();
        for plan in self.cheapest_first() {
            // Checked before it is timed: a kernel that skips work is fast.
            self.gate(Gate::FullShapes, Depth::Quick, slice::from_ref(plan))?;
            let incumbent = self.best(plan).filter(|_| self.races());
            let policy = policy::screen(incumbent.map(|ns| ns * hopeless));
            let (abandoned, seen) = self.measure(plan, self.mode(), &policy)?;
            // Without an incumbent there is nothing to be behind.
            let Some(incumbent) = incumbent else { continue };
            race.add(plan, seen, incumbent);
            // Where problems are searched apart, the next one may be the one that it is good at.
            if !apart && (abandoned || seen > incumbent * hopeless) {
                return Err(self.too_slow(&race, abandoned));
            }
        }
        // Only after the last problem: a variant may be slower on one and make up for it on the others.
        let nearest = race.nearest().filter(|(_, seen, incumbent)| apart && seen / incumbent > CONTENDER);
        if let Some(nearest) = nearest {
            return Err(self.behind_everywhere(nearest));
        }
        match race.ratio() {
            Some(ratio) if !apart && ratio > CONTENDER => Err(self.too_slow(&race, false)),
            _ => Ok(()),
        }
    }

    /// A measurement buys a decision: who cannot beat the incumbent needs no further seed, family, repetition or
    /// mode.
    fn race(&mut self) -> Result<(), WalkEnd> {
        let Some(incumbent) = self.standing.objective_ns.filter(|_| self.races()) else { return Ok(()) };
        if self.standing.contest == Contest::EachProblem {
            return self.race_each();
        }
        let (rival, mode) = (incumbent * WITHIN_NOISE, self.mode());
        // Of several problems none decides alone.
        let decides = (self.job.timed.len() == 1).then_some(rival);
        for plan in self.cheapest_first() {
            self.measure(plan, mode, &policy::race(decides))?;
            if least(&self.found.measurements, &self.job.timed, mode).is_some_and(|least| least > rival) {
                let objective_ns = self.objective();
                let seen = objective_ns.unwrap_or(f64::NAN);
                let (seen_us, incumbent_us) = (seen / 1e3, incumbent / 1e3);
                let message =
                    format!("{seen_us:.2} µs in a race, where the best so far takes {incumbent_us:.2} µs");
                let times = [seen, incumbent, seen / incumbent];
                return Err(self.behind(objective_ns, message, None, times, (Verdict::RACED, true)));
            }
        }
        Ok(())
    }

    /// A variant goes on as soon as it could beat the best of one problem. Those on which it screened as a contender
    /// are raced, the most promising first.
    fn race_each(&mut self) -> Result<(), WalkEnd> {
        let mode = self.mode();
        let screened = |plan: &'a ProblemPlan| {
            let mut all = self.found.measurements.iter();
            let found = all.find(|found| found.mode == mode && found.problem == plan.name)?;
            let best = self.best(plan).filter(|_| found.stop != StopRule::Abandoned)?;
            Some((found.p50_ns / best, plan))
        };
        let mut contended: Vec<(f64, &ProblemPlan)> =
            self.cheapest_first().into_iter().filter_map(screened).collect();
        contended.retain(|(ratio, _)| *ratio <= CONTENDER);
        contended.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut race = ScreenRace::default();
        for (_, plan) in contended {
            let Some(incumbent) = self.best(plan) else { return Ok(()) };
            let rival = incumbent * WITHIN_NOISE;
            let (_, seen) = self.measure(plan, mode, &policy::race(Some(rival)))?;
            let least = least(&self.found.measurements, slice::from_ref(plan), mode);
            if least.is_none_or(|least| least <= rival) {
                return Ok(());
            }
            race.add(plan, seen, incumbent);
        }
        // Without one there is nothing to be behind.
        race.nearest().map_or(Ok(()), |nearest| Err(self.behind_everywhere(nearest)))
    }

    fn too_slow(&mut self, race: &ScreenRace, abandoned: bool) -> WalkEnd {
        let ratio = race.ratio().unwrap_or(f64::NAN);
        // An estimate for the strategy, which learns more from a number than from a bare `too_slow`.
        let objective_ns = self.standing.objective_ns.map(|best| best * ratio);
        let (problem, seen, incumbent) = race.last().unwrap_or(("", f64::NAN, f64::NAN));
        let (seen_us, incumbent_us) = (seen / 1e3, incumbent / 1e3);
        let message =
            format!("{seen_us:.2} µs on `{problem}`, where the best so far takes {incumbent_us:.2} µs");
        let times = [seen, incumbent, ratio];
        self.behind(objective_ns, message, Some(problem), times, ("abandoned", abandoned))
    }

    /// Behind the best of each problem. The objective is an estimate, because series of samples end early where a
    /// variant is far behind.
    fn behind_everywhere(&mut self, (problem, seen, incumbent): (&str, f64, f64)) -> WalkEnd {
        let (seen_us, incumbent_us) = (seen / 1e3, incumbent / 1e3);
        let message = format!(
            "behind the best of each problem: at the least on `{problem}`, {seen_us:.2} µs against {incumbent_us:.2} µs"
        );
        let times = [seen, incumbent, seen / incumbent];
        self.behind(self.objective(), message, Some(problem), times, (Verdict::EVERYWHERE, true))
    }

    /// `problem` is the one that decides, where one does.
    fn behind(
        &mut self,
        objective_ns: Option<f64>,
        message: String,
        problem: Option<&str>,
        [seen, incumbent, ratio]: [f64; 3],
        (name, value): (&str, bool),
    ) -> WalkEnd {
        self.found.objective_ns = objective_ns;
        let mut verdict = Verdict::new(VerdictKind::TooSlow, &message);
        if let Some(problem) = problem {
            verdict = verdict.with("problem", problem);
        }
        verdict = verdict.with("measured_ns", seen).with("incumbent_ns", incumbent).with("ratio", ratio);
        self.conclude_timing(GateState::Fail, message);
        if let Some(full) = self.found.gates.iter_mut().find(|report| report.gate == Gate::FullShapes) {
            // The gate keeps its pass, so the message must say that the full check never ran.
            full.message = format!("quick depth only: {}", full.message);
        }
        WalkEnd::Verdict(Box::new(verdict.with(name, value)))
    }

    /// As a hint, a screening of answers that nobody has checked: who is hopelessly behind the best of them is abandoned.
    fn time_briefly(&mut self, is_hint: bool) -> Result<(), WalkEnd> {
        if self.job.timed.is_empty() && !is_hint {
            return self.measure_all();
        }
        let mut race = ScreenRace::default();
        for plan in &self.job.timed {
            let incumbent = self.best(plan).filter(|_| is_hint);
            let above = incumbent.map(|ns| ns * HOPELESS_OF_MANY);
            let policy = if is_hint { policy::screen(above) } else { policy::quick() };
            let (abandoned, seen) = self.measure(plan, self.mode(), &policy)?;
            if let Some(incumbent) = incumbent.filter(|_| abandoned) {
                race.add(plan, seen, incumbent);
                return Err(self.too_slow(&race, true));
            }
        }
        self.found.objective_ns = self.objective();
        let timed = counted(self.job.timed.len(), "problem");
        let how = match is_hint {
            true => "a few samples each, answers not checked",
            false => "some ten samples each: nothing to rank by",
        };
        self.conclude_timing(GateState::Pass, format!("{timed}, {how}"));
        Ok(())
    }

    fn measure_all(&mut self) -> Result<(), WalkEnd> {
        if self.job.timed.is_empty() {
            self.note(GateReport::not_run(Gate::Timing, "no problem is timed"));
            self.note(GateReport::not_run(Gate::Honesty, "no problem is timed"));
            return Ok(());
        }
        let began = Instant::now();
        let Job { reach, busy, timed, .. } = self.job;
        let deep = *reach == JobReach::Deep;
        let ranking = self.mode();
        let other = if ranking == TimingMode::Hot { TimingMode::Cold } else { TimingMode::Hot };
        let long = match (deep, busy) {
            (true, true) => policy::warm(policy::deep()),
            (true, false) => policy::deep(),
            (false, _) => policy::contender(),
        };
        // Eager times never rank, so they do not get the long measurement.
        let modes = [(ranking, long), (other, long), (TimingMode::Eager, policy::eager())];
        let modes = modes.map(|(mode, policy)| (mode, policy::within(policy, self.sampling_max)));
        // Only finalists are asked for times that do not rank: the lane has most of its time from those that are not
        // going to be among them.
        let modes = if deep { &modes[..] } else { &modes[..1] };
        // Where problems are searched apart, not all of them were raced.
        let all_raced = self.standing.contest == Contest::Mean;
        let raced = self.races() && !deep && all_raced && self.standing.objective_ns.is_some();
        for (at, (mode, policy)) in modes.iter().enumerate() {
            for (position, plan) in timed.iter().enumerate() {
                // The measurement before has just kept the device busy, at the clocks of this one; and who was raced has
                // been sampled a moment ago.
                let policy = match (raced, at + position) {
                    (true, _) => SamplePolicy { warmup_ms: 0.0, ..*policy },
                    (false, 0) => *policy,
                    (false, _) => policy::warm(*policy),
                };
                self.measure(plan, *mode, &policy)?;
            }
        }
        let warm_up = match raced {
            true => "no warm-up, because the race has just sampled them".to_string(),
            false => format!(
                "warm-up of {} ms before the first, and a short one before the others",
                modes[0].1.warmup_ms
            ),
        };
        let count = modes.len();
        let words = if count == 1 { "the mode that ranks".to_string() } else { format!("{count} modes") };
        let mut message = format!("{} in {words}; {warm_up}", counted(timed.len(), "problem"));
        if let Some(most) = self.sampling_max {
            message.push_str(&format!("; each sampled for {} ms at most, as asked for", most.as_millis()));
        }
        self.found.objective_ns = self.objective();
        self.conclude_timing(GateState::Pass, message);
        if let Some(timing) = self.found.gates.iter_mut().find(|report| report.gate == Gate::Timing) {
            timing.elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
        }
        Ok(())
    }

    /// Whether it was abandoned, and its time.
    fn measure(
        &mut self,
        plan: &ProblemPlan,
        mode: TimingMode,
        policy: &SamplePolicy,
    ) -> Result<(bool, f64), WalkEnd> {
        let request = Request::Measure { slot: 0, plan: Box::new(plan.clone()), mode, policy: *policy };
        let answer = match self.ask(Gate::Timing, &request)? {
            Response::Measured(answer) => *answer,
            Response::Failed { error } => MeasureAnswer::failed(&error),
            other => return Err(unexpected(Gate::Timing, &other)),
        };
        self.sticky |= answer.sticky;
        let dishonest = answer.honesty.as_ref().is_some_and(|report| report.state == GateState::Fail);
        if let Some(honesty) = answer.honesty {
            self.note(honesty);
        }
        let (None, Some(measurement)) = (&answer.verdict, answer.measurement) else {
            let missing =
                || Box::new(Verdict::new(VerdictKind::HarnessError, "the worker sent no measurement"));
            let verdict = answer.verdict.unwrap_or_else(missing);
            // A failed output check belongs to the honesty gate; timing itself has not failed then.
            if !dishonest {
                self.conclude_timing(GateState::Fail, verdict.message.clone());
            }
            return Err(WalkEnd::Verdict(verdict));
        };
        // An abandoned series is too short for a median. Its fastest sample is the reading that favors
        // the variant, so the ratio that is reported stays a cautious one.
        let abandoned = measurement.stop == StopRule::Abandoned;
        let seen = if abandoned { measurement.min_ns } else { measurement.p50_ns };
        let all = &mut self.found.measurements;
        all.retain(|old| old.mode != measurement.mode || old.problem != measurement.problem);
        all.push(*measurement);
        Ok((abandoned, seen))
    }

    fn conclude_timing(&mut self, state: GateState, message: String) {
        let cases = self.found.measurements.len() as u32;
        self.note(GateReport { state, cases, ..GateReport::not_run(Gate::Timing, message) });
    }
}

fn unexpected(gate: Gate, response: &Response) -> WalkEnd {
    WalkEnd::Died(gate, Box::new(Blame::protocol(LaneError::unexpected(response).to_string())))
}

/// How far a screening's median may be above the median of many samples.
const SCREENED: f64 = 0.97;

/// None while a measurement is missing.
pub fn objective(measurements: &[Measurement], timed: &[ProblemPlan], mode: TimingMode) -> Option<f64> {
    mean_of(measurements, timed, mode, |found| found.p50_ns)
}

/// The least that the objective can be: the lower ends of all intervals.
fn least(measurements: &[Measurement], timed: &[ProblemPlan], mode: TimingMode) -> Option<f64> {
    let low = |found: &Measurement| match found.stop {
        // Too few samples for an interval.
        StopRule::Screen => found.p50_ns * SCREENED,
        _ => found.ci_low_ns,
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
        let found = measurements.iter().find(|found| found.mode == mode && found.problem == plan.name)?;
        let time = time(found);
        if !(time.is_finite() && time > 0.0) {
            return None;
        }
        // Logarithms, so that a ratio on a short problem counts as much as the same ratio on a long one.
        sum += plan.weight * time.ln();
        weights += plan.weight;
    }
    (weights > 0.0).then(|| (sum / weights).exp())
}

/// What was seen so far: each problem with its weight, the time there, and the incumbent's, nanoseconds.
#[derive(Default)]
struct ScreenRace(Vec<(String, f64, f64, f64)>);

impl ScreenRace {
    fn add(&mut self, plan: &ProblemPlan, seen_ns: f64, incumbent_ns: f64) {
        self.0.push((plan.name.clone(), plan.weight, seen_ns, incumbent_ns));
    }

    fn last(&self) -> Option<(&str, f64, f64)> {
        self.0.last().map(|(problem, _, seen, incumbent)| (&**problem, *seen, *incumbent))
    }

    /// The problem on which the newcomer is nearest to its incumbent, or furthest ahead.
    fn nearest(&self) -> Option<(&str, f64, f64)> {
        let all = self.0.iter().map(|(problem, _, seen, incumbent)| (&**problem, *seen, *incumbent));
        all.min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))
    }

    fn ratio(&self) -> Option<f64> {
        let weights: f64 = self.0.iter().map(|(_, weight, ..)| weight).sum();
        let logs = self.0.iter().map(|(_, weight, seen, incumbent)| weight * (seen / incumbent).ln());
        (weights > 0.0).then(|| (logs.sum::<f64>() / weights).exp())
    }
}

#[cfg(test)]
#[path = "cascade_tests.rs"]
mod tests;
