//! All evaluations as data for the page's script and for whoever downloads them: names of columns, and rows of values.

use evo_journal::record::StudyHeader;
use evo_protocol::evaluation::Evaluation;
use evo_space::text::{printable, shortened};
use serde_json::{Value, json};

use super::convergence::{device_seconds, has_stamps};
use crate::study_report::columns::{TriedParameter, tried};
use crate::study_report::known::{KnownTime, chart_class};
use crate::study_report::material::ReportMaterial;

/// Characters of a message that are kept.
const MESSAGE: usize = 240;

/// The columns of a row before those of the parameters.
pub const COLUMNS: [&str; 15] = [
    "order",
    "number",
    "generation",
    "origin",
    "class",
    "verdict",
    "time",
    "is_bound",
    "expected",
    "at_s",
    "compile_ms",
    "device_ms",
    "registers",
    "spill_bytes",
    "message",
];

/// The data of the page. Values of parameters are positions in `parameters[].values`, texts positions in `texts`.
pub fn data(material: &ReportMaterial) -> Value {
    let evaluations = material.evaluations();
    let header = &material.study.header;
    let columns = tried(header, evaluations);
    let at_s = match has_stamps(evaluations) {
        true => evaluations.iter().map(|one| one.at_ms.unwrap_or(0) as f64 / 1e3).collect(),
        false => device_seconds(evaluations),
    };
    let mut texts = SharedTexts::default();
    let rows: Vec<Value> = evaluations
        .iter()
        .enumerate()
        .map(|(order, one)| row(order, one, at_s[order], &columns, &mut texts))
        .collect();
    let parameters: Vec<Value> = columns
        .iter()
        .map(|own| json!({ "name": own.name, "values": own.values.iter().map(ToString::to_string).collect::<Vec<_>>() }))
        .collect();
    json!({
        "schema": "evo.report_rows",
        "version": 1,
        "study": header.study,
        "kernel": header.kernel,
        "repro": repro(header),
        "columns": COLUMNS,
        "parameters": parameters,
        "texts": texts.all,
        "rows": rows,
    })
}

/// The command that evaluates a configuration again, without the configuration.
fn repro(header: &StudyHeader) -> Value {
    let space = evo_space::text::quote(&header.space).into_owned();
    let options = format!("--device {} --seed {}", header.device.kind.as_str(), header.seed);
    json!({ "before": format!("evo test-one {space}"), "after": options })
}

/// SharedTexts that many rows share, each once.
#[derive(Default)]
struct SharedTexts {
    all: Vec<String>,
    known: std::collections::HashMap<String, usize>,
}

impl SharedTexts {
    fn place(&mut self, text: &str) -> usize {
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        self.all.push(text.to_string());
        self.known.insert(text.to_string(), self.all.len() - 1);
        self.all.len() - 1
    }
}

fn row(
    order: usize,
    one: &Evaluation,
    at_s: f64,
    columns: &[TriedParameter],
    texts: &mut SharedTexts,
) -> Value {
    let known = KnownTime::of(one);
    let message = one.verdict.message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = printable(&shortened(&message, MESSAGE)).into_owned();
    let registers = one.resources.iter().filter_map(|own| own.registers).max();
    let spills = one.resources.iter().filter_map(|own| own.spill_store_bytes).max();
    let mut cells = vec![
        json!(order + 1),
        json!(one.number),
        json!(one.generation),
        json!(texts.place(&one.origin)),
        json!(texts.place(chart_class(one.verdict.kind.class()).0)),
        json!(texts.place(&one.verdict.label())),
        number(known.value(), 1),
        json!(u8::from(matches!(known, KnownTime::AtLeast(_)))),
        number(one.expected.map(|own| own.objective_ns), 1),
        number(Some(at_s), 3),
        number(Some(one.compile_ms), 1),
        number(Some(one.device_ms), 1),
        json!(registers),
        json!(spills),
        json!(texts.place(&message)),
    ];
    cells.extend(columns.iter().map(|own| json!(own.position(&one.configuration))));
    Value::Array(cells)
}

/// A number with so many digits behind the point, which keeps the page small.
fn number(value: Option<f64>, digits: i32) -> Value {
    let factor = 10f64.powi(digits);
    match value.filter(|value| value.is_finite()).map(|value| (value * factor).round() / factor) {
        Some(whole) if whole.fract() == 0.0 && whole.abs() < 9e15 => json!(whole as i64),
        other => json!(other),
    }
}

/// JSON that may stand inside of a `script` element: nothing in it ends the element or begins another.
pub fn embedded(value: &Value) -> String {
    let mut safe = String::new();
    for letter in value.to_string().chars() {
        match letter {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_ends_no_element() {
        let hostile = json!({ "message": "</script><!-- <script> & \u{2028}" });
        let text = embedded(&hostile);
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), hostile);
    }
}
