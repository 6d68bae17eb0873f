//! The panel of a search and of a confirmation at two widths, as snapshots.

use evo_protocol::evaluation::{DEFAULT_ORIGIN, Evaluation};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::Configuration;

use super::*;
use crate::event::{Earlier, Event, LaneActivity, LaneLoad, LaneProgress};
use crate::journal::example as fake;
use crate::journal::record::LaneAccount;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn begun(total: Option<u64>) -> Tally {
    let mut tally = Tally::default();
    let (study, device) = ("gemm-host".into(), "cpu".into());
    let earlier = Earlier::default();
    tally.observe(&Event::Started { study, device, seed: 7, valid: 900, total, earlier }, seconds(0));
    tally
}

fn finished(number: u64, verdict: Verdict, objective_ns: Option<f64>, best: bool) -> Event {
    let values = vec![("BLOCK_M".into(), (16 << (number % 4)).into()), ("NUM_WARPS".into(), 4.into())];
    let origin = if number == 0 { DEFAULT_ORIGIN } else { "evolve" };
    let evaluation = fake::evaluation(number, Configuration::new(values), origin, verdict);
    Event::Finished { evaluation: Box::new(Evaluation { objective_ns, ..evaluation }), best }
}

fn lanes(confirm_seconds: Option<f64>, left_seconds: Option<f64>) -> Event {
    Event::Lanes(LaneLoad {
        compile_busy: 0.35,
        device_busy: 0.981,
        compile_queue: 0,
        device_queue: 2,
        compile_jobs: 4,
        confirm_seconds,
        left_seconds,
    })
}

/// Twelve seconds into a search: one verdict a second, three improvements and two kinds of failure.
fn searching() -> Tally {
    let mut tally = begun(Some(64));
    let times = [9000.0, 8500.0, 6000.0, 6100.0, 4000.0, 4100.0, 4050.0, 3000.0];
    let mut best = f64::INFINITY;
    for (number, time) in times.into_iter().enumerate() {
        let event = finished(number as u64, Verdict::pass(), Some(time), time < best);
        best = best.min(time);
        tally.observe(&event, seconds(1 + number as u64));
    }
    let wrong = "`c`: elements are outside the tolerance; 64 of 4160 elements, largest error 1.1e+01; only sizes of N fail";
    tally.observe(&finished(8, Verdict::new(VerdictKind::WrongAnswer, wrong), None, false), seconds(9));
    let refused = "gemm.cu(12): error: identifier \"x\" is undefined\nmore";
    tally.observe(&finished(9, Verdict::new(VerdictKind::CompileError, refused), None, false), seconds(10));
    tally.observe(&finished(10, Verdict::new(VerdictKind::TooSlow, "slow"), None, false), seconds(11));
    tally.observe(&lanes(Some(9.0), None), seconds(12));
    tally
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
            busy_seconds: 9.3,
            restarts: u64::from(number),
            given_back: u64::from(number),
            absent_seconds: 0.0,
            ratio: 1.0,
            anchors: Default::default(),
            pooled: true,
            out: (activity == LaneActivity::Out).then(|| "no sign of life for 10 s".into()),
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
fn each_of_several_lanes_has_a_line() {
    let mut tally = searching();
    tally.observe(&lane_progress(), seconds(12));
    insta::assert_snapshot!(drawn(&tally, seconds(12), 100));
}

fn drawn(tally: &Tally, now: Duration, width: usize) -> String {
    let lines = lines(tally, now, width, 20);
    assert!(lines.iter().all(|line| line.width() <= width), "{lines:?}");
    lines.iter().map(|line| line.text(false).trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_search_at_60_columns() {
    insta::assert_snapshot!(drawn(&searching(), seconds(12), 60));
}

#[test]
fn a_search_at_100_columns() {
    insta::assert_snapshot!(drawn(&searching(), seconds(12), 100));
}

#[test]
fn the_start_guesses_nothing() {
    insta::assert_snapshot!(drawn(&begun(Some(64)), seconds(0), 100));
    insta::assert_snapshot!(drawn(&begun(None), seconds(61), 60));
}

#[test]
fn a_confirmation_counts_down() {
    let mut tally = searching();
    tally.observe(&Event::Confirming { finalist: 0, of: 2, left_seconds: Some(9.0) }, seconds(20));
    insta::assert_snapshot!(drawn(&tally, seconds(22), 100));
    tally.observe(&Event::Confirming { finalist: 1, of: 2, left_seconds: Some(5.0) }, seconds(25));
    insta::assert_snapshot!(drawn(&tally, seconds(36), 60));
}

#[test]
fn the_time_left_includes_the_confirmation_and_a_budget() {
    let check = |tally: &Tally, expected: Option<f64>| assert_eq!(tally.eta(seconds(12)), expected);
    check(&begun(Some(64)), None);
    // Ten verdicts in eleven seconds leave 53 of 64, and nine seconds of confirmation.
    check(&searching(), Some(53.0 / (10.0 / 11.0) + 9.0));
    let mut budgeted = searching();
    budgeted.observe(&lanes(Some(9.0), Some(30.0)), seconds(10));
    check(&budgeted, Some(28.0));
    // An estimate that has run out says nothing about the time that is still to come.
    assert_eq!(budgeted.eta(seconds(41)), None);
    let mut unlimited = begun(None);
    unlimited.observe(&lanes(None, Some(30.0)), seconds(12));
    check(&unlimited, Some(30.0));
}

#[test]
fn colors_change_no_width_and_few_rows_keep_the_first() {
    let tally = searching();
    let colored = lines(&tally, seconds(12), 100, 20);
    assert!(colored[0].text(true).contains("\x1b[36m"));
    assert_eq!(lines(&tally, seconds(12), 100, 3), colored[..3]);
    assert_eq!(lines(&tally, seconds(12), 20, 0).len(), 1);
}
