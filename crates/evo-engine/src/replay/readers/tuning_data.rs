//! Reads `tuning-data/1`: one JSON object with parameters, constraints and a list per column.

use std::collections::HashMap;

use evo_protocol::verdict::VerdictKind;
use evo_space::value::Value;
use serde::Deserialize;

use crate::replay::finish::{Draft, DraftRow, Valid};
use crate::replay::{Cost, Format, RecordingFault, readers, unreadable};

const FORMAT: &str = "tuning-data/1";

#[derive(Deserialize)]
struct Head {
    format: String,
}

#[derive(Deserialize)]
struct TuningDataFile {
    kernel: String,
    gpu: String,
    #[serde(default)]
    problem_size: serde_json::Value,
    objective: Objective,
    params: Vec<TuningDataParameter>,
    #[serde(default)]
    constraints: Vec<String>,
    size: usize,
    #[serde(default)]
    exhaustive: bool,
    rows: RowColumns,
}

#[derive(Deserialize)]
struct Objective {
    name: String,
    unit: String,
    direction: String,
}

#[derive(Deserialize)]
struct TuningDataParameter {
    name: String,
    values: Vec<Value>,
}

#[derive(Deserialize)]
struct RowColumns {
    config: HashMap<String, Vec<u16>>,
    objective: Vec<Option<f64>>,
    status: Vec<u8>,
    compile_ms: Vec<Option<f64>>,
    validate_ms: Vec<Option<f64>>,
    runs_ms: Vec<Option<f64>>,
    framework_ms: Vec<Option<f64>>,
}

pub fn read(text: &str) -> Result<Draft, RecordingFault> {
    // The format first: a file of a newer version may differ in any other key.
    let head: Head = serde_json::from_str(text).map_err(|error| unreadable(Format::TuningData, &error))?;
    if head.format != FORMAT {
        let hint = format!("this evo reads `{FORMAT}`; a newer file needs a newer evo");
        return Err(RecordingFault::new(format!("its format is `{}`", head.format)).with_hint(hint));
    }
    let file: TuningDataFile =
        serde_json::from_str(text).map_err(|error| unreadable(Format::TuningData, &error))?;
    let unit_ns = unit_ns(&file.objective)?;
    let columns = file.columns()?;
    let row = |number| file.row(&columns, number, unit_ns).map_err(|fault| fault.in_row(number));
    let rows = (0..file.size).map(row).collect::<Result<Vec<DraftRow>, RecordingFault>>()?;
    let parameters = file.params.iter().map(|one| (one.name.clone(), one.values.clone())).collect();
    Ok(Draft {
        kernel: file.kernel,
        gpu: file.gpu,
        problem: readers::problem_words(&file.problem_size),
        format: Format::TuningData,
        parameters,
        valid: Valid::Constraints(file.constraints),
        exhaustive: file.exhaustive,
        repeats: false,
        rows,
        notices: Vec::new(),
    })
}

/// Nanoseconds in a unit of the objective, which must be a time to minimize.
fn unit_ns(objective: &Objective) -> Result<f64, RecordingFault> {
    let Objective { name, unit, direction } = objective;
    if direction != "min" {
        let cause = format!("its objective `{name}` has the direction `{direction}`");
        return Err(RecordingFault::new(cause).with_hint("a replay ranks times, whose direction is `min`"));
    }
    readers::unit_ns(unit).ok_or_else(|| {
        RecordingFault::new(format!("its objective `{name}` has the unit `{unit}`"))
            .with_hint("times are in `s`, `ms`, `us`, `ns` or the words for them")
    })
}

impl TuningDataFile {
    fn columns(&self) -> Result<Vec<&[u16]>, RecordingFault> {
        let column = |parameter: &TuningDataParameter| {
            let positions = self.rows.config.get(&parameter.name);
            positions.map(Vec::as_slice).ok_or_else(|| {
                RecordingFault::new(format!(
                    "`rows.config` has no column for the parameter `{}`",
                    parameter.name
                ))
            })
        };
        let columns = self.params.iter().map(column).collect::<Result<Vec<_>, RecordingFault>>()?;
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
            Some((name, length)) => Err(RecordingFault::new(format!(
                "its `size` is {}, but `rows.{name}` has {length} entries",
                self.size
            ))),
        }
    }

    fn row(&self, columns: &[&[u16]], number: usize, unit_ns: f64) -> Result<DraftRow, RecordingFault> {
        let position = |(parameter, column): (&TuningDataParameter, &&[u16])| {
            let position = column[number];
            let (name, count) = (&parameter.name, parameter.values.len());
            (usize::from(position) < count).then_some(position).ok_or_else(|| {
                RecordingFault::new(format!("position {position} of `{name}` is outside its {count} values"))
            })
        };
        let positions =
            self.params.iter().zip(columns).map(position).collect::<Result<Vec<u16>, RecordingFault>>()?;
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

fn kind(status: u8, objective: Option<f64>) -> Result<VerdictKind, RecordingFault> {
    let kind = match status {
        0 => VerdictKind::Pass,
        1 => VerdictKind::CompileError,
        2 => VerdictKind::LaunchFail,
        3 => VerdictKind::StaticReject,
        _ => {
            return Err(RecordingFault::new(format!("status {status} is not known"))
                .with_hint("0 is fine, 1 did not compile, 2 failed at run time, 3 was refused"));
        }
    };
    match (kind, objective) {
        (VerdictKind::Pass, None) => Err(RecordingFault::new("status 0 (fine) without an objective")),
        (VerdictKind::Pass, Some(value)) if value.is_nan() || value <= 0.0 => {
            Err(RecordingFault::new(format!("the objective {value} is not a time")))
        }
        (VerdictKind::Pass, Some(_)) | (_, None) => Ok(kind),
        (_, Some(value)) => {
            Err(RecordingFault::new(format!("status {status} (failed) with the objective {value}")))
        }
    }
}
