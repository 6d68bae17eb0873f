//! Trouble with fake compilers and a fake device: what is tried again, what is kept, and what a resume makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evo_protocol::verdict::{Cause, Verdict, VerdictKind};

use super::fake::{Script, all_pass, lane_result};
use super::fake_study::TestStudy;
use evo_journal::budget::StopReason;
use evo_journal::record::JournalRecord;
use evo_journal::writer::JournalWriter;

const PLAIN: &str = "[parameters]\nA = [0, 1, 2, 3, 6, 7]\nB = [0, 1, 2]\n";

fn killed() -> Verdict {
    let message = "the C++ compiler was killed by SIGKILL";
    Verdict::new(VerdictKind::HarnessError, message).with_cause(Cause::Killed)
}

/// The verdicts of an undisturbed run.
fn undisturbed(space: &str) -> BTreeMap<String, String> {
    let bench = TestStudy::new(space);
    bench.run(all_pass());
    bench.verdicts()
}

/// A device that fails on the first `times` jobs for which `hits` holds.
fn failing(times: usize, hits: fn(&str) -> bool) -> Script {
    let left = AtomicUsize::new(times);
    Arc::new(move |job| {
        let fails = hits(&job.label)
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        let mut result = lane_result(job, if fails { VerdictKind::HarnessError } else { VerdictKind::Pass });
        result.verdict.message = if fails { "the device worker was killed".into() } else { String::new() };
        result
    })
}

#[test]
fn trouble_that_passes_leaves_no_trace_in_the_verdicts() {
    let mut bench = TestStudy::new(PLAIN);
    // Every source but one fails at its first compilation, and that one at its first evaluation.
    bench.trouble =
        Some(Arc::new(|source, tries| (tries == 1 && !source.starts_with("code 1 1 ")).then(killed)));
    let ran = bench.run(failing(1, |label| label == "A=1 B=1"));
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
    assert_eq!((ran.summary.end.not_final, ran.summary.end.reason), (0, StopReason::SpaceExhausted));
    assert!(ran.events.iter().any(|event| event.contains("is tried again")));
}

#[test]
fn trouble_before_the_compilers_is_nobodys_verdict_either() {
    let bench = TestStudy::new("[parameters]\nA = [0, 8]\nB = [0, 1]\n");
    let ran = bench.run(all_pass());
    assert_eq!((ran.summary.end.evaluations, ran.summary.end.not_final), (2, 2));
    assert!(bench.verdicts().keys().all(|name| name.starts_with("A=0")), "{:?}", bench.verdicts());
    assert!(ran.events.iter().any(|event| event.contains("is tried again")));
}

#[test]
fn a_variant_without_a_verdict_uses_no_budget_and_is_tried_again_by_a_resume() {
    let mut bench = TestStudy::new(PLAIN);
    bench.options.budget.evaluations = Some(7);
    bench.trouble = Some(Arc::new(|source, _| source.starts_with("code 0 2 ").then(killed)));
    let ran = bench.run(all_pass());
    assert_eq!((ran.summary.end.evaluations, ran.summary.end.not_final), (7, 1));
    assert_eq!(ran.summary.end.reason, StopReason::Evaluations);
    let study = bench.open();
    let number = study.history.not_final[0].number;
    assert_eq!(study.history.not_final[0].configuration.to_string(), "A=0 B=2");
    assert!(!bench.verdicts().contains_key("A=0 B=2"));
    drop(study);
    // A resume judges it under its own number although the budget is used up.
    bench.trouble = None;
    let ran = bench.run(all_pass());
    assert_eq!((ran.summary.end.evaluations, ran.summary.end.not_final), (8, 0));
    assert_eq!(ran.log.evaluated, ["A=0 B=2"]);
    let study = bench.open();
    assert_eq!(study.history.evaluations.last().unwrap().number, number);
    drop(study);
    bench.options.budget.evaluations = None;
    bench.run(all_pass());
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
}

#[test]
fn a_second_try_runs_alone() {
    let mut bench = TestStudy::new(PLAIN);
    bench.trouble =
        Some(Arc::new(|source, tries| (source.starts_with("code 0 2 ") && tries == 1).then(killed)));
    let ran = bench.run(all_pass());
    let of_it = |event: &&String| event.contains("[(\"A\", Int(0)), (\"B\", Int(2))]");
    let is = |event: &String, what: &str| event.starts_with(what) && of_it(&event);
    let again = ran.events.iter().rposition(|event| is(event, "Compiling")).unwrap();
    let done = ran.events.iter().position(|event| is(event, "Finished")).unwrap();
    assert!(again < done);
    let others = ran.events[again + 1..done].iter().filter(|event| event.starts_with("Compiling"));
    assert_eq!(others.count(), 0, "{:#?}", ran.events);
    let compiled = ran.events.iter().filter(|event| is(event, "Compiling")).count();
    assert_eq!(compiled, 2);
}

#[test]
fn twins_of_a_variant_without_a_verdict_are_judged_by_themselves() {
    for space in
        ["[parameters]\nA = [0, 1]\nDEAD = [0, 1, 2]\n", "[parameters]\nA = [0, 1]\nLATE = [0, 1, 2]\n"]
    {
        let bench = TestStudy::new(space);
        // The first variant fails for good: twice in the engine's eyes.
        let ran = bench.run(failing(2, |label| label.starts_with("A=0")));
        assert_eq!(ran.summary.end.evaluations + ran.summary.end.not_final, 6, "{space}");
        assert!(ran.summary.end.not_final <= 1, "{space}");
        bench.run(all_pass());
        assert_eq!(bench.verdicts(), undisturbed(space), "{space}");
        // A compiler that fails for the source of all of them.
        let mut bench = TestStudy::new(space);
        bench.trouble = Some(Arc::new(|source, _| source.starts_with("code 0").then(killed)));
        bench.run(all_pass());
        bench.trouble = None;
        let ran = bench.run(all_pass());
        assert_eq!((bench.verdicts(), ran.summary.end.not_final), (undisturbed(space), 0), "{space}");
    }
}

#[test]
fn ten_in_a_row_stop_the_run_and_a_resume_completes_it() {
    let space = "[parameters]\nA = [0, 1, 2, 3]\nB = [0, 1, 2, 3]\n";
    let mut bench = TestStudy::new(space);
    bench.options.finalists = 1;
    bench.trouble = Some(Arc::new(|_, _| Some(killed())));
    let ran = bench.run(all_pass());
    let end = &ran.summary.end;
    assert_eq!((end.reason, end.evaluations, ran.summary.confirmed), (StopReason::Harness, 0, 0));
    assert_eq!(end.not_final, 10);
    let trouble = ran.summary.trouble.unwrap();
    assert_eq!(trouble.text, "the C++ compiler was killed by SIGKILL 10 times in a row");
    bench.trouble = None;
    let ran = bench.run(all_pass());
    assert_eq!((ran.summary.end.reason, ran.summary.end.not_final), (StopReason::SpaceExhausted, 0));
    assert_eq!(bench.verdicts(), undisturbed(space));
}

#[test]
fn a_crash_counts_when_the_compiler_crashes_again() {
    let crash = || Verdict::new(VerdictKind::CompilerCrash, "the compiler died (SIGSEGV)").in_doubt();
    for (times, expected) in [(1, "pass"), (9, "compiler_crash")] {
        let mut bench = TestStudy::new(PLAIN);
        let hits = move |source: &str, tries| (source.starts_with("code 2 0 ") && tries <= times).then(crash);
        bench.trouble = Some(Arc::new(hits));
        let ran = bench.run(all_pass());
        assert_eq!((bench.verdicts()["A=2 B=0"].as_str(), ran.summary.end.not_final), (expected, 0));
        assert_eq!(bench.verdicts().len(), 18);
    }
}

#[test]
fn journals_in_which_trouble_is_a_verdict_are_repaired() {
    let bench = TestStudy::new(PLAIN);
    bench.run(all_pass());
    let study = bench.open();
    let passed = study.history.evaluations.iter().rfind(|one| one.verdict.is_pass());
    let mut older = passed.unwrap().clone();
    drop(study);
    // As an earlier evo wrote it: the last verdict of the study is trouble.
    let text = std::fs::read_to_string(bench.journal()).unwrap();
    let own = format!("\"number\":{},", older.number);
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains(&own)).collect();
    std::fs::write(bench.journal(), kept.join("\n") + "\n").unwrap();
    older.verdict = killed();
    let length = std::fs::metadata(bench.journal()).unwrap().len();
    let mut writer = JournalWriter::append_after(&bench.folder(), length).unwrap();
    writer.append(&JournalRecord::Evaluation(Box::new(older))).unwrap();
    drop(writer);
    assert_eq!(bench.verdicts().len(), 17);
    let ran = bench.run(all_pass());
    assert_eq!((ran.log.evaluated.len(), ran.summary.end.not_final), (1, 0));
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
}

#[test]
fn a_finalist_is_not_refused_for_trouble() {
    let mut bench = TestStudy::new("[parameters]\nA = { values = [0, 1], default = 1 }\n");
    bench.options.finalists = 1;
    let deep = AtomicUsize::new(0);
    // The second deep evaluation fails once, and is made again.
    let ran = bench.run(Arc::new(move |job| {
        let fails = job.deep && deep.fetch_add(1, Ordering::Relaxed) == 1;
        lane_result(job, if fails { VerdictKind::HarnessError } else { VerdictKind::Pass })
    }));
    assert_eq!((ran.summary.confirmed, ran.log.deep.len()), (2, 3));
    let ran = bench.run(Arc::new(|job| {
        lane_result(job, if job.deep { VerdictKind::HarnessError } else { VerdictKind::Pass })
    }));
    assert_eq!(ran.summary.confirmed, 0);
    assert!(bench.open().history.confirmations.iter().all(|one| one.evaluation.verdict.is_pass()));
}

#[test]
fn a_generation_that_cannot_be_written_is_written_at_the_end() {
    let bench = TestStudy::new(PLAIN);
    let place = bench.out.path().join("s/gen-000.json");
    std::fs::create_dir_all(&place).unwrap();
    let in_the_way = place.clone();
    let evaluated = AtomicUsize::new(0);
    let ran = bench.run(Arc::new(move |job| {
        // After the first generation is complete.
        if evaluated.fetch_add(1, Ordering::Relaxed) == 8 {
            std::fs::remove_dir(&in_the_way).unwrap();
        }
        lane_result(job, VerdictKind::Pass)
    }));
    assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
    assert!(
        ran.events.iter().any(|event| event.contains("it is tried again at the end")),
        "{:#?}",
        ran.events
    );
    assert!(place.is_file());
}

#[test]
fn a_worker_that_cannot_be_started_stops_the_run_and_not_the_device() {
    let bench = TestStudy::new(PLAIN);
    let ran = bench.run(Arc::new(|job| {
        let mut result = lane_result(job, VerdictKind::HarnessError);
        result.verdict.message = "two new workers failed in a row: cannot start the worker".into();
        result.lost = true;
        result
    }));
    assert_eq!(ran.summary.end.reason, StopReason::Harness);
    assert!(ran.summary.trouble.unwrap().text.contains("cannot start the worker"));
    bench.run(all_pass());
    assert_eq!(bench.verdicts(), undisturbed(PLAIN));
}
