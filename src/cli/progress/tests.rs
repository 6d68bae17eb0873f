//! Events as lines of JSON, of a log, and under a bar.

use evo_protocol::evaluation::DEFAULT_ORIGIN;
use evo_protocol::verdict::Verdict;
use evo_space::genome::Configuration;

use super::*;
use crate::budget::StopReason;
use crate::event::Earlier;
use crate::journal::example as fake;
use crate::journal::record::LaneAccount;

fn lanes(left_seconds: Option<f64>) -> Event {
    Event::Lanes(LaneLoad {
        compile_busy: 0.5,
        device_busy: 0.981,
        compile_queue: 1,
        device_queue: 2,
        compile_jobs: 4,
        confirm_seconds: Some(1.5),
        left_seconds,
    })
}

#[test]
fn every_event_is_one_json_object_that_names_itself() {
    let events = [
        Event::Started {
            study: "s".into(),
            device: "d".into(),
            seed: 7,
            valid: 1 << 70,
            total: None,
            earlier: Earlier::default(),
        },
        Event::Evaluating { number: 3 },
        lanes(None),
        Event::Confirming { finalist: 1, of: 2, left_seconds: None },
        Event::Stopped { reason: StopReason::Wall },
    ];
    let lines: Vec<String> = events.iter().map(|event| serde_json::json!(event).to_string()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"event":"started","study":"s","device":"d","seed":7,"valid":"1180591620717411303424","total":null,"resumed":0,"taken_over":0,"best_ns":null}
    {"event":"evaluating","number":3}
    {"event":"lanes","compile_busy":0.5,"device_busy":0.981,"compile_queue":1,"device_queue":2,"compile_jobs":4,"confirm_seconds":1.5,"left_seconds":null}
    {"event":"confirming","finalist":1,"of":2,"left_seconds":null}
    {"event":"stopped","reason":"wall"}
    "#);
}

fn resumed() -> Event {
    let best = Configuration::new(vec![("A".into(), 4.into())]);
    let verdicts = BTreeMap::from([("pass".to_string(), 12), ("too_slow".to_string(), 4)]);
    let earlier = Earlier {
        evaluations: 16,
        best: Some((2500.0, best)),
        default_ns: Some(5000.0),
        verdicts,
        taken_over: 4,
    };
    let (study, device) = ("gemm-host".into(), "cpu".into());
    Event::Started { study, device, seed: 7, valid: 900, total: Some(48), earlier }
}

#[test]
fn lines_say_what_is_ahead_and_what_was_found_before() {
    let mut tally = Tally::default();
    tally.observe(&resumed());
    insta::assert_snapshot!(tally.line(), @"16/48 · best 2.500 µs (default 5.000 µs) · pass 12, too_slow 4");
    insta::assert_snapshot!(line_of(&resumed()).unwrap(), @"study gemm-host on cpu: 900 valid configurations, up to 48 evaluations, 16 done before, 4 taken over, seed 7");
    let line = |message: &str| line_of(&Event::Notice { message: message.into() }).unwrap();
    assert_eq!([line("slow"), line("warning: slow")], ["note: slow", "warning: slow"]);
}

fn finished(number: u64, verdict: Verdict, objective_ns: Option<f64>, best: bool) -> Event {
    let values = vec![("BLOCK_M".into(), (16 << (number % 4)).into()), ("NUM_WARPS".into(), 4.into())];
    let origin = if number == 0 { DEFAULT_ORIGIN } else { "evolve" };
    let evaluation = fake::evaluation(number, Configuration::new(values), origin, verdict);
    Event::Finished { evaluation: Box::new(Evaluation { objective_ns, ..evaluation }), best }
}

/// Three lanes of two machines: one at work, one that waits for its launcher, one that is lost.
fn lane_progress() -> Event {
    let lane = |number: u32, host: &str, activity: LaneActivity| {
        let name = if number == 0 { "cuda:1" } else { "ray" };
        let account = LaneAccount {
            lane: number,
            name: name.into(),
            host: host.into(),
            device_uuid: format!("GPU-{number}f3a1c2e-8d4b-0000-0000-000000000000"),
            evaluations: 120 >> number,
            restarts: u64::from(number),
            out: (activity == LaneActivity::Out).then(|| "no sign of life for 10 s".into()),
            ..LaneAccount::default()
        };
        LaneProgress { account, activity, busy: 0.93 }
    };
    let lanes = vec![
        lane(0, "node7", LaneActivity::Working),
        lane(1, "node7", LaneActivity::Waiting),
        lane(2, "node8", LaneActivity::Out),
    ];
    Event::LaneProgress { lanes }
}

#[test]
fn what_stands_under_the_bar_of_a_search_and_of_a_confirmation() {
    let mut tally = Tally::default();
    assert!(tally.lines().is_empty(), "the start guesses nothing");
    tally.observe(&resumed());
    tally.observe(&finished(1, Verdict::pass(), Some(2400.0), true));
    tally.observe(&finished(2, Verdict::pass(), Some(2450.0), false));
    let refused = "gemm.cu(12): error: identifier \"x\" is undefined\nmore";
    tally.observe(&finished(3, Verdict::new(VerdictKind::CompileError, refused), None, false));
    tally.observe(&finished(4, Verdict::new(VerdictKind::TooSlow, "slow"), None, false));
    tally.observe(&lanes(Some(30.0)));
    tally.observe(&lane_progress());
    assert_eq!(tally.done, 20);
    let expected = [
        "  best     2.400 µs (default 5.000 µs)  BLOCK_M=32 NUM_WARPS=4",
        "  budget   30 s left",
        "  device   98 % busy, 2 queued · compile 50 % busy, 1 queued",
        "  lane 0   cuda:1 on node7  working  120 evaluations, 93 % busy",
        "  lane 1   ray on node7, GPU-1f3a1c2e  waiting for a worker  60 evaluations, 93 % busy, 1 new worker",
        "  lane 2   ray on node8, GPU-2f3a1c2e  out      30 evaluations, 93 % busy, 2 new workers, no sign of life for \
         10 s",
        "  verdicts pass 14, too_slow 5, compile_error 1",
        "           compile_error: gemm.cu(12): error: identifier \"x\" is undefined",
    ];
    assert_eq!(tally.lines(), expected);
    tally.observe(&Event::Confirming { finalist: 1, of: 2, left_seconds: Some(5.0) });
    assert_eq!(tally.confirming, Some((1, 2)));
    assert!(!tally.lines().iter().any(|line| line.contains("compile 50 % busy")), "idle by then");
}
