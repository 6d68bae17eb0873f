//! The answer of a sweep at the widths of a narrow, a usual and a wide terminal.

use evo_protocol::leaderboard::{LeaderboardSection, PairedDecision};

use super::{Change, set_decisions};
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

#[test]
fn the_answer_fits_and_says_what_was_found() {
    let champion = leaderboard::section(&wide()).unwrap();
    let tied = |history: &mut History| {
        set_decisions(history, PairedDecision::Same);
        history.evaluations.swap(1, 2);
        history.confirmations.pop();
    };
    // What failed its confirmation is not the best any more.
    let failed = |history: &mut History| {
        history.confirmations.truncate(2);
        history.confirmations[1].evaluation.gates.pop();
    };
    let nothing_else = |history: &mut History| {
        failed(history);
        history.evaluations.truncate(2);
    };
    // Who wins certainly is the answer, whatever ranks first.
    let second_wins = |history: &mut History| {
        history.confirmations[1].pairs[0].decision = PairedDecision::Ambiguous;
        history.confirmations[2].pairs[0].decision = PairedDecision::Faster;
    };
    let traded = |history: &mut History| {
        *history = super::trading(1.2, 1.18);
        history.confirmations.pop();
        set_decisions(history, PairedDecision::Ambiguous);
    };
    let rows: [(&str, Change<'_>, Option<&LeaderboardSection>); 7] = [
        ("a winner", &|_| (), None),
        ("a tie, beside an older champion", &tied, Some(&champion)),
        ("a baseline alone confirms nothing", &|history| history.confirmations.truncate(1), None),
        ("the best failed its confirmation", &failed, None),
        ("and nothing else is left", &nothing_else, None),
        ("the second wins certainly", &second_wins, None),
        ("faster in the mean alone", &traded, None),
    ];
    let screens = rows.iter().flat_map(|(name, change, kept)| {
        let mut history = wide();
        change(&mut history);
        [60, 80, 120].map(|width| format!("=== {name}, at {width}\n{}", screen(&history, *kept, width)))
    });
    insta::assert_snapshot!(screens.collect::<String>());
}
