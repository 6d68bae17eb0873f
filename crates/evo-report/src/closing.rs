//! The answer that a sweep ends on, below its table: what won, by how much and with what certainty, what the number is
//! worth, and the command that takes that configuration further.

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{LeaderboardSection, PairedDecision, RankedEntry};
use evo_protocol::verdict::{Gate, GateReport, GateState};
use evo_space::genome::Configuration;
use evo_space::text::quote;

use super::failures;
use super::styled::{StyledLine, Tone};
use super::text::{TAILS, compared_ns, time, trade};
use super::width::wrapped;
use evo_journal::record::StudyHeader;
use evo_journal::replay::History;
use evo_timing::paired::claimable;

/// A label's column.
const LABEL: usize = 9;

/// The folder that commands look into by themselves.
const USUAL_OUT: &str = "evidence";

/// What the answer is made of.
#[derive(Clone, Copy)]
pub struct Ending<'a> {
    pub header: &'a StudyHeader,
    pub history: &'a History,
    /// What the run confirmed.
    pub section: Option<&'a LeaderboardSection>,
    /// The leaderboard's section, where an earlier study keeps it.
    pub kept: Option<&'a LeaderboardSection>,
    /// Finalists that could still be confirmed.
    pub left_out: usize,
    /// Whether inputs such as NaN were tried.
    pub tries_special_values: bool,
    /// The evidence folder as the command line names it.
    pub out: &'a str,
}

/// The kernel, the device and the problems.
pub fn title(header: &StudyHeader, width: usize) -> Vec<StyledLine> {
    let text = format!("{} on {} · {}", header.kernel, header.device.name, header.problems.join(", "));
    wrapped(&text, width).lines().map(|line| StyledLine::new(Tone::Strong, line)).collect()
}

/// The fastest of the screening that did not fail its confirmation.
pub fn best(history: &History) -> Option<&Evaluation> {
    let failed = |one: &Evaluation| {
        let newest = history.confirmations.iter().rfind(|own| own.number == one.number);
        newest.is_some_and(|own| !own.evaluation.may_rank())
    };
    let passing = history.evaluations.iter().filter(|one| one.verdict.is_pass() && !failed(one));
    let timed = passing.filter_map(|one| Some((one.objective_ns?, one)));
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, one)| one)
}

/// Whether a section has the baseline alone while something that screened faster was not compared with it.
pub fn is_undecided(section: &LeaderboardSection, history: &History) -> bool {
    let is_baseline = |number: u64| number == section.baseline.number;
    section.entries().all(|entry| is_baseline(entry.number))
        && best(history).is_some_and(|best| !is_baseline(best.number))
}

/// The lines, of which only commands may be wider than `width`: they are to be copied. Nothing where nothing passed.
pub fn answer(ending: &Ending<'_>, width: usize) -> Vec<StyledLine> {
    let lines = match (ending.section, best(ending.history)) {
        (Some(section), _) => ending.confirmed(section),
        (None, Some(best)) => ending.screened(best),
        (None, None) => Vec::new(),
    };
    lines.into_iter().flat_map(|line| paragraph(line, width)).collect()
}

impl Ending<'_> {
    fn confirmed(&self, section: &LeaderboardSection) -> Vec<StyledLine> {
        let is_faster = |entry: &&RankedEntry| entry.decision == Some(PairedDecision::Faster);
        let winner = section.entries().find(is_faster);
        let entry = winner.unwrap_or(&section.champion);
        let name = if section.baseline.is_default { "the default" } else { "the first that passed" };
        let mut lines = Vec::new();
        if winner.is_none() {
            lines.push(StyledLine::new(Tone::Strong, self.tie(section, name)));
        }
        lines.push(match winner {
            Some(_) => label("winner").with(Tone::Good, self.difference(&entry.configuration)),
            None => label("best").with(Tone::Plain, self.difference(&entry.configuration)),
        });
        if let (Some(speed), Some(low), Some(high)) = (entry.speedup, entry.speedup_low, entry.speedup_high) {
            let interval = format!(" (95 % {low:.2}–{high:.2}, paired)");
            lines.push(
                label("speed").with(Tone::Strong, format!("{speed:.2}× {name}")).with(Tone::Plain, interval),
            );
        }
        lines.extend(winner.is_none().then(|| self.traded(section)).flatten());
        let floor = section
            .noise_floor
            .map_or(String::new(), |floor| format!("; noise floor {:.2} %", floor * 100.0));
        let timed = time(compared_ns(section, entry));
        lines.push(label("time").with(Tone::Plain, format!("{timed} ({}{floor})", section.ranking.as_str())));
        lines.extend(self.worth(
            entry.gates.get(Gate::TinyShapes.as_str()) == Some(&GateState::NotRun),
            remarks(section, entry),
        ));
        lines.extend(self.kept.map(|kept| self.keeper(kept, entry)));
        if self.left_out > 0 {
            let left = format!("{} not confirmed yet; `--resume` confirms more", finalists(self.left_out));
            lines.push(label("left").with(Tone::Warning, left));
        }
        let named = match entry.number == section.champion.number {
            true => "@champion".to_string(),
            false => format!("@{}", entry.number),
        };
        let (space, study) = (quote(&self.header.space), quote(&self.header.study));
        let command = format!("evo export {space} {named} --study {study}{} --to app", self.elsewhere());
        lines.push(label("export").with(Tone::Plain, command));
        lines
    }

    /// That nothing won.
    fn tie(&self, section: &LeaderboardSection, name: &str) -> String {
        let champion = &section.champion;
        let compared = if self.left_out > 0 { "no variant that was compared" } else { "no variant" };
        let best = match (champion.speedup, champion.decision) {
            (Some(speed), Some(PairedDecision::Same)) => {
                let least = claimable(section.noise_floor.unwrap_or(0.0)) * 100.0;
                format!(" (best: {speed:.2}×, a tie within {least:.2} %)")
            }
            (Some(speed), _) => format!(" (best: {speed:.2}×, not certain)"),
            (None, _) => String::new(),
        };
        format!("{compared} is certainly faster than {name}{best}")
    }

    /// What is faster in the mean and ranks behind for a problem on which it is slower.
    fn traded(&self, section: &LeaderboardSection) -> Option<StyledLine> {
        let is_faster = |entry: &&RankedEntry| entry.speedup_low.is_some_and(|low| low > 1.0);
        let mut traded = section.entries().filter(|entry| !entry.traded.is_empty()).filter(is_faster);
        let entry = traded.next()?;
        let slower = entry.traded.iter().map(trade).collect::<Vec<_>>().join(", ");
        let (values, speed) = (self.difference(&entry.configuration), entry.speedup?);
        let text = format!(
            "{values} is {speed:.2}× in the mean and {slower}; with `allow_trade = true` it ranks by its mean"
        );
        Some(label("traded").with(Tone::Plain, text))
    }

    fn screened(&self, best: &Evaluation) -> Vec<StyledLine> {
        let is_replay = self.header.device.kind == DeviceKind::Replay;
        let objective = best.objective_ns.unwrap_or_default();
        let default = self.history.evaluations.iter().find(|one| one.is_default() && one.is_timed());
        let default_ns = default.filter(|one| one.number != best.number).and_then(|one| one.objective_ns);
        let speed = default_ns.map_or(String::new(), |default| format!(", {:.2}×", default / objective));
        let (state, how) = if is_replay { ("on record", "recorded") } else { ("not confirmed", "screened") };
        let headline = format!("{state}: {}{speed} ({how})", time(objective));
        let mut lines = vec![
            StyledLine::new(Tone::Warning, headline),
            label("best").with(Tone::Plain, self.difference(&best.configuration)),
        ];
        if !is_replay {
            let tails = best.gate(Gate::TinyShapes).is_some_and(GateReport::lacks_shapes);
            lines.extend(self.worth(tails, Vec::new()));
            lines.push(label("confirm").with(Tone::Plain, self.resume()));
        }
        lines
    }

    /// What the number says and what it does not, in a line; nothing where there are no reservations.
    fn worth(&self, lacks_tails: bool, more: Vec<String>) -> Option<StyledLine> {
        let default = failures::of_default(self.header, &self.history.evaluations);
        let is_host = self.header.device.kind == DeviceKind::Host;
        let mut notes: Vec<String> =
            is_host.then(|| "times of this processor, not of a GPU".to_string()).into_iter().collect();
        notes.extend(default.map(|failure| format!("the default failed: {}", failure.first.verdict.label())));
        notes.extend(lacks_tails.then(|| TAILS.to_string()));
        notes.extend((!self.tries_special_values).then(|| "special values not checked".to_string()));
        notes.extend(more);
        (!notes.is_empty()).then(|| label("note").with(Tone::Plain, notes.join("; ")))
    }

    /// The earlier study's champion beside this one.
    fn keeper(&self, kept: &LeaderboardSection, entry: &RankedEntry) -> StyledLine {
        let champion = &kept.champion;
        let speed = champion.speedup.map_or(String::new(), |speed| format!("{speed:.2}×, "));
        let values = format!("{speed}{}", time(compared_ns(kept, champion)));
        let (study, is_same) = (&kept.study.name, champion.configuration == entry.configuration);
        let text = match is_same {
            true => format!("the same as in study `{study}`, which measured {values}"),
            false => {
                let difference = self.difference(&champion.configuration);
                format!("stays that of study `{study}`: {values}, {difference}")
            }
        };
        label("champion").with(Tone::Warning, text)
    }

    /// The values that differ from the default's.
    fn difference(&self, configuration: &Configuration) -> String {
        let default = self.history.evaluations.iter().find(|one| one.is_default());
        let usual = |name: &str| default.and_then(|one| one.configuration.get(name));
        let differing = configuration.iter().filter(|(name, value)| usual(name) != Some(value));
        let values: Vec<String> = differing.map(|(name, value)| format!("{name}={value}")).collect();
        if values.is_empty() { "the default configuration".to_string() } else { values.join(" ") }
    }

    /// The command again, so that it goes on with this study and confirms.
    fn resume(&self) -> String {
        let mut words = self.header.environment.command.iter().skip(1);
        let mut kept = vec!["evo".to_string()];
        while let Some(word) = words.next() {
            let name = word.split('=').next().unwrap_or_default();
            match name {
                "--finalists" | "--study" if !word.contains('=') => drop(words.next()),
                "--finalists" | "--study" | "--resume" => {}
                _ => kept.push(quote(word).into_owned()),
            }
        }
        format!("{} --study {} --resume", kept.join(" "), quote(&self.header.study))
    }

    fn elsewhere(&self) -> String {
        if self.out == USUAL_OUT { String::new() } else { format!(" --out {}", quote(self.out)) }
    }
}

/// Reservations about a confirmed entry.
fn remarks(section: &LeaderboardSection, entry: &RankedEntry) -> Vec<String> {
    let sanitized = entry.gates.get(Gate::Sanitize.as_str());
    let lacks_sanitizer = section.device.kind == DeviceKind::Cuda && sanitized == Some(&GateState::NotRun);
    let mut remarks: Vec<String> = lacks_sanitizer.then(|| "not sanitized".to_string()).into_iter().collect();
    remarks.extend(entry.noisy.then(|| "noisy samples".to_string()));
    remarks.extend(entry.traded.iter().map(trade));
    remarks.extend(entry.repeated.as_ref().map(|own| {
        let speed = own.speedup.map_or("no speed".to_string(), |speed| format!("{speed:.2}×"));
        let repeats =
            if own.this_card_only { "the win does not repeat on a second card" } else { "a second card" };
        format!("{repeats}: {speed} on {}", own.device_uuid)
    }));
    remarks
}

fn label(name: &str) -> StyledLine {
    StyledLine::new(Tone::Faint, format!("{name:<LABEL$}"))
}

fn finalists(count: usize) -> String {
    if count == 1 { "1 finalist is".to_string() } else { format!("{count} finalists are") }
}

/// A line, broken where it is too wide and no command. Only lines that fit keep their colors.
fn paragraph(line: StyledLine, width: usize) -> Vec<StyledLine> {
    let text = line.text(false);
    if line.width() <= width || text.starts_with("export ") || text.starts_with("confirm ") {
        return vec![line];
    }
    wrapped(&text, width).lines().map(|line| StyledLine::new(Tone::Plain, line)).collect()
}
