//! A section's portfolio: the fastest confirmed configuration of each problem, and the smallest sets that are nearly as
//! fast everywhere.
//!
//! Times on different problems and of different moments are compared by their paired ratios to the baseline, as the
//! ranking does: both sides of a ratio were timed in turns.

use evo_protocol::leaderboard::{
    Portfolio, PortfolioMember, PortfolioSet, PortfolioStep, ProblemChampion, RankedEntry,
};

use super::cover;
use super::size_rule::{self, RuleProblem, SizeStep};

/// How far from the best a configuration of the closer set may be on a problem.
pub const NEAR: f64 = 0.02;
const FAIR: f64 = 0.05;

/// `None` where there is one problem, or no entry was compared on all of them. A lead over the champion within
/// `floor` is a tie, which goes to the champion.
pub fn portfolio(entries: &[RankedEntry], baseline: u64, floor: f64) -> Option<Portfolio> {
    let problems: Vec<&str> = entries.first()?.results.iter().map(|one| one.problem.as_str()).collect();
    if problems.len() < 2 {
        return None;
    }
    let row = |entry: &RankedEntry| -> Option<Vec<f64>> {
        problems.iter().map(|problem| ratio(entry, problem, baseline)).collect()
    };
    let (compared, ratios): (Vec<&RankedEntry>, Vec<Vec<f64>>) =
        entries.iter().filter_map(|entry| Some((entry, row(entry)?))).unzip();
    let champion = compared.iter().position(|entry| entry.number == entries[0].number)?;
    let board = PairedEntries { entries: compared, ratios, problems, champion };
    let best: Vec<usize> = (0..board.problems.len()).map(|problem| board.best(problem, floor)).collect();
    Some(Portfolio {
        best: best.iter().enumerate().map(|(problem, own)| board.problem_champion(problem, *own)).collect(),
        sets: [NEAR, FAIR].into_iter().filter_map(|within| board.set(within)).collect(),
    })
}

fn ratio(entry: &RankedEntry, problem: &str, baseline: u64) -> Option<f64> {
    if entry.number == baseline {
        return Some(1.0);
    }
    entry.pairs.iter().find(|pair| pair.problem == problem).map(|pair| pair.ratio).filter(|own| *own > 0.0)
}

struct PairedEntries<'a> {
    entries: Vec<&'a RankedEntry>,
    /// A row an entry: its time over the baseline's on each problem.
    ratios: Vec<Vec<f64>>,
    problems: Vec<&'a str>,
    champion: usize,
}

impl PairedEntries<'_> {
    fn least(&self, problem: usize) -> f64 {
        self.ratios.iter().map(|row| row[problem]).fold(f64::INFINITY, f64::min)
    }

    fn best(&self, problem: usize, floor: f64) -> usize {
        let least = self.least(problem);
        if self.ratios[self.champion][problem] <= least * (1.0 + floor) {
            return self.champion;
        }
        self.ratios.iter().position(|row| row[problem] <= least).unwrap_or(self.champion)
    }

    fn mean(&self, factor: impl Fn(usize) -> f64) -> f64 {
        let weights = self.entries[self.champion].results.iter().map(|one| one.weight);
        let (sum, total) = weights.enumerate().fold((0.0, 0.0), |(sum, total), (problem, weight)| {
            (sum + weight * factor(problem).ln(), total + weight)
        });
        if total > 0.0 { (sum / total).exp() } else { 1.0 }
    }

    fn problem_champion(&self, problem: usize, own: usize) -> ProblemChampion {
        let entry = self.entries[own];
        ProblemChampion {
            problem: self.problems[problem].to_string(),
            number: entry.number,
            configuration: entry.configuration.clone(),
            speedup: 1.0 / self.ratios[own][problem],
            speedup_over_champion: self.ratios[self.champion][problem] / self.ratios[own][problem],
        }
    }

    fn set(&self, within: f64) -> Option<PortfolioSet> {
        let count = self.problems.len();
        let least: Vec<f64> = (0..count).map(|problem| self.least(problem)).collect();
        let row = |row: &Vec<f64>| row.iter().zip(&least).map(|(own, least)| own / least).collect();
        let factors: Vec<Vec<f64>> = self.ratios.iter().map(row).collect();
        let cover = cover::smallest(&factors, within)?;
        let members: Vec<&RankedEntry> = cover.members.iter().map(|own| self.entries[*own]).collect();
        let sizes = &self.entries[self.champion].results;
        let problems: Vec<RuleProblem<'_>> = (0..count)
            .map(|problem| RuleProblem {
                sizes: &sizes[problem].sizes,
                factors: cover.members.iter().map(|own| factors[*own][problem]).collect(),
            })
            .collect();
        let steps = size_rule::rule(&problems, within);
        // What the rule gives each problem; without a rule, the fastest member.
        let chosen = problems.iter().map(|problem| match &steps {
            Some(steps) => size_rule::member_of(steps, problem.sizes),
            None => fastest(&problem.factors),
        });
        let chosen: Vec<usize> = chosen.collect();
        let factor = |problem: usize| problems[problem].factors[chosen[problem]];
        let gain = |problem: usize| factors[self.champion][problem] / factor(problem);
        let member = |(member, entry): (usize, &&RankedEntry)| PortfolioMember {
            number: entry.number,
            configuration: entry.configuration.clone(),
            problems: (0..count)
                .filter(|problem| chosen[*problem] == member)
                .map(|problem| self.problems[problem].to_string())
                .collect(),
        };
        let step = |step: SizeStep| PortfolioStep { when: step.when, number: members[step.member].number };
        Some(PortfolioSet {
            within,
            is_exact: cover.is_exact,
            worst_factor: (0..count).map(factor).fold(1.0, f64::max),
            speedup_over_champion: self.mean(gain),
            members: members.iter().enumerate().map(member).collect(),
            rule: steps.map(|steps| steps.into_iter().map(step).collect()),
        })
    }
}

fn fastest(factors: &[f64]) -> usize {
    let order = |a: &(usize, &f64), b: &(usize, &f64)| a.1.total_cmp(b.1);
    factors.iter().enumerate().min_by(order).map_or(0, |(position, _)| position)
}
