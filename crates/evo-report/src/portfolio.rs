//! A section's portfolio in words, below its table.

use evo_protocol::leaderboard::{
    LeaderboardSection, Portfolio, PortfolioMember, PortfolioSet, ProblemChampion,
};
use evo_space::genome::Configuration;

use super::width::wrapped;

/// What one configuration leaves on the table, and which ones do not; nothing where there is no portfolio.
pub fn portfolio(section: &LeaderboardSection, width: usize) -> String {
    let Some(own) = &section.portfolio else { return String::new() };
    let names = EntryNames { section };
    names.best(own, width) + &own.sets.iter().map(|set| names.set(set, width)).collect::<String>()
}

struct EntryNames<'a> {
    section: &'a LeaderboardSection,
}

impl EntryNames<'_> {
    /// `#1 (32 4)`, or the values alone of a configuration that is not in the table.
    fn of(&self, number: u64, configuration: &Configuration) -> String {
        match self.section.entries().find(|entry| entry.number == number) {
            Some(entry) => format!("#{} ({})", entry.rank, configuration.positional()),
            None => format!("({})", configuration.positional()),
        }
    }

    /// The problems on which another configuration than the champion is fastest.
    fn best(&self, own: &Portfolio, width: usize) -> String {
        let champion = self.section.champion.number;
        let others: Vec<&ProblemChampion> = own.best.iter().filter(|one| one.number != champion).collect();
        if others.is_empty() {
            return wrapped("fastest by problem: #1 on each, or as fast", width);
        }
        let told = others.iter().map(|one| {
            let name = self.of(one.number, &one.configuration);
            format!("{name} on `{}`, {:.2}× #1", one.problem, one.speedup_over_champion)
        });
        let rest = own.best.len() - others.len();
        let rest = if rest > 0 { format!("; #1 on the other {rest}") } else { String::new() };
        wrapped(&format!("fastest by problem: {}{rest}", told.collect::<Vec<_>>().join("; ")), width)
    }

    /// A set with its rule.
    fn set(&self, set: &PortfolioSet, width: usize) -> String {
        let configuration = |number: u64| {
            let own = set.members.iter().find(|own| own.number == number);
            own.map_or(String::new(), |own| self.of(number, &own.configuration))
        };
        let percent = set.within * 100.0;
        let head = format!("within {percent:.0} % of the fastest everywhere");
        if let [only] = &set.members[..] {
            return wrapped(&format!("{head}: {} alone", self.of(only.number, &only.configuration)), width);
        }
        let count = set.members.len();
        let count = if set.is_exact { count.to_string() } else { format!("{count} or fewer") };
        let told = match &set.rule {
            Some(steps) => {
                let step = |number: u64, when: &Option<String>| match when {
                    Some(when) => format!("{} where {when}", configuration(number)),
                    None => format!("else {}", configuration(number)),
                };
                steps.iter().map(|one| step(one.number, &one.when)).collect::<Vec<_>>().join("; ")
            }
            None => {
                let member = |own: &PortfolioMember| {
                    format!("{} for {}", self.of(own.number, &own.configuration), own.problems.join(", "))
                };
                set.members.iter().map(member).collect::<Vec<_>>().join("; ")
            }
        };
        let gain = format!("{:.2}× #1 by the geometric mean", set.speedup_over_champion);
        wrapped(&format!("{head}: {count} configurations, {gain}: {told}"), width)
    }
}

#[cfg(test)]
mod tests;
