//! Rows for people and for spreadsheets.

use std::fmt::Write;

use evo_space::text::printable;
use serde_json::Value;

use super::cells::{Implementation, ImplementationKind};
use super::row::{BenchRow, RowStatus};
use super::summary::summary;
use crate::report::csv::cell;

const MODES: [&str; 3] = ["hot", "cold", "eager"];
const TIMES: [&str; 5] = ["p50_ns", "p90_ns", "ci_low_ns", "ci_high_ns", "samples"];

/// `bench.csv`: a line a row. What is not known is an empty cell; `bench.json` has the reasons.
pub fn csv(rows: &[BenchRow]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let plain = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => cell(text).into_owned(),
        other => cell(&other.to_string()).into_owned(),
    };
    let skipped = ["sizes", "modes", "reasons"];
    let mut is_first = true;
    for row in rows {
        let Ok(Value::Object(fields)) = serde_json::to_value(row) else { continue };
        let mut named: Vec<(String, String)> = Vec::new();
        for (name, value) in fields.iter().filter(|(name, _)| !skipped.contains(&name.as_str())) {
            named.push((name.clone(), plain(value)));
        }
        let sizes = row.sizes.iter().map(|(name, value)| format!("{name}={value}"));
        named.push(("sizes".to_string(), cell(&sizes.collect::<Vec<_>>().join(" ")).into_owned()));
        for mode in MODES {
            for time in TIMES {
                let value = fields["modes"].get(mode).and_then(|own| own.get(time));
                named.push((format!("{mode}_{time}"), value.map(plain).unwrap_or_default()));
            }
        }
        // Writing into memory cannot fail: every row has the same columns.
        if is_first {
            let _ = writer.write_record(named.iter().map(|(name, _)| name));
            is_first = false;
        }
        let _ = writer.write_record(named.iter().map(|(_, value)| value));
    }
    writer.into_inner().unwrap_or_default()
}

/// `bench.md`: every row.
pub fn table(head: &Value, rows: &[BenchRow]) -> String {
    let mut text = title(head, "Benchmark");
    text.push_str(
        "| problem | implementation | status | hot, µs | cold, µs | eager, µs | TFLOP/s | GB/s | roofline | reason |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let times: Vec<String> = MODES.iter().map(|mode| microseconds(row, mode)).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            marked(row),
            escaped(&row.implementation),
            row.status.as_str(),
            times.join(" | "),
            number(row.tflops, 2),
            number(row.gigabytes_per_second, 1),
            number(row.roofline_ratio, 3),
            escaped(row.reason.as_deref().unwrap_or_default()),
        );
    }
    text.push_str(
        "\nA problem in bold is canonical. `scales badly` marks a row that costs over three times what its\n",
    );
    text.push_str("neighbor on an axis predicts. Intervals, p90 and the reasons of what is missing are in `bench.json`.\n");
    text
}

/// `comparison.md`: our rows beside the best right peer.
pub fn comparison(head: &Value, rows: &[BenchRow], implementations: &[Implementation]) -> String {
    let mut text = title(head, "Comparison with the best right peer");
    let kind = |row: &BenchRow| {
        implementations.iter().find(|own| own.name == row.implementation).map(|own| own.kind)
    };
    text.push_str(
        "| problem | implementation | p50, µs | best peer | its p50, µs | ratio (95 %) | decision |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|\n");
    let mode = head["ranking_mode"].as_str().unwrap_or("hot");
    for row in rows.iter().filter(|row| kind(row) == Some(ImplementationKind::Own)) {
        let time = |other: &&BenchRow| other.modes.get(mode).map_or(f64::INFINITY, |own| own.p50_ns);
        let peers = rows.iter().filter(|other| {
            other.problem == row.problem
                && kind(other) == Some(ImplementationKind::Peer)
                && other.status == RowStatus::Pass
        });
        let best = peers.min_by(|a, b| time(a).total_cmp(&time(b)));
        let ratio = match (row.ratio_to_best_peer, row.ratio_low, row.ratio_high) {
            (Some(ratio), Some(low), Some(high)) => format!("{ratio:.3} ({low:.3} to {high:.3})"),
            _ => "unknown".to_string(),
        };
        let why = row.reasons.get("ratio_to_best_peer").map(String::as_str).unwrap_or_default();
        let why = row.reason.as_deref().unwrap_or(why);
        let decision = match &row.decision {
            Some(decision) => serde_json::to_value(decision).ok(),
            None => None,
        };
        let decision = decision.as_ref().and_then(Value::as_str).map_or_else(|| escaped(why), String::from);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {ratio} | {decision} |",
            marked(row),
            escaped(&row.implementation),
            microseconds(row, mode),
            best.map_or("none".to_string(), |own| escaped(&own.implementation)),
            best.map_or(String::new(), |own| microseconds(own, mode)),
        );
    }
    text.push('\n');
    for mean in summary(rows, implementations) {
        let _ = writeln!(text, "- {}", escaped(&mean.sentence()));
    }
    let wrong = rows
        .iter()
        .filter(|row| kind(row) == Some(ImplementationKind::Peer) && row.status != RowStatus::Pass);
    let mut is_first = true;
    for row in wrong {
        if is_first {
            text.push_str("\nNot the bar, and why:\n\n");
            is_first = false;
        }
        let why = escaped(row.reason.as_deref().unwrap_or_default());
        let _ = writeln!(
            text,
            "- {} on {}: {}: {why}",
            escaped(&row.implementation),
            marked(row),
            row.status.as_str()
        );
    }
    text.push_str("\nA ratio is our time over the peer's: below 1 we are faster. Both were timed in turns in one run.\n");
    text
}

/// The first lines of a page: what was run, on what.
fn title(head: &Value, what: &str) -> String {
    let word = |name: &str| escaped(head[name].as_str().unwrap_or("unknown"));
    format!(
        "# {what}: {}\n\n{} on {}, status `{}`, times of mode `{}`.\n\nCommand: `{}`\n\n",
        word("name"),
        word("kernel"),
        word("device"),
        word("status"),
        word("ranking_mode"),
        head["command"].as_str().unwrap_or_default().replace('`', "'"),
    )
}

fn marked(row: &BenchRow) -> String {
    let name = escaped(&row.problem);
    if row.canonical { format!("**{name}**") } else { name }
}

fn microseconds(row: &BenchRow, mode: &str) -> String {
    let time = row.modes.get(mode).map(|own| format!("{:.2}", own.p50_ns / 1e3));
    let flag = if row.scales_badly == Some(true) && time.is_some() { " (scales badly)" } else { "" };
    time.map_or(String::new(), |time| format!("{time}{flag}"))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.digits$}"))
}

/// A text in a cell of a table.
fn escaped(text: &str) -> String {
    let shown = printable(text);
    shown.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
