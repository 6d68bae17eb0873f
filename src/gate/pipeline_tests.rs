//! The cascade against a scripted station.

use evo_protocol::device::Telemetry;

use super::*;
use crate::worker::job::example;

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

    fn gate(&mut self, gate: Gate, depth: Depth, plans: &[ProblemPlan]) -> Result<GateReply, &'static str> {
        let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        self.asked.push(format!("{} {depth:?} {}", gate.as_str(), names.join(",")));
        if self.die_at == Some(gate) {
            return Err("dead");
        }
        let verdict =
            self.fail.filter(|(own, _)| *own == gate).map(|(_, kind)| Verdict::new(kind, "so it is"));
        let state = if verdict.is_some() { GateState::Fail } else { GateState::Pass };
        let report = GateReport { state, cases: plans.len() as u32, ..GateReport::not_run(gate, "") };
        Ok(GateReply { report, verdict, attributes: Vec::new(), sticky: false })
    }

    fn measure(
        &mut self,
        plan: &ProblemPlan,
        mode: TimingMode,
        policy: &SamplePolicy,
    ) -> Result<MeasureReply, &'static str> {
        let kind = if policy.screen { "screen" } else { "measure" };
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
            stop: if abandoned { "abandoned" } else { kind }.into(),
            telemetry: Telemetry::default(),
            raw_ns: Vec::new(),
        };
        let honesty =
            GateReport { state: GateState::Pass, cases: 1, ..GateReport::not_run(Gate::Honesty, "") };
        let honesty = (!policy.screen).then_some(honesty);
        Ok(MeasureReply { measurement: Some(measurement), honesty, ..MeasureReply::default() })
    }
}

fn standing(times: &[(&str, f64)], objective_ns: f64) -> Standing {
    Standing::new(times.iter().map(|(name, ns)| (name.to_string(), *ns)).collect(), objective_ns)
}

fn states(outcome: &Outcome<&'static str>) -> String {
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
    let outcome = run(&mut script, &example::job(&[("big", 9.0), ("small", 1.0)]), &Standing::default());
    assert!(outcome.end.unwrap().is_pass());
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
    let outcome = run(&mut script, &example::job(&[("p", 1.0)]), &standing(&[("p", 100.0)], 100.0));
    assert_eq!(
        states(&outcome),
        "launch:pass tiny_shapes:pass full_shapes:pass repeatability:- timing:FAIL honesty:-"
    );
    let verdict = outcome.end.unwrap();
    assert_eq!(verdict.kind, VerdictKind::TooSlow);
    assert_eq!(verdict.evidence.get("measured_ns"), Some(&900.0.into()));
    assert!((outcome.objective_ns.unwrap() - 900.0).abs() < 1e-9);
    assert_eq!(outcome.measurements.len(), 1);
    assert_eq!(script.asked.last().unwrap(), "screen p hot");
}

#[test]
fn one_weak_problem_does_not_condemn_where_others_make_up_for_it() {
    let check = |times: [f64; 2], expected| {
        let times = vec![("a", times[0]), ("b", times[1])];
        let mut script = Script { times, ..Script::default() };
        let best = standing(&[("a", 100.0), ("b", 200.0)], 141.0);
        let outcome = run(&mut script, &example::job(&[("a", 1.0), ("b", 2.0)]), &best);
        assert_eq!(outcome.end.unwrap().kind, expected);
    };
    check([140.0, 130.0], VerdictKind::Pass);
    check([140.0, 200.0], VerdictKind::TooSlow);
    check([170.0, 100.0], VerdictKind::TooSlow);
    check([105.0, 210.0], VerdictKind::Pass);
}

#[test]
fn a_deep_job_skips_the_screening_and_runs_everything() {
    let mut script = Script { times: vec![("p", 900.0)], ..Script::default() };
    let mut job = example::job(&[("p", 1.0)]);
    job.deep = true;
    let outcome = run(&mut script, &job, &standing(&[("p", 100.0)], 100.0));
    assert!(outcome.end.unwrap().is_pass());
    assert_eq!(outcome.objective_ns, Some(900.0f64.ln().exp()));
    assert_eq!(outcome.measurements.len(), 3);
    assert!(!script.asked.iter().any(|asked| asked.starts_with("screen")));
}

#[test]
fn the_first_failure_decides_and_later_gates_did_not_run() {
    let fail = Some((Gate::TinyShapes, VerdictKind::OobWrite));
    let mut script = Script { fail, ..Script::default() };
    let outcome = run(&mut script, &example::job(&[("p", 1.0)]), &Standing::default());
    assert_eq!(
        states(&outcome),
        "launch:pass tiny_shapes:FAIL full_shapes:- repeatability:- timing:- honesty:-"
    );
    assert_eq!(outcome.gates[2].message, "not reached: oob_write");
    assert_eq!(outcome.end.unwrap().kind, VerdictKind::OobWrite);
    assert_eq!(outcome.objective_ns, None);
}

#[test]
fn a_death_names_its_gate() {
    let mut script = Script { die_at: Some(Gate::Repeatability), ..Script::default() };
    let outcome = run(&mut script, &example::job(&[("p", 1.0)]), &Standing::default());
    assert_eq!(outcome.end.unwrap_err(), (Gate::Repeatability, "dead"));
}

#[test]
fn a_refused_binary_is_a_launch_failure() {
    let error = DeviceError::plain(VerdictKind::LoadError, "no image").with_cause("arch");
    let mut script = Script { load_error: Some(error), ..Script::default() };
    let outcome = run(&mut script, &example::job(&[("p", 1.0)]), &Standing::default());
    assert!(states(&outcome).starts_with("launch:FAIL"));
    assert_eq!(outcome.end.unwrap().label(), "load_error:arch");
}

#[test]
fn an_objective_needs_every_problem() {
    let job = example::job(&[("a", 1.0), ("b", 1.0)]);
    let mut script = Script { times: vec![("a", 100.0), ("b", 400.0)], ..Script::default() };
    let all = run(&mut script, &job, &Standing::default()).measurements;
    let value = objective(&all, &job.timed, TimingMode::Hot).unwrap();
    assert!((value - 200.0).abs() < 1e-9);
    assert_eq!(objective(&all[..1], &job.timed, TimingMode::Hot), None);
    assert_eq!(objective(&all, &job.timed, TimingMode::Eager), None);
}
