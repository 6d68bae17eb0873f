//! Variants that were harmed on purpose, as steps of the iteration log: findings about another variant, and no results.

use evo_journal::diagnostic::DiagnosticVariant;
use evo_protocol::invert::InvertDose;

use super::entry::LogEntry;
use super::markdown::{code, plain, table};

/// What reports say of them.
pub(super) const NO_RESULTS: &str = "diagnostic: harmed on purpose by `evo invert`; no board, prior, seed, gate or \
                                     export takes them";

/// One step for each call of `evo invert`.
pub(super) fn harmed(all: &[DiagnosticVariant]) -> Vec<LogEntry> {
    all.chunk_by(|a, b| a.beside == b.beside).filter_map(entry).collect()
}

fn entry(all: &[DiagnosticVariant]) -> Option<LogEntry> {
    let beside = &all.first()?.beside;
    let floor = match beside.noise_floor {
        Some(floor) => format!("it differs from itself by {:.2} %", 100.0 * floor),
        None => "how far it differs from itself could not be measured".to_string(),
    };
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            let what = if one.lightens { " (lightened)" } else { "" };
            vec![
                format!("{}{what}", code(&one.pathology)),
                plain(&one.resource),
                plain(&one.dose.what),
                cost(&one.dose),
                code(&one.dose.verdict),
            ]
        })
        .collect();
    let head = ["pathology", "what is taken away", "dose", "harmed / unharmed time", "verdict"];
    Some(LogEntry {
        title: "Invert: harmed copies".to_string(),
        fields: vec![
            ("Phase", format!("invert, {}", plain(&beside.begun))),
            (
                "Change",
                format!(
                    "of {}, on problem {}",
                    code(&beside.configuration.to_string()),
                    code(&beside.problem)
                ),
            ),
            ("Old → new", table(&head, &rows)),
            ("Decision", format!("none ({NO_RESULTS}); {floor}")),
        ],
    })
}

/// The ratio with its interval, or why there is none.
pub(super) fn cost(own: &InvertDose) -> String {
    match (own.ratio, own.ratio_low, own.ratio_high) {
        (Some(ratio), Some(low), Some(high)) => format!("{ratio:.3}× ({low:.3} to {high:.3})"),
        _ if own.changed == Some(false) => "no effect: the same machine code and launches".to_string(),
        _ => "not measured".to_string(),
    }
}
