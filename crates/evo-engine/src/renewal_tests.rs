//! Lanes whose worker died and whose launcher takes its time with the next one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evo_protocol::evaluation::{Recovery, RecoveryLevel};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_supervise::job::{Judgement, SecondLook};
use evo_supervise::renewal::Renewal;

use super::fake::{FakeJob, Script, all_pass, lane_result};
use super::fake_study::{Ran, TestStudy};
use evo_journal::record::LaneAccount;

const PLAIN: &str = "[parameters]\nA = [0, 1, 2, 3, 4, 5]\nB = [0, 1, 2, 3]\n";

/// Calls of the second lane before its worker dies: two anchors and a variant.
const WELL: usize = 3;

fn renewal(lost: Option<&str>, device: Option<&str>) -> Renewal {
    Renewal {
        recovery: Recovery { level: RecoveryLevel::R1, elapsed_ms: 1500.0 },
        lost: lost.map(String::from),
        host: "node7".into(),
        device_uuid: device.map(String::from),
    }
}

/// A worker that was cut off, before the next one is there.
fn cut_off(job: &FakeJob) -> Judgement {
    let mut result = lane_result(job, VerdictKind::WorkerDied);
    result.verdict = Verdict::new(VerdictKind::WorkerDied, "no sign of life").with_cause("cut_off");
    result.second_look = Some(SecondLook::Broken);
    result.owes_worker = true;
    result
}

/// A study on two lanes; the worker of the second dies once.
fn run(bench: &mut TestStudy) -> Ran {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    bench.more_lanes = vec![Arc::new(move |job| {
        let call = calls.load(Ordering::SeqCst) + 1;
        let result = if call == WELL + 1 { cut_off(job) } else { lane_result(job, VerdictKind::Pass) };
        calls.fetch_add(1, Ordering::SeqCst);
        result
    })];
    // The first lane leaves something to the second one until that happened.
    let first: Script = Arc::new(move |job| {
        while job.label != "A=0 B=0" && seen.load(Ordering::SeqCst) <= WELL {
            std::thread::sleep(Duration::from_millis(1));
        }
        lane_result(job, VerdictKind::Pass)
    });
    bench.run(first)
}

fn undisturbed() -> BTreeMap<String, String> {
    let bench = TestStudy::new(PLAIN);
    bench.run(all_pass());
    bench.verdicts()
}

fn second(ran: &Ran) -> &LaneAccount {
    &ran.summary.end.lanes[1]
}

#[test]
fn a_lane_that_waits_for_its_next_worker_holds_nothing_up() {
    let mut bench = TestStudy::new(PLAIN);
    let (ended, end) = channel::<()>();
    let end = Mutex::new(end);
    bench.renew = Some(Arc::new(move || {
        // Until the study is over.
        let _ = end.lock().unwrap().recv();
        renewal(None, None)
    }));
    let ran = run(&mut bench);
    assert_eq!(bench.verdicts(), undisturbed());
    let lane = second(&ran);
    let why = Some("it was still without a new worker at the end");
    assert_eq!((lane.restarts, lane.given_back, lane.out.as_deref()), (0, 1, why), "{lane:?}");
    drop(ended);
}

#[test]
fn a_lane_goes_on_with_the_worker_that_came_and_says_where() {
    let mut bench = TestStudy::new(PLAIN);
    bench.renew = Some(Arc::new(|| renewal(None, Some("FAKE-7"))));
    let ran = run(&mut bench);
    assert_eq!(bench.verdicts(), undisturbed());
    let lane = second(&ran);
    assert_eq!(lane.given_back, 1, "{lane:?}");
    // The study may be over before the news is read.
    if lane.restarts == 1 {
        assert_eq!(lane.out, None);
        assert_eq!((lane.host.as_str(), lane.device_uuid.as_str()), ("node7", "FAKE-7"));
        assert!((lane.absent_seconds - 1.5).abs() < 1e-9, "{lane:?}");
    }
}

#[test]
fn a_lane_without_a_next_worker_is_lost_and_that_is_said() {
    let mut bench = TestStudy::new(PLAIN);
    bench.renew = Some(Arc::new(|| renewal(Some("no node is free"), None)));
    let ran = run(&mut bench);
    assert_eq!(bench.verdicts(), undisturbed());
    let lane = second(&ran);
    if lane.out.as_deref() == Some("no node is free") {
        assert_eq!(lane.given_back, 1);
        let told = "lane 1 (fake:1) is lost: no node is free; 1 left";
        assert!(ran.events.iter().any(|event| event.contains(told)), "{:?}", ran.events);
    }
}

#[test]
fn a_worker_that_came_to_the_device_of_another_lane_is_refused() {
    let mut bench = TestStudy::new(PLAIN);
    bench.renew = Some(Arc::new(|| renewal(None, Some("FAKE-0"))));
    let ran = run(&mut bench);
    assert_eq!(bench.verdicts(), undisturbed());
    let lane = second(&ran);
    if lane.restarts == 1 {
        assert_eq!(lane.out.as_deref(), Some("its new worker has the device of lane 0 (fake:0)"));
    }
}
