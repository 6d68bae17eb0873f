//! JSON views of a study: `study.json`, `gen-NNN.json`, and events for `--json`.

use std::collections::BTreeMap;

use evo_journal::leaderboard::verdict_mix;
use evo_journal::record::{RunEnd, StudyHeader};
use evo_journal::replay::History;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::Verdict;
use evo_search::insight::Insight;
use evo_space::genome::Configuration;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What a study is, under which conditions it ran, and how far it came.
#[derive(Serialize, JsonSchema)]
pub struct StudyFile<'a> {
    #[schemars(extend("const" = "evo.study"))]
    schema: &'static str,
    #[schemars(extend("const" = 1))]
    version: u32,
    /// The journal's first record.
    #[schemars(with = "Map<String, Value>")]
    header: &'a StudyHeader,
    evaluations: usize,
    taken_over: usize,
    /// From before an edit, and not known to hold after it.
    set_aside: usize,
    verdicts: BTreeMap<String, u64>,
    not_final: Vec<NotFinal<'a>>,
    best_screened: Option<BestScreened<'a>>,
    confirmations: usize,
    /// How each run ended.
    #[schemars(with = "Vec<Map<String, Value>>")]
    runs: &'a [RunEnd],
    #[schemars(with = "Option<Map<String, Value>>")]
    insight: Option<&'a Insight>,
}

/// A variant without a verdict, and why it has none.
#[derive(Serialize, JsonSchema)]
struct NotFinal<'a> {
    number: u64,
    configuration: &'a Configuration,
    reason: &'a Verdict,
}

#[derive(Serialize, JsonSchema)]
struct BestScreened<'a> {
    number: u64,
    objective_ns: f64,
    configuration: &'a Configuration,
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut text = format!("{value:#}").into_bytes();
    text.push(b'\n');
    text
}

/// `study.json`.
pub fn study(header: &StudyHeader, history: &History, insight: Option<&Insight>) -> Vec<u8> {
    let screened = history.evaluations.iter().filter(|one| one.verdict.is_pass()).filter_map(|one| {
        let Evaluation { number, configuration, .. } = one;
        Some(BestScreened { number: *number, objective_ns: one.objective_ns?, configuration })
    });
    let not_final = history.not_final.iter().map(|one| NotFinal {
        number: one.number,
        configuration: &one.configuration,
        reason: &one.verdict,
    });
    pretty(&json!(StudyFile {
        schema: "evo.study",
        version: 1,
        header,
        evaluations: history.evaluations.iter().filter(|one| one.is_counted()).count(),
        taken_over: history.evaluations.iter().filter(|one| one.taken_over_from.is_some()).count(),
        set_aside: history.set_aside.len(),
        verdicts: verdict_mix(&history.evaluations),
        not_final: not_final.collect(),
        best_screened: screened.min_by(|a, b| a.objective_ns.total_cmp(&b.objective_ns)),
        confirmations: history.confirmations.len(),
        runs: &history.ends,
        insight,
    }))
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
