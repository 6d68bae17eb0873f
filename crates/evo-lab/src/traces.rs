//! Traces: what each run of a search asked for, one line of JSON per run. The auto-tuning community's scorers read what is
//! written here, and any tool's traces are read as rows of a recording.
//!
//! An evaluation is a row number. A configuration that the space does not allow was never measured, so it costs no time
//! and is only counted; the row number -1 stands for one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use evo_engine::replay::Recording;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::simulate::Run;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// One run of one tool on one space, as its line gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedRun {
    #[serde(default = "unnamed")]
    pub tool: String,
    pub dataset: String,
    /// Which run of the tool on the space; `None` if the line does not say.
    #[serde(default)]
    pub run: Option<u64>,
    evals: Vec<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overhead_ms: Option<Overhead>,
    /// Line of the file, from 1.
    #[serde(skip)]
    pub line: usize,
}

fn unnamed() -> String {
    "tool".to_string()
}

/// The tool's own time before its evaluations, milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "`overhead_ms` is neither a number nor a list of numbers")]
enum Overhead {
    Each(f64),
    List(Vec<f64>),
}

/// A line that cannot be judged; `hint` may be empty.
fn bad_line(path: &Path, line: usize, cause: &str, hint: &str) -> LabError {
    let error = LabError::usage(format!("cannot judge the trace `{}`: line {line}: {cause}", path.display()));
    if hint.is_empty() { error } else { error.with_hint(hint) }
}

pub fn read(path: &Path) -> Result<Vec<TracedRun>, LabError> {
    let trouble = |error: io::Error| {
        LabError::usage(format!("cannot read the trace `{}`: {error}", path.display()))
            .with_hint("a trace is a file of JSON lines, as `--trace` writes it")
    };
    let mut file = BufReader::new(File::open(path).map_err(trouble)?);
    // By content, because other tools name their files as they like.
    let is_compressed = file.fill_buf().map_err(trouble)?.starts_with(&GZIP_MAGIC);
    let (text, hint): (Box<dyn BufRead>, &str) = match is_compressed {
        true => {
            (Box::new(BufReader::new(MultiGzDecoder::new(file))), "the file may be cut off; fetch it again")
        }
        false => (Box::new(file), ""),
    };
    let mut runs = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.map_err(|error| bad_line(path, line, &error.to_string(), hint))?;
        if text.trim().is_empty() {
            continue;
        }
        let run = serde_json::from_str(&text).map_err(|error| {
            // The only number that the error can name is 1: each line is a text of its own.
            let cause = error.to_string().replace(" at line 1 column", " at column");
            let example = r#"{"tool": "evo", "dataset": "kernel__gpu", "run": 0, "evals": [812, 95]}"#;
            bad_line(path, line, &cause, &format!("each line is an object such as {example}"))
        })?;
        runs.push(TracedRun { line, ..run });
    }
    Ok(runs)
}

impl TracedRun {
    pub fn of(tool: &str, dataset: &str, number: usize, run: &Run) -> TracedRun {
        TracedRun {
            tool: tool.to_string(),
            dataset: dataset.to_string(),
            run: Some(number as u64),
            evals: run.evaluations.iter().map(|row| i64::from(*row)).collect(),
            overhead_ms: (!run.overhead_ms.is_empty()).then(|| Overhead::List(run.overhead_ms.clone())),
            line: 0,
        }
    }

    /// The run on its recording. An illegal evaluation is dropped together with the tool's time before it.
    pub fn on(&self, recording: &Recording, path: &Path) -> Result<Run, LabError> {
        let fail = |cause: &str, hint: &str| bad_line(path, self.line, cause, hint);
        let overhead = match &self.overhead_ms {
            None => Vec::new(),
            Some(Overhead::Each(time)) => vec![*time; self.evals.len()],
            Some(Overhead::List(list)) => list.clone(),
        };
        if self.overhead_ms.is_some() && overhead.len() != self.evals.len() {
            let (times, evals) = (overhead.len(), self.evals.len());
            let hint = "give one number for all evaluations, or one for each, or leave it out";
            return Err(fail(&format!("`overhead_ms` has {times} entries, `evals` has {evals}"), hint));
        }
        let mut run = Run::default();
        // Evaluations are counted from 0, as rows are.
        for (at, asked) in self.evals.iter().enumerate() {
            let time = overhead.get(at);
            if let Some(time) = time.filter(|time| **time < 0.0) {
                return Err(fail(&format!("evaluation {at}: the own time {time} ms is negative"), ""));
            }
            match u32::try_from(*asked).ok().filter(|row| (*row as usize) < recording.rows().len()) {
                Some(row) => {
                    run.evaluations.push(row);
                    run.overhead_ms.extend(time);
                }
                None => run.illegal += 1,
            }
        }
        Ok(run)
    }
}

pub fn create(path: &Path) -> Result<(&Path, File), LabError> {
    Ok((path, File::create(path).map_err(|error| unwritten(path, &error))?))
}

/// Compressed if the file's name ends in `.gz`.
pub fn write((path, mut file): (&Path, File), runs: impl Iterator<Item = TracedRun>) -> Result<(), LabError> {
    let lines: String = runs.map(|run| format!("{}\n", serde_json::json!(run))).collect();
    let written = match path.extension().is_some_and(|extension| extension == "gz") {
        true => {
            let mut packed = GzEncoder::new(file, Compression::default());
            // Not left to `drop`, which would swallow the error of a full disk.
            packed.write_all(lines.as_bytes()).and_then(|()| packed.finish().map(|_| ()))
        }
        false => file.write_all(lines.as_bytes()),
    };
    written.map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> LabError {
    LabError::usage(format!("cannot write the trace `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::invented;

    fn check(bytes: impl AsRef<[u8]>) -> Result<Vec<Run>, String> {
        let folder = tempfile::tempdir().unwrap();
        let (path, recording) = (folder.path().join("trace"), invented());
        std::fs::write(&path, bytes).unwrap();
        let runs = read(&path).and_then(|runs| runs.iter().map(|run| run.on(&recording, &path)).collect());
        runs.map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn what_the_space_does_not_allow_is_counted_and_its_time_dropped() {
        let lines = "{\"dataset\":\"x\",\"evals\":[-1,3,672,4],\"overhead_ms\":[1,2,3,4]}\n\n\
                     {\"dataset\":\"x\",\"evals\":[17,17],\"overhead_ms\":0.5}\n";
        let [first, second] = [(vec![3, 4], vec![2.0, 4.0], 2), (vec![17; 2], vec![0.5; 2], 0)]
            .map(|(evaluations, overhead_ms, illegal)| Run { evaluations, overhead_ms, illegal });
        assert_eq!(check(lines).unwrap(), [first, second]);
    }

    #[test]
    fn lines_that_are_no_runs_are_named() {
        let error = |text: &str| check(text).unwrap_err();
        let run = "{\"dataset\":\"x\",\"evals\":[1]}\n";
        insta::assert_snapshot!(error(&format!("{run}{{\"dataset\":\"x\"}}")), @r#"
        cannot judge the trace `FILE`: line 2: missing field `evals` at column 15
        hint: each line is an object such as {"tool": "evo", "dataset": "kernel__gpu", "run": 0, "evals": [812, 95]}
        "#);
        let kind = error("{\"dataset\":\"x\",\"evals\":[1,2.5]}");
        let words = "line 1: invalid type: floating point `2.5`, expected i64 at column";
        assert!(kind.contains(words), "{kind}");
        insta::assert_snapshot!(error("{\"dataset\":\"x\",\"evals\":[1,2],\"overhead_ms\":[1]}"), @"
        cannot judge the trace `FILE`: line 1: `overhead_ms` has 1 entries, `evals` has 2
        hint: give one number for all evaluations, or one for each, or leave it out
        ");
        insta::assert_snapshot!(error("{\"dataset\":\"x\",\"evals\":[1,2],\"overhead_ms\":[1,-2]}"), @"cannot judge the trace `FILE`: line 1: evaluation 1: the own time -2 ms is negative");
        let kind = error("{\"dataset\":\"x\",\"evals\":[],\"overhead_ms\":\"no\"}");
        let words = "line 1: `overhead_ms` is neither a number nor a list of numbers at column 45";
        assert!(kind.contains(words), "{kind}");
        insta::assert_snapshot!(check(b"{\"dataset\":\"\xff\"}").unwrap_err(), @"cannot judge the trace `FILE`: line 1: stream did not contain valid UTF-8");
    }

    fn traced(overhead_ms: &[f64]) -> TracedRun {
        let run = Run { evaluations: vec![812, 95], overhead_ms: overhead_ms.to_vec(), illegal: 0 };
        TracedRun::of("random", "stencil__invented", 3, &run)
    }

    const TEXT: &str = "{\"tool\":\"random\",\"dataset\":\"stencil__invented\",\"run\":3,\"evals\":[812,95],\"overhead_ms\":[0.5,1.25]}\n\
         {\"tool\":\"random\",\"dataset\":\"stencil__invented\",\"run\":3,\"evals\":[812,95]}\n";

    #[test]
    fn traces_are_lines_and_compressed_on_request() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_plain) in [("trace.jsonl", true), ("trace.jsonl.gz", false)] {
            let path = folder.path().join(name);
            let runs = [traced(&[0.5, 1.25]), traced(&[])];
            write(create(&path).unwrap(), runs.clone().into_iter()).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(bytes == TEXT.as_bytes(), is_plain, "{name}");
            let lines: Vec<TracedRun> = read(&path).unwrap();
            let lines = lines.into_iter().map(|run| TracedRun { line: 0, ..run });
            assert!(lines.eq(runs), "{name}");
            if !is_plain {
                let cut = check(&bytes[..bytes.len() - 12]).unwrap_err();
                assert!(cut.starts_with("cannot judge the trace `FILE`: line "), "{cut}");
                assert!(cut.contains("cut off"), "{cut}");
            }
        }
        let missing = read(Path::new("/nonexistent/trace")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read the trace `/nonexistent/trace`"), "{missing}");
        assert!(missing.contains("JSON lines"), "{missing}");
    }
}
