//! Which verdicts have to be seen twice, and how much trouble is too much for a run: pure decisions, which
//! `trouble` acts on.

use std::collections::BTreeMap;

use evo_protocol::verdict::{Cause, Verdict};

/// The run stops after this many variants without a verdict in a row.
const IN_A_ROW: u64 = 10;

/// The run stops when more than this share of its variants has no verdict: at least `AT_LEAST` of at least
/// `TRIED`, so that a run does not end for one unlucky variant, nor at its beginning.
const SHARE: f64 = 0.05;
const AT_LEAST: u64 = 5;
const TRIED: u64 = 20;

/// Letters of a message by which troubles are told apart.
const SHOWN: usize = 240;

/// Said where a trouble names no better way out.
const HINT: &str = "`evo preflight` and `evo selftest` look at this machine";

/// What a verdict or a trouble means for a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// It is the variant's verdict.
    Final,
    /// It has to be seen again.
    Again,
    /// It was seen twice, and still says nothing about the variant.
    NotFinal,
}

/// Why a run stopped early, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTrouble {
    /// What is wrong with the machine.
    pub text: String,
    /// What a person can do about it.
    pub hint: String,
}

impl RunTrouble {
    /// With the usual way out.
    pub(super) fn new(text: &str) -> RunTrouble {
        RunTrouble { text: text.to_string(), hint: HINT.to_string() }
    }
}

/// What one kind of trouble amounted to.
#[derive(Clone, Debug, Default)]
struct SaidTrouble {
    times: u64,
    hint: Option<String>,
}

/// The variants of this run that have no verdict.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    total: u64,
    in_a_row: u64,
    /// Those in a row, by message.
    row: BTreeMap<String, SaidTrouble>,
    /// All of them, by message.
    all: BTreeMap<String, SaidTrouble>,
    /// Why the run stopped, if it did.
    pub stopped: Option<RunTrouble>,
}

impl Troubles {
    /// A variant got its verdict.
    pub(super) fn note_verdict(&mut self) {
        self.in_a_row = 0;
        self.row.clear();
    }

    /// A variant has none; `evaluated` have one in this run. Why the run has to stop, if it has to.
    pub(super) fn note_trouble(&mut self, verdict: &Verdict, evaluated: u64) -> Option<RunTrouble> {
        // Without the phase: the same trouble in two phases is one trouble of the machine's.
        let line = verdict.message.lines().next().unwrap_or_default();
        let line = line.split_once(" (phase ").map_or(line, |(start, _)| start);
        let message: String = line.chars().take(SHOWN).collect();
        let hint = verdict.evidence.get(Verdict::HINT).and_then(|hint| hint.as_str()).map(String::from);
        for said in [&mut self.row, &mut self.all] {
            let one = said.entry(message.clone()).or_default();
            one.times += 1;
            one.hint = one.hint.take().or_else(|| hint.clone());
        }
        self.total += 1;
        self.in_a_row += 1;
        if self.in_a_row >= IN_A_ROW {
            return Some(in_words(&self.row, |times| format!("{times} times in a row"), self.in_a_row));
        }
        let tried = self.total + evaluated;
        let is_known = self.total >= AT_LEAST && tried >= TRIED;
        let is_too_much = is_known && self.total as f64 > SHARE * tried as f64;
        is_too_much
            .then(|| in_words(&self.all, |times| format!("{times} times in {tried} variants"), self.total))
    }
}

/// `the C++ compiler was killed by SIGKILL 10 times in a row`; the most frequent trouble first.
fn in_words(said: &BTreeMap<String, SaidTrouble>, count: impl Fn(u64) -> String, total: u64) -> RunTrouble {
    let mut all: Vec<(&String, &SaidTrouble)> = said.iter().collect();
    all.sort_by_key(|(_, one)| std::cmp::Reverse(one.times));
    let hint = all.iter().find_map(|(_, one)| one.hint.clone()).unwrap_or_else(|| HINT.to_string());
    let text = match all.as_slice() {
        [(message, _)] => format!("{message} {}", count(total)),
        several => {
            let list = several.iter().map(|(message, one)| format!("{message} ({})", one.times));
            format!("variants could not be judged, {}: {}", count(total), list.collect::<Vec<_>>().join("; "))
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

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::VerdictKind;

    use super::*;

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
        let stops: Vec<Option<RunTrouble>> =
            (0..10).map(|_| troubles.note_trouble(&killed, 10_000)).collect();
        assert!(stops[..9].iter().all(Option::is_none));
        let stop = stops[9].clone().unwrap();
        assert_eq!(stop.text, "the C++ compiler was killed by SIGKILL 10 times in a row");
        assert_eq!(stop.hint, "look at dmesg");
        troubles.note_verdict();
        assert!(troubles.note_trouble(&killed, 10_000).is_none(), "a verdict ends the row");
    }

    #[test]
    fn a_share_stops_a_run_and_a_single_trouble_does_not() {
        let mut troubles = Troubles::default();
        let mut after = |message: &str, evaluated| {
            troubles.note_verdict();
            troubles.note_trouble(&trouble(message), evaluated)
        };
        for _ in 0..4 {
            assert_eq!(after("one", 60), None);
        }
        let stop = after("two", 50).unwrap();
        assert_eq!(stop.text, "variants could not be judged, 5 times in 55 variants: one (4); two (1)");
        assert_eq!(stop.hint, HINT);
        assert_eq!(after("two", 200), None, "6 of 206");
        assert_eq!(after("two", 12), None, "too early to tell");
    }
}
