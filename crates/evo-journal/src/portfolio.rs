//! A section's portfolio: the fastest confirmed configuration of each problem, and the smallest sets that are nearly as
//! fast everywhere, with a rule over sizes that chooses among them.
//!
//! Times on different problems and of different moments are compared by their paired ratios to the baseline, as the
//! ranking does: both sides of a ratio were timed in turns.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use evo_protocol::leaderboard::{
    Portfolio, PortfolioMember, PortfolioSet, PortfolioStep, ProblemChampion, RankedEntry,
};

/// How far from the best a configuration of the closer set may be on a problem.
pub const NEAR: f64 = 0.02;
const FAIR: f64 = 0.05;

/// `None` where there is one problem, or no entry was compared on all of them. A lead over the champion within
/// `floor` is a tie, which goes to the champion.
pub fn portfolio(entries: &[RankedEntry], baseline: u64, floor: f64) -> Option<Portfolio> {
    let first = entries.first().filter(|entry| entry.results.len() > 1)?;
    let ratio = |entry: &RankedEntry, problem: &str| {
        let pair = entry.pairs.iter().find(|pair| pair.problem == problem);
        let measured = pair.map(|pair| pair.ratio).filter(|ratio| *ratio > 0.0);
        if entry.number == baseline { Some(1.0) } else { measured }
    };
    let row = |entry: &RankedEntry| -> Option<Vec<f64>> {
        first.results.iter().map(|result| ratio(entry, &result.problem)).collect()
    };
    let (compared, ratios): (Vec<&RankedEntry>, Vec<Vec<f64>>) =
        entries.iter().filter_map(|entry| Some((entry, row(entry)?))).unzip();
    let champion = compared.iter().position(|entry| entry.number == first.number)?;
    let least = |problem: usize| ratios.iter().map(|row| row[problem]).fold(f64::INFINITY, f64::min);
    let least: Vec<f64> = (0..first.results.len()).map(least).collect();
    let problem_champion = |problem: usize| {
        let ties = ratios[champion][problem] <= least[problem] * (1.0 + floor);
        let fastest = ratios.iter().position(|row| row[problem] <= least[problem]).filter(|_| !ties);
        let best = fastest.unwrap_or(champion);
        ProblemChampion {
            problem: first.results[problem].problem.clone(),
            number: compared[best].number,
            configuration: compared[best].configuration.clone(),
            speedup: 1.0 / ratios[best][problem],
            speedup_over_champion: ratios[champion][problem] / ratios[best][problem],
        }
    };
    let factors = |row: &Vec<f64>| row.iter().zip(&least).map(|(ratio, least)| ratio / least).collect();
    let factors: Vec<Vec<f64>> = ratios.iter().map(factors).collect();
    Some(Portfolio {
        best: (0..least.len()).map(problem_champion).collect(),
        sets: [NEAR, FAIR].iter().filter_map(|within| set(&compared, &factors, champion, *within)).collect(),
    })
}

/// `factors` has a row an entry: its time over the best time of each problem.
fn set(entries: &[&RankedEntry], factors: &[Vec<f64>], champion: usize, within: f64) -> Option<PortfolioSet> {
    let cover = smallest(factors, within)?;
    let members: Vec<&RankedEntry> = cover.members.iter().map(|member| entries[*member]).collect();
    let rows: Vec<&Vec<f64>> = cover.members.iter().map(|member| &factors[*member]).collect();
    let results = &entries[champion].results;
    let sizes: Vec<&BTreeMap<String, i64>> = results.iter().map(|result| &result.sizes).collect();
    let steps = SizeRule { rows: &rows, sizes: &sizes, within }.steps();
    let fastest = |problem: usize| {
        let order = |a: &usize, b: &usize| rows[*a][problem].total_cmp(&rows[*b][problem]);
        (0..rows.len()).min_by(order).unwrap_or(0)
    };
    // What the rule gives each problem; without a rule, the fastest member.
    let chosen = |problem: usize| match &steps {
        Some(steps) => member_of(steps, sizes[problem]),
        None => fastest(problem),
    };
    let chosen: Vec<usize> = (0..results.len()).map(chosen).collect();
    let factor = |problem: usize| rows[chosen[problem]][problem];
    let (mut gain, mut weights) = (0.0, 0.0);
    for (problem, result) in results.iter().enumerate() {
        gain += result.weight * (factors[champion][problem] / factor(problem)).ln();
        weights += result.weight;
    }
    let member = |(member, entry): (usize, &&RankedEntry)| PortfolioMember {
        number: entry.number,
        configuration: entry.configuration.clone(),
        problems: results
            .iter()
            .zip(&chosen)
            .filter(|(_, chosen)| **chosen == member)
            .map(|(result, _)| result.problem.clone())
            .collect(),
    };
    let step = |step: SizeStep| PortfolioStep { when: step.when, number: members[step.member].number };
    Some(PortfolioSet {
        within,
        is_exact: cover.is_exact,
        worst_factor: (0..results.len()).map(factor).fold(1.0, f64::max),
        speedup_over_champion: if weights > 0.0 { (gain / weights).exp() } else { 1.0 },
        members: members.iter().enumerate().map(member).collect(),
        rule: steps.map(|steps| steps.into_iter().map(step).collect()),
    })
}

const STEPS_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
pub struct Cover {
    /// Positions among the candidates, ascending.
    pub members: Vec<usize>,
    /// Whether no smaller set does, and no set of this size is faster.
    pub is_exact: bool,
}

/// The smallest set of candidates of which each problem has one within `1 + within` of the best; of several the one with
/// the least geometric mean. `factors` has a row a candidate: its time on each problem over the best time there, at
/// least 1. `None` where some problem has no candidate.
///
/// Set cover is NP-hard, and the boards' instances are tiny: some ten candidates and problems. So the answer is exact:
/// sets of one, of two and so on are tried by branching on the problem that the fewest candidates suit. Where that takes
/// too many steps, a greedy cover stands in, and says so.
pub fn smallest<R: AsRef<[f64]>>(factors: &[R], within: f64) -> Option<Cover> {
    let problems = factors.first().map_or(0, |row| row.as_ref().len());
    let suits = |problem: usize| {
        (0..factors.len()).filter(move |own| factors[*own].as_ref()[problem] <= 1.0 + within).collect()
    };
    let suitable: Vec<Vec<usize>> = (0..problems).map(suits).collect();
    if suitable.iter().any(Vec::is_empty) {
        return None;
    }
    let mut search = CoverSearch { factors, suitable, steps: 0, best: None };
    for size in 0..=problems {
        search.branch(&mut Vec::new(), size);
        let (is_exact, mut members) = match search.best.take() {
            _ if search.steps > STEPS_MAX => (false, search.greedy()),
            Some((_, members)) => (true, members),
            None => continue,
        };
        members.sort_unstable();
        return Some(Cover { members, is_exact });
    }
    None
}

/// Sum of the logarithms of what a set loses against the best of each problem.
fn loss<R: AsRef<[f64]>>(factors: &[R], members: &[usize]) -> f64 {
    let problems = factors.first().map_or(0, |row| row.as_ref().len());
    let times = |problem: usize| members.iter().map(move |own| factors[*own].as_ref()[problem]);
    (0..problems).map(|problem| times(problem).fold(f64::INFINITY, f64::min).ln()).sum()
}

struct CoverSearch<'a, R> {
    factors: &'a [R],
    suitable: Vec<Vec<usize>>,
    steps: u64,
    best: Option<(f64, Vec<usize>)>,
}

impl<R: AsRef<[f64]>> CoverSearch<'_, R> {
    fn open(&self, chosen: &[usize]) -> impl Iterator<Item = &Vec<usize>> {
        self.suitable.iter().filter(|own| !own.iter().any(|candidate| chosen.contains(candidate)))
    }

    /// All covers that add at most so many candidates to `chosen`. Every cover has a candidate of the problem that is
    /// branched on, so none is missed.
    fn branch(&mut self, chosen: &mut Vec<usize>, left: usize) {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return;
        }
        match self.open(chosen).min_by_key(|own| own.len()).cloned() {
            None => {
                let loss = loss(self.factors, chosen);
                if self.best.as_ref().is_none_or(|(best, _)| loss < *best) {
                    self.best = Some((loss, chosen.clone()));
                }
            }
            Some(candidates) if left > 0 => {
                for candidate in candidates {
                    chosen.push(candidate);
                    self.branch(chosen, left - 1);
                    chosen.pop();
                }
            }
            Some(_) => {}
        }
    }

    fn greedy(&self) -> Vec<usize> {
        let mut members: Vec<usize> = Vec::new();
        while self.open(&members).next().is_some() {
            let served = |own: &usize| self.open(&members).filter(|open| open.contains(own)).count();
            members.extend((0..self.factors.len()).max_by_key(|own| (served(own), Reverse(*own))));
        }
        members
    }
}

/// `name <= most`, of which `flag` is `name == 0`.
#[derive(Clone, Debug, PartialEq)]
struct SizeBound {
    name: String,
    most: i64,
    flag: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct SizeStep {
    /// An expression over sizes; the last step has none.
    when: Option<String>,
    bounds: Vec<SizeBound>,
    member: usize,
}

fn member_of(steps: &[SizeStep], sizes: &BTreeMap<String, i64>) -> usize {
    let holds = |bound: &SizeBound| sizes.get(&bound.name).copied().unwrap_or(0) <= bound.most;
    steps.iter().find(|step| step.bounds.iter().all(holds)).map_or(0, |step| step.member)
}

/// Which member of a set to use, as a rule over problem sizes: a small decision tree, told as a list.
struct SizeRule<'a> {
    /// A row a member: its time on each problem over the best time there.
    rows: &'a [&'a Vec<f64>],
    sizes: &'a [&'a BTreeMap<String, i64>],
    within: f64,
}

impl SizeRule<'_> {
    /// Each problem gets a member within `1 + within` of the best; `None` where sizes do not tell them apart.
    /// Thresholds are values that problems have: between two of them, nothing was measured.
    fn steps(&self) -> Option<Vec<SizeStep>> {
        let mut steps = Vec::new();
        self.add(&(0..self.sizes.len()).collect::<Vec<_>>(), &[], &mut steps)?;
        // A step before the last one that leads where the last one leads says nothing.
        while let [.., before, last] = &steps[..]
            && before.member == last.member
        {
            steps.remove(steps.len() - 2);
        }
        Some(steps)
    }

    /// Steps of a left branch come first and exhaust it, so that a right branch needs no condition of its own.
    fn add(&self, problems: &[usize], path: &[SizeBound], steps: &mut Vec<SizeStep>) -> Option<()> {
        if problems.is_empty() {
            return None;
        }
        let suits = |own: &usize| problems.iter().all(|at| self.rows[*own][*at] <= 1.0 + self.within);
        let loss = |own: usize| problems.iter().map(|at| self.rows[own][*at].ln()).sum::<f64>();
        let order = |a: &usize, b: &usize| loss(*a).total_cmp(&loss(*b));
        if let Some(member) = (0..self.rows.len()).filter(suits).min_by(order) {
            let text = |own: &SizeBound| match own.flag {
                true => format!("{} == 0", own.name),
                false => format!("{} <= {}", own.name, own.most),
            };
            let when = path.iter().map(text).collect::<Vec<_>>().join(" and ");
            let when = Some(when).filter(|text| !text.is_empty());
            steps.push(SizeStep { when, bounds: path.to_vec(), member });
            return Some(());
        }
        let (bound, left, right) = self.best_split(problems)?;
        let mut tighter = path.to_vec();
        match tighter.iter_mut().find(|own| own.name == bound.name) {
            Some(own) => own.most = bound.most,
            None => tighter.push(bound),
        }
        self.add(&left, &tighter, steps)?;
        self.add(&right, path, steps)
    }

    fn best_split(&self, problems: &[usize]) -> Option<(SizeBound, Vec<usize>, Vec<usize>)> {
        let names: BTreeSet<&String> = problems.iter().flat_map(|at| self.sizes[*at].keys()).collect();
        let mut best = None;
        for name in names {
            let value = |at: &usize| self.sizes[*at].get(name).copied().unwrap_or(0);
            let values: BTreeSet<i64> = problems.iter().map(value).collect();
            let flag = values.iter().all(|value| (0..=1).contains(value));
            // Behind the largest value there is nothing to split off.
            for most in values.iter().copied().take(values.len() - 1) {
                let (left, right): (Vec<usize>, Vec<usize>) =
                    problems.iter().partition(|at| value(at) <= most);
                let needed = self.members_needed(&left) + self.members_needed(&right);
                let cost = (needed, left.len().abs_diff(right.len()));
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, (SizeBound { name: name.clone(), most, flag }, left, right)));
                }
            }
        }
        best.map(|(_, split)| split)
    }

    fn members_needed(&self, problems: &[usize]) -> usize {
        let row = |row: &&Vec<f64>| problems.iter().map(|at| row[*at]).collect();
        let rows: Vec<Vec<f64>> = self.rows.iter().map(row).collect();
        smallest(&rows, self.within).map_or(usize::MAX / 4, |cover| cover.members.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_set_is_found_and_the_faster_of_two() {
        let check = |rows: &[&[f64]], within: f64, expected: Option<&[usize]>| {
            let found = smallest(rows, within);
            assert!(found.as_ref().is_none_or(|own| own.is_exact));
            assert_eq!(found.map(|own| own.members).as_deref(), expected);
        };
        let all: &[&[f64]] = &[&[1.0, 1.10, 1.04], &[1.3, 1.0, 1.0], &[1.04, 1.04, 1.04], &[1.0, 1.2, 1.2]];
        check(all, 0.02, Some(&[0, 1]));
        check(all, 0.05, Some(&[2]));
        check(all, 0.2, Some(&[2]));
        check(&[&[1.0, 1.5], &[1.4, 1.03]], 0.02, None);
        check(&[&[1.0]], 0.0, Some(&[0]));
        check(&[], 0.02, Some(&[]));
        // Greedy would take the widest first and need three.
        let wide: &[&[f64]] = &[
            &[1.0, 1.0, 1.0, 1.0, 9.0, 9.0],
            &[1.0, 1.0, 9.0, 9.0, 1.0, 9.0],
            &[9.0, 9.0, 1.0, 1.0, 9.0, 1.0],
        ];
        check(wide, 0.02, Some(&[1, 2]));
    }

    /// Against all subsets, on instances made by a fixed recurrence.
    #[test]
    fn it_agrees_with_trying_all_subsets() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        for _ in 0..200 {
            let (candidates, problems) = (1 + (next() * 6.0) as usize, 1 + (next() * 6.0) as usize);
            let mut rows: Vec<Vec<f64>> =
                (0..candidates).map(|_| (0..problems).map(|_| 1.0 + next() * 0.06).collect()).collect();
            for problem in 0..problems {
                let best = rows.iter().map(|row| row[problem]).fold(f64::INFINITY, f64::min);
                rows.iter_mut().for_each(|row| row[problem] /= best);
            }
            let members = |set: usize| (0..candidates).filter(|own| set >> own & 1 == 1).collect::<Vec<_>>();
            let covers = |set: &Vec<usize>| {
                (0..problems).all(|problem| set.iter().any(|own| rows[*own][problem] <= 1.02))
            };
            let all = (1..1usize << candidates).map(members).filter(covers);
            let worth = |set: &Vec<usize>| (set.len(), loss(&rows, set));
            let best = all.map(|set| worth(&set)).min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap();
            let found = worth(&smallest(&rows, 0.02).unwrap().members);
            assert!(found.0 == best.0 && (found.1 - best.1).abs() < 1e-12, "{rows:?}");
        }
    }

    #[test]
    fn a_cover_of_many_problems_says_that_it_is_not_exact() {
        // 24 problems, each with two candidates of its own: 2^24 covers of one size.
        let row = |own| (0..24).map(|problem| if own / 2 == problem { 1.0 } else { 2.0 }).collect();
        let rows: Vec<Vec<f64>> = (0..48).map(row).collect();
        let found = smallest(&rows, 0.02).unwrap();
        assert!(!found.is_exact && found.members.len() == 24);
    }

    #[test]
    fn rules_are_as_short_as_the_sizes_allow() {
        // Sizes as `M=1 N=8`; which members are fast there: the first, the second, or both.
        let told = [
            "N=8 a|N=64 a",
            "N=8 =|N=64 =",
            "N=8 a|N=64 b",
            "N=8 a|N=32 =|N=64 b",
            "C=0 N=8 a|C=1 N=8 b|C=0 N=64 a|C=1 N=64 b",
            // The middle needs another member than both ends.
            "N=8 a|N=32 b|N=64 a",
            "M=1 N=8 a|M=1 N=64 b|M=9 N=8 b|M=9 N=64 b",
            "N=8 a|N=8 b",
            "",
        ]
        .map(|problems| {
            let size =
                |word: &str| word.split_once('=').map(|(name, value)| (name.into(), value.parse().unwrap()));
            let rows = problems.split('|').filter_map(|row| row.rsplit_once(' '));
            let (sizes, times): (Vec<BTreeMap<String, i64>>, Vec<[f64; 2]>) = rows
                .map(|(sizes, fast)| {
                    let times = match fast {
                        "a" => [1.0, 1.5],
                        "b" => [1.5, 1.0],
                        _ => [1.01, 1.0],
                    };
                    (sizes.split(' ').filter_map(size).collect(), times)
                })
                .unzip();
            let rows = [0, 1].map(|member| times.iter().map(|row| row[member]).collect::<Vec<_>>());
            let sizes: Vec<&BTreeMap<String, i64>> = sizes.iter().collect();
            let found = SizeRule { rows: &[&rows[0], &rows[1]], sizes: &sizes, within: 0.02 }.steps();
            for (at, steps) in (0..sizes.len()).flat_map(|at| found.as_ref().map(|own| (at, own))) {
                assert!(rows[member_of(steps, sizes[at])][at] <= 1.02, "{steps:?} at {:?}", sizes[at]);
            }
            let step = |step: SizeStep| (step.when.unwrap_or_default(), step.member);
            let found = found.map(|steps| steps.into_iter().map(step).collect::<Vec<_>>());
            format!("{problems}: {found:?}")
        });
        insta::assert_snapshot!(told.join("\n"));
    }
}
