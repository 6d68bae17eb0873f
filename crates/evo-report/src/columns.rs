//! The columns of evaluations: those of `results.csv`, and those of the rows that the page embeds.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use evo_journal::record::StudyHeader;
use evo_protocol::binary::EntryResources;
use evo_protocol::evaluation::{Evaluation, Expectation};
use evo_space::genome::Configuration;
use evo_space::text::{printable, shortened};
use evo_space::value::Value;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::known::{KnownTime, chart_class};

/// Characters of a message that the page keeps.
const MESSAGE: usize = 240;

/// A column of evaluations: its name and its value.
pub type Column = (&'static str, fn(&Row<'_>) -> Json);

#[derive(Debug, Serialize)]
pub struct Row<'a> {
    #[serde(skip)]
    pub evaluation: &'a Evaluation,
    /// From 1.
    pub order: usize,
    pub number: u64,
    pub generation: u32,
    pub origin: &'a str,
    /// The verdict's class in charts.
    pub class: &'static str,
    pub verdict: String,
    /// Nanoseconds; a lower bound where `is_bound`.
    pub time: Option<f64>,
    pub is_bound: bool,
    /// Nanoseconds, from the search's model.
    pub expected: Option<f64>,
    /// When it was done, seconds of the study's running time; of device time where there are no stamps.
    pub at_s: f64,
    pub variant: String,
    pub message: &'a str,
}

impl<'a> Row<'a> {
    pub fn all(evaluations: &'a [Evaluation]) -> Vec<Row<'a>> {
        let (has_stamps, mut device) = (has_stamps(evaluations), 0.0);
        let row = |(at, evaluation): (usize, &'a Evaluation)| {
            device += device_seconds(evaluation);
            let stamp = evaluation.at_ms.unwrap_or(0) as f64 / 1e3;
            let known = KnownTime::of(evaluation);
            let expected = evaluation.expected.map(|expected| expected.objective_ns);
            Row {
                evaluation,
                order: at + 1,
                number: evaluation.number,
                generation: evaluation.generation,
                origin: &evaluation.origin,
                class: chart_class(evaluation.verdict.kind.class()),
                verdict: evaluation.verdict.label(),
                time: known.value(),
                is_bound: matches!(known, KnownTime::AtLeast(_)),
                expected: expected.filter(|time| time.is_finite() && *time > 0.0),
                at_s: if has_stamps { stamp } else { device },
                variant: evaluation.configuration.to_string(),
                message: &evaluation.verdict.message,
            }
        };
        evaluations.iter().enumerate().map(row).collect()
    }

    fn most(&self, of: fn(&EntryResources) -> Option<u64>) -> Json {
        json!(self.evaluation.resources.iter().filter_map(of).max())
    }

    fn expectation(&self, of: fn(&Expectation) -> f64) -> Json {
        json!(self.evaluation.expected.as_ref().map(of))
    }
}

/// With the unit in the name and every digit; the parameters stand after `origin`.
pub const FILE: &[Column] = &[
    ("number", |row| json!(row.number)),
    ("generation", |row| json!(row.generation)),
    ("origin", |row| json!(row.origin)),
    ("verdict", |row| json!(row.evaluation.verdict.kind)),
    ("cause", |row| json!(row.evaluation.verdict.cause)),
    ("message", |row| json!(row.message)),
    ("objective_ns", |row| json!(row.evaluation.objective_ns)),
    ("registers", |row| row.most(|entry| entry.registers.map(u64::from))),
    ("shared_static_bytes", |row| row.most(|entry| entry.shared_static_bytes)),
    ("spill_bytes", |row| row.most(|entry| Some(entry.spill_store_bytes? + entry.spill_load_bytes?))),
    ("compile_ms", |row| json!(format!("{:.3}", row.evaluation.compile_ms))),
    ("device_ms", |row| json!(format!("{:.3}", row.evaluation.device_ms))),
    ("at_ms", |row| json!(row.evaluation.at_ms)),
    ("lane", |row| json!(row.evaluation.lane)),
    ("duplicate_of", |row| json!(row.evaluation.duplicate_of)),
    ("taken_over_from", |row| json!(row.evaluation.taken_over_from.as_ref().map(|source| &source.study))),
    ("source_hash", |row| json!(row.evaluation.source_hash)),
    ("binary_hash", |row| json!(row.evaluation.binary_hash)),
    ("code_hash", |row| json!(row.evaluation.code_hash)),
    ("expected_ns", |row| row.expectation(|expected| expected.objective_ns)),
    ("expected_low_ns", |row| row.expectation(|expected| expected.low_ns)),
    ("expected_high_ns", |row| row.expectation(|expected| expected.high_ns)),
    ("expected_risk", |row| row.expectation(|expected| expected.risk)),
];

/// Times are nanoseconds and rounded, which keeps the page small; the parameters stand at the end.
const PAGE: &[Column] = &[
    ("order", |row| json!(row.order)),
    ("number", |row| json!(row.number)),
    ("generation", |row| json!(row.generation)),
    ("origin", |row| json!(row.origin)),
    ("class", |row| json!(row.class)),
    ("verdict", |row| json!(row.verdict)),
    ("time", |row| rounded(row.time, 1)),
    ("is_bound", |row| json!(u8::from(row.is_bound))),
    ("expected", |row| rounded(row.evaluation.expected.map(|expected| expected.objective_ns), 1)),
    ("at_s", |row| rounded(Some(row.at_s), 3)),
    ("compile_ms", |row| rounded(Some(row.evaluation.compile_ms), 1)),
    ("device_ms", |row| rounded(Some(row.evaluation.device_ms), 1)),
    ("registers", |row| row.most(|entry| entry.registers.map(u64::from))),
    ("spill_bytes", |row| row.most(|entry| entry.spill_store_bytes)),
    ("message", |row| {
        let line = row.message.split_whitespace().collect::<Vec<_>>().join(" ");
        json!(printable(&shortened(&line, MESSAGE)))
    }),
];

fn rounded(value: Option<f64>, digits: i32) -> Json {
    let factor = 10f64.powi(digits);
    match value.filter(|value| value.is_finite()).map(|value| (value * factor).round() / factor) {
        Some(number) if number.fract() == 0.0 && number.abs() < 9e15 => json!(number as i64),
        other => json!(other),
    }
}

/// The heading of a parameter beside columns with these names: a parameter that is called `time` is none of them.
pub fn parameter_head<'a>(name: &'a str, mut columns: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
    match columns.any(|column| column == name) {
        true => Cow::Owned(format!("parameter:{name}")),
        false => Cow::Borrowed(name),
    }
}

/// The rows for the page's script and for whoever downloads them. Values of parameters are positions in
/// `parameters[].values`, texts positions in `texts`.
pub fn data(header: &StudyHeader, rows: &[Row<'_>], parameters: &[TriedParameter]) -> Json {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut texts = Vec::new();
    let mut shared = |value: Json| match value {
        Json::String(text) => json!(*places.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            texts.len() - 1
        })),
        number => number,
    };
    let cells = rows.iter().map(|row| {
        let values = parameters.iter().map(|parameter| parameter.position(&row.evaluation.configuration));
        let cells = PAGE.iter().map(|(_, value)| shared(value(row)));
        cells.chain(values.map(|place| json!(place))).collect::<Json>()
    });
    let cells: Json = cells.collect();
    json!({
        "schema": "evo.report_rows",
        "version": 1,
        "study": header.study,
        "kernel": header.kernel,
        // The command that evaluates a configuration again, without the configuration.
        "repro": {
            "before": format!("evo test-one {}", evo_space::text::quote(&header.space)),
            "after": format!("--device {} --seed {}", header.device.kind.as_str(), header.seed),
        },
        "columns": PAGE.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "parameters": parameters.iter().map(TriedParameter::named).collect::<Vec<_>>(),
        "texts": texts,
        "rows": cells,
    })
}

#[derive(Clone, Debug)]
pub struct TriedParameter {
    pub name: String,
    /// In the order of the space where the header lists it, else from small to large.
    pub values: Vec<Value>,
}

impl TriedParameter {
    pub fn named(&self) -> Json {
        let values: Vec<String> = self.values.iter().map(ToString::to_string).collect();
        json!({ "name": self.name, "values": values })
    }

    pub fn position(&self, configuration: &Configuration) -> Option<usize> {
        let value = configuration.get(&self.name)?;
        self.values.iter().position(|known| known == value)
    }
}

pub fn tried(header: &StudyHeader, evaluations: &[Evaluation]) -> Vec<TriedParameter> {
    let names = evaluations.iter().take(1).flat_map(|evaluation| evaluation.configuration.iter());
    let parameter = |(name, _): (&str, _)| {
        let mut values: Vec<Value> = Vec::new();
        for value in evaluations.iter().filter_map(|evaluation| evaluation.configuration.get(name)) {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        let mut defined = header.definition.iter().flat_map(|definition| &definition.parameters);
        let listed =
            defined.find(|known| known.name == name).map_or(&[][..], |known| known.values.as_slice());
        let place = |value: &Value| {
            let text = value.to_string();
            listed.iter().position(|known| *known == text).unwrap_or(usize::MAX)
        };
        values.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| by_value(a, b)));
        TriedParameter { name: name.to_string(), values }
    };
    names.map(parameter).collect()
}

/// From small to large, numbers before texts.
fn by_value(a: &Value, b: &Value) -> Ordering {
    a.compare(b).unwrap_or_else(|| match (a.as_float(), b.as_float()) {
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        _ => Ordering::Equal,
    })
}

pub fn has_stamps(evaluations: &[Evaluation]) -> bool {
    !evaluations.is_empty() && evaluations.iter().all(|evaluation| evaluation.at_ms.is_some())
}

pub fn device_seconds(evaluation: &Evaluation) -> f64 {
    if evaluation.device_ms.is_finite() { evaluation.device_ms.max(0.0) / 1e3 } else { 0.0 }
}
