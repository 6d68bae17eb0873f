//! What the command reads: the recordings that `--data` names, and the traces that `--judge` names, which are runs of any
//! tool on these recordings.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use evo_engine::replay::Recording;

use crate::error::LabError;
use crate::score::Yardstick;
use crate::simulate::Run;
use crate::traces::{self, TracedRun};

pub struct ScoredSpace {
    pub recording: Recording,
    pub yardstick: Yardstick,
}

/// Opens all of them, in order of name within a folder. A recording that cannot be scored is an error if it was
/// named, and a note if it was found in a folder.
pub fn open(paths: &[PathBuf]) -> Result<Vec<ScoredSpace>, LabError> {
    let mut spaces: Vec<ScoredSpace> = Vec::new();
    for path in paths {
        for file in files(path)? {
            let mut recording =
                Recording::open(&file).map_err(|error| LabError::bad_input(&error, error.hint()))?;
            let yardstick = match Yardstick::of(&recording) {
                Ok(yardstick) => yardstick,
                Err(error) => {
                    let text = format!("cannot score `{}`: {error}", file.display());
                    if !path.is_dir() {
                        return Err(LabError::usage(text));
                    }
                    eprintln!("note: left out: {text}");
                    continue;
                }
            };
            let name = &recording.name;
            if spaces.iter().any(|known| known.recording.name == *name) {
                let text = format!("`{}` holds `{name}` a second time", file.display());
                return Err(LabError::usage(text));
            }
            // A recording has no default configuration: the first value of each parameter is only the first in the
            // file. Strategies that start from the default must not start there.
            recording.space = recording.space.without_default();
            spaces.push(ScoredSpace { recording, yardstick });
        }
    }
    if spaces.is_empty() {
        return Err(LabError::usage("no recording can be scored")
            .with_hint("`--data` takes recordings of whole spaces"));
    }
    Ok(spaces)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    let trouble = |error: std::io::Error| {
        LabError::usage(format!("cannot read `{}`: {error}", path.display()))
            .with_hint("`--data` takes recordings and folders of them")
    };
    if !fs::metadata(path).map_err(trouble)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = fs::read_dir(path).map_err(trouble)?;
    let mut files = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(trouble)?;
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json.gz") || name.ends_with(".json")
    });
    // Folders list their files in any order; the table's order must not depend on it.
    files.sort();
    if files.is_empty() {
        let hint = "recordings are files whose names end in `.json.gz` or `.json`";
        let text = format!("no recordings in the folder `{}`", path.display());
        return Err(LabError::usage(text).with_hint(hint));
    }
    Ok(files)
}

/// A strategy of ours or another tool, with its runs by space. It may have none on some of them.
pub struct Tool {
    pub name: String,
    pub runs: Vec<Vec<Run>>,
}

impl Tool {
    pub fn traced(&self, spaces: &[ScoredSpace]) -> impl Iterator<Item = TracedRun> {
        self.runs.iter().zip(spaces).flat_map(move |(runs, space)| {
            let numbered = runs.iter().enumerate();
            numbered.map(move |(number, run)| TracedRun::of(&self.name, &space.recording.name, number, run))
        })
    }
}

/// Reads all traces. `ours` are the strategies that run too, whose names a trace may not use.
pub fn judged(
    paths: &[PathBuf],
    spaces: &[ScoredSpace],
    ours: &[&str],
    overhead: bool,
) -> Result<Vec<Tool>, LabError> {
    let mut tools: Vec<Tool> = Vec::new();
    let (mut elsewhere, mut seen) = (BTreeMap::<String, usize>::new(), HashSet::new());
    for path in paths {
        let shown = path.display();
        for traced in traces::read(path)? {
            let Some(at) = spaces.iter().position(|space| space.recording.name == traced.dataset) else {
                // A trace of many spaces is often judged on some of them, so this is a note and not an error.
                *elsewhere.entry(traced.dataset).or_default() += 1;
                continue;
            };
            if ours.contains(&traced.tool.as_str()) {
                let text =
                    format!("the trace `{shown}` holds runs of `{}`, which runs here as well", traced.tool);
                let hint = "leave it out of `--strategy`, or give the trace's `tool` another name";
                return Err(LabError::usage(text).with_hint(hint));
            }
            if traced.run.is_some_and(|run| !seen.insert((traced.tool.clone(), at, run))) {
                let text = format!(
                    "the trace `{shown}`, line {}, holds run {} of `{}` on `{}` a second time",
                    traced.line,
                    traced.run.unwrap_or_default(),
                    traced.tool,
                    traced.dataset
                );
                let hint =
                    "name each trace once, and number the runs of a tool on a space from 0 or not at all";
                return Err(LabError::usage(text).with_hint(hint));
            }
            let mut run = traced.on(&spaces[at].recording, path)?;
            if !overhead {
                run.overhead_ms.clear();
            }
            // Tools keep their order of appearance, and so does the table.
            let known = tools.iter().position(|tool| tool.name == traced.tool);
            let known = known.unwrap_or_else(|| {
                tools.push(Tool { name: traced.tool, runs: vec![Vec::new(); spaces.len()] });
                tools.len() - 1
            });
            tools[known].runs[at].push(run);
        }
    }
    talk(&elsewhere, &tools, spaces);
    if tools.is_empty() && !paths.is_empty() {
        let error = LabError::usage("the traces hold no run on any of the recordings");
        return Err(error.with_hint("a line's `dataset` is `kernel__gpu`"));
    }
    Ok(tools)
}

fn talk(elsewhere: &BTreeMap<String, usize>, tools: &[Tool], spaces: &[ScoredSpace]) {
    for (dataset, runs) in elsewhere {
        eprintln!("note: left out: {runs} runs on `{dataset}`, which is not among the recordings");
    }
    for tool in tools {
        let missing = tool.runs.iter().zip(spaces).filter(|(runs, _)| runs.is_empty());
        let missing: Vec<String> = missing.map(|(_, space)| format!("`{}`", space.recording.name)).collect();
        if !missing.is_empty() {
            let (name, missing) = (&tool.name, missing.join(", "));
            eprintln!("note: `{name}` has no runs on {missing}: its score is of the other spaces");
        }
    }
}
