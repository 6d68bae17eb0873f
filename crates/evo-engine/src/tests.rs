//! The engine with fake compilers and a fake device: order, limits, twins, interrupts, resume.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evo_journal::budget::StopReason;
use evo_journal::reader;
use evo_journal::record::RunEnd;
use evo_journal::replay::History;
use evo_protocol::verdict::{Cause, Gate, Verdict, VerdictKind};
use evo_search::registry::create;
use evo_search::strategy::Expectation;
use evo_space::genome::Configuration;
use evo_supervise::job::Judgement;

use crate::fake::{
    FakeBinary, FakeJob, Plays, Ran, ScriptedStrategy, TestStudy, all_pass, failing, lane_result, mixed,
    objective_of, passed, verdicts_in,
};
use crate::ports::{Message, NoSanitizer};
use crate::run::SanitizePlan;

const PLAIN: &str = "[parameters]\nA = [0, 1, 2, 3, 6, 7]\nB = [0, 1, 2]\n";

#[test]
fn a_run_evaluates_what_the_space_has_and_the_limits_allow() {
    let mut plays = Plays::default();
    plays.play("failures change nothing, and gates that are not reached are not run", PLAIN, |bench| {
        bench.run(mixed());
        assert!(bench.find("A=0 B=0").passed_through(Gate::Honesty));
        let files = ["study.json", "results.csv"].map(|name| bench.journal().with_file_name(name));
        assert!(files.iter().all(|file| file.is_file()));
    });
    for limits in [(Some(5), None), (None, Some(2)), (Some(3), Some(2)), (Some(100), None)] {
        let space = "[parameters]\nA = [0, 1, 2, 3, 4, 5]\nB = [0, 1, 2]\n";
        plays.play(&format!("evaluations and generations: {limits:?}"), space, |bench| {
            bench.options.budget.generations = limits.1;
            bench.budget(limits.0).run(all_pass());
        });
    }
    // DEAD does not reach the source, LATE reaches it and not the machine code, and GRID changes the plan only. A
    // failing compiler is not asked twice either.
    for twins in ["A = [0, 1]\nDEAD", "A = [0, 1]\nLATE", "A = [0, 1]\nGRID", "A = [6]\nDEAD"] {
        plays.play("twins", &format!("[parameters]\n{twins} = [0, 1, 2]\n"), |bench| {
            bench.run(all_pass());
        });
    }
    let late = "[parameters]\nA = [0, 1]\nLATE = [0, 1, 2, 3, 4, 5]\n";
    plays.play("twins are known across runs", late, |bench| {
        bench.budget(6).run(all_pass());
        bench.budget(None).run(all_pass());
    });
    insta::assert_snapshot!(plays.0);
}

#[test]
fn a_run_says_how_warm_the_device_was_before_and_after() {
    let mut bench = TestStudy::new(PLAIN);
    bench.options.budget.evaluations = Some(5);
    let ran = bench.run(all_pass());
    let study = std::fs::read(bench.out.path().join("s/study.json")).unwrap();
    let study: serde_json::Value = serde_json::from_slice(&study).unwrap();
    let run = &study["runs"][0];
    assert_eq!(run["device_at_start"]["temperature_c"], 30);
    assert!(!ran.log.evaluated.is_empty());
    assert_eq!(run["device_at_end"]["temperature_c"], 30 + ran.log.evaluated.len());
    // Journals of before say nothing of it.
    let mut older = serde_json::to_value(&ran.summary.end).unwrap();
    older.as_object_mut().unwrap().retain(|name, _| !name.starts_with("device_at"));
    let older: RunEnd = serde_json::from_value(older).unwrap();
    assert_eq!((older.device_at_start, older.evaluations), (None, 5));
}

#[test]
fn the_wall_clock_ends_compilations_too() {
    // Ten variants that pass, then more that never finish compiling than are in flight at once.
    let mut bench = TestStudy::new("[parameters]\nA = [0, 99]\nB = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n");
    // Less than half of it is what a confirmation is expected to need.
    bench.options.budget.wall = Some(Duration::from_secs(8));
    bench.options.finalists = 1;
    let ran = bench.run(all_pass());
    assert_eq!(ran.summary.end.reason, StopReason::Wall);
    let [compiling] = ran.log.cancelled[..] else { panic!("cancelled once, not {:?}", ran.log.cancelled) };
    assert!(compiling > 0);
    // The confirmation compiles after that, and is answered.
    assert_eq!((ran.summary.confirmed, ran.log.deep.len()), (1, 1));
}

#[test]
fn the_look_ahead_is_bounded() {
    let bench = TestStudy::new("[parameters]\nA = [0, 1, 2, 3, 4, 5]\nB = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n");
    let ran = bench.run(all_pass());
    let (mut in_flight, mut most) = (0i32, 0);
    for event in &ran.events {
        in_flight += i32::from(event.starts_with("Compiling")) - i32::from(event.starts_with("Finished"));
        most = most.max(in_flight);
    }
    // Two fake compilers: 2 × 2 + 4.
    assert!((4..=8).contains(&most), "{most} in flight");
    assert_eq!(ran.summary.end.evaluations, 60);
}

#[test]
fn one_interrupt_finishes_the_variant_on_the_device() {
    let bench = TestStudy::new(PLAIN);
    let whole = TestStudy::new(PLAIN);
    whole.run(mixed());
    let ran = bench.run_with(|user| {
        let count = AtomicU64::new(0);
        let user = std::sync::Mutex::new(user);
        Arc::new(move |job| {
            if count.fetch_add(1, Ordering::Relaxed) == 4 {
                user.lock().unwrap().send(Message::Interrupt(1)).unwrap();
                // The engine hears of it while this variant is still on the device.
                std::thread::sleep(Duration::from_millis(50));
            }
            mixed()(job)
        })
    });
    assert_eq!(ran.summary.end.reason, StopReason::Interrupted);
    assert_eq!(ran.log.evaluated.len(), 5, "the variant at hand is finished, no other begun");
    let ran = bench.run(mixed());
    assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
    assert_eq!(bench.verdicts(), whole.verdicts());
}

#[test]
fn a_second_interrupt_does_not_wait_for_the_device() {
    let bench = TestStudy::new(PLAIN);
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let ran = bench.run_with(|user| {
        let user = std::sync::Mutex::new(user);
        Arc::new(move |job| {
            let user = user.lock().unwrap();
            user.send(Message::Interrupt(1)).unwrap();
            user.send(Message::Interrupt(2)).unwrap();
            let _ = gate.lock().unwrap().recv();
            passed(job)
        })
    });
    assert_eq!(ran.summary.end.reason, StopReason::Interrupted);
    drop(release);
}

#[test]
fn finalists_are_the_best_that_pass_at_full_depth() {
    let mut plays = Plays::default();
    let four = "[parameters]\nA = { values = [0, 1, 2, 3], default = 3 }\n";
    // 1010 and 1001 ns are within the floor of 1 %.
    plays.play("those that fail make room", &format!("{four}B = [0, 1]\n"), |bench| {
        bench.options.finalists = 2;
        bench.run(failing(VerdictKind::Nondeterministic, |job| job.deep && job.label == "A=0 B=0"));
    });
    let nine = "[parameters]\nA = [0, 1, 2]\nB = [0, 1, 2]\n";
    plays.play("they are not compared with a default that fails", nine, |bench| {
        bench.options.finalists = 2;
        bench.run(failing(VerdictKind::WrongAnswer, |job| job.deep && job.label == "A=0 B=0"));
    });
    plays.play("the default is measured although something faster was there before it", four, |bench| {
        // Its compiler dies the first time, so it comes last.
        bench.trouble = Some(Arc::new(|source, tries| {
            let killed = Verdict::new(VerdictKind::HarnessError, "killed").with_cause(Cause::Killed);
            (source.starts_with("code 3") && tries == 1).then_some(killed)
        }));
        bench.options.finalists = 1;
        bench.run(all_pass());
    });
    plays.play("losers of races may be finalists, those of screenings may not", four, |bench| {
        bench.options.finalists = 2;
        bench.run(Arc::new(|job| {
            if job.deep || job.label == "A=3" || job.label == "A=2" {
                return passed(job);
            }
            let mut slow = lane_result(job, VerdictKind::TooSlow);
            slow.objective_ns = Some(objective_of(job));
            if job.label == "A=1" {
                slow.verdict = slow.verdict.with(Verdict::RACED, true);
            }
            slow
        }));
    });
    insta::assert_snapshot!(plays.0);
}

fn interrupted_while(hangs: fn(&FakeJob) -> bool, is_sanitizer: bool) -> (Ran, TestStudy) {
    let mut bench = TestStudy::confirming(PLAIN, 2);
    bench.options.sanitize = SanitizePlan { finalists: true, every: None, demanded: is_sanitizer };
    let played = bench.play_time(0, 0);
    let over = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&over);
    let user = Arc::new(Mutex::new(None::<std::sync::mpsc::Sender<Message<FakeBinary>>>));
    let asked = Arc::clone(&user);
    let hang = Arc::new(move |job: &FakeJob| {
        if hangs(job) {
            asked.lock().unwrap().as_ref().unwrap().send(Message::Interrupt(1)).unwrap();
            while seen.load(Ordering::Relaxed) == 0 {
                played.pass(100);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    if is_sanitizer {
        let hang = Arc::clone(&hang);
        bench.sanitizer = Some(Arc::new(move |job| {
            hang(job);
            NoSanitizer("it hung").answer()
        }));
    }
    let ran = bench.run_with(|sender| {
        *user.lock().unwrap() = Some(sender);
        Arc::new(move |job| {
            (!is_sanitizer).then(|| hang(job));
            mixed()(job)
        })
    });
    over.store(1, Ordering::Relaxed);
    (ran, bench)
}

#[test]
fn one_interrupt_ends_a_run_whatever_hangs() {
    let (ran, bench) = interrupted_while(|job| job.label == "A=0 B=2", false);
    let last = ran.log.evaluated.last().unwrap().as_str();
    assert_eq!((ran.summary.end.reason, last), (StopReason::Interrupted, "A=0 B=2"));
    assert!(ran.log.deep.is_empty() && bench.open().history.struck.is_empty());
    // At full depth, the baseline and then a finalist: nothing further is begun, and a baseline alone does not win.
    for label in ["A=0 B=0", "A=0 B=1"] {
        let is_deep: fn(&FakeJob) -> bool = match label {
            "A=0 B=0" => |job| job.deep && job.label == "A=0 B=0",
            _ => |job| job.deep && job.label == "A=0 B=1",
        };
        let (ran, _) = interrupted_while(is_deep, false);
        assert_eq!((ran.summary.end.reason, ran.summary.confirmed), (StopReason::Interrupted, 0));
        assert_eq!((ran.log.deep.last().unwrap().as_str(), ran.log.paired), (label, 0));
    }
    let (ran, _) = interrupted_while(|_| true, true);
    assert_eq!((ran.summary.end.reason, ran.summary.confirmed), (StopReason::Interrupted, 0));
    assert_eq!((ran.log.sanitized.len(), ran.log.deep.len(), ran.log.paired), (1, 1, 0));
}

#[test]
fn what_was_on_a_device_when_something_died_gets_another_chance_until_the_third() {
    let mut plays = Plays::default();
    // All of them are under way before anything comes of one.
    plays.play("a lost device ends the run", "[parameters]\nA = [0, 1, 2, 3, 4]\n", |bench| {
        let count = AtomicU64::new(0);
        bench.run(Arc::new(move |job| {
            let lost = count.fetch_add(1, Ordering::Relaxed) == 3;
            let kind = if lost { VerdictKind::DeviceLost } else { VerdictKind::Pass };
            Judgement { lost, ..lane_result(job, kind) }
        }));
        bench.run(all_pass());
    });
    plays.play("what was in flight at three crashes is given up", "[parameters]\nA = [0, 1]\n", |bench| {
        drop(bench.open());
        let configuration = bench.space.configuration(&bench.space.default_genome());
        for crash in 1..=3 {
            bench.crash(0, configuration.clone());
            assert_eq!(bench.open().history.struck[0].strikes, crash);
        }
        bench.run(all_pass());
    });
    plays.play("it is queued after an edit, unless it is gone", "[parameters]\nA = [0, 1]\n", |bench| {
        drop(bench.open());
        let points = [1, 9].map(|value| Configuration::new(vec![("A".into(), value.into())]));
        (0..).zip(points).for_each(|(number, point)| bench.crash(number, point));
        bench.edit("[parameters]\nA = [0, 1, 2]\n").run(all_pass());
    });
    insta::assert_snapshot!(plays.0);
}

#[test]
fn a_journal_cut_anywhere_resumes_to_the_same_verdicts() {
    let bench = TestStudy::new(PLAIN);
    bench.run(mixed());
    let (expected, bytes) = (bench.verdicts(), std::fs::read(bench.journal()).unwrap());
    for step in 0..24 {
        let cut = bytes.len() * step / 24;
        let again = TestStudy::new(PLAIN);
        std::fs::create_dir_all(again.journal().parent().unwrap()).unwrap();
        std::fs::write(again.journal(), &bytes[..cut]).unwrap();
        let before = verdicts_in(&again.journal());
        let ran = again.run(mixed());
        assert_eq!(again.verdicts(), expected, "cut at byte {cut}");
        assert!(ran.summary.end.evaluations_this_run as usize + before.len() == expected.len());
    }
}

#[test]
fn a_resumed_run_starts_from_what_was_found_and_tells_damage_once() {
    let mut bench = TestStudy::new(PLAIN);
    bench.run(mixed());
    let text = std::fs::read_to_string(bench.journal()).unwrap();
    let damaged = text.replacen("\"kind\":\"started\"", "\"kind\":\"started!\"", 1);
    std::fs::write(bench.journal(), damaged).unwrap();
    bench.options.budget.evaluations = Some(3);
    for tells in [true, false, false] {
        let ran = bench.run(mixed());
        for part in ["total: Some(18)", "evaluations: 18", "best: Some((1000.0", "\"wrong_answer\": 3"] {
            assert!(ran.events[0].contains(part), "no `{part}` in {}", ran.events[0]);
        }
        assert_eq!(ran.tells("damaged line"), tells, "{:?}", ran.events);
    }
}

#[test]
fn after_one_crash_and_after_two_it_goes_first_and_alone() {
    for crashes in [1, 2] {
        let bench = TestStudy::new("[parameters]\nA = [0, 1, 2]\n");
        drop(bench.open());
        let configuration = bench.space.configuration(&bench.space.genome_at(2).unwrap());
        for _ in 0..crashes {
            bench.crash(5, configuration.clone());
            drop(bench.open());
        }
        let ran = bench.run(all_pass());
        assert_eq!(ran.log.evaluated[0], "A=2", "{crashes}");
        let place = |what: &str, at: usize| {
            let events = ran.events.iter().enumerate().filter(|(_, event)| event.starts_with(what));
            events.map(|(place, _)| place).nth(at).unwrap()
        };
        assert!(place("Finished", 0) < place("Compiling", 1), "{:?}", ran.events);
    }
}

#[test]
fn a_comparison_whose_baseline_drifts_is_repeated() {
    let check_beside = |default: u32, drifts: &[f64], attempts: usize, kept: Option<f64>| {
        let space = format!("[parameters]\nA = {{ values = [0, {default}], default = {default} }}\n");
        let mut bench = TestStudy::confirming(&space, 1);
        bench.drifts = drifts.to_vec();
        let ran = bench.run(all_pass());
        assert_eq!(ran.log.paired, attempts, "{drifts:?}");
        let study = bench.open();
        let pairs = study.history.confirmations.iter().flat_map(|one| &one.pairs);
        assert_eq!(pairs.last().unwrap().baseline_drift, kept, "{drifts:?}");
    };
    let check = |drifts: &[f64], attempts, kept| check_beside(1, drifts, attempts, kept);
    // The fake's noise floor is 1 %.
    check(&[0.009], 1, Some(0.009));
    check(&[0.05, 0.002], 2, Some(0.002));
    check(&[0.05, 0.02, 0.03, 0.0], 3, Some(0.02));
    check(&[], 1, None);
    // Half the time of the default is faster, whatever 5 % do to it.
    check_beside(100, &[0.05, 0.002], 1, Some(0.05));
    check_beside(100, &[0.9, 0.002], 2, Some(0.002));
}

#[test]
fn strategies_that_evolve_run_too() {
    let mut bench = TestStudy::new(PLAIN);
    bench.strategy = "evolve";
    bench.options.budget.generations = Some(3);
    let ran = bench.run(mixed());
    assert_eq!(ran.summary.end.evaluations, 12);
    bench.options.budget.generations = None;
    bench.run(mixed());
    assert_eq!(bench.verdicts().len(), 18);
}

#[test]
fn a_full_cache_stops_the_run_and_blames_no_variant() {
    let bench = TestStudy::new("[parameters]\nA = [0, 1, 9]\n");
    let error = bench.try_run(all_pass()).err().expect("stopped");
    assert_eq!(error.to_string(), "no room");
    assert_eq!(error.hint().unwrap(), "make room, or set EVO_CACHE_DIR to a folder with free space");
    assert!(bench.verdicts().values().all(|verdict| verdict == "pass"), "{:?}", bench.verdicts());
}

#[test]
fn what_was_expected_is_journaled_beside_what_came() {
    // `A=6` does not compile and `A=7` is refused before: both say what was expected all the same.
    let bench = TestStudy::new("[parameters]\nA = [0, 1, 6, 7]\n");
    let mut oracle = ScriptedStrategy::new(create("exhaustive", &bench.space, 1).unwrap());
    let mut asked = 0;
    // Expects `1000 ns` of everything but the second proposal, of which it expects nothing that a file can hold.
    oracle.ask = Box::new(move |inner, n| {
        let mut proposals = inner.ask(n);
        for proposal in &mut proposals {
            asked += 1;
            let objective_ns = if asked == 2 { f64::NAN } else { 1000.0 };
            let expected = Expectation { objective_ns, low_ns: 900.0, high_ns: 1100.0, risk: 0.25 };
            proposal.expected = Some(expected);
        }
        proposals
    });
    bench.run_strategy(Box::new(oracle), |_| all_pass()).unwrap();
    let journal = reader::read(&bench.journal()).unwrap();
    assert!(journal.rejected.is_empty(), "{:?}", journal.rejected);
    let evaluations = History::replay(journal).evaluations;
    let expected: Vec<_> =
        evaluations.iter().map(|one| (one.number, one.expected.map(|expected| expected.risk))).collect();
    let numbered = |number| expected.iter().find(|(own, _)| *own == number).unwrap().1;
    assert_eq!([0, 1, 2, 3].map(numbered), [Some(0.25), None, Some(0.25), Some(0.25)]);
    let plain = TestStudy::new("[parameters]\nA = [0, 1]\n");
    plain.run(all_pass());
    let text = std::fs::read_to_string(plain.journal()).unwrap();
    assert!(!text.contains("\"expected\""), "nothing is written where nothing was expected");
    let table = std::fs::read_to_string(bench.out.path().join("s/results.csv")).unwrap();
    assert!(table.lines().next().unwrap().contains("expected_ns,expected_low_ns"), "{table}");
    assert!(table.lines().nth(1).unwrap().contains("1000,900,1100,0.25"), "{table}");
}
