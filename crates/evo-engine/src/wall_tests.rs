//! Wall budgets on a clock that tests play: what the search gets, what the confirmation gets, what is cut.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use evo_protocol::verdict::VerdictKind;

use super::fake::{FakeJob, PlayedTime, Script, lane_result};
use super::fake_study::TestStudy;
use super::wall::Wall;
use evo_journal::budget::StopReason;
use evo_journal::clock::CommandClock;
use evo_journal::reader;
use evo_journal::record::JournalRecord;
use evo_journal::replay::History;
use evo_supervise::job::Judgement;

/// A hundred variants that all pass; the default is not the best.
const HUNDRED: &str = "[parameters]\nA = { values = [0, 1, 2, 3, 4, 5, 10, 11, 12, 13], default = 13 }\nB = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n";

/// A second in the search, four at full depth.
fn takes(job: &FakeJob) -> u64 {
    if job.deep { 4000 } else { 1000 }
}

fn timed(played: &PlayedTime) -> Script {
    let played = played.clone();
    Arc::new(move |job| {
        played.pass(takes(job));
        let mut result = lane_result(job, VerdictKind::Pass);
        result.device_ms = takes(job) as f64;
        result
    })
}

fn bench(wall: u64, finalists: usize) -> (TestStudy, PlayedTime) {
    let mut bench = TestStudy::new(HUNDRED);
    bench.options.budget.wall = Some(Duration::from_secs(wall));
    bench.options.finalists = finalists;
    let played = bench.play_time(3000, 2000);
    (bench, played)
}

#[test]
fn the_budget_covers_the_confirmation() {
    let (bench, played) = bench(60, 3);
    let ran = bench.run(timed(&played));
    assert_eq!(ran.summary.end.reason, StopReason::Wall);
    // A quarter of the minute is the confirmation's: the baseline with its noise floor takes 6 s, a finalist 7 s.
    assert_eq!((ran.summary.confirmed, ran.summary.left_out, ran.log.deep.len()), (2, 2, 2));
    assert_eq!(ran.summary.end.finalists_left, 2);
    let searched = ran.log.evaluated.len();
    assert!((42..=46).contains(&searched), "{searched} evaluations of a second each");
    assert!((50_000..=60_000).contains(&played.now()), "{} ms", played.now());
}

#[test]
fn what_came_before_the_first_evaluation_counts() {
    let (bench, played) = bench(60, 3);
    played.pass(30_000);
    let ran = bench.run(timed(&played));
    assert!((12..=16).contains(&ran.log.evaluated.len()), "{} evaluations", ran.log.evaluated.len());
    assert_eq!(ran.summary.confirmed, 2);
    assert!(played.now() <= 60_000, "{} ms", played.now());
}

#[test]
fn no_more_is_reserved_than_the_finalists_need() {
    let (bench, played) = bench(600, 1);
    let ran = bench.run(timed(&played));
    assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted, "100 s of search fit");
    assert_eq!((ran.summary.confirmed, ran.summary.left_out), (2, 0));
}

#[test]
fn a_budget_that_is_too_short_for_a_confirmation_goes_to_the_search() {
    let (bench, played) = bench(6, 3);
    let ran = bench.run(timed(&played));
    assert_eq!((ran.summary.end.reason, ran.summary.confirmed), (StopReason::Wall, 0));
    assert_eq!((ran.summary.left_out, ran.log.deep.len()), (3, 0));
    assert!((5..=7).contains(&ran.log.evaluated.len()), "{} evaluations", ran.log.evaluated.len());
    assert!(bench.open().history.confirmations.is_empty());
    // Said once, as soon as two variants have shown what one costs.
    let told = ran.events.iter().filter(|event| event.contains("too short to confirm anything"));
    let told: Vec<&String> = told.collect();
    assert!(told.len() == 1 && told[0].contains("one confirmation take about 1"), "{told:?}");
}

#[test]
fn a_budget_ends_with_a_confirmed_finalist_or_was_called_too_short() {
    for budget in [5, 12, 14, 16, 20, 25, 30, 45] {
        let (mut bench, _) = bench(budget, 3);
        let played = bench.play_time(1500, 1000);
        let seen = played.clone();
        let ran = bench.run(Arc::new(move |job| {
            seen.pass(takes(job).min(2000));
            Judgement { device_ms: 1000.0, ..lane_result(job, VerdictKind::Pass) }
        }));
        let is_told = ran.events.iter().any(|event| event.contains("too short to confirm anything"));
        assert_eq!(ran.summary.confirmed >= 2, !is_told, "{budget} s: {} confirmed", ran.summary.confirmed);
        assert!(played.now() <= budget * 1000 + 1000, "{budget} s: {} ms", played.now());
        assert!(is_told == (budget < 12) && ran.log.evaluated.len() >= 2, "{budget} s");
    }
}

#[test]
fn sampling_shares_what_is_left() {
    let sampled = |budget: Option<u64>, problems| {
        let budget = budget.map(Duration::from_secs);
        Wall::new(CommandClock::scripted(&Arc::default()), budget, 3, problems).sampling_max()
    };
    assert_eq!(sampled(Some(50), 1), Some(Duration::from_secs(49).mul_f64(0.25 / 8.0)));
    assert_eq!(sampled(Some(2), 4), Some(Duration::from_millis(100)), "never less than a race takes");
    assert_eq!((sampled(Some(600), 1), sampled(None, 1)), (None, None));
}

#[test]
fn a_baseline_alone_is_not_published() {
    let (bench, played) = bench(60, 1);
    let seen = played.clone();
    let ran = bench.run(Arc::new(move |job| {
        // At full depth everything takes much longer than the search lets expect.
        seen.pass(if job.deep { 8_000 } else { 1000 });
        let mut result = lane_result(job, VerdictKind::Pass);
        result.device_ms = 1000.0;
        result
    }));
    assert_eq!((ran.summary.confirmed, ran.summary.left_out, ran.log.deep.len()), (0, 1, 1));
    assert!(bench.open().history.confirmations.is_empty());
    // A surprise may overrun the budget a little.
    assert!(played.now() <= 63_000, "{} ms", played.now());
}

#[test]
fn comparisons_share_what_is_left() {
    let (mut bench, _) = bench(100, 1);
    let played = bench.play_time(1000, 1000);
    bench.drifts = vec![0.9; 3];
    let seen = played.clone();
    let ran = bench.run(Arc::new(move |job| {
        seen.pass(if job.deep { 500 } else { 1000 });
        Judgement { device_ms: 1000.0, ..lane_result(job, VerdictKind::Pass) }
    }));
    let within = ran.log.within[0].expect("there is a budget");
    assert!(within <= Duration::from_secs(30) && within >= Duration::from_secs(2), "{within:?}");
    // The baseline drifts in each of them, so the comparison is repeated as long as there is room.
    assert!((2..=3).contains(&ran.log.paired), "{}", ran.log.paired);
    assert!(ran.log.within.windows(2).all(|pair| pair[1] < pair[0]), "{:?}", ran.log.within);
    assert!(played.now() <= 100_000, "{} ms", played.now());
    bench.options.budget.wall = None;
    let ran = bench.run(timed(&played));
    assert!(ran.log.within.iter().all(Option::is_none));
}

/// A script that hangs on one job until the test is over; by then an hour has passed.
fn hangs(played: &PlayedTime, at: fn(&FakeJob, usize) -> bool) -> (Script, mpsc::Sender<()>) {
    let (release, gate) = mpsc::channel::<()>();
    let (gate, inner, played) = (Mutex::new((gate, 0)), timed(played), played.clone());
    let script: Script = Arc::new(move |job| {
        let mut gate = gate.lock().unwrap();
        gate.1 += 1;
        if at(job, gate.1) {
            played.pass(3_600_000);
            let _ = gate.0.recv();
        }
        inner(job)
    });
    (script, release)
}

#[test]
fn a_hang_does_not_hold_up_the_end_of_a_budget() {
    let (mut bench, played) = bench(60, 3);
    let (script, release) = hangs(&played, |_, count| count == 8);
    let ran = bench.run(script);
    drop(release);
    assert_eq!((ran.summary.end.reason, ran.summary.confirmed), (StopReason::Wall, 0));
    assert_eq!((ran.summary.end.evaluations, ran.summary.left_out), (7, 3));
    assert!(ran.events.iter().any(|event| event.contains("was still on the device")), "{:?}", ran.events);
    // evo ended the run itself, so the variant has no strike, and the next run proposes it again.
    assert!(bench.open().history.struck.is_empty());
    bench.options.budget.wall = None;
    let ran = bench.run(timed(&played));
    assert_eq!((ran.summary.end.evaluations, ran.summary.end.reason), (100, StopReason::SpaceExhausted));
}

#[test]
fn a_hang_in_the_confirmation_ends_it() {
    let (bench, played) = bench(60, 3);
    let (script, release) = hangs(&played, |job, _| job.deep && !job.label.starts_with("A=13"));
    let ran = bench.run(script);
    drop(release);
    assert_eq!((ran.summary.end.reason, ran.summary.confirmed), (StopReason::Wall, 0));
    assert_eq!(ran.summary.left_out, 3);
}

#[test]
fn a_resumed_study_confirms_the_finalists_that_were_left() {
    let (mut bench, played) = bench(60, 2);
    let first = bench.run(timed(&played));
    assert_eq!((first.summary.confirmed, first.summary.left_out), (2, 1), "{:?}", first.log.deep);
    // No more evaluations: the second run has the same finalists.
    bench.options.budget.evaluations = Some(1);
    played.milliseconds.store(0, std::sync::atomic::Ordering::Relaxed);
    let second = bench.run(timed(&played));
    assert_eq!(second.log.deep[0], first.log.deep[0], "the baseline");
    assert_ne!(second.log.deep[1], first.log.deep[1], "first the one that was left");
    assert_eq!(second.summary.left_out, 0);
    // With no time for a finalist that is confirmed already, none is left.
    played.milliseconds.store(47_000, std::sync::atomic::Ordering::Relaxed);
    let third = bench.run(timed(&played));
    assert_eq!((third.log.deep.len(), third.summary.left_out), (2, 0), "{:?}", third.log.deep);
    let history = bench.open().history;
    let section = evo_journal::leaderboard::section(&history).unwrap();
    assert_eq!(section.entries().count(), 3, "the baseline and two finalists");
}

#[test]
fn reserves_follow_what_was_seen() {
    let check = |budget: u64, finalists, full: Option<f64>, expected: f64| {
        let wall = Some(Duration::from_secs(budget));
        let mut wall = Wall::new(CommandClock::scripted(&Arc::default()), wall, finalists, 1);
        full.iter().for_each(|seconds| wall.costs.note_full(*seconds, false));
        let reserve = wall.reserve().as_secs_f64();
        assert!((reserve - expected).abs() < 1e-6, "{reserve}, not {expected}");
    };
    // Nothing passed, nothing to confirm, or not enough time.
    check(60, 3, None, 0.0);
    check(60, 0, Some(0.2), 0.0);
    check(5, 3, Some(0.2), 0.0);
    // The baseline and one finalist with a margin of a tenth: 2 × (1.5 × 0.2 s + 0.6 s), and two processes of 0.6 s for floor and
    // comparison each; and the variant that is still on the device.
    check(9, 3, Some(0.2), 1.1 * 4.2 + 0.2);
    // A quarter, or what three finalists need: 4 × 0.9 s, a floor of 1.2 s, three comparisons of 1.8 s.
    check(20, 3, Some(0.2), 5.0);
    check(600, 3, Some(0.2), 10.2);
}

#[test]
fn many_small_problems_do_not_keep_a_run_from_being_confirmed() {
    // Eight problems of microseconds, 0.7 s an evaluation, 55 s: the least is expected to fit into half of that, because
    // a fresh process opens once for all problems.
    let mut wall = Wall::new(CommandClock::scripted(&Arc::default()), Some(Duration::from_secs(55)), 3, 8);
    [5.0, 0.7, 0.7].into_iter().for_each(|seconds| wall.costs.note_full(seconds, false));
    let reserve = wall.reserve().as_secs_f64();
    assert!((18.0..27.5).contains(&reserve), "{reserve}");
}

#[test]
fn the_first_evaluation_counts_only_until_there_is_another() {
    let mut wall = Wall::new(CommandClock::scripted(&Arc::default()), Some(Duration::from_secs(600)), 3, 1);
    wall.costs.note_full(5.0, false);
    let alone = wall.reserve();
    wall.costs.note_full(0.2, false);
    assert!(alone > Duration::from_secs(30) && wall.reserve() < Duration::from_secs(13), "{alone:?}");
}

/// The stamps of a study's records, in order, and the kinds of those without one.
fn stamps(bench: &TestStudy) -> (Vec<u64>, Vec<JournalRecord>) {
    let records = reader::read(&bench.journal()).unwrap().records;
    let without = records.iter().filter(|one| one.at_ms().is_none()).cloned().collect();
    (records.iter().filter_map(JournalRecord::at_ms).collect(), without)
}

#[test]
fn every_record_has_a_stamp_and_a_resumed_study_goes_on_from_the_last() {
    let (mut bench, played) = bench(60, 1);
    played.pass(700);
    bench.run(timed(&played));
    let (first, without) = stamps(&bench);
    assert!(without.is_empty(), "{without:?}");
    assert_eq!(first[0], 700, "the header is written after the start");
    assert!(first.is_sorted() && *first.last().unwrap() == played.now(), "{first:?}");
    // A later command has a clock of its own.
    played.milliseconds.store(300, std::sync::atomic::Ordering::Relaxed);
    bench.options.finalists = 0;
    bench.run(timed(&played));
    let (both, without) = stamps(&bench);
    assert!(without.is_empty() && both.is_sorted(), "{both:?}");
    assert_eq!(both[first.len()], first.last().unwrap() + 300);
    let table = std::fs::read_to_string(bench.out.path().join("s/results.csv")).unwrap();
    let mut rows = table.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
    let column = rows.next().unwrap().iter().position(|name| name == "at_ms").unwrap();
    let told: Vec<u64> = rows.map(|row| row[column].parse().unwrap()).collect();
    let evaluations = bench.open().history.evaluations;
    assert_eq!(told, evaluations.iter().filter_map(|one| one.at_ms).collect::<Vec<_>>());
    assert!(told.len() == evaluations.len() && told.is_sorted());
}

#[test]
fn records_of_before_there_were_stamps_are_read() {
    let (bench, played) = bench(60, 1);
    bench.run(timed(&played));
    let records = reader::read(&bench.journal()).unwrap().records;
    let older = records.iter().map(|record| {
        let mut value = serde_json::to_value(record).unwrap();
        value.as_object_mut().unwrap().remove("at_ms").expect("a stamp");
        serde_json::from_value::<JournalRecord>(value).unwrap()
    });
    let older: Vec<JournalRecord> = older.collect();
    assert!(older.iter().all(|record| record.at_ms().is_none()));
    let history = History::replay(reader::Journal { records: older, ..Default::default() });
    assert_eq!((history.last_ms, history.evaluations.len()), (0, bench.open().history.evaluations.len()));
}

#[test]
fn a_sanitizer_that_is_not_demanded_takes_nothing_from_the_least_confirmation() {
    let wall = |has_sanitizer, demands_sanitizer| {
        let clock = CommandClock::scripted(&Arc::default());
        let mut wall = Wall::new(clock, Some(Duration::from_secs(100)), 1, 1);
        // The first one waits for the reference, so the second one counts.
        [1.0, 1.0].into_iter().for_each(|seconds| wall.costs.note_full(seconds, false));
        (wall.costs.has_sanitizer, wall.costs.demands_sanitizer) = (has_sanitizer, demands_sanitizer);
        wall
    };
    let reserve = |has, demands| wall(has, demands).reserve();
    // Room is left for it where there is room, and the least that is reserved grows only where it is demanded.
    assert!(reserve(false, false) < reserve(true, false) && reserve(true, false) < reserve(true, true));
    let own = wall(true, false);
    let fits = |seconds| own.fits_look(Some(Duration::from_secs(seconds)));
    assert!(own.fits_look(None) && fits(1) && !fits(0), "the first look is tried with a second");
    let (baseline, finalist) = (own.left_to_sanitizer(true), own.left_to_sanitizer(false));
    assert!(baseline < finalist && finalist < own.left());
}
