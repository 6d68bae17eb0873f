//! Traces: what each run of a search asked for, one line of JSON per run. The auto-tuning community's scorers read what is
//! written here, and any tool's traces are read as rows of a recording.
//!
//! Tools write an evaluation as a row number, as a list of values in the order of the parameters, or as an object
//! from parameter to value. A configuration that the space does not allow was never measured, so it costs no time
//! and is only counted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use evo_engine::replay::Recording;
use evo_space::genome::Genome;
use evo_space::space::Parameter;
use evo_space::value::Value;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use thiserror::Error;

use crate::simulate::SimulatedRun;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

const UNNAMED_TOOL: &str = "tool";

/// One run of one tool on one space, as its line gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedRun {
    #[serde(default = "unnamed")]
    pub tool: String,
    pub dataset: String,
    /// Which run of the tool on the space; `None` if the line does not say.
    #[serde(default)]
    pub run: Option<u64>,
    evals: Vec<Json>,
    #[serde(default, skip_serializing_if = "Overhead::is_unknown")]
    overhead_ms: Overhead,
    /// Line of the file, from 1.
    #[serde(skip)]
    pub line: usize,
}

fn unnamed() -> String {
    UNNAMED_TOOL.to_string()
}

/// The tool's own time before its evaluations, milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "`overhead_ms` is neither a number nor a list of numbers")]
enum Overhead {
    #[default]
    Unknown,
    Each(f64),
    List(Vec<f64>),
}

#[derive(Debug, Error)]
pub enum TraceError {
    #[error("cannot write the trace `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read the trace `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot judge the trace `{}`: line {line}: {fault}", path.display())]
    Line { path: PathBuf, line: usize, fault: LineFault },
}

impl Overhead {
    fn is_unknown(&self) -> bool {
        *self == Overhead::Unknown
    }
}

impl TraceError {
    pub fn hint(&self) -> Option<&str> {
        match self {
            TraceError::Write { .. } => None,
            TraceError::Read { .. } => Some("a trace is a file of JSON lines, as `--trace` writes it"),
            TraceError::Line { fault, .. } => fault.hint.as_deref(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Error)]
#[error("{cause}")]
pub struct LineFault {
    /// Lower case, present tense.
    pub cause: String,
    pub hint: Option<String>,
}

impl LineFault {
    fn new(cause: impl Into<String>) -> LineFault {
        LineFault { cause: cause.into(), hint: None }
    }

    fn with_hint(self, hint: impl Into<String>) -> LineFault {
        LineFault { hint: Some(hint.into()), ..self }
    }
}

pub fn read(path: &Path) -> Result<Vec<TracedRun>, TraceError> {
    let trouble = |source| TraceError::Read { path: path.into(), source };
    let mut file = BufReader::new(File::open(path).map_err(trouble)?);
    // By content, because other tools name their files as they like.
    let compressed = file.fill_buf().map_err(trouble)?.starts_with(&GZIP_MAGIC);
    let text: Box<dyn Read> = if compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut runs = Vec::new();
    for (at, line) in BufReader::new(text).lines().enumerate() {
        let at_line = |fault| TraceError::Line { path: path.into(), line: at + 1, fault };
        let line = line.map_err(|error| at_line(unreadable(&error, compressed)))?;
        if line.trim().is_empty() {
            continue;
        }
        let run: TracedRun = serde_json::from_str(&line).map_err(|error| at_line(malformed(&error)))?;
        runs.push(TracedRun { line: at + 1, ..run });
    }
    Ok(runs)
}

fn unreadable(error: &io::Error, compressed: bool) -> LineFault {
    let fault = LineFault::new(error.to_string());
    if compressed { fault.with_hint("the file may be cut off; fetch it again") } else { fault }
}

fn malformed(error: &serde_json::Error) -> LineFault {
    // The only number that the error can name is 1: each line is a text of its own.
    let cause = error.to_string().replace(" at line 1 column", " at column");
    LineFault::new(cause).with_hint(
        "each line is an object such as {\"tool\": \"evo\", \"dataset\": \"kernel__gpu\", \"run\": 0, \"evals\": [812, 95]}",
    )
}

/// A run with its evaluations as rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedRun {
    /// The evaluations that the space allows, with the tool's own time before each.
    pub run: SimulatedRun,
    /// How many evaluations the space does not allow.
    pub illegal: usize,
}

impl TracedRun {
    pub fn of(tool: &str, dataset: &str, run: usize, simulated: &SimulatedRun) -> TracedRun {
        let SimulatedRun { evaluations, overhead_ms, .. } = simulated;
        TracedRun {
            tool: tool.to_string(),
            dataset: dataset.to_string(),
            run: Some(run as u64),
            evals: evaluations.iter().map(|row| Json::from(*row)).collect(),
            overhead_ms: match overhead_ms.as_slice() {
                [] => Overhead::Unknown,
                times => Overhead::List(times.to_vec()),
            },
            line: 0,
        }
    }

    /// The run on its recording. An illegal evaluation is dropped together with the tool's time before it.
    pub fn on(&self, recording: &Recording, path: &Path) -> Result<ResolvedRun, TraceError> {
        let fail = |fault| TraceError::Line { path: path.into(), line: self.line, fault };
        let overhead = self.overhead().map_err(fail)?;
        let mut resolved = ResolvedRun::default();
        for (at, asked) in self.evals.iter().enumerate() {
            match row(asked, recording).map_err(|fault| fail(in_evaluation(at, fault)))? {
                Some(row) => {
                    resolved.run.evaluations.push(row);
                    resolved.run.overhead_ms.extend(overhead.get(at));
                }
                None => resolved.illegal += 1,
            }
        }
        Ok(resolved)
    }

    /// The tool's own time before each evaluation; empty if the line does not say.
    fn overhead(&self) -> Result<Vec<f64>, LineFault> {
        let list = match &self.overhead_ms {
            Overhead::Unknown => return Ok(Vec::new()),
            Overhead::Each(time) => vec![*time; self.evals.len()],
            Overhead::List(list) => list.clone(),
        };
        if list.len() != self.evals.len() {
            let cause = format!("`overhead_ms` has {} entries, `evals` has {}", list.len(), self.evals.len());
            return Err(LineFault::new(cause)
                .with_hint("give one number for all evaluations, or one for each, or leave it out"));
        }
        match list.iter().position(|time| *time < 0.0) {
            Some(at) => {
                let cause = format!("the own time {} ms is negative", list[at]);
                Err(in_evaluation(at, LineFault::new(cause)))
            }
            None => Ok(list),
        }
    }
}

/// Evaluations are counted from 0, as rows are.
fn in_evaluation(at: usize, fault: LineFault) -> LineFault {
    LineFault { cause: format!("evaluation {at}: {}", fault.cause), ..fault }
}

fn row(asked: &Json, recording: &Recording) -> Result<Option<u32>, LineFault> {
    let parameters = recording.space.parameters();
    let values: Vec<Option<Value>> = match asked {
        Json::Number(number) if number.is_i64() || number.is_u64() => {
            let known = number.as_u64().filter(|row| *row < recording.rows().len() as u64);
            return Ok(known.map(|row| row as u32));
        }
        Json::Array(values) if values.len() == parameters.len() => values.iter().map(value).collect(),
        // A list of another length is a point of another space: illegal, not malformed.
        Json::Array(_) => return Ok(None),
        Json::Object(values) => parameters.iter().map(|one| named(one, values)).collect(),
        _ => {
            return Err(LineFault::new(format!("`{asked}` is not an evaluation")).with_hint(
                "evaluations are row numbers, lists of values, or objects from parameter to value",
            ));
        }
    };
    let position = |(value, parameter): (Option<Value>, &Parameter)| {
        parameter.position(&value?).map(|position| position as u16)
    };
    let positions: Option<Vec<u16>> = values.into_iter().zip(parameters).map(position).collect();
    Ok(positions.and_then(|own| recording.row(&Genome::from(own))).map(|row| row.number as u32))
}

/// The value of a parameter; a parameter with a single value may be left out.
fn named(parameter: &Parameter, values: &serde_json::Map<String, Json>) -> Option<Value> {
    match values.get(&*parameter.name) {
        Some(given) => value(given),
        None => (parameter.values.len() == 1).then(|| parameter.values[0].clone()),
    }
}

fn value(given: &Json) -> Option<Value> {
    Value::deserialize(given).ok()
}

/// A trace file to be written, compressed if its name ends in `.gz`.
pub struct TraceFile {
    path: PathBuf,
    file: File,
}

impl TraceFile {
    pub fn create(path: &Path) -> Result<TraceFile, TraceError> {
        let file = File::create(path).map_err(|source| TraceError::Write { path: path.into(), source })?;
        Ok(TraceFile { path: path.into(), file })
    }

    pub fn write(self, runs: impl Iterator<Item = TracedRun>) -> Result<(), TraceError> {
        let TraceFile { path, file } = self;
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
        let mut plain = BufWriter::new(file);
        let written = match is_compressed {
            true => {
                let mut packed = GzEncoder::new(plain, Compression::default());
                // Not left to `drop`, which would swallow the error of a full disk.
                lines(&mut packed, runs).and_then(|()| packed.finish()?.flush())
            }
            false => lines(&mut plain, runs).and_then(|()| plain.flush()),
        };
        written.map_err(|source| TraceError::Write { path, source })
    }
}

fn lines(out: &mut impl Write, mut runs: impl Iterator<Item = TracedRun>) -> io::Result<()> {
    runs.try_for_each(|run| {
        serde_json::to_writer(&mut *out, &run)?;
        out.write_all(b"\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invented() -> Recording {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/stencil__invented.json");
        Recording::open(Path::new(path)).unwrap()
    }

    fn check(text: &str) -> Result<Vec<ResolvedRun>, String> {
        check_bytes(text.as_bytes())
    }

    fn check_bytes(bytes: &[u8]) -> Result<Vec<ResolvedRun>, String> {
        let folder = tempfile::tempdir().unwrap();
        let (path, recording) = (folder.path().join("trace"), invented());
        std::fs::write(&path, bytes).unwrap();
        let runs = read(&path).and_then(|runs| runs.iter().map(|run| run.on(&recording, &path)).collect());
        runs.map_err(|error| {
            let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            format!("{error}{hint}").replace(&path.display().to_string(), "FILE")
        })
    }

    #[test]
    fn row_numbers_values_and_names_are_the_same_evaluation() {
        let recording = invented();
        let configuration = recording.space.configuration(&recording.genome(17)).to_string();
        let words: Vec<(&str, &str)> =
            configuration.split(' ').map(|pair| pair.split_once('=').unwrap()).collect();
        let list = words.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join(",");
        let named = words.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect::<Vec<_>>();
        let text = format!(
            "{{\"dataset\":\"stencil__invented\",\"evals\":[17,[{list}],{{{}}},17],\"overhead_ms\":0.5}}\n\n",
            named.join(",")
        );
        let run = SimulatedRun { evaluations: vec![17; 4], overhead_ms: vec![0.5; 4] };
        assert_eq!(check(&text).unwrap(), [ResolvedRun { run, illegal: 0 }]);
    }

    #[test]
    fn what_the_space_does_not_allow_is_counted_and_its_time_dropped() {
        let line = "{\"dataset\":\"x\",\"evals\":[-1,3,672,[1,2],{\"TILE\":1},[8,1,1,1,false],18446744073709551615,4],\
                    \"overhead_ms\":[1,2,3,4,5,6,7,8]}";
        let run = SimulatedRun { evaluations: vec![3, 4], overhead_ms: vec![2.0, 8.0] };
        assert_eq!(check(line).unwrap(), [ResolvedRun { run, illegal: 6 }]);
    }

    #[test]
    fn lines_that_are_no_runs_are_named() {
        let error = |text: &str| check(text).unwrap_err();
        let run = "{\"dataset\":\"x\",\"evals\":[1]}\n";
        insta::assert_snapshot!(error(&format!("{run}{{\"dataset\":\"x\"}}")), @r#"
        cannot judge the trace `FILE`: line 2: missing field `evals` at column 15
        hint: each line is an object such as {"tool": "evo", "dataset": "kernel__gpu", "run": 0, "evals": [812, 95]}
        "#);
        insta::assert_snapshot!(error("{\"dataset\":\"x\",\"evals\":[1,2.5]}"), @"
        cannot judge the trace `FILE`: line 1: evaluation 1: `2.5` is not an evaluation
        hint: evaluations are row numbers, lists of values, or objects from parameter to value
        ");
        insta::assert_snapshot!(error("{\"dataset\":\"x\",\"evals\":[1,2],\"overhead_ms\":[1]}"), @"
        cannot judge the trace `FILE`: line 1: `overhead_ms` has 1 entries, `evals` has 2
        hint: give one number for all evaluations, or one for each, or leave it out
        ");
        insta::assert_snapshot!(error("{\"dataset\":\"x\",\"evals\":[1,2],\"overhead_ms\":[1,-2]}"), @"cannot judge the trace `FILE`: line 1: evaluation 1: the own time -2 ms is negative");
        insta::assert_snapshot!(error("{\"dataset\":\"x\",\"evals\":[],\"overhead_ms\":\"no\"}"), @r#"
        cannot judge the trace `FILE`: line 1: `overhead_ms` is neither a number nor a list of numbers at column 45
        hint: each line is an object such as {"tool": "evo", "dataset": "kernel__gpu", "run": 0, "evals": [812, 95]}
        "#);
        insta::assert_snapshot!(check_bytes(b"{\"dataset\":\"\xff\"}").unwrap_err(), @"cannot judge the trace `FILE`: line 1: stream did not contain valid UTF-8");
    }

    #[test]
    fn compressed_traces_are_unpacked_and_cut_off_ones_are_named() {
        let line = "{\"dataset\":\"x\",\"run\":7,\"evals\":[1,2,3]}\n".repeat(40);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(line.as_bytes()).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(check_bytes(&packed).unwrap().len(), 40);
        let cut = check_bytes(&packed[..packed.len() - 12]).unwrap_err();
        assert!(cut.starts_with("cannot judge the trace `FILE`: line ") && cut.contains("cut off"), "{cut}");
        let missing = read(Path::new("/nonexistent/trace")).unwrap_err();
        assert_eq!(missing.to_string(), "cannot read the trace `/nonexistent/trace`");
        assert!(missing.hint().is_some_and(|hint| hint.contains("JSON lines")), "{missing}");
    }

    fn traced(overhead_ms: &[f64]) -> TracedRun {
        let (evaluations, overhead_ms) = (vec![812, 95], overhead_ms.to_vec());
        TracedRun::of("random", "stencil__invented", 3, &SimulatedRun { evaluations, overhead_ms })
    }

    const TEXT: &str = "{\"tool\":\"random\",\"dataset\":\"stencil__invented\",\"run\":3,\"evals\":[812,95],\"overhead_ms\":[0.5,1.25]}\n\
         {\"tool\":\"random\",\"dataset\":\"stencil__invented\",\"run\":3,\"evals\":[812,95]}\n";

    #[test]
    fn traces_are_lines_and_compressed_on_request() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["trace.jsonl", "trace.jsonl.gz"] {
            let path = folder.path().join(name);
            let file = TraceFile::create(&path).unwrap();
            file.write([traced(&[0.5, 1.25]), traced(&[])].into_iter()).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let mut text = String::new();
            if name.ends_with(".gz") {
                flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
            } else {
                text = String::from_utf8(bytes).unwrap();
            }
            assert_eq!(text, TEXT);
        }
        let read: Vec<TracedRun> = TEXT.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, [traced(&[0.5, 1.25]), traced(&[])]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = TraceFile::create(Path::new("/nonexistent/trace.jsonl")).err().expect("refused");
        assert_eq!(error.to_string(), "cannot write the trace `/nonexistent/trace.jsonl`");
    }
}
