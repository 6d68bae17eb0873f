//! What other clocks and checks said of a candidate, as text and as Markdown.

use evo_protocol::crosscheck::CrosscheckRow;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::templates;

/// Where it was found.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CrosscheckSetting<'a> {
    pub kernel: &'a str,
    pub device: &'a str,
    pub configuration: &'a str,
    /// evo's own.
    pub verdict: &'a str,
    /// Relative difference between the default configuration and itself.
    pub noise_floor: Option<f64>,
    /// A command that does the same again.
    pub repro: &'a str,
}

/// What matters most: answers that are judged differently come before times that differ.
pub fn headline(rows: &[CrosscheckRow]) -> String {
    let of = |row: &CrosscheckRow| {
        let why = row.reason.as_deref().unwrap_or_default();
        format!("{} on `{}`: {why}", row.harness, row.problem)
    };
    if let Some(row) = rows.iter().find(|row| row.differs_in_answers()) {
        return format!("DISAGREEMENT ON THE ANSWERS: {}", of(row));
    }
    if let Some(row) = rows.iter().find(|row| row.disagrees()) {
        let count = rows.iter().filter(|row| row.disagrees()).count();
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        return format!("disagreement: {}{more}", of(row));
    }
    let agreed: Vec<&CrosscheckRow> = rows.iter().filter(|row| row.is_complete(false)).collect();
    let mut names: Vec<&str> = agreed.iter().map(|row| row.harness.as_str()).collect();
    names.dedup();
    match names.is_empty() {
        true => "nobody else both checked and timed it".to_string(),
        false => {
            let plural = if agreed.len() == 1 { " agrees" } else { "s agree" };
            format!("{} comparison{plural} with evo ({})", agreed.len(), names.join(", "))
        }
    }
}

/// The table for a terminal.
pub fn text(rows: &[CrosscheckRow]) -> String {
    templates::lines("crosscheck.txt.j2", context! { rows => worded(rows) })
}

/// The page `crosscheck.md`.
pub fn markdown(rows: &[CrosscheckRow], setting: &CrosscheckSetting<'_>) -> String {
    let values = context! { rows => worded(rows), headline => headline(rows), setting => Serde(setting) };
    templates::lines("crosscheck.page.j2", values)
}

/// Each row with what came of it.
fn worded(rows: &[CrosscheckRow]) -> Value {
    Value::from(Serde(rows.iter().map(|row| (row, word(row))).collect::<Vec<_>>()))
}

fn word(row: &CrosscheckRow) -> &'static str {
    match row {
        _ if row.disagrees() => "DISAGREES",
        _ if row.is_complete(false) => "agrees",
        _ if row.time_ns.is_some() => "partly",
        _ if row.correct.is_some() => "untimed",
        _ => "not_run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(harness: &str, ratio: f64, agrees: bool, correct: bool) -> CrosscheckRow {
        CrosscheckRow {
            time_ns: Some(1000.0 * ratio),
            spread_ratio: Some(0.01),
            evo_ns: Some(1000.0),
            ratio: Some(ratio),
            agrees: Some(agrees),
            correct: Some(correct),
            reason: (!agrees || !correct).then(|| "a|b".to_string()),
            ..CrosscheckRow::not_run(harness, "p", Some(true), "")
        }
    }

    #[test]
    fn the_headline_is_what_matters_most() {
        let absent = CrosscheckRow::not_run("nvbench", "p", Some(true), "it is not installed");
        let agreed = row("torch", 1.01, true, true);
        assert_eq!(headline(std::slice::from_ref(&absent)), "nobody else both checked and timed it");
        assert_eq!(headline(&[absent.clone(), agreed.clone()]), "1 comparison agrees with evo (torch)");
        let (slow, wrong) = (row("command", 1.4, false, true), row("command", 1.0, true, false));
        assert_eq!(headline(&[agreed.clone(), slow.clone()]), "disagreement: command on `p`: a|b");
        assert!(headline(&[slow.clone(), wrong]).starts_with("DISAGREEMENT ON THE ANSWERS: command"));
        let lines = text(&[absent.clone(), agreed, slow.clone()]);
        assert!(
            lines.contains("nvbench      p                not_run     not run: it is not installed"),
            "{lines}"
        );
        assert!(lines.contains(
            "torch        p                agrees    1.01 µs, spread 1.0 %; evo 1.00 µs (1.010)\n"
        ));
        let setting = CrosscheckSetting {
            kernel: "sums",
            device: "this processor",
            configuration: "BLOCK=32",
            verdict: "pass",
            noise_floor: Some(0.01),
            repro: "evo crosscheck sums 32",
        };
        let page = markdown(&[absent, slow], &setting);
        assert!(page.contains("| a\\|b |") && page.contains("`evo crosscheck sums 32`"), "{page}");
    }
}
