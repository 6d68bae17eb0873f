//! Reads `tuning-data/1`: one JSON object with parameters, constraints and a list per column.

use std::collections::HashMap;

use evo_protocol::verdict::VerdictKind;
use evo_space::value::Value;
use serde::Deserialize;

use super::draft::{Draft, DraftRow, Valid};
use super::error::Fault;
use super::format::{Format, unreadable};
use super::recording::Cost;

/// The format that this reader knows.
const FORMAT: &str = "tuning-data/1";

#[derive(Deserialize)]
struct Head {
    format: String,
}

#[derive(Deserialize)]
struct File {
    kernel: String,
    gpu: String,
    #[serde(default)]
    problem_size: serde_json::Value,
    objective: Objective,
    params: Vec<Parameter>,
    #[serde(default)]
    constraints: Vec<String>,
    size: usize,
    #[serde(default)]
    exhaustive: bool,
    rows: Columns,
}

#[derive(Deserialize)]
struct Objective {
    name: String,
    unit: String,
    direction: String,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    values: Vec<Value>,
}

#[derive(Deserialize)]
struct Columns {
    config: HashMap<String, Vec<u16>>,
    objective: Vec<Option<f64>>,
    status: Vec<u8>,
    compile_ms: Vec<Option<f64>>,
    validate_ms: Vec<Option<f64>>,
    runs_ms: Vec<Option<f64>>,
    framework_ms: Vec<Option<f64>>,
}

/// Reads a file of this format.
pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let head: Head = serde_json::from_str(text).map_err(|error| unreadable(Format::TuningData, &error))?;
    if head.format != FORMAT {
        let hint = format!("this evo reads `{FORMAT}`; a newer file needs a newer evo");
        return Err(Fault::new(format!("its format is `{}`", head.format)).with_hint(hint));
    }
    let file: File = serde_json::from_str(text).map_err(|error| unreadable(Format::TuningData, &error))?;
    let unit_ns = unit_ns(&file.objective)?;
    let columns = file.columns()?;
    let row = |number| file.row(&columns, number, unit_ns).map_err(|fault| fault.in_row(number));
    let rows = (0..file.size).map(row).collect::<Result<Vec<DraftRow>, Fault>>()?;
    let parameters = file.params.iter().map(|one| (one.name.clone(), one.values.clone())).collect();
    Ok(Draft {
        kernel: file.kernel,
        gpu: file.gpu,
        problem: problem_words(&file.problem_size),
        format: Format::TuningData,
        unit_ns,
        parameters,
        valid: Valid::Constraints(file.constraints),
        exhaustive: file.exhaustive,
        repeats: false,
        rows,
        notices: Vec::new(),
    })
}

/// A problem size in words: a list's items with spaces between.
pub(super) fn problem_words(size: &serde_json::Value) -> String {
    match size {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(problem_words).collect::<Vec<String>>().join(" "),
        other => other.to_string(),
    }
}

/// Nanoseconds in a unit of the objective, which must be a time to minimize.
fn unit_ns(objective: &Objective) -> Result<f64, Fault> {
    let Objective { name, unit, direction } = objective;
    if direction != "min" {
        let cause = format!("its objective `{name}` has the direction `{direction}`");
        return Err(Fault::new(cause).with_hint("a replay ranks times, whose direction is `min`"));
    }
    match unit.as_str() {
        "s" => Ok(1e9),
        "ms" => Ok(1e6),
        "us" => Ok(1e3),
        "ns" => Ok(1.0),
        _ => Err(Fault::new(format!("its objective `{name}` has the unit `{unit}`"))
            .with_hint("times are in `s`, `ms`, `us` or `ns`")),
    }
}

impl File {
    /// The columns of positions in the order of the parameters; every column as long as the file says.
    fn columns(&self) -> Result<Vec<&[u16]>, Fault> {
        let column = |parameter: &Parameter| {
            let positions = self.rows.config.get(&parameter.name);
            positions.map(Vec::as_slice).ok_or_else(|| {
                Fault::new(format!("`rows.config` has no column for the parameter `{}`", parameter.name))
            })
        };
        let columns = self.params.iter().map(column).collect::<Result<Vec<_>, Fault>>()?;
        let rows = &self.rows;
        let configs = self.params.iter().zip(&columns);
        let mut lengths: Vec<(String, usize)> =
            configs.map(|(parameter, column)| (format!("config.{}", parameter.name), column.len())).collect();
        lengths.push(("objective".into(), rows.objective.len()));
        lengths.push(("status".into(), rows.status.len()));
        lengths.push(("compile_ms".into(), rows.compile_ms.len()));
        lengths.push(("validate_ms".into(), rows.validate_ms.len()));
        lengths.push(("runs_ms".into(), rows.runs_ms.len()));
        lengths.push(("framework_ms".into(), rows.framework_ms.len()));
        match lengths.iter().find(|(_, length)| *length != self.size) {
            None => Ok(columns),
            Some((name, length)) => Err(Fault::new(format!(
                "its `size` is {}, but `rows.{name}` has {length} entries",
                self.size
            ))),
        }
    }

    fn row(&self, columns: &[&[u16]], number: usize, unit_ns: f64) -> Result<DraftRow, Fault> {
        let position = |(parameter, column): (&Parameter, &&[u16])| {
            let position = column[number];
            let (name, count) = (&parameter.name, parameter.values.len());
            (usize::from(position) < count).then_some(position).ok_or_else(|| {
                Fault::new(format!("position {position} of `{name}` is outside its {count} values"))
            })
        };
        let positions = self.params.iter().zip(columns).map(position).collect::<Result<Vec<u16>, Fault>>()?;
        let rows = &self.rows;
        let kind = kind(rows.status[number], rows.objective[number])?;
        let milliseconds = |column: &[Option<f64>]| column[number].unwrap_or(0.0);
        let cost = Cost {
            compile_ms: milliseconds(&rows.compile_ms),
            validate_ms: milliseconds(&rows.validate_ms),
            runs_ms: milliseconds(&rows.runs_ms),
            framework_ms: milliseconds(&rows.framework_ms),
        };
        let objective_ns = rows.objective[number].map(|value| value * unit_ns);
        Ok(DraftRow { name: None, positions, kind, objective_ns, cost })
    }
}

fn kind(status: u8, objective: Option<f64>) -> Result<VerdictKind, Fault> {
    let kind = match status {
        0 => VerdictKind::Pass,
        1 => VerdictKind::CompileError,
        2 => VerdictKind::LaunchFail,
        3 => VerdictKind::StaticReject,
        _ => {
            return Err(Fault::new(format!("status {status} is not known"))
                .with_hint("0 is fine, 1 did not compile, 2 failed at run time, 3 was refused"));
        }
    };
    match (kind, objective) {
        (VerdictKind::Pass, None) => Err(Fault::new("status 0 (fine) without an objective")),
        (VerdictKind::Pass, Some(value)) if value.is_nan() || value <= 0.0 => {
            Err(Fault::new(format!("the objective {value} is no time")))
        }
        (VerdictKind::Pass, Some(_)) | (_, None) => Ok(kind),
        (_, Some(value)) => Err(Fault::new(format!("status {status} (failed) with the objective {value}"))),
    }
}
