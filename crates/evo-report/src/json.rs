//! JSON views of a study: `study.json`, `gen-NNN.json`, and events for `--json`.

use evo_protocol::evaluation::Evaluation;
use evo_search::insight::Insight;
use serde_json::{Value, json};

use evo_journal::leaderboard::verdict_mix;
use evo_journal::record::StudyHeader;
use evo_journal::replay::History;

fn pretty(value: &Value) -> Vec<u8> {
    let mut text = format!("{value:#}").into_bytes();
    text.push(b'\n');
    text
}

/// `study.json`: what the study is, under which conditions it ran, and how far it came.
pub fn study(header: &StudyHeader, history: &History, insight: Option<&Insight>) -> Vec<u8> {
    let best = history.evaluations.iter().filter(|one| one.verdict.is_pass()).filter_map(|one| {
        let objective = one.objective_ns?;
        Some((objective, one))
    });
    let best = best.min_by(|a, b| a.0.total_cmp(&b.0));
    pretty(&json!({
        "schema": "evo.study",
        "version": 1,
        "header": header,
        "evaluations": history.evaluations.iter().filter(|one| one.is_counted()).count(),
        "taken_over": history.evaluations.iter().filter(|one| one.taken_over_from.is_some()).count(),
        // From before an edit, and not known to hold after it.
        "set_aside": history.set_aside.len(),
        "verdicts": verdict_mix(&history.evaluations),
        "not_final": history.not_final.iter().map(not_final).collect::<Vec<_>>(),
        "best_screened": best.map(|(objective, one)| json!({
            "number": one.number, "objective_ns": objective, "configuration": one.configuration,
        })),
        "confirmations": history.confirmations.len(),
        "runs": history.ends,
        "insight": insight,
    }))
}

/// A variant without a verdict, and why it has none.
fn not_final(one: &Evaluation) -> Value {
    json!({ "number": one.number, "configuration": one.configuration, "reason": one.verdict })
}

/// The header kept in the text of a study's `study.json`, for a journal whose own header is damaged.
pub fn read_header(text: &[u8]) -> Option<StudyHeader> {
    let mut value: Value = serde_json::from_slice(text).ok()?;
    serde_json::from_value(value.get_mut("header")?.take()).ok()
}

/// `gen-NNN.json`: one slice of evaluations.
pub fn generation(generation: u32, slice: &[Evaluation]) -> Vec<u8> {
    let best = slice.iter().filter(|one| one.verdict.is_pass()).filter_map(|one| one.objective_ns);
    pretty(&json!({
        "schema": "evo.generation",
        "version": 1,
        "generation": generation,
        "best_ns": best.min_by(f64::total_cmp),
        "verdicts": verdict_mix(slice),
        "evaluations": slice,
    }))
}
