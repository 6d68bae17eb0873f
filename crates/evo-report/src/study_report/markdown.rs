//! Pieces of Markdown in which no text of a kernel or a compiler can mean anything.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::Measurement;
use evo_protocol::verdict::{Gate, GateState};
use evo_space::text::{printable, shortened};

use crate::text::time;

/// Characters of a message that are kept.
const MESSAGE: usize = 300;

/// Text in one line, in which nothing is markup.
pub fn plain(text: &str) -> String {
    escaped(&one_line(text))
}

/// Text as it is, in which nothing is markup.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // Not every renderer knows a backslash before these.
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            // An underscore inside of a word is only an underscore, and so are signs that count at the start of a line.
            '\\' | '`' | '*' | '[' | ']' | '|' => safe.extend(['\\', letter]),
            other => safe.push(other),
        }
    }
    safe
}

/// Text as code in one line.
pub fn code(text: &str) -> String {
    let line = one_line(text);
    // Fences of a code span are longer than any run of backticks inside.
    let fence = "`".repeat(longest_run(&line) + 1);
    let pad = if line.starts_with('`') || line.ends_with('`') || line.is_empty() { " " } else { "" };
    // In a table, a bar would end the cell even inside of code.
    format!("{fence}{pad}{}{pad}{fence}", line.replace('|', "\\|"))
}

/// A block of code.
pub fn block(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", printable(text.trim_end()).trim_end())
}

fn one_line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), MESSAGE).into_owned()
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

/// A table; nothing without rows.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head.to_vec());
    text += &line(head.iter().map(|_| "---").collect());
    rows.iter().for_each(|row| text += &line(row.iter().map(String::as_str).collect()));
    text
}

/// `12.3 µs (12.2 to 12.4)`.
pub fn measured(one: &Measurement) -> String {
    format!("{} ({} to {})", time(one.p50_ns), time(one.ci_low_ns), time(one.ci_high_ns))
}

/// What the gates said that ask for right answers: `tiny_shapes pass (3 cases), full_shapes pass (24 cases)`.
pub fn gates(one: &Evaluation, wanted: &[Gate]) -> String {
    let reports = one.gates.iter().filter(|report| wanted.contains(&report.gate));
    let told = reports.map(|report| {
        let state = match report.state {
            GateState::Pass => "pass",
            GateState::Fail => "FAIL",
            GateState::NotRun => "not run",
        };
        match report.cases {
            0 => format!("{} {state}", report.gate.as_str()),
            cases => format!("{} {state} ({cases} cases)", report.gate.as_str()),
        }
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "not run".to_string() } else { told.join(", ") }
}

/// `2.314× (2.301 to 2.322)`.
pub fn speedup(value: f64, interval: Option<(f64, f64)>) -> String {
    match interval {
        Some((low, high)) => format!("{value:.3}× (95 % CI {low:.3} to {high:.3})"),
        None => format!("{value:.3}× (no interval)"),
    }
}
