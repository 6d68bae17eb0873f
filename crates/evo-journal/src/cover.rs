//! The smallest set of candidates of which each problem has one that is fast enough: set cover.
//!
//! Set cover is NP-hard, and the boards' instances are tiny: some ten candidates and problems. So the answer is exact:
//! sets of one, of two and so on are tried by branching on the problem that the fewest candidates suit. Where that takes
//! too many steps, a greedy cover stands in, and says so.

use std::cmp::Reverse;

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
pub fn smallest(factors: &[Vec<f64>], within: f64) -> Option<Cover> {
    let problems = factors.first().map_or(0, Vec::len);
    let suits = |candidate: usize, problem: usize| factors[candidate][problem] <= 1.0 + within;
    let suitable: Vec<Vec<usize>> = (0..problems)
        .map(|problem| (0..factors.len()).filter(|candidate| suits(*candidate, problem)).collect())
        .collect();
    if suitable.iter().any(Vec::is_empty) {
        return None;
    }
    let mut search = Search { factors, suitable: &suitable, steps: 0, best: None };
    for size in 1..=problems {
        search.branch(&mut Vec::new(), size);
        if search.steps > STEPS_MAX {
            return Some(Cover { members: greedy(&suitable, factors.len()), is_exact: false });
        }
        if let Some((_, mut members)) = search.best.take() {
            members.sort_unstable();
            return Some(Cover { members, is_exact: true });
        }
    }
    (problems == 0).then(|| Cover { members: Vec::new(), is_exact: true })
}

/// Sum of the logarithms of what a set loses against the best of each problem.
pub fn loss(factors: &[Vec<f64>], members: &[usize]) -> f64 {
    let problems = factors.first().map_or(0, Vec::len);
    let least =
        |problem: usize| members.iter().map(|own| factors[*own][problem]).fold(f64::INFINITY, f64::min);
    (0..problems).map(|problem| least(problem).ln()).sum()
}

struct Search<'a> {
    factors: &'a [Vec<f64>],
    suitable: &'a [Vec<usize>],
    steps: u64,
    best: Option<(f64, Vec<usize>)>,
}

impl Search<'_> {
    /// All covers that add at most so many candidates to `chosen`. Every cover has a candidate of the problem that is
    /// branched on, so none is missed.
    fn branch(&mut self, chosen: &mut Vec<usize>, left: usize) {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return;
        }
        let open = self.suitable.iter().filter(|own| !own.iter().any(|one| chosen.contains(one)));
        match open.min_by_key(|own| own.len()) {
            None => {
                let loss = loss(self.factors, chosen);
                if self.best.as_ref().is_none_or(|(best, _)| loss < *best) {
                    self.best = Some((loss, chosen.clone()));
                }
            }
            Some(own) if left > 0 => {
                for candidate in own.clone() {
                    chosen.push(candidate);
                    self.branch(chosen, left - 1);
                    chosen.pop();
                }
            }
            Some(_) => {}
        }
    }
}

fn greedy(suitable: &[Vec<usize>], candidates: usize) -> Vec<usize> {
    let mut members: Vec<usize> = Vec::new();
    loop {
        let is_open = |own: &&Vec<usize>| !own.iter().any(|candidate| members.contains(candidate));
        let open: Vec<&Vec<usize>> = suitable.iter().filter(is_open).collect();
        let served = |candidate: &usize| open.iter().filter(|own| own.contains(candidate)).count();
        match (0..candidates).max_by_key(|own| (served(own), Reverse(*own))).filter(|_| !open.is_empty()) {
            Some(next) => members.push(next),
            None => break,
        }
    }
    members.sort_unstable();
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(factors: &[&[f64]], within: f64, expected: Option<&[usize]>) {
        let rows: Vec<Vec<f64>> = factors.iter().map(|row| row.to_vec()).collect();
        let found = smallest(&rows, within);
        assert!(found.as_ref().is_none_or(|own| own.is_exact));
        assert_eq!(found.map(|own| own.members).as_deref(), expected);
    }

    #[test]
    fn the_smallest_set_is_found_and_the_faster_of_two() {
        let all: &[&[f64]] = &[&[1.0, 1.10, 1.04], &[1.3, 1.0, 1.0], &[1.04, 1.04, 1.04], &[1.0, 1.2, 1.2]];
        check(all, 0.02, Some(&[0, 1]));
        check(all, 0.05, Some(&[2]));
        check(all, 0.2, Some(&[2]));
        check(&[&[1.0, 1.5], &[1.4, 1.03]], 0.02, None);
        check(&[&[1.0]], 0.0, Some(&[0]));
        check(&[], 0.02, Some(&[]));
        // Greedy would take the widest first and need three.
        check(
            &[
                &[1.0, 1.0, 1.0, 1.0, 9.0, 9.0],
                &[1.0, 1.0, 9.0, 9.0, 1.0, 9.0],
                &[9.0, 9.0, 1.0, 1.0, 9.0, 1.0],
            ],
            0.02,
            Some(&[1, 2]),
        );
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
            let sets = (1..1usize << candidates)
                .map(|set| (0..candidates).filter(|own| set >> own & 1 == 1).collect());
            let covers = |set: &Vec<usize>| {
                (0..problems).all(|problem| set.iter().any(|own| rows[*own][problem] <= 1.02))
            };
            let best = sets
                .filter(covers)
                .min_by(|a: &Vec<usize>, b: &Vec<usize>| {
                    a.len().cmp(&b.len()).then(loss(&rows, a).total_cmp(&loss(&rows, b)))
                })
                .unwrap();
            let found = smallest(&rows, 0.02).unwrap();
            assert_eq!(found.members.len(), best.len(), "{rows:?}");
            assert!((loss(&rows, &found.members) - loss(&rows, &best)).abs() < 1e-12, "{rows:?}");
        }
    }

    #[test]
    fn a_cover_of_many_problems_says_that_it_is_not_exact() {
        // 24 problems, each with two candidates of its own: 2^24 covers of one size.
        let rows: Vec<Vec<f64>> = (0..48)
            .map(|own| (0..24).map(|problem| if own / 2 == problem { 1.0 } else { 2.0 }).collect())
            .collect();
        let found = smallest(&rows, 0.02).unwrap();
        assert!(!found.is_exact && found.members.len() == 24);
    }
}
