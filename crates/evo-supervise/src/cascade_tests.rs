//! The cascade on a scripted worker.

use evo_protocol::device::DeviceError;

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

fn judge(script: &mut Script, job: &Job, standing: &Standing) -> Judgement {
    let mut judgement = Judgement::begin();
    let sampling_max = script.sampling_max;
    assert!(
        !run(&mut |request| script.answer(request), job, standing, sampling_max, &mut judgement).unwrap()
    );
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
    let outcome = judge(&mut script, &example::job(&[("big", 9.0), ("small", 1.0)]), &Standing::default());
    assert!(outcome.verdict.is_pass());
    assert!((outcome.objective_ns.unwrap() - 100.0).abs() < 1e-9);
    assert_eq!(outcome.measurements.len(), 2);
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
    ");
}

#[test]
fn sampling_ends_when_it_is_asked_to_and_the_report_says_so() {
    let check = |sampling_max, limits: &[f64], told: bool| {
        let mut script = Script { sampling_max, ..Script::default() };
        let mut job = example::job(&[("p", 1.0)]);
        job.reach = JobReach::Deep;
        let outcome = judge(&mut script, &job, &Standing::default());
        assert_eq!(script.limits, limits);
        let timing = outcome.gates.iter().find(|report| report.gate == Gate::Timing).unwrap();
        assert_eq!(timing.message.contains("each sampled for 120 ms at most"), told, "{}", timing.message);
    };
    let [deep, eager] = [policy::deep(), policy::eager()].map(|policy| policy.limit_ms);
    check(None, &[deep, deep, eager], false);
    check(Some(Duration::from_millis(120)), &[120.0; 3], true);
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
        let asked: Vec<&String> = script.asked.iter().filter(|asked| asked.starts_with("race")).collect();
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
    job.reach = JobReach::Deep;
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
    let ask = &mut |request: &Request| script.answer(request);
    let (gate, blame) = run(ask, &job, &Standing::default(), None, &mut judgement).unwrap_err();
    assert_eq!((gate, blame.verdict.kind), (Gate::Repeatability, VerdictKind::Hang));
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

fn apart(times: &[(&str, f64)]) -> Standing {
    Standing { contest: Contest::EachProblem, ..standing(times, 100.0) }
}

#[test]
fn searched_apart_one_problem_is_enough_to_contend() {
    let best = apart(&[("a", 100.0), ("b", 100.0)]);
    let job = example::job(&[("a", 1.0), ("b", 2.0)]);
    // Four times as slow as the best on `a`, where a search for the mean ends it.
    let times = vec![("a", 400.0), ("b", 95.0)];
    let mut script = Script { times: times.clone(), ..Script::default() };
    let outcome = judge(&mut script, &job, &best);
    assert!(outcome.verdict.is_pass(), "{:?}", outcome.verdict);
    assert!((outcome.objective_ns.unwrap() - (400.0f64 * 95.0).sqrt()).abs() < 1e-9);
    insta::assert_snapshot!(script.asked.join("\n"), @r"
    load
    launch Quick a,b
    tiny_shapes Quick tiny:1
    full_shapes Quick a
    screen a hot
    full_shapes Quick b
    screen b hot
    race alone b hot
    tiny_shapes Full tiny:1
    full_shapes Full a,b
    repeatability Full a,b
    measure a hot
    measure b hot
    ");
    let mean = standing(&[("a", 100.0), ("b", 100.0)], 100.0);
    let outcome = judge(&mut Script { times, ..Script::default() }, &job, &mean);
    assert_eq!(outcome.verdict.kind, VerdictKind::TooSlow);
}

#[test]
fn searched_apart_a_variant_is_too_slow_behind_the_best_of_each() {
    let best = apart(&[("a", 100.0), ("b", 100.0)]);
    let job = example::job(&[("a", 1.0), ("b", 2.0)]);
    let check = |times: &[(&'static str, f64)], problem: &str, ratio: f64| {
        let mut script = Script { times: times.to_vec(), ..Script::default() };
        let outcome = judge(&mut script, &job, &best);
        assert_eq!(outcome.verdict.kind, VerdictKind::TooSlow);
        let evidence = |name: &str| outcome.verdict.evidence.get(name).cloned().unwrap();
        assert_eq!(evidence("problem"), problem);
        assert!((evidence("ratio").as_f64().unwrap() - ratio).abs() < 1e-9);
        assert_eq!(evidence(Verdict::EVERYWHERE), true);
        // Both problems have a time, so that the searches for both learn from it.
        assert_eq!(outcome.measurements.len(), 2);
        assert!(outcome.objective_ns.is_some());
        script.asked
    };
    // Hopeless on one, and not near enough on the other.
    let asked = check(&[("a", 900.0), ("b", 120.0)], "b", 1.2);
    assert!(!asked.iter().any(|asked| asked.starts_with("race")), "{asked:?}");
    // A contender by its screening, on `b` alone, that loses the race there.
    let asked = check(&[("a", 900.0), ("b", 105.0)], "b", 1.05);
    let raced: Vec<&String> = asked.iter().filter(|asked| asked.starts_with("race")).collect();
    assert_eq!(raced, ["race alone b hot"]);
}
