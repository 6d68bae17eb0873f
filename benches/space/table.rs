//! Measurements as a few lines for people.

use std::fmt::Write as _;

use super::Measured;
use super::operations::Operations;

/// One space's lines.
pub fn space(name: &str, measured: &Measured) -> String {
    let (cold, phases) = (measured.cold_seconds, &measured.phases);
    let mut text = format!("{name}: {} valid of {}\n", measured.valid, measured.cartesian);
    let _ = writeln!(
        text,
        "  first load  {} ({} to {}, n {}), peak memory {:.1} MiB",
        time(cold.median),
        time(cold.min),
        time(cold.max),
        cold.runs,
        measured.peak_mib.median,
    );
    let _ = writeln!(
        text,
        "  when warm   {}: document {}, expressions {}, construction {}",
        time(phases.whole_seconds.median),
        time(phases.document_seconds.median),
        time(phases.expressions_seconds.median),
        time(phases.construction_seconds.median),
    );
    if let Some(operations) = &measured.operations {
        text.push_str(&operations_lines(operations));
    }
    text
}

fn operations_lines(operations: &Operations) -> String {
    let nanoseconds = |spread: super::Spread| time(spread.median / 1e9);
    let mut text = format!(
        "  membership {}, index of {}, genome at {}, 1,000 samples {}\n",
        nanoseconds(operations.contains_ns),
        nanoseconds(operations.index_of_ns),
        nanoseconds(operations.genome_at_ns),
        time(operations.sample_1000_seconds.median),
    );
    for neighbors in &operations.neighbors {
        let _ = writeln!(
            text,
            "  neighbors of 1,000, {}: {} (mean {:.1} found, {} asked, {} too many)",
            neighbors.neighborhood,
            time(neighbors.per_1000_seconds),
            neighbors.mean_found,
            neighbors.asked,
            neighbors.too_many,
        );
    }
    let rows = &operations.rows;
    let _ = writeln!(text, "  {} rows: {} a row", rows.listed, nanoseconds(rows.ns_per_row));
    text
}

/// Seconds in a unit that leaves few digits.
fn time(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or(units[3]);
    format!("{:.3} {name}", seconds / unit)
}
