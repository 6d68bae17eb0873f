//! What is drawn on a terminal while a sweep runs: a few lines of fixed places, each cut to the width.

use std::time::Duration;

use super::tally::{Tally, of_load};
use crate::report::styled::{StyledLine, Tone, sparkline};
use crate::report::text::time;

const FAILURES: usize = 4;

const LANES: usize = 8;

const BAR: usize = 30;
const CURVE: usize = 32;

const LABEL: usize = 11;

/// `now` counts from the command's start; at most `height` lines come back.
pub fn lines(tally: &Tally, now: Duration, width: usize, height: usize) -> Vec<StyledLine> {
    let mut lines = vec![first(tally, now, width)];
    lines.extend(best(tally));
    lines.extend(curve(tally, now, width));
    lines.extend(lanes(tally));
    lines.extend(each(tally));
    if !tally.mix.is_empty() {
        lines.push(mix(tally));
    }
    let failures = tally.failures.iter().take(FAILURES);
    lines.extend(failures.map(|(kind, message)| {
        StyledLine::new(Tone::Plain, " ".repeat(LABEL))
            .with(Tone::Warning, kind)
            .with(Tone::Faint, format!(": {message}"))
    }));
    lines.truncate(height.max(1));
    lines.into_iter().map(|line| line.cut(width)).collect()
}

fn label(name: &str) -> StyledLine {
    StyledLine::new(Tone::Faint, format!("  {name:<width$}", width = LABEL - 2))
}

/// What does not fit is left out from the right, and the bar gives way first.
fn first(tally: &Tally, now: Duration, width: usize) -> StyledLine {
    let eta = match tally.eta(now) {
        Some(seconds) => format!("  ETA {}", clock(Duration::from_secs_f64(seconds.min(1e9)))),
        // Nothing was seen that a guess could rest on.
        None => "  ETA unknown".to_string(),
    };
    let elapsed = clock(now);
    if let Some(confirming) = tally.confirming {
        let what = match confirming.finalist {
            0 => "baseline and noise floor".to_string(),
            finalist if width < 72 => format!("finalist {finalist} of {}", confirming.of),
            finalist => format!("finalist {finalist} of {} in fresh processes", confirming.of),
        };
        return label("confirm").with(Tone::Strong, what).with(Tone::Faint, format!("  {elapsed}{eta}"));
    }
    let rate = tally.rate(now).map(|rate| format!("  {}/s", number(rate))).unwrap_or_default();
    let tail = format!("  {elapsed}{rate}{eta}");
    let count = tally.count();
    let room = width.saturating_sub(LABEL + count.chars().count() + tail.chars().count() + 1);
    let mut line = label("search");
    if let Some(total) = tally.total.filter(|total| *total > 0 && room >= 8) {
        let cells = room.min(BAR);
        let full = ((tally.done as f64 / total as f64).min(1.0) * cells as f64).floor() as usize;
        line = line
            .with(Tone::Accent, "━".repeat(full))
            .with(Tone::Faint, "╌".repeat(cells - full))
            .with(Tone::Plain, " ");
    }
    line.with(Tone::Strong, count).with(Tone::Faint, tail)
}

fn best(tally: &Tally) -> Option<StyledLine> {
    let best = tally.best.as_ref()?;
    let line =
        label("best").with(Tone::Strong, time(best.objective_ns)).with(Tone::Plain, tally.default_time());
    Some(line.with(Tone::Plain, format!("  {}", best.configuration)))
}

fn curve(tally: &Tally, now: Duration, width: usize) -> Option<StyledLine> {
    let best = tally.best.as_ref()?;
    let since = match best.at {
        Some(at) => format!("  last improvement {} ago", clock(now.saturating_sub(at))),
        None => "  no improvement in this run".to_string(),
    };
    let room = width.saturating_sub(LABEL + since.chars().count()).min(CURVE);
    Some(label("").with(Tone::Accent, sparkline(&tally.trail, room)).with(Tone::Faint, since))
}

fn lanes(tally: &Tally) -> Option<StyledLine> {
    // The compilers and the search's lane are idle while finalists are confirmed.
    let load = tally.lanes.filter(|_| tally.confirming.is_none())?;
    Some(label("device").with(Tone::Plain, of_load(load)))
}

/// As many lanes as leave room for the rest.
fn each(tally: &Tally) -> impl Iterator<Item = StyledLine> {
    let more = tally.each.len().saturating_sub(LANES);
    let shown = tally.each.iter().take(LANES).map(String::as_str).enumerate();
    let lines = shown.map(|(lane, line)| label(&format!("lane {lane}")).with(Tone::Faint, line));
    let rest = (more > 0).then(|| label("").with(Tone::Faint, format!("and {more} more lanes")));
    lines.chain(rest)
}

fn mix(tally: &Tally) -> StyledLine {
    let entries = tally.mix().into_iter().enumerate();
    entries.fold(label("verdicts"), |line, (position, (name, count))| {
        let tone = match name {
            "pass" => Tone::Good,
            "too_slow" | "passed_over" => Tone::Plain,
            _ => Tone::Warning,
        };
        let gap = if position == 0 { "" } else { " · " };
        line.with(Tone::Faint, gap).with(tone, format!("{name} {count}"))
    })
}

/// `0:07`, `12:34`, `3:04:05`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests;
