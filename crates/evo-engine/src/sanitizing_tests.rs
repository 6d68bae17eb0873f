//! Finalists and the best of generations under a sanitizer that is played.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};

use super::fake::all_pass;
use super::fake_sanitizer::FakeSanitizer;
use super::fake_study::TestStudy;
use super::options::SanitizePlan;
use super::ports::SanitizerAnswer;
use evo_journal::leaderboard::section;
use evo_journal::record::SanitizeTally;

/// Eighteen points, of which `A=0 B=0` is the default and the fastest.
const PLAIN: &str = "parameters = { A = [0, 1, 2, 3, 4, 5], B = [0, 1, 2] }";

const FINALISTS: SanitizePlan = SanitizePlan { finalists: true, every: None, demanded: false };

fn answer(state: GateState, message: &str, found: Option<Verdict>) -> SanitizerAnswer {
    let mut report = GateReport { state, cases: 4, ..GateReport::not_run(Gate::Sanitize, message) };
    report.evidence.insert("tool", "compute-sanitizer");
    report.evidence.insert("version", "2025.3.1.0");
    SanitizerAnswer { report, verdict: found, looked: true, is_late: false }
}

/// Finds a race in these, and nothing in others.
fn race_in(labels: &'static [&'static str]) -> FakeSanitizer {
    Arc::new(move |job| match labels.contains(&job.label.as_str()) {
        true => {
            let verdict = Verdict::new(VerdictKind::Sanitizer, "racecheck: a race").with_cause("racecheck");
            answer(GateState::Fail, "racecheck: a race", Some(verdict))
        }
        false => answer(GateState::Pass, "all four found nothing", None),
    })
}

fn no_answer() -> FakeSanitizer {
    Arc::new(|_| answer(GateState::NotRun, "it was ended at its deadline", None))
}

fn study(sanitizer: Option<FakeSanitizer>, plan: SanitizePlan) -> TestStudy {
    let mut bench = TestStudy::new(PLAIN);
    bench.options.finalists = 2;
    bench.options.sanitize = plan;
    bench.sanitizer = sanitizer;
    bench
}

/// The rows of the board: configuration, and what the row says of the sanitizer.
fn board(bench: &TestStudy) -> Vec<(String, Option<GateState>)> {
    let Some(section) = section(&bench.open().history) else { return Vec::new() };
    let row = |entry: &evo_protocol::leaderboard::RankedEntry| {
        (entry.configuration.to_string(), entry.sanitizer.as_ref().map(|note| note.state))
    };
    section.entries().map(row).collect()
}

fn told(events: &[String], part: &str) -> bool {
    events.iter().any(|event| event.contains(part))
}

#[test]
fn a_finding_is_a_verdict_and_the_next_candidate_moves_up() {
    let bench = study(Some(race_in(&["A=0 B=1"])), FINALISTS);
    let ran = bench.run(all_pass());
    assert_eq!(ran.log.sanitized, ["A=0 B=0", "A=0 B=1", "A=0 B=2"]);
    let pass = Some(GateState::Pass);
    assert_eq!(board(&bench), [("A=0 B=0".to_string(), pass), ("A=0 B=2".to_string(), pass)]);
    assert_eq!(bench.verdicts()["A=0 B=1"], "sanitizer:racecheck");
    assert!(
        told(&ran.events, "`A=0 B=1`, a finalist: sanitizer:racecheck: racecheck: a race"),
        "{:?}",
        ran.events
    );
    let tally = ran.summary.end.sanitized.unwrap();
    assert_eq!((tally.variants, tally.findings, tally.unanswered), (3, 1, 0));
    // The evidence is in the journal, in the finding's confirmation and in the row.
    let history = bench.open().history;
    let refused = history.confirmations.iter().find(|one| !one.evaluation.may_rank()).unwrap();
    let gate = refused.evaluation.gate(Gate::Sanitize).unwrap();
    assert_eq!(gate.evidence.get("version").unwrap(), "2025.3.1.0");
    assert_eq!(
        (history.sanitized.len(), refused.evaluation.verdict.label()),
        (3, "sanitizer:racecheck".into())
    );
    let champion = section(&history).unwrap().champion;
    assert_eq!(champion.sanitizer.unwrap().version.as_deref(), Some("2025.3.1.0"));
}

#[test]
fn a_faulty_baseline_does_not_rank_and_is_compared_with_all_the_same() {
    let bench = study(Some(race_in(&["A=0 B=0"])), FINALISTS);
    bench.run(all_pass());
    let rows: Vec<String> = board(&bench).into_iter().map(|(name, _)| name).collect();
    assert_eq!(rows, ["A=0 B=1", "A=0 B=2"]);
}

#[test]
fn a_tool_without_an_answer_keeps_nothing_off_the_board_unless_it_is_demanded() {
    for sanitizer in [None, Some(no_answer())] {
        let is_there = sanitizer.is_some();
        let bench = study(sanitizer.clone(), FINALISTS);
        let ran = bench.run(all_pass());
        let rows = board(&bench);
        assert_eq!((rows.len(), ran.summary.confirmed), (2, 2), "{rows:?}");
        let section = section(&bench.open().history).unwrap();
        assert_eq!(section.champion.gates["sanitize"], GateState::NotRun);
        assert_eq!(ran.summary.end.sanitized.map(|tally| tally.unanswered), is_there.then_some(2));

        let demanding = study(sanitizer, SanitizePlan { demanded: true, ..FINALISTS });
        let ran = demanding.run(all_pass());
        assert_eq!((board(&demanding).len(), ran.summary.confirmed), (0, 0));
        assert!(told(&ran.events, "compute-sanitizer is demanded and gave no answer"), "{:?}", ran.events);
        assert!(ran.summary.end.sanitized.unwrap().unanswered > 0);
        // An answer later on is enough: nothing is searched again.
        let mut later = demanding;
        later.sanitizer = Some(race_in(&[]));
        assert_eq!((later.run(all_pass()).log.evaluated.len(), board(&later).len()), (0, 2));
    }
}

#[test]
fn looks_that_nobody_demands_add_a_quarter_or_two_seconds() {
    let looked = |before: u64, expected: &[&str], within: u64| {
        let mut bench = study(None, FINALISTS);
        let played = bench.play_time(0, 0);
        played.pass(before);
        bench.sanitizer = Some(Arc::new(move |job| {
            played.pass(1500);
            race_in(&[])(job)
        }));
        let ran = bench.run(all_pass());
        assert_eq!(ran.log.sanitized, expected, "after {before} ms");
        assert_eq!(ran.log.looks_within[0], Some(Duration::from_millis(within)));
        // The host device began when the default had passed, and goes on with the finalists.
        assert_eq!(ran.log.looks_ahead, [vec!["A=0 B=0"], vec!["A=0 B=1", "A=0 B=0"]]);
        assert_eq!(ran.summary.confirmed, 2);
        bench
    };
    looked(12_000, &["A=0 B=0", "A=0 B=1"], 3000);
    let bench = looked(1000, &["A=0 B=0"], 2000);
    // What did not fit ranks all the same, and the board says how to look at it.
    let states = board(&bench).into_iter().map(|(_, state)| state.unwrap()).collect::<Vec<_>>();
    assert_eq!(states, [GateState::Pass, GateState::NotRun]);
    let section = section(&bench.open().history).unwrap();
    let note = section.entries().nth(1).unwrap().sanitizer.clone().unwrap().message;
    assert!(note.contains("no time was left for compute-sanitizer; `evo sanitize"), "{note}");
    assert!(note.contains(" A=0 B=1 --device "), "{note}");
}

#[test]
fn a_demanded_look_takes_its_time_before_the_comparison() {
    let bench = study(Some(race_in(&["A=0 B=1"])), SanitizePlan { demanded: true, ..FINALISTS });
    let ran = bench.run(all_pass());
    assert_eq!(ran.log.sanitized, ["A=0 B=0", "A=0 B=1", "A=0 B=2"]);
    assert_eq!((ran.log.paired, ran.log.looks_within[0]), (1, None), "what is refused is not compared");
}

#[test]
fn confirmations_of_before_the_demand_do_not_rank_under_it() {
    let mut bench = study(None, FINALISTS);
    bench.run(all_pass());
    assert_eq!(board(&bench).len(), 2);
    bench.options.sanitize.demanded = true;
    assert_eq!(board(&bench), []);
}

#[test]
fn a_resumed_study_takes_answers_over() {
    let mut bench = study(Some(race_in(&["A=0 B=1"])), FINALISTS);
    bench.run(all_pass());
    let before = board(&bench);
    let again = bench.run(all_pass());
    // Measured again, and not looked at again.
    assert!(again.log.deep.len() >= 2 && again.log.sanitized.is_empty(), "{:?}", again.log);
    assert_eq!(again.summary.end.sanitized, None);
    assert_eq!((board(&bench), bench.verdicts()["A=0 B=1"].as_str()), (before, "sanitizer:racecheck"));
    // Where there was no answer, the tool is asked again.
    bench = study(Some(no_answer()), FINALISTS);
    bench.run(all_pass());
    bench.sanitizer = Some(race_in(&[]));
    assert_eq!(bench.run(all_pass()).log.sanitized.len(), 2);
}

#[test]
fn the_best_of_every_so_many_generations_is_looked_at_once() {
    let every = NonZeroU32::new(2);
    let bench = study(Some(race_in(&[])), SanitizePlan { every, ..FINALISTS });
    let ran = bench.run(all_pass());
    let finalists = ["A=0 B=0".to_string(), "A=0 B=1".to_string()];
    // Generations of four, counted from 0. A finalist is not looked at again.
    let due = [1, 3].map(|generation| best_of(&bench, generation));
    let due = due.into_iter().filter(|best| !finalists.contains(best));
    let expected: Vec<String> = finalists.iter().cloned().chain(due).collect();
    assert!(expected.len() > 2 && ran.log.sanitized == expected, "{:?}", ran.log.sanitized);
    let tally = SanitizeTally { seconds: 0.0, ..ran.summary.end.sanitized.unwrap() };
    assert_eq!(tally, SanitizeTally { variants: expected.len() as u64, ..SanitizeTally::default() });
    assert!(bench.run(all_pass()).log.sanitized.is_empty());
}

/// The fastest of a generation.
fn best_of(bench: &TestStudy, generation: u32) -> String {
    let history = bench.open().history;
    let own = history.evaluations.iter().filter(|one| one.generation == generation);
    let fastest = own.min_by(|a, b| a.objective_ns.partial_cmp(&b.objective_ns).unwrap());
    fastest.unwrap().configuration.to_string()
}

#[test]
fn a_finding_in_the_best_of_a_generation_is_its_verdict() {
    let every = NonZeroU32::new(1);
    let bench = study(Some(race_in(&["A=1 B=1"])), SanitizePlan { every, ..FINALISTS });
    let ran = bench.run(all_pass());
    assert_eq!(bench.verdicts()["A=1 B=1"], "sanitizer:racecheck");
    let history = bench.open().history;
    let refused = history.evaluations.iter().find(|one| !one.verdict.is_pass()).unwrap();
    let notice = format!("the best of generation {}: sanitizer:racecheck", refused.generation + 1);
    assert!(told(&ran.events, &notice), "{notice}");
    let view = format!("gen-{:03}.json", refused.generation);
    let view = std::fs::read_to_string(bench.folder().place(&view)).unwrap();
    assert!(view.contains("racecheck"), "the view has the verdict of before");
    assert_eq!((board(&bench).len(), refused.objective_ns), (2, None));
}
