//! The first failure of each kind of verdict, with a command that shows it again: what a person needs when
//! nothing passed, or when the default configuration did not.

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictKind;
use evo_space::text::quote;
use serde_json::{Value, json};

use evo_journal::leaderboard;
use evo_journal::record::StudyHeader;

/// Letters of a message that are shown; the journal has all of it.
const SHOWN: usize = 160;

pub struct FirstFailure<'a> {
    pub first: &'a Evaluation,
    pub count: usize,
    pub repro: String,
}

pub fn passed(evaluations: &[Evaluation]) -> usize {
    evaluations.iter().filter(|evaluation| evaluation.verdict.is_pass()).count()
}

/// A variant that was passed over did not fail: nothing of it ran.
fn failed(evaluations: &[Evaluation]) -> impl Iterator<Item = &Evaluation> {
    evaluations.iter().filter(|evaluation| evaluation.is_counted() && !evaluation.verdict.is_pass())
}

/// The first failure of each kind, in the order in which the kinds appeared.
pub fn first_of_each<'a>(header: &StudyHeader, evaluations: &'a [Evaluation]) -> Vec<FirstFailure<'a>> {
    let mut failures: Vec<FirstFailure<'a>> = Vec::new();
    for first in failed(evaluations) {
        match failures.iter_mut().find(|failure| failure.first.verdict.kind == first.verdict.kind) {
            Some(failure) => failure.count += 1,
            None => failures.push(FirstFailure::of(header, first)),
        }
    }
    failures
}

pub fn of_default<'a>(header: &StudyHeader, evaluations: &'a [Evaluation]) -> Option<FirstFailure<'a>> {
    failed(evaluations)
        .find(|evaluation| evaluation.is_default())
        .map(|first| FirstFailure::of(header, first))
}

/// Whether evo itself failed every time, so that nothing is known of any variant; `not_final` have no verdict.
pub fn is_all_harness(evaluations: &[Evaluation], not_final: u64) -> bool {
    let mut counted = evaluations.iter().filter(|evaluation| evaluation.is_counted()).peekable();
    let is_something = not_final > 0 || counted.peek().is_some();
    is_something && counted.all(|evaluation| evaluation.verdict.kind == VerdictKind::HarnessError)
}

/// A recorded failure can only be read again. The command line knows the recording's file; the header's
/// device has only the name of the recorded GPU.
fn replay_again(header: &StudyHeader) -> String {
    let words = header.environment.command.iter().map(|word| word.strip_prefix("--device=").unwrap_or(word));
    let recording = words.into_iter().find(|word| word.starts_with("replay:")).unwrap_or(&header.space);
    let space = match header.space.starts_with("replay:") {
        true => String::new(),
        false => format!("{} ", quote(&header.space)),
    };
    format!("evo sweep {space}--device {} --seed {}", quote(recording), header.seed)
}

impl FirstFailure<'_> {
    fn of<'a>(header: &StudyHeader, first: &'a Evaluation) -> FirstFailure<'a> {
        let repro = match header.device.kind {
            DeviceKind::Replay => replay_again(header),
            _ => leaderboard::repro(header, &first.configuration),
        };
        FirstFailure { first, count: 1, repro }
    }

    /// `wrong_answer:tail: 3 elements differ`, cut to one line.
    pub fn text(&self) -> String {
        let verdict = &self.first.verdict;
        let line = verdict.message.lines().next().unwrap_or_default();
        let cut = if line.chars().count() > SHOWN { "…" } else { "" };
        let line: String = line.chars().take(SHOWN).collect();
        match line.is_empty() {
            true => verdict.label(),
            false => format!("{}: {line}{cut}", verdict.label()),
        }
    }

    pub fn json(&self) -> Value {
        let Evaluation { number, configuration, verdict, .. } = self.first;
        json!({
            "verdict": verdict.kind,
            "count": self.count,
            "first": {
                "number": number, "configuration": configuration, "cause": verdict.cause, "message": verdict.message,
            },
            "repro": self.repro,
        })
    }
}

/// The page of a run in which nothing passed.
pub fn text(failures: &[FirstFailure<'_>]) -> String {
    if failures.is_empty() {
        return "nothing was evaluated\n".to_string();
    }
    let mut text = "nothing passed; the first failure of each verdict:\n".to_string();
    for failure in failures {
        let times = if failure.count == 1 { String::new() } else { format!(" ({} times)", failure.count) };
        text += &format!("  {}{times}\n    again: {}\n", failure.text(), failure.repro);
    }
    text
}

#[cfg(test)]
mod tests {
    use evo_protocol::evaluation::DEFAULT_ORIGIN;
    use evo_protocol::verdict::Verdict;
    use evo_space::genome::Configuration;

    use super::*;
    use evo_journal::example as fake;

    fn evaluations(verdicts: &[(VerdictKind, &str)]) -> Vec<Evaluation> {
        let one = |(number, (kind, message)): (usize, &(VerdictKind, &str))| {
            let configuration = Configuration::new(vec![("A".into(), (number as i64).into())]);
            let origin = if number == 0 { DEFAULT_ORIGIN } else { "random" };
            let verdict = Verdict::new(*kind, *message);
            fake::evaluation(number as u64, configuration, origin, verdict)
        };
        verdicts.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_first_failure_of_each_verdict_stands_for_all() {
        let all = evaluations(&[
            (VerdictKind::WrongAnswer, "3 elements differ\nmore"),
            (VerdictKind::CompileError, "k.cu(1): error"),
            (VerdictKind::WrongAnswer, "7 elements differ"),
            (VerdictKind::PassedOver, ""),
        ]);
        let header = fake::header();
        let found = first_of_each(&header, &all);
        let told: Vec<(String, usize)> = found.iter().map(|one| (one.text(), one.count)).collect();
        let wrong = "wrong_answer: 3 elements differ".to_string();
        assert_eq!(told, [(wrong.clone(), 2), ("compile_error: k.cu(1): error".to_string(), 1)]);
        assert!(text(&found).contains(&format!("\n  {wrong} (2 times)\n    again: {}\n", found[0].repro)));
        assert_eq!((of_default(&header, &all).unwrap().text(), passed(&all)), (wrong, 0));
    }

    #[test]
    fn a_recorded_failure_is_replayed_again() {
        let mut header = fake::header();
        header.device.kind = DeviceKind::Replay;
        header.environment.command =
            ["evo", "sweep", "--device=replay:my file.json"].map(String::from).into();
        let all = evaluations(&[(VerdictKind::WrongAnswer, "")]);
        let repro = |header: &StudyHeader| first_of_each(header, &all)[0].repro.clone();
        assert_eq!(repro(&header), "evo sweep fake.toml --device 'replay:my file.json' --seed 1");
        header.space = "replay:my file.json".into();
        assert_eq!(repro(&header), "evo sweep --device 'replay:my file.json' --seed 1");
    }

    #[test]
    fn our_own_trouble_alone_is_told_apart() {
        let harness = (VerdictKind::HarnessError, "no");
        assert!(is_all_harness(&evaluations(&[harness, harness, (VerdictKind::PassedOver, "")]), 0));
        assert!(!is_all_harness(&evaluations(&[harness, (VerdictKind::CompileError, "")]), 1));
        assert!(!is_all_harness(&[], 0));
        assert!(is_all_harness(&[], 1));
    }
}
