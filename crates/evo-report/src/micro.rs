//! A cheap ranking (`evo micro`): its rows, and its table.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::micro::{MicroRanking, MicroRow};
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::Configuration;

use super::known::fastest;
use super::table::{FittedTable, Keep, UNKNOWN};
use super::text::{add_parameters, time};

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
    let first_hand = fastest(evaluations).into_iter().filter(|(_, one)| one.duplicate_of.is_none());
    let row = |(at, (time_ns, one)): (usize, (f64, &Evaluation))| MicroRow {
        rank: at as u32 + 1,
        configuration: one.configuration.clone(),
        configuration_hash: one.configuration.hash(),
        time_ns,
        ns_per_work: time_ns / work,
        ctas: ctas(&one.configuration),
        occupancy_percent: one.facts.and_then(|facts| facts.occupancy).map(|share| 100.0 * share),
    };
    first_hand.take(top).enumerate().map(row).collect()
}

/// The rows, in so many columns; nothing where nothing is ranked.
pub fn table(ranking: &MicroRanking, width: usize) -> String {
    if ranking.ranked.is_empty() {
        return String::new();
    }
    let column = |of: &dyn Fn(&MicroRow) -> String| ranking.ranked.iter().map(of).collect();
    let mut table = FittedTable::default();
    table.add("rank", Keep::Always, column(&|row| row.rank.to_string()));
    let configurations = ranking.ranked.iter().map(|row| &row.configuration).collect();
    add_parameters(&mut table, configurations, &["rank", "time", "ctas", "occupancy"]);
    table.add("time", Keep::Always, column(&|row| time(row.time_ns)));
    table.add("ctas", Keep::Rank(2), column(&|row| row.ctas.to_string()));
    let occupancy =
        |row: &MicroRow| row.occupancy_percent.map_or(UNKNOWN.to_string(), |share| format!("{share:.0} %"));
    table.add("occupancy", Keep::Rank(1), column(&occupancy));
    table.text(width)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evo_journal::example;
    use evo_protocol::verdict::Verdict;
    use evo_space::value::Value;
    use serde_json::json;

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
        assert_eq!(tried(&all), 6);
        let ranking = json!({
            "schema": "evo.micro", "kernel": "k", "space_hash": "h", "problem": "p", "tried": 6, "ranked": rows,
            "device": { "kind": "cuda", "name": "GPU", "arch": "sm_90a", "multiprocessors": 132 },
        });
        let mut ranking: MicroRanking = serde_json::from_value(ranking).unwrap();
        ranking.ranked[1].occupancy_percent = Some(50.0);
        insta::assert_snapshot!(table(&ranking, 100), @"
        rank  A      time  ctas  occupancy
           1  1  10.00 ns     1          -
           2  5  20.00 ns     1       50 %
        ");
        ranking.ranked.clear();
        assert_eq!(table(&ranking, 100), "");
    }
}
