//! Several lanes with fake devices: what is shared, what a lost lane leaves behind, who is to blame, which card is slower.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evo_protocol::evaluation::{Evaluation, Recovery, RecoveryLevel};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_supervise::job::{Judgement, SecondLook};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::fake::{FakeJob, Script, all_pass, lane_result};
use super::fake_study::{OWN_ANCHOR, TestStudy};
use evo_journal::budget::StopReason;
use evo_journal::reader;
use evo_journal::record::JournalRecord;

const PLAIN: &str = "[parameters]\nA = [0, 1, 2, 3, 4, 5]\nB = [0, 1, 2, 3]\n";

/// The verdicts of one lane.
fn undisturbed(space: &str) -> BTreeMap<String, String> {
    let bench = TestStudy::new(space);
    bench.run(all_pass());
    bench.verdicts()
}

/// A device that has lost its card.
fn lost(job: &FakeJob) -> Judgement {
    let mut result = lane_result(job, VerdictKind::DeviceLost);
    result.verdict.message = "two new workers failed in a row".to_string();
    result.lost = true;
    result
}

/// A worker that broke, which another device has to see.
fn broken(job: &FakeJob) -> Judgement {
    let mut result = lane_result(job, VerdictKind::WorkerDied);
    result.verdict = Verdict::new(VerdictKind::WorkerDied, "the worker exited").with_cause("exit_9");
    result.recovery = Some(Recovery { level: RecoveryLevel::R2, elapsed_ms: 1.0 });
    result.second_look = Some(SecondLook::Broken);
    result
}

/// Counts what a lane is asked, and lets others wait for it.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    /// The number of this call, from 1.
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits until there were so many, so that no lane takes everything.
    fn wait_for(&self, calls: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.0.load(Ordering::SeqCst) < calls && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The first lane's script: passes everything but its first job only after `calls` calls of another lane.
fn patient(other: &Calls, calls: usize) -> Script {
    let (own, other) = (Calls::default(), other.clone());
    Arc::new(move |job| {
        if own.next() > 1 {
            other.wait_for(calls);
        }
        lane_result(job, VerdictKind::Pass)
    })
}

/// A script that counts.
fn counted(calls: &Calls, script: impl Fn(usize, &FakeJob) -> Judgement + Send + Sync + 'static) -> Script {
    let calls = calls.clone();
    Arc::new(move |job| {
        // Counted after the answer is made, so that who waits for the count finds the effect.
        let answer = script(calls.0.load(Ordering::SeqCst) + 1, job);
        calls.next();
        answer
    })
}

fn evaluations(bench: &TestStudy) -> Vec<Evaluation> {
    bench.open().history.evaluations.clone()
}

#[test]
fn lanes_share_the_work_and_every_record_names_its_device() {
    let mut bench = TestStudy::new(PLAIN);
    let calls = Calls::default();
    let second = counted(&calls, |_, job| lane_result(job, VerdictKind::Pass));
    bench.more_lanes = vec![second, patient(&calls, 4)];
    // Two anchors and then variants.
    let ran = bench.run(patient(&calls, 4));
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
    let all = evaluations(&bench);
    assert!(all.iter().all(|one| {
        let lane = one.lane.unwrap();
        one.device_uuid.as_deref() == Some(&format!("FAKE-{lane}")) && one.lane_ratio.is_none()
    }));
    assert!(all.iter().any(|one| one.lane == Some(1)), "{all:?}");
    let lanes = &ran.summary.end.lanes;
    assert_eq!(lanes.iter().map(|lane| lane.evaluations).sum::<u64>(), all.len() as u64);
    let begun =
        reader::read(&bench.journal()).unwrap().records.into_iter().filter_map(|record| match record {
            JournalRecord::Started { number, lane: Some(lane), .. } => Some((number, lane)),
            _ => None,
        });
    let judged = all.iter().map(|one| (one.number, one.lane.unwrap()));
    assert_eq!(begun.collect::<BTreeMap<_, _>>(), judged.collect::<BTreeMap<_, _>>());
    assert!(lanes.iter().all(|lane| lane.out.is_none() && lane.pooled));
}

#[test]
fn a_study_of_one_lane_says_nothing_of_lanes() {
    let bench = TestStudy::new(PLAIN);
    let ran = bench.run(all_pass());
    let text = std::fs::read_to_string(bench.journal()).unwrap();
    assert!(!text.contains("\"lane") && !text.contains("device_uuid"), "{text}");
    assert!(ran.summary.end.lanes.is_empty());
}

#[test]
fn a_lost_lane_takes_nothing_with_it() {
    let mut bench = TestStudy::new(PLAIN);
    let calls = Calls::default();
    bench.more_lanes = vec![counted(&calls, |call, job| match call {
        ..=2 => lane_result(job, VerdictKind::Pass),
        _ => lost(job),
    })];
    let ran = bench.run(patient(&calls, 3));
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
    assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
    let lane = &ran.summary.end.lanes[1];
    assert_eq!(lane.out.as_deref(), Some("two new workers failed in a row"));
    assert!(ran.events.iter().any(|event| event.contains("lane 1 (fake:1) is lost with `A=")));
}

#[test]
fn what_breaks_on_two_devices_is_the_variants_doing() {
    let mut bench = TestStudy::new(PLAIN);
    let bad = |job: &FakeJob| job.label == "A=2 B=1";
    let script: Script =
        Arc::new(move |job| if bad(job) { broken(job) } else { lane_result(job, VerdictKind::Pass) });
    bench.more_lanes = vec![Arc::clone(&script), Arc::clone(&script)];
    let ran = bench.run(script);
    let verdicts = bench.verdicts();
    assert_eq!(verdicts["A=2 B=1"], "worker_died:exit_9");
    assert_eq!(verdicts.values().filter(|label| *label == "pass").count(), verdicts.len() - 1);
    assert_eq!(ran.log.evaluated.iter().filter(|label| *label == "A=2 B=1").count(), 2);
    let lanes = &ran.summary.end.lanes;
    assert!(lanes.iter().all(|lane| lane.out.is_none()), "{lanes:?}");
    assert_eq!(lanes.iter().map(|lane| lane.restarts).sum::<u64>(), 2);
}

#[test]
fn a_lane_on_which_well_variants_break_is_put_out() {
    let mut bench = TestStudy::new(PLAIN);
    let calls = Calls::default();
    // Its anchors are well, and every other variant breaks.
    bench.more_lanes = vec![counted(&calls, |_, job| match job.label.as_str() {
        "A=0 B=0" => lane_result(job, VerdictKind::Pass),
        _ => broken(job),
    })];
    let ran = bench.run(patient(&calls, 3));
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
    let why = ran.summary.end.lanes[1].out.clone();
    if ran.summary.end.lanes[1].restarts >= 2 {
        assert_eq!(why.as_deref(), Some("two variants that broke on it were well on another device"));
    }
}

#[test]
fn a_variant_that_costs_two_devices_is_not_tried_on_a_third() {
    let mut bench = TestStudy::new(PLAIN);
    let script: Script =
        Arc::new(|job| if job.label == "A=1 B=1" { lost(job) } else { lane_result(job, VerdictKind::Pass) });
    bench.more_lanes = vec![Arc::clone(&script), Arc::clone(&script)];
    let ran = bench.run(script);
    let verdicts = bench.verdicts();
    assert_eq!(verdicts["A=1 B=1"], "worker_died:device_lost");
    assert_eq!(verdicts.len(), 24);
    assert_eq!(ran.summary.end.lanes.iter().filter(|lane| lane.out.is_some()).count(), 2);
}

#[test]
fn without_lanes_the_run_stops_and_goes_on_with_another_number() {
    let mut bench = TestStudy::new(PLAIN);
    let dies = |after: usize| -> Script {
        let calls = Calls::default();
        counted(
            &calls,
            move |call, job| {
                if call > after { lost(job) } else { lane_result(job, VerdictKind::Pass) }
            },
        )
    };
    bench.more_lanes = vec![dies(4)];
    let ran = bench.run(dies(5));
    assert_eq!(ran.summary.end.reason, StopReason::DeviceLost);
    assert!(ran.summary.end.evaluations < 24);
    assert!(ran.events.iter().any(|event| event.contains("all 2 lanes are lost")));
    bench.more_lanes = vec![all_pass(), all_pass()];
    let ran = bench.run(all_pass());
    assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
    bench.more_lanes = Vec::new();
    bench.run(all_pass());
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
}

/// A card that takes so many times as long as others, and `drift` more with every job.
fn slower(factor: f64, drift: f64) -> Script {
    let calls = Calls::default();
    Arc::new(move |job| {
        let now = factor * (1.0 + drift * calls.next() as f64);
        lane_result(job, VerdictKind::Pass).scaled(now)
    })
}

#[test]
fn slower_cards_do_not_change_the_champion() {
    let space = "[parameters]\nA = [5, 4, 3, 2, 1, 0]\nB = [3, 2, 1, 0]\n";
    for factors in [[0.95, 1.0, 1.05], [1.03, 1.3, 0.97]] {
        let mut bench = TestStudy::new(space);
        bench.on_gpu = true;
        bench.options.finalists = 3;
        let more = [factors[1], factors[2]].map(|factor| slower(factor, 1e-5));
        bench.more_lanes = more.to_vec();
        let ran = bench.run(slower(factors[0], 0.0));
        assert!(ran.summary.confirmed >= 3, "{factors:?} {:#?}", ran.events);
        let study = bench.open();
        let best = study.history.evaluations.iter().filter(|one| one.objective_ns.is_some());
        let best = best.min_by(|a, b| a.objective_ns.unwrap().total_cmp(&b.objective_ns.unwrap())).unwrap();
        assert!(best.configuration.to_string().starts_with("A=0"), "{factors:?} {best:?}");
        let confirmed =
            study.history.confirmations.iter().map(|one| one.evaluation.configuration.to_string());
        assert!(confirmed.into_iter().any(|name| name == "A=0 B=0"), "{factors:?}");
        for lane in &ran.summary.end.lanes {
            let expected = factors[lane.lane as usize] / factors[0];
            let seen = if (expected - 1.0).abs() <= 0.005 { 1.0 } else { expected };
            assert!((lane.ratio - seen).abs() < 1e-3 && lane.pooled, "{factors:?} {lane:?}");
        }
    }
}

#[test]
fn eight_cards_that_drift_find_what_one_finds() {
    let space = "[parameters]\nA = [35, 30, 25, 20, 15, 10, 5, 0]\nB = [20, 0]\n";
    for seed in 0..20 {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let mut bench = TestStudy::new(space);
        bench.on_gpu = true;
        bench.options.finalists = 3;
        let mut card = || slower(chance.random_range(0.95..1.05), chance.random_range(-1e-4..1e-4));
        bench.more_lanes = (0..7).map(|_| card()).collect();
        bench.run(card());
        let study = bench.open();
        let mut confirmed =
            study.history.confirmations.iter().filter(|one| !one.pairs.is_empty()).collect::<Vec<_>>();
        confirmed.sort_by(|a, b| a.pairs[0].ratio.total_cmp(&b.pairs[0].ratio));
        assert_eq!(confirmed[0].evaluation.configuration.to_string(), "A=0 B=0", "{seed}");
    }
}

#[test]
fn a_card_that_is_slower_on_some_kernels_only_is_not_pooled() {
    let space = "[parameters]\nA = [5, 4, 3, 2, 1, 0]\nB = [3, 2, 1, 0]\n";
    let mut bench = TestStudy::new(space);
    bench.on_gpu = true;
    bench.options.finalists = 2;
    let calls = Calls::default();
    // As fast as the first lane with the default, and far too fast with others.
    bench.more_lanes = vec![counted(&calls, |_, job| {
        let factor = if job.label == "A=5 B=3" { 1.0 } else { 0.5 };
        // Every job is followed by an anchor.
        let mut result = lane_result(job, VerdictKind::Pass).scaled(factor);
        result.recovery = Some(Recovery { level: RecoveryLevel::R1, elapsed_ms: 1.0 });
        result
    })];
    let ran = bench.run(patient(&calls, 5));
    let lane = &ran.summary.end.lanes[1];
    if lane.pooled {
        // No incumbent was measured by both lanes.
        return;
    }
    let study = bench.open();
    let confirmed: Vec<String> =
        study.history.confirmations.iter().map(|one| one.evaluation.configuration.to_string()).collect();
    assert!(confirmed.iter().any(|name| name == "A=0 B=0"), "{confirmed:?}");
    assert!(ran.events.iter().any(|event| event.contains("is not pooled with the others")));
}

#[test]
fn a_default_that_breaks_everywhere_puts_no_lane_out() {
    let mut bench = TestStudy::new(PLAIN);
    let script: Script =
        Arc::new(
            |job| {
                if job.label == "A=0 B=0" { broken(job) } else { lane_result(job, VerdictKind::Pass) }
            },
        );
    bench.more_lanes = vec![Arc::clone(&script), Arc::clone(&script)];
    let ran = bench.run(script);
    let verdicts = bench.verdicts();
    assert_eq!(verdicts["A=0 B=0"], "worker_died:exit_9");
    assert_eq!(verdicts.values().filter(|label| *label == "pass").count(), 23);
    assert!(ran.summary.end.lanes.iter().all(|lane| lane.out.is_none()), "{:?}", ran.summary.end.lanes);
}

#[test]
fn the_first_lane_may_be_lost_with_the_default_on_it() {
    let mut bench = TestStudy::new(PLAIN);
    bench.options.finalists = 2;
    bench.more_lanes = vec![all_pass(), all_pass()];
    let ran = bench.run(Arc::new(lost));
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
    let lanes = &ran.summary.end.lanes;
    assert!(lanes[0].out.is_some() && lanes[1].out.is_none() && lanes[2].out.is_none(), "{lanes:?}");
    assert!(ran.summary.confirmed >= 2);
}

#[test]
fn a_lane_that_is_lost_in_the_confirmation_leaves_it_to_the_next() {
    let mut bench = TestStudy::new(PLAIN);
    bench.options.finalists = 2;
    bench.more_lanes = vec![all_pass()];
    let ran =
        bench.run(Arc::new(|job| if job.deep { lost(job) } else { lane_result(job, VerdictKind::Pass) }));
    assert!(ran.summary.confirmed >= 2, "{:?}", ran.summary);
    assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
    let study = bench.open();
    assert!(study.history.confirmations.iter().all(|one| one.evaluation.lane == Some(1)));
}

#[test]
fn a_win_is_compared_on_a_second_device() {
    let mut bench = TestStudy::new("[parameters]\nA = [5, 4, 0]\nB = [0]\n");
    bench.options.finalists = 1;
    bench.more_lanes = vec![all_pass()];
    bench.run(all_pass());
    let study = bench.open();
    let repeated: Vec<_> =
        study.history.confirmations.iter().filter_map(|one| one.repeated.as_ref()).collect();
    assert_eq!(repeated.len(), 1, "the baseline has no rival");
    assert_eq!((repeated[0].lane, repeated[0].device_uuid.as_str()), (1, "FAKE-1"));
}

#[test]
fn every_lane_measures_evos_own_anchors_and_one_lane_alone_none() {
    let mut bench = TestStudy::new(PLAIN);
    bench.anchors = true;
    let ran = bench.run(all_pass());
    assert!(!ran.log.evaluated.iter().any(|label| label == OWN_ANCHOR), "{:?}", ran.log.evaluated);
    let mut bench = TestStudy::new(PLAIN);
    bench.anchors = true;
    bench.more_lanes = vec![all_pass()];
    let ran = bench.run(all_pass());
    assert_eq!(ran.log.evaluated.iter().filter(|label| *label == OWN_ANCHOR).count(), 4);
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
}

#[test]
fn a_card_that_evos_own_anchors_call_uneven_is_not_pooled_and_that_is_said() {
    let mut bench = TestStudy::new(PLAIN);
    (bench.anchors, bench.on_gpu) = (true, true);
    let calls = Calls::default();
    bench.more_lanes = vec![counted(&calls, |_, job| {
        let factor = if job.label == OWN_ANCHOR { 1.1 } else { 1.0 };
        lane_result(job, VerdictKind::Pass).scaled(factor)
    })];
    let ran = bench.run(patient(&calls, 5));
    let lane = &ran.summary.end.lanes[1];
    assert!(!lane.pooled && lane.ratio == 1.0, "{lane:?}");
    assert!((lane.anchors["p"] - 1.1).abs() < 1e-9 && lane.anchors["default"] == 1.0, "{lane:?}");
    assert!(
        ran.events.iter().any(|event| event.contains("depending on the variant (default 1.000, p 1.100)")),
        "{:?}",
        ran.events
    );
}

#[test]
fn anchors_that_break_everywhere_cost_no_lane_its_place() {
    let mut bench = TestStudy::new(PLAIN);
    bench.anchors = true;
    let script: Script = Arc::new(|job| match job.label.as_str() {
        OWN_ANCHOR => broken(job),
        _ => lane_result(job, VerdictKind::Pass),
    });
    bench.more_lanes = vec![Arc::clone(&script)];
    let ran = bench.run(script);
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
    assert!(ran.summary.end.lanes.iter().all(|lane| lane.out.is_none()), "{:?}", ran.summary.end.lanes);
    assert!(ran.events.iter().any(|event| event.contains("evo's own anchors are measured no more")));
}
