//! The last screen of a sweep at the widths of a narrow, a usual and a wide terminal.

use evo_protocol::device::DeviceKind;
use evo_protocol::leaderboard::PairedDecision;

use super::{history, wide};
use crate::{closing, text};
use evo_journal::leaderboard;
use evo_journal::record::RepeatedComparison;

fn screen(width: usize) -> String {
    let (section, header) = (wide(), history().header.unwrap());
    let lines = |lines: Vec<crate::styled::StyledLine>| {
        lines.iter().map(|line| line.text(false).trim_end().to_string() + "\n").collect::<String>()
    };
    lines(closing::won(&section, width))
        + &text::untitled(&section, width)
        + &lines(closing::next_steps(&header, "evidence", width))
}

#[test]
fn the_end_at_60_columns() {
    insta::assert_snapshot!(screen(60));
}

#[test]
fn the_end_at_100_columns() {
    insta::assert_snapshot!(screen(100));
}

#[test]
fn the_end_at_160_columns() {
    insta::assert_snapshot!(screen(160));
}

#[test]
fn only_a_command_to_be_copied_is_wider_than_the_terminal() {
    for width in [60, 80, 100, 160] {
        for line in screen(width).lines().filter(|line| !line.contains("evo ")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn what_to_do_next_fits_the_device_and_names_the_folder() {
    let mut header = history().header.unwrap();
    header.device.kind = DeviceKind::Cuda;
    let steps = closing::next_steps(&header, "my runs", 200);
    let steps: Vec<String> = steps.iter().map(|line| line.text(false)).collect();
    assert!(steps[0].starts_with("next:    evo profile gemm @champion --out 'my runs'"), "{steps:?}");
    for command in ["restore", "export", "report", "gate"] {
        let named = |line: &&String| line.contains(&format!("evo {command} "));
        let line = steps.iter().find(named).unwrap();
        assert!(line.contains("--out 'my runs'"), "{line}");
    }
}

/// The champion's row of a study whose second card saw so much of the win.
fn repeated(decision: PairedDecision) -> String {
    let mut history = history();
    for one in history.confirmations.iter_mut().filter(|one| one.number == 1) {
        let mut pairs = one.pairs.clone();
        pairs.iter_mut().for_each(|pair| pair.decision = decision);
        one.repeated = Some(RepeatedComparison { lane: 1, device_uuid: "GPU-2".into(), pairs });
    }
    text::section(&leaderboard::section(&history).unwrap(), 100)
}

#[test]
fn a_win_that_does_not_repeat_is_one_of_this_card_only() {
    let text = repeated(PairedDecision::Same);
    assert!(text.contains("  this card only\n"), "{text}");
    assert!(text.contains("the win does not repeat on a second card: #1 (2.00× on GPU-2)"), "{text}");
    assert!(!repeated(PairedDecision::Faster).contains("this card only"));
}
