//! The cascade on a scripted worker.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::Evidence;

use super::*;
use crate::job::example;

#[derive(Default)]
struct Script {
    times: Vec<(&'static str, f64)>,
    fail: Option<(Gate, VerdictKind)>,
    die_at: Option<Gate>,
    load_error: Option<DeviceError>,
    sampling_max: Option<Duration>,
    asked: Vec<String>,
    limits: Vec<f64>,
}

impl Script {
    fn answer(&mut self, request: &Request) -> Result<Response, Blame> {
        match request {
            Request::Load { .. } => {
                self.asked.push("load".into());
                Ok(match &self.load_error {
                    Some(error) => Response::Failed { error: Box::new(error.clone()) },
                    None => Response::Loaded { load_ms: 1.0 },
                })
            }
            Request::Gate { gate, depth, plans, .. } => self.gate(*gate, *depth, plans),
            Request::Measure { plan, mode, policy, .. } => Ok(self.measure(plan, *mode, policy)),
            other => panic!("{other:?}"),
        }
    }

    fn gate(&mut self, gate: Gate, depth: Depth, plans: &[ProblemPlan]) -> Result<Response, Blame> {
        let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        self.asked.push(format!("{} {depth:?} {}", gate.as_str(), names.join(",")));
        if self.die_at == Some(gate) {
            return Err(Blame::plain(Verdict::new(VerdictKind::Hang, "dead")));
        }
        let failing = self.fail.filter(|(at, _)| *at == gate);
        let verdict = failing.map(|(_, kind)| Box::new(Verdict::new(kind, "so it is")));
        let state = if verdict.is_some() { GateState::Fail } else { GateState::Pass };
        let report = GateReport { state, cases: plans.len() as u32, ..GateReport::not_run(gate, "") };
        let answer = GateAnswer { report, verdict, attributes: Vec::new(), sticky: false };
        Ok(Response::GateDone(Box::new(answer)))
    }

    fn measure(&mut self, plan: &ProblemPlan, mode: TimingMode, policy: &SamplePolicy) -> Response {
        let kind = match (policy.race, policy.screen) {
            (Some(race), _) if race.rival_ns.is_some() => "race alone",
            (Some(_), _) => "race",
            (None, true) => "screen",
            (None, false) => "measure",
        };
        self.asked.push(format!("{kind} {} {}", plan.name, mode.as_str()));
        self.limits.extend((kind == "measure").then_some(policy.limit_ms));
        let time = self.times.iter().find(|(name, _)| *name == plan.name).map_or(100.0, |found| found.1);
        let abandoned = policy.abandon_above_ns.is_some_and(|above| time > above);
        let stop = match (abandoned, kind) {
            (true, _) => StopRule::Abandoned,
            (false, "screen") => StopRule::Screen,
            (false, _) => StopRule::Interval,
        };
        let measurement = Some(Box::new(example::measurement(&plan.name, mode, time, stop)));
        let honesty =
            GateReport { state: GateState::Pass, cases: 1, ..GateReport::not_run(Gate::Honesty, "") };
        let honesty = (!policy.screen).then_some(honesty);
        Response::Measured(Box::new(MeasureAnswer { measurement, honesty, ..MeasureAnswer::default() }))
    }
}

fn standing(times: &[(&str, f64)], objective_ns: f64) -> Standing {
    Standing::new(times.iter().map(|(name, ns)| (name.to_string(), *ns)).collect(), objective_ns)
}

/// Times of other machines differ in their last digits.
fn shown(evidence: &Evidence) -> String {
    let value = |value: &serde_json::Value| match value.as_f64() {
        Some(number) => format!("{number:.6}"),
        None => value.to_string(),
    };
    evidence.iter().map(|(name, own)| format!(" {name}={}", value(own))).collect()
}

/// All that comes of a job: what was asked, what became of each gate, the verdict and what it rests on.
fn told(script: &mut Script, job: &Job, standing: &Standing) -> String {
    let (mut found, sampling_max) = (Judgement::begin(), script.sampling_max);
    let verdict = |own: &Verdict| format!("{}: {}{}", own.label(), own.message, shown(&own.evidence));
    let end = match run(&mut |request| script.answer(request), job, standing, sampling_max, &mut found) {
        Ok(sticky) => format!("{}{}", verdict(&found.verdict), if sticky { ", sticky" } else { "" }),
        Err((gate, blame)) => format!("died in {}: {}", gate.as_str(), verdict(&blame.verdict)),
    };
    let gate = |report: &GateReport| {
        let GateReport { gate, state, message, evidence, .. } = report;
        format!("{}: {state:?} {message}{}", gate.as_str(), shown(evidence))
    };
    let times = found.measurements.iter().map(|own| format!("{} {}", own.problem, own.mode.as_str()));
    let times = times.collect::<Vec<_>>().join(", ");
    let objective = found.objective_ns.map_or("none".to_string(), |ns| format!("{ns:.6}"));
    let gates = found.gates.iter().map(gate).collect::<Vec<_>>().join("\n");
    format!("{}\n{gates}\n{end}\nobjective {objective} of {times}", script.asked.join("\n"))
}

fn timed(times: &[(&'static str, f64)]) -> Script {
    Script { times: times.to_vec(), ..Script::default() }
}

fn failing(gate: Gate, kind: VerdictKind) -> Script {
    Script { fail: Some((gate, kind)), ..Script::default() }
}

#[test]
fn jobs_go_as_far_as_they_have_to() {
    let (one, two) = ([("p", 1.0)], [("a", 1.0), ("b", 2.0)]);
    let job = example::job;
    let (first, best) = (Standing::default(), standing(&[("p", 100.0)], 100.0));
    let even = standing(&[("a", 100.0), ("b", 100.0)], 100.0);
    let apart = Standing { contest: Contest::EachProblem, ..even.clone() };
    let uneven = standing(&[("a", 100.0), ("b", 200.0)], 141.0);
    let deep = Job { reach: JobReach::Deep, ..job(&one) };
    let hint = TinyNotes { hint: Some("say `multiple_of`"), ..TinyNotes::default() };
    let derived = Job { tiny_notes: hint, ..job(&one) };
    let absent = TinyNotes { absent: "no shape; tails not checked".into(), ..derived.tiny_notes.clone() };
    let shapeless = Job { tiny: Vec::new(), tiny_notes: absent, ..job(&one) };
    let error = DeviceError::plain(VerdictKind::LoadError, "no image").with_cause("arch");
    let refused = Script { load_error: Some(error), ..Script::default() };
    let dying = Script { die_at: Some(Gate::Repeatability), ..Script::default() };
    let (small, wrong) = (Gate::TinyShapes, VerdictKind::WrongAnswer);
    let rows = [
        ("the first goes all the way", Script::default(), job(&[("big", 9.0), ("small", 1.0)]), &first),
        ("slow but right", timed(&[("p", 900.0)]), job(&one), &best),
        ("who cannot win is raced and asked nothing more", timed(&[("p", 103.0)]), job(&one), &best),
        ("within the noise", timed(&[("p", 100.5)]), job(&one), &best),
        ("the new best", timed(&[("p", 90.0)]), job(&one), &best),
        ("the first race decides", timed(&[("a", 106.0), ("b", 106.0)]), job(&two), &even),
        ("the mean of both races decides", timed(&[("a", 102.0), ("b", 102.0)]), job(&two), &even),
        ("one makes up for the other", timed(&[("a", 104.0), ("b", 97.0)]), job(&two), &even),
        ("a weak problem condemns nobody", timed(&[("a", 130.0), ("b", 130.0)]), job(&two), &uneven),
        ("too weak for the other", timed(&[("a", 140.0), ("b", 200.0)]), job(&two), &uneven),
        ("hopeless on one", timed(&[("a", 170.0), ("b", 100.0)]), job(&two), &uneven),
        ("a little ahead in all", timed(&[("a", 105.0), ("b", 190.0)]), job(&two), &uneven),
        ("deep: no screening, and everything", timed(&[("p", 900.0)]), deep, &best),
        ("the first failure decides", failing(small, VerdictKind::OobWrite), job(&one), &first),
        ("derived shapes come with a hint", failing(small, wrong), derived, &first),
        ("without small shapes tails are not checked", Script::default(), shapeless, &first),
        ("a death names its gate", dying, job(&one), &first),
        ("a refused binary is a launch failure", refused, job(&one), &first),
        // Four times as slow as the best on `a`, where a search for the mean ends it.
        ("apart: one problem is enough", timed(&[("a", 400.0), ("b", 95.0)]), job(&two), &apart),
        ("not apart: it is not", timed(&[("a", 400.0), ("b", 95.0)]), job(&two), &even),
        // Both problems have a time, so that the searches for both learn from it.
        ("apart: not near enough anywhere", timed(&[("a", 900.0), ("b", 120.0)]), job(&two), &apart),
        ("apart: it loses the one race", timed(&[("a", 900.0), ("b", 105.0)]), job(&two), &apart),
    ];
    let all = rows
        .map(|(name, mut script, job, standing)| format!("== {name}\n{}", told(&mut script, &job, standing)));
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn sampling_ends_when_it_is_asked_to_and_the_report_says_so() {
    let check = |sampling_max, limits: &[f64], says: bool| {
        let mut script = Script { sampling_max, ..Script::default() };
        let job = Job { reach: JobReach::Deep, ..example::job(&[("p", 1.0)]) };
        let told = told(&mut script, &job, &Standing::default());
        assert_eq!(script.limits, limits);
        assert_eq!(told.contains("each sampled for 120 ms at most"), says, "{told}");
    };
    let [deep, eager] = [policy::deep(), policy::eager()].map(|policy| policy.limit_ms);
    check(None, &[deep, deep, eager], false);
    check(Some(Duration::from_millis(120)), &[120.0; 3], true);
}

#[test]
fn an_objective_needs_every_problem() {
    let timed = example::job(&[("a", 1.0), ("b", 1.0)]).timed;
    let all = [("a", 100.0), ("b", 400.0)];
    let all = all.map(|(name, ns)| example::measurement(name, TimingMode::Hot, ns, StopRule::Interval));
    let value = objective(&all, &timed, TimingMode::Hot).unwrap();
    assert!((value - 200.0).abs() < 1e-9);
    assert_eq!(objective(&all[..1], &timed, TimingMode::Hot), None);
    assert_eq!(objective(&all, &timed, TimingMode::Eager), None);
}
