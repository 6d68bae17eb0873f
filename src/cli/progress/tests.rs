//! Events as lines of JSON and of a log.

use std::collections::BTreeMap;

use evo_space::genome::Configuration;

use super::*;
use crate::budget::StopReason;
use crate::event::{Earlier, LaneLoad};

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
        Event::Lanes(LaneLoad {
            compile_busy: 0.5,
            device_busy: 0.9,
            compile_queue: 1,
            device_queue: 2,
            compile_jobs: 4,
            confirm_seconds: Some(1.5),
            left_seconds: None,
        }),
        Event::Confirming { finalist: 1, of: 2, left_seconds: None },
        Event::Stopped { reason: StopReason::Wall },
    ];
    let lines: Vec<String> = events.iter().map(|event| serde_json::json!(event).to_string()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"event":"started","study":"s","device":"d","seed":7,"valid":"1180591620717411303424","total":null,"resumed":0,"taken_over":0,"best_ns":null}
    {"event":"evaluating","number":3}
    {"event":"lanes","compile_busy":0.5,"device_busy":0.9,"compile_queue":1,"device_queue":2,"compile_jobs":4,"confirm_seconds":1.5,"left_seconds":null}
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
fn progress_goes_on_from_what_was_found_before() {
    let mut tally = Tally::default();
    tally.observe(&resumed(), Duration::ZERO);
    insta::assert_snapshot!(tally.line(), @"16/48 · best 2.500 µs (default 5.000 µs) · pass 12, too_slow 4");
}

#[test]
fn the_first_line_says_what_is_ahead() {
    let event = resumed();
    insta::assert_snapshot!(line_of(&event).unwrap(), @"study gemm-host on cpu: 900 valid configurations, up to 48 evaluations, 16 done before, 4 taken over, seed 7");
}

#[test]
fn a_warning_is_no_note() {
    let line = |message: &str| line_of(&Event::Notice { message: message.into() }).unwrap();
    assert_eq!([line("slow"), line("warning: slow")], ["note: slow", "warning: slow"]);
}
