//! What a person reads at the end of a sweep: the ranked table and one line on how it went.

use std::fmt::Write;

use evo_protocol::binary::EntryResources;
use evo_protocol::evaluation::Evaluation;

use crate::journal::leaderboard::{Entry, Leaderboard, ProblemResult, Section, verdict_mix};
use crate::journal::record::{Decision, End, Throughput};
use crate::timing::paired::claimable;

/// Nanoseconds with a unit and about four significant digits.
pub fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        value if value < 1e3 => (value, "ns"),
        value if value < 1e6 => (value / 1e3, "µs"),
        value if value < 1e9 => (value / 1e6, "ms"),
        value => (value / 1e9, "s"),
    };
    let digits = match value {
        value if value < 10.0 => 3,
        value if value < 100.0 => 2,
        _ => 1,
    };
    format!("{value:.digits$} {unit}")
}

/// The whole board.
pub fn board(board: &Leaderboard) -> String {
    if board.sections.is_empty() {
        return "the leaderboard is empty\n".to_string();
    }
    board.sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

/// One section as a ranked table.
pub fn section(section: &Section) -> String {
    let mut text =
        format!("{} on {} · {}\n", section.kernel, section.device.name, section.problems.join(", "));
    let names: Vec<&str> = section.champion.configuration.iter().map(|(name, _)| name).collect();
    let mut rows = vec![header(&names)];
    let entries = std::iter::once(&section.champion).chain(&section.runners_up);
    rows.extend(entries.map(|entry| row(section, entry)));
    text += &table(&rows);
    let floor = match section.noise_floor {
        Some(floor) => format!("noise floor {:.2} %", floor * 100.0),
        None => "noise floor not measured".to_string(),
    };
    let name = if section.baseline.is_default { "default" } else { "first passing configuration" };
    let _ = writeln!(
        text,
        "time: {}, confirmed; speed: against the {name} ({}), paired in fresh processes; {floor}",
        section.ranking.as_str(),
        section.baseline.configuration.positional()
    );
    text += &legend(section);
    let _ = writeln!(text, "again: {}", section.champion.repro);
    text
}

/// What the remarks mean that do not explain themselves, if there are any.
fn legend(section: &Section) -> String {
    let is_ambiguous = |entry: &Entry| remark(entry, entry.number == section.baseline.number) == AMBIGUOUS;
    if !std::iter::once(&section.champion).chain(&section.runners_up).any(is_ambiguous) {
        return String::new();
    }
    let least = claimable(section.noise_floor.unwrap_or(0.0)) * 100.0;
    format!(
        "{AMBIGUOUS}: the 95 % interval lies partly within ±{least:.2} % of the baseline, too close for this noise \
         floor to tell, or the problems disagree; more blocks are needed\n"
    )
}

fn header(names: &[&str]) -> Vec<String> {
    let mut cells = vec!["#".to_string()];
    cells.extend(names.iter().map(|name| name.to_string()));
    cells.extend(["time", "speed", "95 %", "TFLOP/s", "GB/s", "roof", "regs", "spill", ""].map(String::from));
    cells
}

fn row(section: &Section, entry: &Entry) -> Vec<String> {
    let mut cells = vec![entry.rank.to_string()];
    cells.extend(entry.configuration.iter().map(|(_, value)| value.to_string()));
    cells.push(time(entry.objective_ns));
    cells.push(entry.speedup.map_or("-".to_string(), |speed| format!("{speed:.2}×")));
    cells.push(match (entry.speedup_low, entry.speedup_high) {
        (Some(low), Some(high)) => format!("{low:.2}–{high:.2}"),
        _ => "-".to_string(),
    });
    let best =
        |of: fn(&ProblemResult) -> Option<f64>| entry.results.iter().filter_map(of).max_by(f64::total_cmp);
    let number =
        |value: Option<f64>, digits: usize| value.map_or("-".into(), |value| format!("{value:.digits$}"));
    cells.push(number(best(|one| one.tflops), 3));
    cells.push(number(best(|one| one.gigabytes_per_second), 2));
    cells.push(best(|one| one.roofline_share).map_or("-".into(), |share| format!("{:.0} %", share * 100.0)));
    let most = |of: fn(&EntryResources) -> Option<u64>| {
        entry.resources.iter().filter_map(of).max().map_or("-".to_string(), |value| value.to_string())
    };
    cells.push(most(|one| one.registers.map(u64::from)));
    cells.push(most(|one| Some(one.spill_store_bytes? + one.spill_load_bytes?)));
    cells.push(remark(entry, entry.number == section.baseline.number).to_string());
    cells
}

const AMBIGUOUS: &str = "ambiguous";

fn remark(entry: &Entry, is_baseline: bool) -> &'static str {
    match (is_baseline, entry.tie_with_champion, entry.decision) {
        (true, true, _) => "baseline, tie with 1",
        (true, ..) => "baseline",
        (_, true, _) => "tie with 1",
        (_, _, Some(Decision::Same)) => "tie with baseline",
        (_, _, Some(Decision::Ambiguous)) => AMBIGUOUS,
        (_, _, Some(Decision::Slower)) => "slower than baseline",
        _ => "",
    }
}

/// Aligned columns, right except the last, which is a remark.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let longest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(longest).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = if column + 1 == columns { 0 } else { widths[column] };
            let _ = write!(line, "  {cell:>width$}");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The best of the screening, for a run without confirmation.
pub fn screened(evaluations: &[Evaluation], count: usize) -> String {
    unconfirmed(evaluations, count, "screened, not confirmed")
}

/// The best of a replay.
pub fn replayed(evaluations: &[Evaluation], count: usize) -> String {
    unconfirmed(evaluations, count, "on record, not measured")
}

fn unconfirmed(evaluations: &[Evaluation], count: usize, remark: &str) -> String {
    let mut passing: Vec<(f64, &Evaluation)> = evaluations
        .iter()
        .filter(|one| one.verdict.is_pass() && one.duplicate_of.is_none())
        .filter_map(|one| Some((one.objective_ns?, one)))
        .collect();
    passing.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, first)) = passing.first() else { return "nothing passed every gate\n".to_string() };
    let mut rows = vec![vec!["#".to_string()]];
    rows[0].extend(first.configuration.iter().map(|(name, _)| name.to_string()));
    rows[0].extend(["time".to_string(), String::new()]);
    for (position, (objective, one)) in passing.iter().take(count).enumerate() {
        let mut cells = vec![(position + 1).to_string()];
        cells.extend(one.configuration.iter().map(|(_, value)| value.to_string()));
        cells.extend([time(*objective), remark.to_string()]);
        rows.push(cells);
    }
    table(&rows)
}

/// `pass 31, too_slow 9, …`, most frequent first.
pub fn mix(evaluations: &[Evaluation]) -> String {
    let mut mix: Vec<(String, u64)> = verdict_mix(evaluations).into_iter().collect();
    mix.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    mix.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// The last line of a run.
pub fn last_line(end: &End) -> String {
    let Throughput { search_seconds, evaluations_per_second, device_busy, compile_busy, compile_jobs } =
        end.throughput;
    let passed_over = match end.passed_over {
        0 => String::new(),
        count => format!(", {count} more passed over after compiling"),
    };
    format!(
        "{} evaluations ({} in this run){passed_over} in {search_seconds:.1} s: {evaluations_per_second:.1}/s; device \
         lane busy {:.0} %, {compile_jobs} compile processes busy {:.0} %; {}",
        end.evaluations,
        end.evaluations_this_run,
        device_busy * 100.0,
        compile_busy * 100.0,
        end.reason.describe()
    )
}
