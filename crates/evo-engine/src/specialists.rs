//! Further finalists for a portfolio: the best by the mean may be far from the fastest on one of the problems.
//!
//! A problem on which no confirmed variant is nearly as fast as the fastest of the search asks for one that is. Of these
//! the smallest set is confirmed that serves all such problems, at most as many as there are finalists.

use std::collections::{BTreeMap, BTreeSet};

use super::confirm::Deep;
use super::error::EngineError;
use super::ports::Recipe;
use super::run::Engine;
use evo_journal::cover;
use evo_journal::portfolio::NEAR;

/// The variants to confirm next, those that serve most problems first. `times` has each variant's time on each problem,
/// in the order of their means; `confirmed` and `failed` are not proposed.
fn specialists(times: &[(u64, Vec<f64>)], confirmed: &BTreeSet<u64>, failed: &BTreeSet<u64>) -> Vec<u64> {
    let usable: Vec<&(u64, Vec<f64>)> = times.iter().filter(|(number, _)| !failed.contains(number)).collect();
    let problems = usable.first().map_or(0, |(_, own)| own.len());
    let least = |problem: usize, among: &dyn Fn(u64) -> bool| {
        let own = usable.iter().filter(|(number, _)| among(*number)).map(|(_, own)| own[problem]);
        own.fold(f64::INFINITY, f64::min)
    };
    let open: Vec<(usize, f64)> = (0..problems)
        .map(|problem| (problem, least(problem, &|_| true)))
        .filter(|(problem, best)| {
            least(*problem, &|number| confirmed.contains(&number)) > best * (1.0 + NEAR)
        })
        .collect();
    if open.is_empty() {
        return Vec::new();
    }
    let others: Vec<&&(u64, Vec<f64>)> =
        usable.iter().filter(|(number, _)| !confirmed.contains(number)).collect();
    let rows: Vec<Vec<f64>> = others
        .iter()
        .map(|(_, own)| open.iter().map(|(problem, best)| own[*problem] / best).collect())
        .collect();
    let served = |row: &Vec<f64>| row.iter().filter(|factor| **factor <= 1.0 + NEAR).count();
    let mut members = cover::smallest(&rows, NEAR).map_or(Vec::new(), |own| own.members);
    members.sort_by_key(|own| (std::cmp::Reverse(served(&rows[*own])), *own));
    members.into_iter().map(|own| others[own].0).collect()
}

impl<R: Recipe> Engine<'_, R> {
    /// Confirms what problems need that the finalists do not serve; gives how many passed.
    pub(super) fn confirm_specialists(
        &mut self,
        ranked: &[u64],
        baseline: &Deep<R>,
        noise_floor: Option<f64>,
    ) -> Result<usize, EngineError> {
        let times = self.times_by_problem(ranked);
        let number = baseline.evaluation.number;
        let (mut passed, mut failed) = (0, BTreeSet::new());
        let most = self.specialists_max();
        // A specialist that fails at full depth makes room for another one.
        for _ in 0..2 * most {
            let confirmed: BTreeSet<u64> =
                ranked.iter().copied().filter(|own| self.is_confirmed(*own, number)).collect();
            let left = specialists(&times, &confirmed, &failed);
            let next = left.first().copied();
            let Some(next) = next.filter(|_| passed < most && !self.ending.is_early()) else {
                break;
            };
            if !self.time.wall.fits_finalist() {
                self.undone.left_out += 1;
                break;
            }
            let of = (passed + left.len()).min(most);
            self.tell_confirming(passed + 1, of);
            match self.confirm_one(next, baseline, noise_floor)? {
                true => passed += 1,
                false => drop(failed.insert(next)),
            }
        }
        Ok(passed)
    }

    /// As many as there are finalists; where problems were searched apart, one for each problem if need be.
    fn specialists_max(&self) -> usize {
        let header = self.study.header();
        let problems = if header.per_problem { header.problems.len() } else { 0 };
        self.options.finalists.max(problems)
    }

    /// The screened times of variants on each timed problem; those without all of them are left out.
    fn times_by_problem(&self, ranked: &[u64]) -> Vec<(u64, Vec<f64>)> {
        let header = self.study.header();
        let (problems, mode) = (&header.problems, header.ranking.timing());
        let times = |number: &u64| {
            let position = *self.ledger.index.get(number)?;
            let own = self.study.history.evaluations[position].measurements.iter();
            let known: BTreeMap<&str, f64> =
                own.filter(|one| one.mode == mode).map(|one| (one.problem.as_str(), one.p50_ns)).collect();
            let all: Option<Vec<f64>> =
                problems.iter().map(|name| known.get(name.as_str()).copied()).collect();
            Some((*number, all?))
        };
        ranked.iter().filter_map(times).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(times: &[(u64, &[f64])], confirmed: &[u64], failed: &[u64], expected: &[u64]) {
        let times: Vec<(u64, Vec<f64>)> = times.iter().map(|(number, own)| (*number, own.to_vec())).collect();
        let set = |own: &[u64]| own.iter().copied().collect::<BTreeSet<u64>>();
        assert_eq!(specialists(&times, &set(confirmed), &set(failed)), expected);
    }

    #[test]
    fn problems_that_nobody_serves_get_the_fewest_specialists() {
        let times: &[(u64, &[f64])] = &[
            (1, &[100.0, 100.0, 100.0]),
            (2, &[90.0, 130.0, 130.0]),
            (3, &[150.0, 80.0, 120.0]),
            (4, &[150.0, 81.0, 60.0]),
        ];
        check(times, &[1], &[], &[4, 2]);
        check(times, &[1, 4], &[], &[2]);
        check(times, &[1, 2, 4], &[], &[]);
        // Without the one that serves two, each gets its own.
        check(times, &[1, 2], &[4], &[3]);
        check(times, &[], &[1, 2, 3, 4], &[]);
        check(&[(1, &[100.0]), (2, &[101.0])], &[1], &[], &[]);
        // Within 2 % of the fastest is served.
        check(&[(1, &[100.0, 50.0]), (2, &[98.5, 60.0])], &[1], &[], &[]);
    }
}
