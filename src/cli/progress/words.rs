//! Events that are told in a line of their own, on a terminal as in a log.

use evo_protocol::evaluation::Evaluation;
use evo_space::text::counted;

use crate::event::Event;

/// None for events that only move the numbers.
pub fn told(event: &Event) -> Option<String> {
    match event {
        Event::Started { .. } => started(event),
        Event::NotFinal { evaluation } => Some(not_final(evaluation)),
        Event::Notice { message } if message.starts_with("warning: ") => Some(message.clone()),
        Event::Notice { message } => Some(format!("note: {message}")),
        _ => None,
    }
}

fn started(event: &Event) -> Option<String> {
    let Event::Started { study, device, seed, valid, total, earlier } = event else { return None };
    let total = total.map_or(String::new(), |total| format!(", up to {}", counted(total, "evaluation")));
    let said = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let (resumed, taken) = (said(earlier.evaluations, "done before"), said(earlier.taken_over, "taken over"));
    let valid = counted(valid, "valid configuration");
    Some(format!("study {study} on {device}: {valid}{total}{resumed}{taken}, seed {seed}"))
}

fn not_final(evaluation: &Evaluation) -> String {
    let why = evaluation.verdict.message.lines().next().unwrap_or_default();
    format!("note: `{}` has no verdict: {why}; `--resume` tries it again", evaluation.configuration)
}

pub fn confirming(finalist: usize, of: usize) -> String {
    match finalist {
        0 => "confirming: measuring the baseline and the noise floor".to_string(),
        _ => format!("confirming finalist {finalist} of {of}"),
    }
}
