//! The table of a cheap ranking.

use evo_protocol::micro::{MicroRanking, MicroRow};

use super::table::{FittedTable, Keep, UNKNOWN};
use super::text::time;

/// The rows, in so many columns; nothing where nothing is ranked.
pub fn table(ranking: &MicroRanking, width: usize) -> String {
    let Some(first) = ranking.ranked.first() else { return String::new() };
    let column = |of: &dyn Fn(&MicroRow) -> String| ranking.ranked.iter().map(of).collect();
    let mut table = FittedTable::default();
    table.add("rank", Keep::Always, column(&|row| row.rank.to_string()));
    for (name, _) in first.configuration.iter() {
        let value =
            |row: &MicroRow| row.configuration.get(name).map_or(UNKNOWN.to_string(), ToString::to_string);
        table.add(name, Keep::Parameter, column(&value));
    }
    table.add("time", Keep::Always, column(&|row| time(row.time_ns)));
    table.add("ctas", Keep::Rank(2), column(&|row| row.ctas.to_string()));
    let occupancy =
        |row: &MicroRow| row.occupancy_percent.map_or(UNKNOWN.to_string(), |share| format!("{share:.0} %"));
    table.add("occupancy", Keep::Rank(1), column(&occupancy));
    table.text(width)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_configuration_has_a_row() {
        let row = |rank: u32, tile: u32, occupancy: Option<f64>| {
            json!({ "rank": rank, "configuration": { "TILE": tile, "VEC": 4 }, "configuration_hash": "h",
                "time_ns": 1500.0 * f64::from(rank), "ns_per_work": 0.1, "ctas": 264, "occupancy_percent": occupancy })
        };
        let ranking = json!({
            "schema": "evo.micro", "kernel": "k", "space_hash": "h", "problem": "p", "tried": 9,
            "device": { "kind": "cuda", "name": "GPU", "arch": "sm_90a", "multiprocessors": 132 },
            "ranked": [row(1, 64, Some(50.0)), row(2, 32, None)],
        });
        let mut ranking: MicroRanking = serde_json::from_value(ranking).unwrap();
        insta::assert_snapshot!(table(&ranking, 100), @"
        rank  TILE  VEC      time  ctas  occupancy
           1    64    4  1.500 µs   264       50 %
           2    32    4  3.000 µs   264          -
        ");
        ranking.ranked.clear();
        assert_eq!(table(&ranking, 100), "");
    }
}
