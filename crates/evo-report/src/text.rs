//! The text that a person reads at the end of a sweep: the ranked table and one line on how the run went.

use std::collections::BTreeMap;

use evo_protocol::binary::EntryResources;
use evo_protocol::device::DeviceInfo;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{
    Leaderboard, LeaderboardSection, PairedDecision, ProblemResult, RankedEntry, TradedProblem,
};
use evo_protocol::verdict::{Gate, GateReport};
use evo_space::genome::Configuration;
use minijinja::context;
use minijinja::value::Serde;

use super::columns::parameter_head;
use super::known::fastest;
use super::table::{FittedTable, Keep, UNKNOWN};
use super::templates;
pub use super::units::{rate, time};
use super::width::wrapped;
use evo_journal::leaderboard::is_noisy;
use evo_timing::paired::claimable;

/// The whole board, at most `width` characters wide where lines can be broken.
pub fn board(board: &Leaderboard, width: usize) -> String {
    if board.sections.is_empty() {
        return "the leaderboard is empty\n".to_string();
    }
    let titled = |section: &LeaderboardSection| title(&section.kernel, &section.device, &section.problems);
    let text = |section: &LeaderboardSection| {
        let mut name = titled(section);
        // Sections that differ in their space alone would look alike.
        if board.sections.iter().filter(|other| titled(other) == name).count() > 1 {
            name += &format!(" · space {}", section.space_hash.short());
        }
        let history = templates::prose("champions.txt.j2", context! { section => Serde(section) }, width);
        wrapped(&name, width) + &untitled(section, width) + &history
    };
    board.sections.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// What was searched, and where.
pub fn title(kernel: &str, device: &DeviceInfo, problems: &[String]) -> String {
    format!("{kernel} on {} · {}", device.name, problems.join(", "))
}

/// One section as a ranked table, for whoever has said whose it is.
pub fn untitled(section: &LeaderboardSection, width: usize) -> String {
    let entries: Vec<&RankedEntry> = section.entries().collect();
    let is_ambiguous = |entry: &&RankedEntry| standing(section, entry) == AMBIGUOUS;
    let values = context! {
        section => Serde(section),
        entries => Serde(&entries),
        names => Serde(configuration_names(section)),
        baseline => section.baseline.configuration.positional(),
        is_ambiguous => entries.iter().any(is_ambiguous),
        least => least(section),
    };
    // The command is to be copied, so it is not broken.
    format!(
        "{}{}again: {}\n",
        ranking(section, &entries).text(width),
        templates::prose("board.txt.j2", values, width),
        section.champion.repro
    )
}

/// The configurations of a portfolio by their numbers: `#1 (32 4)`, or the values alone where the table lacks it.
fn configuration_names(section: &LeaderboardSection) -> BTreeMap<u64, String> {
    let portfolio = section.portfolio.iter();
    let best = portfolio.clone().flat_map(|portfolio| &portfolio.best);
    let members = portfolio.flat_map(|portfolio| &portfolio.sets).flat_map(|set| &set.members);
    let best = best.map(|best| (best.number, &best.configuration));
    let members = members.map(|member| (member.number, &member.configuration));
    let bare = best.chain(members).map(|(number, values)| (number, format!("({})", values.positional())));
    let name = |entry: &RankedEntry| {
        (entry.number, format!("#{} ({})", entry.rank, entry.configuration.positional()))
    };
    bare.chain(section.entries().map(name)).collect()
}

/// The least difference to the baseline that a section claims.
pub(crate) fn least(section: &LeaderboardSection) -> f64 {
    claimable(section.noise_floor.unwrap_or(0.0))
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
    let baseline = section.entries().find(|entry| entry.number == section.baseline.number);
    let baseline_ns = baseline
        .map_or(champion.objective_ns * champion.speedup.unwrap_or(1.0), |baseline| baseline.objective_ns);
    entry.speedup.map_or(entry.objective_ns, |speed| baseline_ns / speed)
}

/// Its head, what may happen to it, and its cell.
type RankedColumn = (&'static str, Keep, fn(&LeaderboardSection, &RankedEntry) -> Option<String>);

/// What tells most about a variant is dropped last. The parameters stand after the rank.
const RANKED: [RankedColumn; 10] = [
    ("#", Keep::Always, |_, entry| Some(entry.rank.to_string())),
    ("time", Keep::Always, |section, entry| Some(time(compared_ns(section, entry)))),
    ("speed", Keep::Rank(8), |_, entry| Some(format!("{:.2}×", entry.speedup?))),
    ("95 %", Keep::Rank(6), |_, entry| Some(format!("{:.2}–{:.2}", entry.speedup_low?, entry.speedup_high?))),
    ("TFLOP/s", Keep::Rank(5), |section, entry| {
        Some(format!("{:.3}", best(section, entry, |result| result.tflops)?))
    }),
    ("GB/s", Keep::Rank(3), |section, entry| {
        Some(format!("{:.2}", best(section, entry, |result| result.gigabytes_per_second)?))
    }),
    ("roof", Keep::Rank(4), |section, entry| {
        Some(format!("{:.0} %", best(section, entry, |result| result.roofline_share)? * 100.0))
    }),
    ("regs", Keep::Rank(2), |_, entry| most(entry, |demand| demand.registers.map(u64::from))),
    ("spill", Keep::Rank(1), |_, entry| {
        most(entry, |demand| Some(demand.spill_store_bytes? + demand.spill_load_bytes?))
    }),
    ("", Keep::Rank(7), |section, entry| Some(remark(section, entry))),
];

fn ranking(section: &LeaderboardSection, entries: &[&RankedEntry]) -> FittedTable {
    let mut table = FittedTable::default();
    for (at, (head, keep, text)) in RANKED.iter().enumerate() {
        let cell = |entry: &&RankedEntry| text(section, entry).unwrap_or(UNKNOWN.to_string());
        table.add(head, *keep, entries.iter().map(cell).collect());
        if at == 0 {
            let configurations = entries.iter().map(|entry| &entry.configuration).collect();
            add_parameters(&mut table, configurations, &RANKED.map(|(head, ..)| head));
        }
    }
    table
}

/// A column a parameter, told apart from columns with these heads.
pub(crate) fn add_parameters(table: &mut FittedTable, rows: Vec<&Configuration>, heads: &[&str]) {
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
fn most(entry: &RankedEntry, of: fn(&EntryResources) -> Option<u64>) -> Option<String> {
    entry.resources.iter().filter_map(of).max().map(|most| most.to_string())
}

const AMBIGUOUS: &str = "ambiguous";
const NOISY: &str = "noisy";

/// What there is to say of an entry beside its numbers.
fn remark(section: &LeaderboardSection, entry: &RankedEntry) -> String {
    // A second card does not repeat the win.
    let is_one_cards = entry.repeated.as_ref().is_some_and(|repeated| repeated.this_card_only);
    let mut remarks = vec![standing(section, entry).to_string()];
    remarks.extend(is_one_cards.then(|| "this card only".to_string()));
    remarks.extend(entry.traded.iter().map(trade));
    remarks.extend(entry.noisy.then(|| NOISY.to_string()));
    remarks.retain(|remark| !remark.is_empty());
    remarks.join(", ")
}

/// What an entry gives up on one problem.
pub(crate) fn trade(traded: &TradedProblem) -> String {
    format!("slower on `{}` by {:.1} %", traded.problem, (traded.ratio - 1.0) * 100.0)
}

/// How an entry stands to the champion and to the baseline.
fn standing(section: &LeaderboardSection, entry: &RankedEntry) -> &'static str {
    match (entry.number == section.baseline.number, entry.tie_with_champion, entry.decision) {
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
    // One row for each machine code, as in the ranking of finalists.
    let passing =
        fastest(evaluations).into_iter().filter(|(_, evaluation)| evaluation.duplicate_of.is_none());
    let passing: Vec<_> = passing.take(count).collect();
    let mut table = FittedTable::default();
    table.add("#", Keep::Always, (1..=passing.len()).map(|rank| rank.to_string()).collect());
    let configurations = passing.iter().map(|(_, evaluation)| &evaluation.configuration).collect();
    add_parameters(&mut table, configurations, &["#", how]);
    table.add(how, Keep::Always, passing.iter().map(|(objective, _)| time(*objective)).collect());
    let remarks = passing.iter().map(|(_, evaluation)| {
        // No small shape was there at which a wrong tail would have shown.
        let lacks_tails = evaluation.gate(Gate::TinyShapes).is_some_and(GateReport::lacks_shapes);
        let tails = lacks_tails.then_some("tails not checked");
        let noisy = is_noisy(evaluation.measurements.iter()).then_some(NOISY);
        let default = evaluation.is_default().then_some("default");
        [default, tails, noisy].into_iter().flatten().collect::<Vec<_>>().join(", ")
    });
    table.add("", Keep::Rank(1), remarks.collect());
    table.rows(width)
}

/// `pass 31, too_slow 9, …`, most frequent first.
pub fn mix(evaluations: &[Evaluation]) -> String {
    let kinds = most_frequent(evaluations.iter().map(|evaluation| evaluation.verdict.kind.to_string()));
    kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
}

/// How often each word is there, the most frequent first; of equally frequent ones by name, so that a line does not change
/// from run to run.
pub(crate) fn most_frequent(words: impl Iterator<Item = String>) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    words.for_each(|word| *counts.entry(word).or_default() += 1);
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
