//! The end of a sweep in a few lines, above and below its table: what won, by how much and with what certainty, and what
//! to do next.

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{LeaderboardSection, PairedDecision, RankedEntry};
use evo_space::shell::quote;

use super::styled::{StyledLine, Tone};
use super::text::time;
use super::width::wrapped;
use evo_journal::leaderboard::repro;
use evo_journal::record::StudyHeader;

/// A label's column.
const LABEL: usize = 9;

/// The folder that commands look into by themselves.
const USUAL_OUT: &str = "evidence";

fn label(name: &str) -> StyledLine {
    StyledLine::new(Tone::Faint, format!("{name:<LABEL$}"))
}

fn title(kernel: &str, device: &str, problems: &[String], width: usize) -> Vec<StyledLine> {
    let text = wrapped(&format!("{kernel} on {device} · {}", problems.join(", ")), width);
    text.lines().map(|line| StyledLine::new(Tone::Strong, line)).collect()
}

/// What won, above the table of a study that confirmed finalists.
pub fn won(section: &LeaderboardSection, width: usize) -> Vec<StyledLine> {
    let mut lines = title(&section.kernel, &section.device.name, &section.problems, width);
    let champion = &section.champion;
    let name = if section.baseline.is_default { "the default" } else { "the first that passed" };
    let winner = label("winner");
    if champion.number == section.baseline.number {
        let who = format!("{}  {name}: nothing else is certainly faster", champion.configuration);
        lines.extend(paragraph(winner.with(Tone::Strong, who), width));
    } else {
        lines.extend(paragraph(winner.with(Tone::Good, champion.configuration.to_string()), width));
        lines.extend(speed(champion, name).into_iter().flat_map(|line| paragraph(line, width)));
        lines.extend(repeated(champion).into_iter().flat_map(|line| paragraph(line, width)));
    }
    let floor =
        section.noise_floor.map_or(String::new(), |floor| format!("; noise floor {:.2} %", floor * 100.0));
    let timed =
        format!("{} ({}, fresh processes{floor})", time(champion.objective_ns), section.ranking.as_str());
    lines.extend(paragraph(label("time").with(Tone::Plain, timed), width));
    lines.push(StyledLine::default());
    lines
}

/// By how much the champion won, and what that is worth.
fn speed(champion: &RankedEntry, name: &str) -> Option<StyledLine> {
    let line = label("speed").with(Tone::Strong, format!("{:.2}× {name}", champion.speedup?));
    let interval = match (champion.speedup_low, champion.speedup_high) {
        (Some(low), Some(high)) => format!(" (95 % {low:.2}–{high:.2}, paired)"),
        _ => String::new(),
    };
    let (tone, certainty) = match champion.decision {
        Some(PairedDecision::Faster) => (Tone::Good, "certainly faster"),
        Some(PairedDecision::Slower) => (Tone::Bad, "slower"),
        Some(PairedDecision::Same) => (Tone::Warning, "a tie within the noise"),
        Some(PairedDecision::Ambiguous) => (Tone::Warning, "not certain: more samples may tell"),
        None => (Tone::Warning, "not compared"),
    };
    Some(line.with(Tone::Plain, format!("{interval}: ")).with(tone, certainty))
}

/// What a second card says of the champion.
fn repeated(champion: &RankedEntry) -> Option<StyledLine> {
    let own = champion.repeated.as_ref()?;
    let interval = match (own.speedup, own.speedup_low, own.speedup_high) {
        (Some(speed), Some(low), Some(high)) => format!("{speed:.2}× (95 % {low:.2}–{high:.2})"),
        _ => "no speed".to_string(),
    };
    let line = label("again").with(Tone::Plain, format!("{interval} on {}: ", own.device_uuid));
    Some(match (own.this_card_only, own.decision) {
        (true, _) => line.with(Tone::Warning, "the win does not repeat, so it holds for the first card only"),
        (false, Some(PairedDecision::Faster)) => line.with(Tone::Good, "the win repeats"),
        (false, _) => line.with(Tone::Plain, "a second card"),
    })
}

/// The head of a table that nothing in was confirmed.
pub fn unconfirmed(header: &StudyHeader, width: usize) -> Vec<StyledLine> {
    title(&header.kernel, &header.device.name, &header.problems, width)
}

/// What to do with the best of a search that was not confirmed.
pub fn after_screening(header: &StudyHeader, best: &Evaluation, width: usize) -> Vec<StyledLine> {
    let mut lines = vec![label("again:").with(Tone::Plain, repro(header, &best.configuration))];
    let why = "unchanged, because nothing was confirmed; `--resume` confirms the best";
    lines.extend(paragraph(label("ranking:").with(Tone::Plain, why), width));
    lines
}

/// What to do next with a champion. `out` is the evidence folder as the command line names it. Commands are to be
/// copied, so they are never broken; what one is for is left out where it does not fit.
pub fn next_steps(header: &StudyHeader, out: &str, width: usize) -> Vec<StyledLine> {
    let space = quote(&header.space);
    let out = if out == USUAL_OUT { String::new() } else { format!(" --out {}", quote(out)) };
    let mut steps = vec![
        (format!("evo restore {space} @best --to best{out}"), "its source and launches"),
        (format!("evo export {space} @champion --to app{out}"), "files for an application"),
        (format!("evo report {}{out}", quote(&header.study)), "the study as a page"),
        (format!("evo gate {space} --init --candidate @champion{out}"), "hold later changes to it, in CI"),
    ];
    if header.device.kind == DeviceKind::Cuda {
        steps.insert(0, (format!("evo profile {space} @champion{out}"), "what limits it"));
    }
    let widest = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let line = |(position, (command, what)): (usize, (String, &str))| {
        let line = label(if position == 0 { "next:" } else { "" }).with(Tone::Plain, &command);
        let gap = " ".repeat(widest - command.chars().count());
        let whole = line.clone().with(Tone::Faint, format!("{gap}  # {what}"));
        if whole.width() <= width { whole } else { line }
    };
    steps.into_iter().enumerate().map(line).collect()
}

/// A labelled line, broken where it is too wide. Only lines that fit keep their colors.
fn paragraph(line: StyledLine, width: usize) -> Vec<StyledLine> {
    if line.width() <= width {
        return vec![line];
    }
    wrapped(&line.text(false), width).lines().map(|line| StyledLine::new(Tone::Plain, line)).collect()
}
