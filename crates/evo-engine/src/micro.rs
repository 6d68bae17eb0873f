//! The recipe and the rows of a cheap ranking (`evo micro`): the same loop as a sweep's, with jobs that end after the
//! small shapes and a screening of one problem.

use evo_protocol::binary::Binary;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::micro::MicroRow;
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::Configuration;

use super::ports::{BuildRecord, Identity, JobOrder, Recipe, Refused};
use super::prepared::PreparedKernel;
use super::recipe::KernelRecipe;
use evo_journal::record::ProblemWork;
use evo_supervise::job::{Job, JobReach};

#[derive(Debug)]
pub struct MicroRecipe<'a>(pub KernelRecipe<'a>);

impl Recipe for MicroRecipe<'_> {
    type Prepared = PreparedKernel;
    type Binary = Vec<Binary>;
    type Job = Job;

    fn prepare(&self, configuration: &Configuration) -> Result<PreparedKernel, Refused> {
        self.0.prepare(configuration)
    }

    fn identity(&self, prepared: &PreparedKernel) -> Identity {
        self.0.identity(prepared)
    }

    fn record(&self, prepared: &PreparedKernel, binaries: &Vec<Binary>) -> BuildRecord {
        self.0.record(prepared, binaries)
    }

    fn job(
        &self,
        prepared: &PreparedKernel,
        binaries: &Vec<Binary>,
        order: JobOrder,
    ) -> Result<Job, Refused> {
        // No variant is a finalist here: nothing is ever asked for in depth.
        let job = self.0.job(prepared, binaries, JobOrder { deep: None, ..order })?;
        Ok(Job { reach: JobReach::Hint, several: Vec::new(), ..job })
    }

    fn work(&self, prepared: &PreparedKernel) -> Vec<ProblemWork> {
        self.0.work(prepared)
    }
}

/// What was tried: evaluations that say something about a configuration.
pub fn tried(evaluations: &[Evaluation]) -> u64 {
    let says = |one: &&Evaluation| one.is_counted() && one.verdict.kind != VerdictKind::HarnessError;
    evaluations.iter().filter(says).count() as u64
}

/// The best of a ranking, the fastest first: each machine code once, because its twins would be measured for nothing.
/// `work` is that of one call, `ctas` counts the blocks of a configuration.
pub fn ranked(
    evaluations: &[Evaluation],
    top: usize,
    work: f64,
    ctas: impl Fn(&Configuration) -> u64,
) -> Vec<MicroRow> {
    let first_hand = evaluations.iter().filter(|one| one.verdict.is_pass() && one.duplicate_of.is_none());
    let mut timed: Vec<(f64, &Evaluation)> =
        first_hand.filter_map(|one| Some((one.objective_ns?, one))).collect();
    // The earlier of equals, so that the order does not depend on the sort.
    timed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
    let row = |(at, (time_ns, one)): (usize, (f64, &Evaluation))| MicroRow {
        rank: at as u32 + 1,
        configuration: one.configuration.clone(),
        configuration_hash: one.configuration.hash(),
        time_ns,
        ns_per_work: time_ns / work,
        ctas: ctas(&one.configuration),
        occupancy_percent: one.facts.and_then(|facts| facts.occupancy).map(|share| 100.0 * share),
    };
    timed.into_iter().take(top).enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evo_journal::example;
    use evo_protocol::verdict::Verdict;
    use evo_space::value::Value;

    use super::*;

    fn evaluation(number: u64, time: Option<f64>, kind: VerdictKind) -> Evaluation {
        let configuration = Configuration::new(vec![(Arc::from("A"), Value::Int(number as i64))]);
        let verdict = Verdict::new(kind, "");
        Evaluation { objective_ns: time, ..example::evaluation(number, configuration, "spread", verdict) }
    }

    #[test]
    fn what_passed_is_ranked_by_its_time_and_twins_stand_once() {
        let mut all = vec![
            evaluation(0, Some(40.0), VerdictKind::Pass),
            evaluation(1, Some(10.0), VerdictKind::Pass),
            evaluation(2, Some(5.0), VerdictKind::TooSlow),
            evaluation(3, None, VerdictKind::WrongAnswer),
            evaluation(4, Some(10.0), VerdictKind::Pass),
            evaluation(5, Some(20.0), VerdictKind::Pass),
            evaluation(6, None, VerdictKind::HarnessError),
        ];
        all[4].duplicate_of = Some(1);
        let rows = ranked(&all, 2, 5.0, |one| one.iter().count() as u64);
        let shown: Vec<(u32, String, f64)> =
            rows.iter().map(|row| (row.rank, row.configuration.to_string(), row.ns_per_work)).collect();
        assert_eq!(shown, [(1, "A=1".to_string(), 2.0), (2, "A=5".to_string(), 4.0)]);
        assert_eq!((rows[0].ctas, rows[0].occupancy_percent), (1, None));
        assert_eq!(tried(&all), 6);
    }
}
