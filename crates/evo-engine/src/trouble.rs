//! Trouble that no variant is to blame for: killed processes, missing tools and folders, a harness that fails.
//!
//! Such a variant is tried once more, on its own and from the beginning. If that fails too, the journal keeps it as
//! `not_final`: it uses no budget, the strategy learns nothing from it, and the next `--resume` tries it again. A
//! machine on which this happens many times in a row gives no results worth having, so the run then stops and says what
//! is wrong.

use std::collections::BTreeMap;
use std::io;

use evo_compile::FULL_CACHE_HINT;
use evo_journal::error::JournalError;
use evo_protocol::verdict::{Cause, Verdict};
use evo_system::process::EXHAUSTED_HINT;
use thiserror::Error;

const IN_A_ROW: u64 = 10;

/// Letters of a message by which troubles are told apart.
const SHOWN: usize = 240;

const HINT: &str = "`evo preflight` and `evo selftest` look at this machine";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Final,
    Again,
    /// It was seen twice, and still says nothing about the variant.
    NotFinal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTrouble {
    pub text: String,
    pub hint: String,
}

impl RunTrouble {
    pub(super) fn new(text: &str) -> RunTrouble {
        RunTrouble { text: text.to_string(), hint: HINT.to_string() }
    }
}

#[derive(Clone, Debug, Default)]
struct SaidTrouble {
    times: u64,
    hint: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// By their messages, since the last verdict.
    row: BTreeMap<String, SaidTrouble>,
    pub stopped: Option<RunTrouble>,
}

impl Troubles {
    pub(super) fn note_verdict(&mut self) {
        self.row.clear();
    }

    /// A variant has none. Why the run has to stop, if it has to.
    pub(super) fn note_trouble(&mut self, verdict: &Verdict) -> Option<RunTrouble> {
        // Without the phase: the same trouble in two phases is one trouble of the machine's.
        let line = verdict.message.lines().next().unwrap_or_default();
        let line = line.split_once(" (phase ").map_or(line, |(start, _)| start);
        let hint = verdict.evidence.get(Verdict::HINT).and_then(|hint| hint.as_str()).map(String::from);
        let said = self.row.entry(line.chars().take(SHOWN).collect()).or_default();
        said.times += 1;
        said.hint = said.hint.take().or(hint);
        let total: u64 = self.row.values().map(|said| said.times).sum();
        (total >= IN_A_ROW).then(|| in_words(&self.row, total))
    }
}

/// `the C++ compiler was killed by SIGKILL 10 times in a row`; the most frequent trouble first.
fn in_words(said: &BTreeMap<String, SaidTrouble>, total: u64) -> RunTrouble {
    let mut all: Vec<(&String, &SaidTrouble)> = said.iter().collect();
    all.sort_by_key(|(_, one)| std::cmp::Reverse(one.times));
    let hint = all.iter().find_map(|(_, one)| one.hint.clone()).unwrap_or_else(|| HINT.to_string());
    let text = match all.as_slice() {
        [(message, _)] => format!("{message} {total} times in a row"),
        several => {
            let list = several.iter().map(|(message, one)| format!("{message} ({})", one.times));
            let list = list.collect::<Vec<_>>().join("; ");
            format!("variants could not be judged, {total} times in a row: {list}")
        }
    };
    RunTrouble { text, hint }
}

/// Decides between a first and a second look. `first` is what the first try ended with, if there was one.
pub(super) fn weigh(first: Option<&Verdict>, verdict: &Verdict) -> Weight {
    match first {
        _ if !verdict.is_trouble() && !verdict.is_in_doubt() => Weight::Final,
        // The file with the reference does not change by asking again.
        _ if verdict.is_trouble() && verdict.has_cause(Cause::Task) => Weight::NotFinal,
        None => Weight::Again,
        Some(first) if !verdict.is_trouble() && first.label() == verdict.label() => Weight::Final,
        Some(_) => Weight::NotFinal,
    }
}

pub(super) type EngineResult<T = ()> = Result<T, EngineError>;

#[derive(Debug, Error)]
pub enum EngineError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{0}")]
    CacheFull(String),
    #[error("cannot start a thread for the device")]
    Thread(#[source] io::Error),
    #[error("the {0} stopped unexpectedly")]
    Stopped(&'static str),
}

impl EngineError {
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Journal(error) => error.hint(),
            EngineError::CacheFull(_) => Some(FULL_CACHE_HINT.to_string()),
            EngineError::Thread(_) => Some(EXHAUSTED_HINT.to_string()),
            EngineError::Stopped(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use evo_journal::budget::StopReason;
    use evo_protocol::verdict::VerdictKind;
    use evo_supervise::job::Judgement;

    use super::*;
    use crate::fake::{Plays, Script, TestStudy, all_pass, failing, lane_result, passed, undisturbed};

    fn trouble(message: &str) -> Verdict {
        Verdict::new(VerdictKind::HarnessError, message).with_cause(Cause::Killed)
    }

    #[test]
    fn what_is_in_doubt_counts_when_it_is_seen_again() {
        let crash = Verdict::new(VerdictKind::CompilerCrash, "").in_doubt();
        let plain = Verdict::new(VerdictKind::CompileError, "");
        let check = |first: Option<&Verdict>, verdict: &Verdict, expected| {
            assert_eq!(weigh(first, verdict), expected, "{first:?} {verdict:?}");
        };
        check(None, &plain, Weight::Final);
        check(Some(&crash), &plain, Weight::Final);
        check(None, &crash, Weight::Again);
        check(Some(&crash), &crash, Weight::Final);
        check(Some(&trouble("")), &crash, Weight::NotFinal);
        check(None, &trouble(""), Weight::Again);
        check(Some(&trouble("")), &trouble(""), Weight::NotFinal);
        let task = Verdict::new(VerdictKind::HarnessError, "").with_cause(Cause::Task);
        check(None, &task, Weight::NotFinal);
    }

    #[test]
    fn too_much_trouble_is_said_in_words() {
        let killed =
            trouble("the C++ compiler was killed by SIGKILL\nmore").with(Verdict::HINT, "look at dmesg");
        let mut troubles = Troubles::default();
        let stops: Vec<Option<RunTrouble>> = (0..10).map(|_| troubles.note_trouble(&killed)).collect();
        assert!(stops[..9].iter().all(Option::is_none));
        let stop = stops[9].clone().unwrap();
        assert_eq!(stop.text, "the C++ compiler was killed by SIGKILL 10 times in a row");
        assert_eq!(stop.hint, "look at dmesg");
        troubles.note_verdict();
        assert!(troubles.note_trouble(&trouble("two")).is_none(), "a verdict ends the row");
        let stops: Vec<Option<RunTrouble>> = (0..9).map(|_| troubles.note_trouble(&trouble("one"))).collect();
        let stop = stops[8].clone().unwrap();
        assert_eq!(stop.text, "variants could not be judged, 10 times in a row: one (9); two (1)");
        assert_eq!(stop.hint, HINT);
    }

    const PLAIN: &str = "[parameters]\nA = [0, 1, 2, 3, 6, 7]\nB = [0, 1, 2]\n";

    fn killed() -> Verdict {
        trouble("the C++ compiler was killed by SIGKILL")
    }

    fn failing_first(times: usize, hits: fn(&str) -> bool) -> Script {
        let tries = AtomicUsize::new(0);
        failing(VerdictKind::HarnessError, move |job| {
            hits(&job.label) && tries.fetch_add(1, Ordering::Relaxed) < times
        })
    }

    #[test]
    fn what_no_variant_is_to_blame_for_is_nobodys_verdict() {
        let mut plays = Plays::default();
        // So few that all are under way before anything comes of one, so that the order is always the same. Every source
        // but one fails at its first compilation, and that one at its first evaluation.
        let four = "[parameters]\nA = [0, 6]\nB = [0, 1]\n";
        plays.play("trouble that passes leaves no trace in the verdicts", four, |bench| {
            bench.trouble =
                Some(Arc::new(|source, tries| (tries == 1 && !source.starts_with("code 0 1 ")).then(killed)));
            bench.run(failing_first(1, |label| label == "A=0 B=1"));
            assert_eq!(bench.verdicts(), undisturbed(four));
        });
        plays.play("trouble before the compilers", "[parameters]\nA = [0, 8]\nB = [0, 1]\n", |bench| {
            bench.run(all_pass());
        });
        // A resume judges it under its own number although the budget is used up.
        plays.play("a variant without a verdict uses no budget and is tried again", PLAIN, |bench| {
            bench.trouble = Some(Arc::new(|source, _| source.starts_with("code 0 2 ").then(killed)));
            bench.budget(7).run(all_pass());
            bench.trouble = None;
            bench.run(all_pass());
            bench.budget(None).run(all_pass());
            assert_eq!(bench.verdicts(), undisturbed(PLAIN));
        });
        let sixteen = "[parameters]\nA = [0, 1, 2, 3]\nB = [0, 1, 2, 3]\n";
        plays.play("ten in a row stop the run and a resume completes it", sixteen, |bench| {
            bench.options.finalists = 1;
            bench.trouble = Some(Arc::new(|_, _| Some(killed())));
            bench.run(all_pass());
            bench.trouble = None;
            bench.run(all_pass());
        });
        let two = "[parameters]\nA = { values = [0, 1], default = 1 }\n";
        // The second deep evaluation fails once, and is made again.
        plays.play("a finalist is not refused for trouble", two, |bench| {
            let deep = AtomicUsize::new(0);
            bench.options.finalists = 1;
            bench.run(failing(VerdictKind::HarnessError, move |job| {
                job.deep && deep.fetch_add(1, Ordering::Relaxed) == 1
            }));
            bench.run(failing(VerdictKind::HarnessError, |job| job.deep));
            assert!(bench.history().confirmations.iter().all(|one| one.evaluation.verdict.is_pass()));
        });
        plays.play("a worker that cannot be started stops the run and not the device", two, |bench| {
            bench.run(Arc::new(|job| {
                let message = "two new workers failed in a row: cannot start the worker";
                let verdict = Verdict::new(VerdictKind::HarnessError, message);
                Judgement { verdict, lost: true, ..lane_result(job, VerdictKind::HarnessError) }
            }));
            bench.run(all_pass());
        });
        for times in [1, 9] {
            plays.play("a crash counts when the compiler crashes again", four, |bench| {
                let crash =
                    || Verdict::new(VerdictKind::CompilerCrash, "the compiler died (SIGSEGV)").in_doubt();
                bench.trouble = Some(Arc::new(move |source, tries| {
                    (source.starts_with("code 0 1 ") && tries <= times).then(crash)
                }));
                bench.run(all_pass());
            });
        }
        insta::assert_snapshot!(plays.0);
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
        assert_eq!((compiled, bench.verdicts()), (2, undisturbed(PLAIN)));
    }

    #[test]
    fn twins_of_a_variant_without_a_verdict_are_judged_by_themselves() {
        for space in
            ["[parameters]\nA = [0, 1]\nDEAD = [0, 1, 2]\n", "[parameters]\nA = [0, 1]\nLATE = [0, 1, 2]\n"]
        {
            let bench = TestStudy::new(space);
            // The first variant fails for good: twice in the engine's eyes.
            let ran = bench.run(failing_first(2, |label| label.starts_with("A=0")));
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
            passed(job)
        }));
        assert_eq!(ran.summary.end.reason, StopReason::SpaceExhausted);
        ran.said("it is tried again at the end");
        assert!(place.is_file());
    }
}
