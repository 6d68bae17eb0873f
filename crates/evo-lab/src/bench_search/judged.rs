//! The traces that `--judge` names: runs of any tool on the recordings that `--data` names.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use super::data::ScoredSpace;
use crate::error::LabError;
use crate::simulate::SimulatedRun;
use crate::trace_reader::{self, ResolvedRun, TraceReadError};

/// One tool with its runs. It may have none on some of the spaces.
pub struct Tool {
    pub name: String,
    /// Its runs by space.
    pub runs: Vec<Vec<SimulatedRun>>,
    /// Evaluations that the space does not allow, over all runs, by space.
    pub illegal: Vec<usize>,
}

/// Reads all traces. `ours` are the strategies that run too, whose names a trace may not use.
pub fn read(
    paths: &[PathBuf],
    spaces: &[ScoredSpace],
    ours: &[&str],
    overhead: bool,
) -> Result<Vec<Tool>, LabError> {
    let mut tools: Vec<Tool> = Vec::new();
    let (mut elsewhere, mut seen) = (BTreeMap::<String, usize>::new(), HashSet::new());
    for path in paths {
        let shown = path.display();
        for traced in trace_reader::read(path).map_err(bad_trace)? {
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
            let resolved = traced.on(&spaces[at].recording, path);
            let resolved = resolved.map_err(bad_trace)?;
            // Tools keep their order of appearance, and so does the table.
            let known = tools.iter().position(|tool| tool.name == traced.tool);
            let known = known.unwrap_or_else(|| {
                tools.push(Tool::new(traced.tool, spaces.len()));
                tools.len() - 1
            });
            tools[known].add(at, resolved, overhead);
        }
    }
    talk(&elsewhere, &tools, spaces);
    if tools.is_empty() && !paths.is_empty() {
        let error = LabError::usage("the traces hold no run on any of the recordings");
        return Err(error.with_hint("a line's `dataset` is `kernel__gpu`"));
    }
    Ok(tools)
}

fn bad_trace(error: TraceReadError) -> LabError {
    LabError::bad_input(&error, error.hint())
}

/// Says on stderr what was left out.
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

impl Tool {
    fn new(name: String, spaces: usize) -> Tool {
        Tool { name, runs: vec![Vec::new(); spaces], illegal: vec![0; spaces] }
    }

    fn add(&mut self, space: usize, resolved: ResolvedRun, overhead: bool) {
        let ResolvedRun { mut run, illegal } = resolved;
        if !overhead {
            run.overhead_ms.clear();
        }
        self.runs[space].push(run);
        self.illegal[space] += illegal;
    }
}
