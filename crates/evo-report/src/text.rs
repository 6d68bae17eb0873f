//! The text that a person reads at the end of a sweep: the ranked table and one line on how the run went.

use std::collections::BTreeMap;
use std::time::Duration;

use evo_protocol::binary::EntryResources;
use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{
    Leaderboard, LeaderboardSection, PairedDecision, ProblemResult, RankedEntry, Throughput, TradedProblem,
};
use evo_protocol::verdict::{Gate, GateReport, GateState, VerdictKind};
use evo_space::genome::Configuration;
use evo_space::text::counted;

use super::columns::parameter_head;
use super::portfolio::portfolio;
use super::table::{FittedTable, Keep, UNKNOWN};
use super::width::wrapped;
use evo_journal::leaderboard::verdict_mix;
use evo_journal::rank::is_noisy;
use evo_journal::record::{RunEnd, SanitizeTally};
use evo_timing::paired::claimable;

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

/// A pace in the unit in which it is not `0.0`: `12.3 evaluations/s`, `4.0 evaluations/min`.
pub fn rate(per_second: f64, what: &str) -> String {
    let (value, unit) = match per_second {
        value if value <= 0.0 => return format!("0{what}/s"),
        value if value >= 0.1 => (value, "s"),
        value if value * 60.0 >= 0.1 => (value * 60.0, "min"),
        value => (value * 3600.0, "h"),
    };
    format!("{value:.1}{what}/{unit}")
}

/// The whole board, at most `width` characters wide where lines can be broken.
pub fn board(board: &Leaderboard, width: usize) -> String {
    if board.sections.is_empty() {
        return "the leaderboard is empty\n".to_string();
    }
    let title = |one: &LeaderboardSection| {
        let rival = |other: &&LeaderboardSection| same_title(one, other);
        // Sections that differ in their space alone would look alike.
        match board.sections.iter().filter(rival).count() {
            1 => title(one),
            _ => format!("{} · space {}", title(one), one.space_hash.short()),
        }
    };
    let text = |one| format!("{}{}", titled(one, &title(one), width), history(one, width));
    board.sections.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn same_title(one: &LeaderboardSection, other: &LeaderboardSection) -> bool {
    title(one) == title(other)
}

fn title(section: &LeaderboardSection) -> String {
    format!("{} on {} · {}", section.kernel, section.device.name, section.problems.join(", "))
}

/// How the champion's place changed hands, if it did; the newest last.
fn history(section: &LeaderboardSection, width: usize) -> String {
    if section.history.len() < 2 {
        return String::new();
    }
    let told = section.history.iter().map(|one| {
        let speed = one.speedup.map_or("baseline".to_string(), |speed| format!("{speed:.2}×"));
        let day = one.at.split('T').next().unwrap_or_default();
        let lead = one
            .ratio_to_previous
            .map_or(String::new(), |ratio| format!(", {:.2}× the champion before it", 1.0 / ratio));
        format!("{speed} by `{}` ({day}{lead})", one.study)
    });
    wrapped(&format!("champions: {}", told.collect::<Vec<_>>().join(", then ")), width)
}

/// One section as a ranked table.
pub fn section(section: &LeaderboardSection, width: usize) -> String {
    titled(section, &title(section), width)
}

fn titled(section: &LeaderboardSection, title: &str, width: usize) -> String {
    wrapped(title, width) + &untitled(section, width)
}

/// The same for whoever has said whose table it is.
pub fn untitled(section: &LeaderboardSection, width: usize) -> String {
    let floor = match section.noise_floor {
        Some(floor) => format!("noise floor {:.2} %", floor * 100.0),
        None => "noise floor not measured".to_string(),
    };
    let name = if section.baseline.is_default { "default" } else { "first passing configuration" };
    let method = format!(
        "time: {}, the {name}'s over the speed; speed: paired with the {name} ({}) in fresh processes; {floor}",
        section.ranking.as_str(),
        section.baseline.configuration.positional()
    );
    // The command is to be copied, so it is not broken.
    format!(
        "{}{}{}{}again: {}\n",
        ranking(section, &section.entries().collect::<Vec<_>>()).text(width),
        wrapped(&method, width),
        portfolio(section, width),
        legend(section, width),
        section.champion.repro
    )
}

/// An explanation of the remarks that do not explain themselves, if there are any.
fn legend(section: &LeaderboardSection, width: usize) -> String {
    let mut text = String::new();
    let is_baseline = |entry: &RankedEntry| entry.number == section.baseline.number;
    if section.entries().any(|entry| standing(entry, is_baseline(entry)) == AMBIGUOUS) {
        let least = claimable(section.noise_floor.unwrap_or(0.0)) * 100.0;
        let why = format!(
            "{AMBIGUOUS}: the 95 % interval lies partly within ±{least:.2} % of the baseline, too close for this \
             noise floor to tell, or the problems disagree; more blocks are needed"
        );
        text += &wrapped(&why, width);
    }
    if section.entries().any(|entry| entry.noisy) {
        text += &wrapped(&format!("{NOISY}: a tenth of the samples took over twice the median"), width);
    }
    text += &one_card_legend(section, width);
    text += &tails_legend(section, width);
    text += &sanitizer_legend(section, width);
    for warning in &section.warnings {
        text += &wrapped(&format!("warning: {warning}"), width);
    }
    text
}

/// The first rows and the baseline's, without lines below: the screen of a sweep's end.
pub fn first_rows(section: &LeaderboardSection, count: usize, width: usize) -> String {
    let is_baseline = |entry: &&RankedEntry| entry.number == section.baseline.number;
    let mut entries: Vec<&RankedEntry> = section.entries().take(count).collect();
    if !entries.iter().any(is_baseline)
        && let Some(baseline) = section.entries().find(is_baseline)
    {
        entries.truncate(count - 1);
        entries.push(baseline);
    }
    ranking(section, &entries).rows(width)
}

/// An entry's time by the comparison that ranks it: the baseline's time over the entry's speed. What the entry took in
/// its own samples, at another moment, may contradict the speed beside it.
pub fn compared_ns(section: &LeaderboardSection, entry: &RankedEntry) -> f64 {
    let champion = &section.champion;
    let baseline = section.entries().find(|own| own.number == section.baseline.number);
    let baseline_ns = baseline
        .map_or(champion.objective_ns * champion.speedup.unwrap_or(1.0), |baseline| baseline.objective_ns);
    entry.speedup.map_or(entry.objective_ns, |speed| baseline_ns / speed)
}

/// A column of the ranked table.
struct RankedColumn {
    head: &'static str,
    keep: Keep,
    text: fn(&LeaderboardSection, &RankedEntry) -> String,
}

const fn column(
    head: &'static str,
    keep: Keep,
    text: fn(&LeaderboardSection, &RankedEntry) -> String,
) -> RankedColumn {
    RankedColumn { head, keep, text }
}

/// What tells most about a variant is dropped last. The parameters stand after the rank.
const RANKED: [RankedColumn; 10] = [
    column("#", Keep::Always, |_, entry| entry.rank.to_string()),
    column("time", Keep::Always, |section, entry| time(compared_ns(section, entry))),
    column("speed", Keep::Rank(8), |_, entry| {
        entry.speedup.map_or(UNKNOWN.into(), |speed| format!("{speed:.2}×"))
    }),
    column("95 %", Keep::Rank(6), |_, entry| match (entry.speedup_low, entry.speedup_high) {
        (Some(low), Some(high)) => format!("{low:.2}–{high:.2}"),
        _ => UNKNOWN.to_string(),
    }),
    column("TFLOP/s", Keep::Rank(5), |section, entry| {
        best(section, entry, |result| result.tflops).map_or(UNKNOWN.into(), |value| format!("{value:.3}"))
    }),
    column("GB/s", Keep::Rank(3), |section, entry| {
        best(section, entry, |result| result.gigabytes_per_second)
            .map_or(UNKNOWN.into(), |value| format!("{value:.2}"))
    }),
    column("roof", Keep::Rank(4), |section, entry| {
        best(section, entry, |result| result.roofline_share)
            .map_or(UNKNOWN.into(), |share| format!("{:.0} %", share * 100.0))
    }),
    column("regs", Keep::Rank(2), |_, entry| most(entry, |demand| demand.registers.map(u64::from))),
    column("spill", Keep::Rank(1), |_, entry| {
        most(entry, |demand| Some(demand.spill_store_bytes? + demand.spill_load_bytes?))
    }),
    column("", Keep::Rank(7), |section, entry| remark(entry, entry.number == section.baseline.number)),
];

fn ranking(section: &LeaderboardSection, entries: &[&RankedEntry]) -> FittedTable {
    let mut table = FittedTable::default();
    for (at, column) in RANKED.iter().enumerate() {
        let cells = entries.iter().map(|entry| (column.text)(section, entry)).collect();
        table.add(column.head, column.keep, cells);
        if at == 0 {
            let heads = RANKED.iter().map(|column| column.head).collect::<Vec<_>>();
            add_parameters(&mut table, entries.iter().map(|entry| &entry.configuration), &heads);
        }
    }
    table
}

/// A column for each parameter.
fn add_parameters<'a>(
    table: &mut FittedTable,
    configurations: impl Iterator<Item = &'a Configuration>,
    heads: &[&str],
) {
    let rows: Vec<&Configuration> = configurations.collect();
    let Some(first) = rows.first() else { return };
    for (name, _) in first.iter() {
        let cell = |row: &&Configuration| row.get(name).map(ToString::to_string).unwrap_or_default();
        let head = parameter_head(name, heads.iter().copied());
        table.add(&head, Keep::Parameter, rows.iter().map(cell).collect());
    }
}

/// The best problem's number. Throughputs belong to an entry's samples, and follow the time that is shown.
fn best(
    section: &LeaderboardSection,
    entry: &RankedEntry,
    of: fn(&ProblemResult) -> Option<f64>,
) -> Option<f64> {
    let scale = entry.objective_ns / compared_ns(section, entry);
    entry.results.iter().filter_map(of).max_by(f64::total_cmp).map(|value| value * scale)
}

/// The largest demand of any entry point.
fn most(entry: &RankedEntry, of: fn(&EntryResources) -> Option<u64>) -> String {
    entry.resources.iter().filter_map(of).max().map_or(UNKNOWN.to_string(), |value| value.to_string())
}

const AMBIGUOUS: &str = "ambiguous";
const NOISY: &str = "noisy";

/// A second card does not repeat the win.
pub(crate) const ONE_CARD: &str = "this card only";

/// No small shape was there at which a wrong tail would have shown.
pub(crate) const TAILS: &str = "tails not checked";

/// Rows whose win over the baseline a second card does not repeat, with what that one says.
fn one_card_legend(section: &LeaderboardSection, width: usize) -> String {
    let told = section.entries().filter_map(|entry| {
        let own = entry.repeated.as_ref().filter(|own| own.this_card_only)?;
        let speed = own.speedup.map_or("no speed".to_string(), |speed| format!("{speed:.2}×"));
        Some(format!("#{} ({speed} on {})", entry.rank, own.device_uuid))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        return String::new();
    }
    let text = format!("{ONE_CARD}: the win does not repeat on a second card: {}", told.join(", "));
    wrapped(&text, width)
}

/// Not a remark in a row, which a narrow table leaves out.
fn tails_legend(section: &LeaderboardSection, width: usize) -> String {
    let unchecked =
        |entry: &&RankedEntry| entry.gates.get(Gate::TinyShapes.as_str()) == Some(&GateState::NotRun);
    let ranks: Vec<String> =
        section.entries().filter(unchecked).map(|entry| format!("#{}", entry.rank)).collect();
    if ranks.is_empty() {
        return String::new();
    }
    let text = format!(
        "{TAILS}: {} ran at the sizes of the problems only, where a wrong tail may not show; `evo space` says why",
        ranks.join(", ")
    );
    wrapped(&text, width)
}

/// What the sanitizer said of the rows of a GPU. On the host device nothing can be asked of it.
fn sanitizer_legend(section: &LeaderboardSection, width: usize) -> String {
    if section.device.kind != DeviceKind::Cuda {
        return String::new();
    }
    let ranks = |state: GateState| {
        let own = section.entries().filter(|entry| entry.gates.get(Gate::Sanitize.as_str()) == Some(&state));
        let ranks: Vec<String> = own.map(|entry| format!("#{}", entry.rank)).collect();
        ranks.join(", ")
    };
    let notes = || section.entries().filter_map(|entry| entry.sanitizer.as_ref());
    let mut text = String::new();
    if let Some(passed) = notes().find(|note| note.state == GateState::Pass) {
        let version = passed.version.as_deref().map_or(String::new(), |version| format!(" {version}"));
        let line = format!(
            "{}{version}: {} found nothing in {}",
            passed.tool,
            passed.passed.join(", "),
            ranks(GateState::Pass)
        );
        text += &wrapped(&line, width);
    }
    let missing = ranks(GateState::NotRun);
    if !missing.is_empty() {
        let not_run = notes().find(|note| note.state == GateState::NotRun);
        let why = not_run.map_or("nothing was asked of it", |note| &note.message);
        text += &wrapped(&format!("sanitize not run for {missing}: {why}"), width);
    }
    text
}

/// What there is to say of an entry beside its numbers.
fn remark(entry: &RankedEntry, is_baseline: bool) -> String {
    let standing = Some(standing(entry, is_baseline).to_string()).filter(|text| !text.is_empty());
    let traded = entry.traded.iter().map(trade);
    let one_card = is_one_cards(entry).then(|| ONE_CARD.to_string());
    let noisy = entry.noisy.then(|| NOISY.to_string());
    standing.into_iter().chain(one_card).chain(traded).chain(noisy).collect::<Vec<_>>().join(", ")
}

/// What an entry gives up on one problem.
pub(crate) fn trade(one: &TradedProblem) -> String {
    format!("slower on `{}` by {:.1} %", one.problem, (one.ratio - 1.0) * 100.0)
}

/// Whether a second card does not repeat an entry's win.
pub(crate) fn is_one_cards(entry: &RankedEntry) -> bool {
    entry.repeated.as_ref().is_some_and(|own| own.this_card_only)
}

/// How an entry stands to the champion and to the baseline.
fn standing(entry: &RankedEntry, is_baseline: bool) -> &'static str {
    match (is_baseline, entry.tie_with_champion, entry.decision) {
        (true, true, _) => "baseline, tie with 1",
        (true, ..) => "baseline",
        (_, true, _) => "tie with 1",
        (_, _, Some(PairedDecision::Same)) => "tie with baseline",
        (_, _, Some(PairedDecision::Ambiguous)) => AMBIGUOUS,
        (_, _, Some(PairedDecision::Slower)) => "slower than baseline",
        _ => "",
    }
}

/// The best of a run without confirmation; `how` their times are known, `screened` or `recorded`.
pub fn unconfirmed(evaluations: &[Evaluation], count: usize, how: &str, width: usize) -> String {
    let mut passing: Vec<(f64, &Evaluation)> = evaluations
        .iter()
        // One row for each machine code, as in the ranking of finalists.
        .filter(|one| one.verdict.is_pass() && one.duplicate_of.is_none())
        .filter_map(|one| Some((one.objective_ns?, one)))
        .collect();
    passing.sort_by(|a, b| a.0.total_cmp(&b.0));
    passing.truncate(count);
    let mut table = FittedTable::default();
    table.add("#", Keep::Always, (1..=passing.len()).map(|rank| rank.to_string()).collect());
    add_parameters(&mut table, passing.iter().map(|(_, one)| &one.configuration), &["#", how]);
    table.add(how, Keep::Always, passing.iter().map(|(objective, _)| time(*objective)).collect());
    let remarks = passing.iter().map(|(_, one)| {
        let tails = one.gate(Gate::TinyShapes).is_some_and(GateReport::lacks_shapes).then_some(TAILS);
        let noisy = is_noisy(one.measurements.iter()).then_some(NOISY);
        let default = one.is_default().then_some("default");
        [default, tails, noisy].into_iter().flatten().collect::<Vec<_>>().join(", ")
    });
    table.add("", Keep::Rank(1), remarks.collect());
    table.rows(width)
}

/// `pass 31, too_slow 9, …`, most frequent first.
pub fn mix(evaluations: &[Evaluation]) -> String {
    let mut mix: Vec<(String, u64)> = verdict_mix(evaluations).into_iter().collect();
    mix.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    mix.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// Where the most frequent failure is explained; nothing where there is none.
pub fn more(evaluations: &[Evaluation]) -> Option<String> {
    use VerdictKind::{Pass, PassedOver, TooSlow};
    let failed = |one: &&Evaluation| !matches!(one.verdict.kind, Pass | PassedOver | TooSlow);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for one in evaluations.iter().filter(failed) {
        *counts.entry(one.verdict.label()).or_default() += 1;
    }
    // Of equally frequent ones the first by name, so that the line does not change from run to run.
    let most = counts.iter().max_by_key(|(label, count)| (**count, std::cmp::Reverse(*label)));
    most.map(|(label, _)| format!("more: `evo explain {label}`"))
}

/// What a run did, how long its command took so far, and why it ended.
pub fn run_line(end: &RunEnd, wall: Duration) -> String {
    format!("{} in {:.1} s; {}", evaluated(end), wall.as_secs_f64(), end.reason.describe())
}

/// What the lanes did.
pub fn lanes_line(end: &RunEnd) -> String {
    let Throughput {
        search_seconds,
        evaluations_per_second,
        device_busy,
        gpu_busy,
        compile_busy,
        compile_jobs,
    } = end.throughput;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let parts = gpu_busy
        .map(|gpu| format!(" (GPU {}, judging {})", percent(gpu), percent((device_busy - gpu).max(0.0))));
    format!(
        "search {search_seconds:.1} s: {}, device lane busy {}{}, {} busy {}{}",
        rate(evaluations_per_second, ""),
        percent(device_busy),
        parts.unwrap_or_default(),
        counted(compile_jobs, "compile process"),
        percent(compile_busy),
        end.sanitized.map_or(String::new(), sanitizing),
    )
}

/// `; sanitizer 4 variants in 12.3 s, 1 with a finding`.
fn sanitizing(tally: SanitizeTally) -> String {
    let SanitizeTally { variants, findings, unanswered, seconds } = tally;
    let told = [(findings, "with a finding"), (unanswered, "without an answer")];
    let told = told.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
    let looked_at = counted(variants, "variant");
    format!("; sanitizer {looked_at} in {seconds:.1} s{}", told.collect::<String>())
}

fn evaluated(end: &RunEnd) -> String {
    let passed_over = match end.passed_over {
        0 => String::new(),
        count => format!(" and {} not run", counted(count, "variant")),
    };
    let taken_over = match end.taken_over {
        0 => String::new(),
        count => format!(" and {} taken over", counted(count, "result")),
    };
    let not_final = match end.not_final {
        0 => String::new(),
        count => format!("; {count} without a verdict, which `--resume` tries again"),
    };
    format!(
        "{} ({} in this run){passed_over}{taken_over}{not_final}",
        counted(end.evaluations, "evaluation"),
        end.evaluations_this_run
    )
}
