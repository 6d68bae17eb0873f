//! Results that outlive edits: what is taken over, what is measured anew, and what is said of it.

use std::sync::Arc;

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;

use super::fake::{Script, all_pass, lane_result};
use super::fake_study::{Ran, TestStudy};
use evo_journal::budget::StopReason;
use evo_journal::line;
use evo_journal::reader;
use evo_journal::record::{FORMAT_EDITED, FORMAT_UNEDITED, JournalRecord};
use evo_journal::replay::History;
use evo_journal::writer::JournalWriter;
use evo_report::study::{EarlierLimits, EarlierResults};

const FOUR: &str = "[parameters]\nA = [0, 1]\nB = [0, 1]\n";
const SIX: &str = "[parameters]\nA = [0, 1, 2]\nB = [0, 1]\n";

impl TestStudy {
    /// The same folder and conditions, another space.
    fn edit(&mut self, space: &str) -> &mut TestStudy {
        self.space = SearchSpace::parse(space).unwrap();
        self.options.valid = self.space.count();
        self
    }

    /// Another study in the same folder.
    fn named(&mut self, name: &str) -> &mut TestStudy {
        self.name = name.to_string();
        self
    }

    fn history(&self) -> History {
        History::replay(reader::read(&self.journal()).unwrap())
    }

    fn find(&self, name: &str) -> Evaluation {
        let mut all = self.history().evaluations.into_iter();
        all.find(|one| one.configuration.to_string() == name).unwrap()
    }
}

impl Ran {
    /// Labels of what the device was given, in order of name.
    fn evaluated(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = self.log.evaluated.iter().map(String::as_str).collect();
        labels.sort_unstable();
        labels
    }

    #[track_caller]
    fn said(&self, part: &str) {
        assert!(self.events.iter().any(|event| event.contains(part)), "no `{part}` in {:#?}", self.events);
    }
}

fn with_kind(kind: VerdictKind, label: &'static str) -> Script {
    Arc::new(move |job| {
        let kind = if job.label == label { kind } else { VerdictKind::Pass };
        lane_result(job, kind)
    })
}

#[test]
fn another_study_measures_only_what_is_new() {
    let mut bench = TestStudy::new(FOUR);
    assert_eq!(bench.run(all_pass()).log.evaluated.len(), 4);
    bench.named("t").edit(SIX);
    bench.options.finalists = 1;
    let ran = bench.run(all_pass());
    assert_eq!(ran.evaluated(), ["A=2 B=0", "A=2 B=1"]);
    let end = &ran.summary.end;
    assert_eq!((end.evaluations, end.evaluations_this_run, end.taken_over), (2, 2, 4));
    assert_eq!((end.passed_over, end.reason), (0, StopReason::SpaceExhausted));
    assert_eq!(bench.verdicts().len(), 6);
    ran.said("took over 4 of 4 results measured before (study `s`, ");
    ran.said("`--remeasure` measures them again");
    // Numbers that rank are this run's: the champion and the baseline were measured afresh.
    assert_eq!((ran.summary.confirmed, ran.log.deep.len()), (1, 1), "{:?}", ran.log);
    let default = bench.find("A=0 B=0");
    let source = default.taken_over_from.clone().unwrap();
    assert_eq!((default.number, source.study.as_str(), source.number), (0, "s", 0));
    assert!(default.is_default() && !default.is_counted() && default.device_ms == 0.0);
    assert_eq!(default.objective_ns, Some(1000.0));
    // A third study names the one that measured, not the one that took over.
    let ran = bench.named("u").run(all_pass());
    assert_eq!((ran.evaluated().len(), ran.summary.end.taken_over), (0, 6));
    assert_eq!(bench.find("A=1 B=1").taken_over_from.unwrap().study, "s");
    assert_eq!(bench.find("A=2 B=1").taken_over_from.unwrap().study, "t");
    ran.said("took over 6 of 6");
}

#[test]
fn a_resumed_study_keeps_what_holds_after_an_edit() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(all_pass());
    assert_eq!(bench.history().header.unwrap().format, FORMAT_UNEDITED);
    let before = bench.find("A=1 B=1");
    // One value more, one less.
    bench.edit("[parameters]\nA = [0, 1, 2]\nB = [1]\n");
    bench.options.budget.evaluations = Some(3);
    let ran = bench.run(all_pass());
    assert_eq!(ran.evaluated(), ["A=2 B=1"]);
    ran.said("the study was edited: the space or the kernel has changed");
    ran.said("1 of 4 results of before the edit hold after it");
    ran.said("took over 1 of 1 result measured before (study `s`");
    let history = bench.history();
    assert_eq!((history.evaluations.len(), history.set_aside.len()), (3, 3));
    assert_eq!(history.header.unwrap().format, FORMAT_EDITED);
    assert_eq!(bench.find("A=1 B=1"), before, "kept as it was, with its number");
    // Without a further edit nothing is said or asked again.
    let again = bench.run(all_pass());
    assert!(again.evaluated().is_empty());
    assert!(!again.events.iter().any(|event| event.contains("hold after it")), "{:?}", again.events);
    // Back to the first space: what was measured then holds again.
    let ran = bench.edit(FOUR).run(all_pass());
    assert!(ran.evaluated().is_empty(), "{:?}", ran.evaluated());
    assert_eq!(bench.verdicts().len(), 4);
    let numbers: std::collections::BTreeSet<u64> = bench.history().numbers().collect();
    assert!(numbers.len() > 4, "no number is given twice");
}

#[test]
fn kept_results_count_against_the_budget_and_taken_over_ones_do_not() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(all_pass());
    bench.edit("[parameters]\nA = [0, 1, 2, 3]\nB = [0, 1]\n");
    bench.options.budget.evaluations = Some(6);
    let ran = bench.run(all_pass());
    assert_eq!((ran.summary.end.evaluations, ran.summary.end.evaluations_this_run), (6, 2));
    bench.named("t").options.budget.evaluations = Some(1);
    let ran = bench.run(all_pass());
    assert_eq!((ran.summary.end.evaluations, ran.summary.end.taken_over), (1, 6));
    assert_eq!(ran.summary.end.reason, StopReason::Evaluations);
    let slice = std::fs::read_to_string(bench.out.path().join("t/gen-000.json")).unwrap();
    assert_eq!(slice.matches("\"configuration_hash\"").count(), 1, "nobody proposed what was taken over");
}

#[test]
fn other_conditions_are_measured_again_and_named() {
    let mut bench = TestStudy::new(FOUR);
    bench.conditions.add("check rtol", "0.001");
    bench.run(all_pass());
    bench.conditions.add("check rtol", "0.01");
    let ran = bench.named("t").run(all_pass());
    assert_eq!(ran.evaluated().len(), 4);
    ran.said(
        "none of 4 earlier results of this kernel can be taken over: `check rtol` is `0.01` and was `0.001`",
    );
    // The same in a resumed study.
    let ran = bench.named("s").run(all_pass());
    ran.said("the study was edited: `check rtol` is `0.01` and was `0.001`");
    ran.said("0 of 4 results of before the edit hold after it");
    ran.said("took over 4 of 4 results measured before (study `t`");
    assert!(ran.evaluated().is_empty());
}

#[test]
fn equal_code_under_other_conditions_is_measured_again() {
    let mut bench = TestStudy::new("[parameters]\nA = [0, 1]\nLATE = [0]\n");
    bench.run(all_pass());
    bench.conditions.add("check rtol", "0.01");
    let ran = bench.edit("[parameters]\nA = [0, 1]\nLATE = [1]\n").run(all_pass());
    assert_eq!((ran.evaluated().len(), ran.summary.end.taken_over), (2, 0));
    // Under equal ones it is known.
    let ran = bench.edit("[parameters]\nA = [0, 1]\nLATE = [2]\n").run(all_pass());
    assert_eq!((ran.evaluated().len(), ran.summary.end.taken_over), (0, 2));
}

#[test]
fn another_plan_is_measured_again_and_other_text_with_the_same_code_is_not() {
    let mut bench = TestStudy::new("[parameters]\nA = [0, 1]\nGRID = [1]\nLATE = [0]\n");
    bench.run(all_pass());
    bench.named("grid").edit("[parameters]\nA = [0, 1]\nGRID = [2]\nLATE = [0]\n");
    assert_eq!(bench.run(all_pass()).evaluated().len(), 2);
    // LATE is in the source, not in the machine code: compiled, and then known.
    bench.named("late").edit("[parameters]\nA = [0, 1, 2]\nGRID = [1]\nLATE = [1]\n");
    bench.options.budget.evaluations = Some(1);
    let ran = bench.run(all_pass());
    assert_eq!(ran.evaluated(), ["A=2 GRID=1 LATE=1"], "what is taken over uses no budget");
    bench.options.budget.evaluations = None;
    let rest = bench.run(all_pass());
    assert_eq!((ran.log.compiled.len() + rest.log.compiled.len(), rest.evaluated().len()), (3, 0));
    assert_eq!((rest.summary.end.evaluations, rest.summary.end.taken_over), (1, 2));
    let twin = bench.find("A=1 GRID=1 LATE=1");
    assert_eq!(twin.taken_over_from.unwrap().study, "s");
    assert_eq!(twin.duplicate_of, None);
}

#[test]
fn what_chance_decides_and_what_has_no_verdict_is_measured_again() {
    for (kind, again) in [
        (VerdictKind::WrongAnswer, false),
        (VerdictKind::CrashTrap, false),
        (VerdictKind::Hang, true),
        (VerdictKind::Noisy, true),
        (VerdictKind::TimingEscape, true),
        (VerdictKind::WorkerDied, true),
        (VerdictKind::HarnessError, true),
    ] {
        let mut bench = TestStudy::new(FOUR);
        bench.run(with_kind(kind, "A=1 B=0"));
        let ran = bench.named("t").run(all_pass());
        let expected: &[&str] = if again { &["A=1 B=0"] } else { &[] };
        assert_eq!(ran.evaluated(), expected, "{kind}");
        let verdict = if again { "pass" } else { kind.as_str() };
        assert_eq!(bench.verdicts()["A=1 B=0"], verdict);
    }
}

#[test]
fn a_refusal_stands_against_a_later_pass() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(with_kind(VerdictKind::WrongAnswer, "A=1 B=0"));
    bench.named("t").options.remeasure = true;
    let ran = bench.run(all_pass());
    assert_eq!((ran.evaluated().len(), ran.summary.end.taken_over), (4, 0));
    bench.named("u").options.remeasure = false;
    bench.run(all_pass());
    assert_eq!(bench.verdicts()["A=1 B=0"], "wrong_answer");
}

/// `A=3` is fast; whoever comes later and is slower is too slow.
fn racing() -> Script {
    Arc::new(|job| {
        let mut result = lane_result(job, VerdictKind::Pass);
        let fast = job.label.starts_with("A=3");
        if fast {
            result.objective_ns = Some(500.0);
            result.measurements[0].p50_ns = 500.0;
        } else if job.label.starts_with("A=4") {
            let time = result.objective_ns.unwrap();
            let verdict = Verdict::new(VerdictKind::TooSlow, "").with("ratio", time / 500.0);
            result.verdict = verdict.with(Verdict::RACED, true);
        }
        result
    })
}

#[test]
fn too_slow_is_taken_over_while_something_as_fast_is_there() {
    let mut bench = TestStudy::new("[parameters]\nA = [0, 3, 4]\n");
    bench.run(racing());
    assert_eq!(bench.verdicts()["A=4"], "too_slow");
    let ran = bench.named("t").run(racing());
    assert_eq!((ran.evaluated().len(), ran.summary.end.taken_over), (0, 3));
    // Without the variant that it lost to it may be the best.
    bench.named("u").edit("[parameters]\nA = [0, 4]\n");
    let ran = bench.run(all_pass());
    assert_eq!(ran.evaluated(), ["A=4"]);
    ran.said("took over 1 of 2 results measured before");
    ran.said("; 1 is compared or measured when the search asks for them");
    // The same in the study that measured it.
    bench.named("s").options.remeasure = false;
    let ran = bench.run(all_pass());
    ran.said("1 of 3 results of before the edit hold after it");
    assert_eq!(bench.verdicts()["A=4"], "pass");
}

#[test]
fn a_twin_whose_original_is_gone_speaks_for_itself() {
    let mut bench = TestStudy::new("[parameters]\nA = [0, 1]\nDEAD = [0, 1]\n");
    bench.run(all_pass());
    assert!(bench.find("A=1 DEAD=1").duplicate_of.is_some());
    let ran = bench.edit("[parameters]\nA = [0, 1]\nDEAD = [1]\n").run(all_pass());
    assert!(ran.evaluated().is_empty());
    assert_eq!(bench.find("A=1 DEAD=1").duplicate_of, None, "or it could not be confirmed");
    // Both at once stay twins.
    bench.named("t").edit("[parameters]\nA = [0, 1]\nDEAD = [0, 1]\n").run(all_pass());
    let one = bench.find("A=1 DEAD=0");
    let other = bench.find("A=1 DEAD=1");
    assert_eq!([one.duplicate_of, other.duplicate_of].iter().flatten().count(), 1);
}

#[test]
fn another_default_is_found_by_its_origin() {
    let mut bench = TestStudy::new("[parameters]\nA = [0, 1, 2]\n");
    bench.run(all_pass());
    bench.edit("[parameters]\nA = { values = [0, 1, 2], default = 2 }\n");
    for name in ["s", "t"] {
        assert!(bench.named(name).run(all_pass()).evaluated().is_empty());
        let defaults: Vec<String> = bench
            .history()
            .evaluations
            .iter()
            .filter(|one| one.is_default())
            .map(|one| one.configuration.to_string())
            .collect();
        assert_eq!(defaults, ["A=2"], "{name}");
    }
}

#[test]
fn remeasure_takes_nothing_over() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(all_pass());
    bench.named("t").options.remeasure = true;
    assert_eq!(bench.run(all_pass()).evaluated().len(), 4);
    let ran = bench.named("s").edit(SIX).run(all_pass());
    ran.said("0 of 4 results of before the edit hold after it");
    assert_eq!(ran.evaluated().len(), 6);
}

#[test]
fn a_run_that_died_before_it_settled_an_edit_is_settled_by_the_next() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(all_pass());
    // Opened after the edit, and killed at once.
    drop(bench.edit(SIX).open());
    assert!(bench.history().evaluations.is_empty() && bench.history().is_unsettled);
    let ran = bench.run(all_pass());
    ran.said("4 of 4 results of before the edit hold after it");
    assert_eq!(ran.evaluated(), ["A=2 B=0", "A=2 B=1"]);
    // The header of the edit is lost: what is kept still says where the edit was.
    let text = std::fs::read_to_string(bench.journal()).unwrap();
    let damaged: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(at, line)| match at > 0 && line.contains(r#""kind":"study""#) {
            true => line.replacen("\"crc\":\"", "\"crc\":\"x", 1),
            false => line.to_string(),
        })
        .collect();
    let journal = reader::parse((damaged.join("\n") + "\n").as_bytes());
    assert_eq!(journal.rejected.len(), 2);
    assert_eq!(History::replay(journal).evaluations.len(), 6);
}

#[test]
fn what_is_not_compared_before_the_search_is_taken_over_when_it_is_proposed() {
    let space = |count: usize| {
        let values: Vec<String> = (0..count).map(|value| value.to_string()).collect();
        format!("[parameters]\nA = [0]\nB = [{}]\n", values.join(", "))
    };
    let mut bench = TestStudy::new(&space(30));
    bench.run(all_pass());
    bench.named("t").edit(&space(31)).options.budget.evaluations = Some(1);
    let ran = bench.run(all_pass());
    ran.said("took over 20 of 30 results measured before");
    assert_eq!(ran.evaluated(), ["A=0 B=30"]);
    bench.options.budget.evaluations = None;
    let rest = bench.run(all_pass());
    assert_eq!((rest.evaluated().len(), rest.summary.end.taken_over), (0, 30));
    assert_eq!(ran.log.compiled.len() + rest.log.compiled.len(), 1, "nothing that is known is compiled");
    let one = bench.find("A=0 B=29");
    assert_eq!((one.objective_ns, one.resources.len()), (Some(1029.0), 1));
    let source = one.taken_over_from.unwrap();
    assert_eq!(source.study, "s");
}

#[test]
fn a_run_that_died_while_it_took_over_takes_over_the_rest() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(all_pass());
    bench.named("t").edit(SIX).run(all_pass());
    let (expected, bytes) = (bench.verdicts(), std::fs::read(bench.journal()).unwrap());
    for step in 0..12 {
        let cut = bytes.len() * step / 12;
        std::fs::write(bench.journal(), &bytes[..cut]).unwrap();
        let ran = bench.run(all_pass());
        assert_eq!(bench.verdicts(), expected, "cut at byte {cut}");
        assert_eq!(ran.summary.end.taken_over, 4, "cut at byte {cut}");
        assert!(ran.evaluated().iter().all(|label| label.starts_with("A=2")), "{:?}", ran.evaluated());
    }
}

#[test]
fn older_and_foreign_and_damaged_studies_stop_nothing() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(all_pass());
    let journal = std::fs::read_to_string(bench.journal()).unwrap();
    let place = |name: &str, text: &str| {
        let folder = bench.out.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("journal.jsonl"), text).unwrap();
    };
    place("empty", "");
    place("noise", "\u{0}\u{1}not a journal\n{}\n");
    place("headless", journal.split_once('\n').unwrap().1);
    place("flipped", &journal.replace("\"objective_ns\":1010.0", "\"objective_ns\":1.0"));
    std::os::unix::fs::symlink(bench.out.path().join("s"), bench.out.path().join("link")).unwrap();
    std::fs::create_dir_all(bench.out.path().join("pipe/journal.jsonl")).unwrap();
    std::fs::remove_dir_all(bench.out.path().join("s")).unwrap();
    let ran = bench.named("t").edit(SIX).run(all_pass());
    assert_eq!(ran.evaluated(), ["A=1 B=0", "A=2 B=0", "A=2 B=1"]);
    ran.said("1 damaged line of study `flipped` is left out");
    ran.said(
        "results of `empty`, `headless`, `noise` are not looked at: no journal of this evo can be read there",
    );
    ran.said("took over 3 of 3 results measured before (study `flipped`");
}

#[test]
fn reading_is_bounded() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(all_pass());
    let own = bench.named("t").open();
    let size = std::fs::metadata(bench.out.path().join("s/journal.jsonl")).unwrap().len();
    let read =
        |bytes, folders| EarlierResults::beside(own.out(), own.header(), EarlierLimits { folders, bytes });
    assert_eq!(read(size, 1).results.len(), 4);
    let refused = read(size - 1, 1);
    assert!(refused.results.is_empty());
    assert_eq!(refused.notices.len(), 1, "{:?}", refused.notices);
    assert!(read(size, 0).results.is_empty());
    // A run beside this one may be in the middle of a line.
    let journal = bench.out.path().join("s/journal.jsonl");
    let whole = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    let torn = read(2 * size, 1);
    assert!(torn.results.len() >= 4 && torn.notices.is_empty(), "{:?}", torn.notices);
}

#[test]
fn results_of_before_keys_were_kept_are_measured_again() {
    let mut bench = TestStudy::new(FOUR);
    bench.run(all_pass());
    let records = reader::read(&bench.journal()).unwrap().records.into_iter().map(|record| match record {
        JournalRecord::Evaluation(one) => {
            JournalRecord::Evaluation(Box::new(Evaluation { key: None, ..*one }))
        }
        JournalRecord::Study(mut header) => {
            header.conditions = None;
            JournalRecord::Study(header)
        }
        other => other,
    });
    let text: String = records.map(|record| line::encode(&record).unwrap()).collect();
    std::fs::write(bench.journal(), text).unwrap();
    let ran = bench.named("t").run(all_pass());
    assert_eq!(ran.evaluated().len(), 4);
    ran.said("none of 4 earlier results of this kernel can be taken over: an older evo measured them");
    // The study itself goes on as it was, until it is edited.
    let ran = bench.named("s").run(all_pass());
    assert!(ran.evaluated().is_empty(), "{:?}", ran.evaluated());
    bench.options.remeasure = true;
    assert_eq!(bench.edit(SIX).run(all_pass()).evaluated().len(), 6);
}

#[test]
fn what_was_in_flight_at_a_crash_is_still_queued_after_an_edit() {
    let mut bench = TestStudy::new(FOUR);
    drop(bench.open());
    let configuration = Configuration::new(vec![("A".into(), 1.into()), ("B".into(), 1.into())]);
    let gone = Configuration::new(vec![("A".into(), 9.into()), ("B".into(), 1.into())]);
    let length = std::fs::metadata(bench.journal()).unwrap().len();
    let mut writer = JournalWriter::append_after(&bench.folder(), length).unwrap();
    for (number, configuration) in [(0, configuration), (1, gone)] {
        writer.append(&JournalRecord::Started { number, configuration, lane: None, at_ms: None }).unwrap();
    }
    let ran = bench.edit(SIX).run(all_pass());
    assert_eq!(ran.evaluated().len(), 6);
    assert_eq!(bench.find("A=1 B=1").number, 0);
}
