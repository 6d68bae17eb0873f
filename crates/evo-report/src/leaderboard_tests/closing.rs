//! The answer of a sweep at the widths of a narrow, a usual and a wide terminal.

use evo_protocol::leaderboard::{LeaderboardSection, PairedDecision};

use crate::closing::{self, Ending};
use crate::text;
use evo_journal::leaderboard;
use evo_journal::replay::History;

/// The example with the command that made it.
fn wide() -> History {
    let mut history = super::wide();
    let command = "evo sweep gemm --device host --finalists 0 --study=gemm-host --budget 9s";
    let header = history.header.as_mut().unwrap();
    header.environment.command = command.split(' ').map(String::from).collect();
    history
}

fn decided(history: &mut History, decision: PairedDecision) {
    history.confirmations.iter_mut().flat_map(|one| &mut one.pairs).for_each(|pair| pair.decision = decision);
}

fn screen(history: &History, kept: Option<&LeaderboardSection>, width: usize) -> String {
    let section = leaderboard::section(history).filter(|own| !closing::is_undecided(own, history));
    let (header, out) = (history.header.as_ref().unwrap(), "evidence");
    let (section, tries_special_values, left_out) = (section.as_ref(), false, usize::from(kept.is_some()));
    let ending = Ending { header, history, section, kept, left_out, tries_special_values, out };
    let table = match section {
        Some(section) => text::first_rows(section, 5, width),
        None => text::unconfirmed(&history.evaluations, 5, "screened", width),
    };
    let answer = closing::answer(&ending, width);
    let lines = answer.iter().map(|line| line.text(false).trim_end().to_string() + "\n");
    let screen = table + "\n" + &lines.collect::<String>();
    for line in screen.lines().filter(|line| !line.contains("evo ")) {
        assert!(line.chars().count() <= width, "{width}: {line}");
    }
    assert!(screen.lines().count() <= 20, "{screen}");
    screen
}

fn check_screens(name: &str, history: &History, kept: Option<&LeaderboardSection>) {
    for width in [60, 80, 120] {
        insta::assert_snapshot!(format!("{name}_{width}"), screen(history, kept, width));
    }
}

#[test]
fn a_winner() {
    check_screens("winner", &wide(), None);
}

#[test]
fn a_tie_and_an_older_champion() {
    let mut history = wide();
    let kept = leaderboard::section(&history).unwrap();
    decided(&mut history, PairedDecision::Same);
    history.evaluations.swap(1, 2);
    history.confirmations.pop();
    check_screens("tie", &history, Some(&kept));
}

#[test]
fn a_baseline_alone_confirms_nothing() {
    let mut history = wide();
    history.confirmations.truncate(1);
    check_screens("unconfirmed", &history, None);
    // What failed its confirmation is not the best any more.
    let mut failed = wide().confirmations.remove(1);
    failed.evaluation.gates.pop();
    history.confirmations.push(failed);
    assert!(screen(&history, None, 80).contains("not confirmed: 100.5 µs, 1.99× (screened)"));
    history.evaluations.truncate(2);
    let text = screen(&history, None, 80);
    let said = "\nno variant is certainly faster than the default\nbest     the default config";
    assert!(text.contains(said), "{text}");
}

#[test]
fn who_wins_certainly_is_the_answer_whatever_ranks_first() {
    let mut history = wide();
    history.confirmations[1].pairs[0].decision = PairedDecision::Ambiguous;
    history.confirmations[2].pairs[0].decision = PairedDecision::Faster;
    let text = screen(&history, None, 80);
    assert!(text.contains("\nwinner   BLOCK_M=64 UNROLL=4\nspeed    1.99× the default"), "{text}");
    assert!(text.ends_with("\nexport   evo export gemm @2 --study gemm-host --to app\n"), "{text}");
}

#[test]
fn what_is_faster_in_the_mean_alone_is_said() {
    let mut history = super::trading(1.2, 1.18);
    history.confirmations.pop();
    decided(&mut history, PairedDecision::Ambiguous);
    let text = screen(&history, None, 80);
    let said = "\nbest     the default configuration\ntraded   BLOCK_M=32 is 1.29× in the mean and slower on `small` by";
    assert!(text.contains(said), "{text}");
}
