//! What `evo bench` prints for people: a line for each row.

use evo_protocol::measurement::TimingMode;
use serde_json::json;

use crate::bench::{BenchRow, Implementation};

/// Lines of the table for people.
const LINES_MAX: usize = 60;

/// A line for each row, the first of them.
pub fn text(rows: &[BenchRow], implementations: &[Implementation], ranking: TimingMode) -> String {
    let width = implementations.iter().map(|own| own.name.chars().count()).max().unwrap_or(0);
    let line = |row: &BenchRow| {
        let time = row.modes.get(ranking.as_str()).map(|own| format!("{:>12.2} µs", own.p50_ns / 1e3));
        let ratio = row.ratio_to_best_peer.map(|ratio| format!("  {ratio:.3} of the best peer"));
        let decision = row.decision.map(|own| format!(" ({})", json!(own).as_str().unwrap_or_default()));
        let reason = row.reason.as_ref().map(|why| format!("  {why}"));
        let flag = if row.scales_badly == Some(true) { "  scales badly" } else { "" };
        let parts = [time, ratio, decision, reason].map(Option::unwrap_or_default).concat();
        format!(
            "{:<24} {:<width$} {:<8}{parts}{flag}\n",
            row.problem,
            row.implementation,
            row.status.as_str()
        )
    };
    let mut text: String = rows.iter().take(LINES_MAX).map(line).collect();
    if rows.len() > LINES_MAX {
        text.push_str(&format!("… and {} more rows\n", rows.len() - LINES_MAX));
    }
    text
}
