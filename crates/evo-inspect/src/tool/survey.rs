//! Every tool of this machine at once, as `evo preflight` shows them before anybody waits for one.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::command::plain_environment;
use super::find::{ToolPlaces, find};
use super::kind::ToolKind;
use super::probe::{FoundTool, probe};
use super::state::{ToolFailure, ToolState};
use evo_system::process::{self, RunLimits};

const PACKAGES_DEADLINE: Duration = Duration::from_secs(10);

/// Asks for versions from the packages' own files: importing them would take seconds.
const PACKAGES_SCRIPT: &str = "from importlib import metadata\n\
    for name in ('torch',):\n\
    \x20   try: print(name, metadata.version(name))\n\
    \x20   except metadata.PackageNotFoundError: pass\n";

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SurveyedTool {
    pub name: &'static str,
    pub state: ToolState,
    /// Absent where it did not say.
    pub version: Option<String>,
    /// Absent where it was not found.
    pub path: Option<PathBuf>,
    pub oldest: String,
    /// Python's packages that evo can use, as `torch 2.11.0`.
    pub packages: Vec<String>,
    pub reason: Option<String>,
    pub hint: Option<String>,
}

/// Looks for all tools, side by side because some take seconds to answer.
pub fn survey(places: &ToolPlaces) -> Vec<SurveyedTool> {
    thread::scope(|scope| {
        let asked: Vec<_> =
            ToolKind::ALL.iter().map(|kind| (*kind, scope.spawn(move || surveyed(*kind, places)))).collect();
        let panicked = |kind: ToolKind| {
            answer(
                kind,
                None,
                Err(ToolFailure::new(ToolState::Broken, "the thread that asked for it panicked")),
            )
        };
        asked.into_iter().map(|(kind, thread)| thread.join().unwrap_or_else(|_| panicked(kind))).collect()
    })
}

fn surveyed(kind: ToolKind, places: &ToolPlaces) -> SurveyedTool {
    match find(kind, None, places) {
        Ok(path) => answer(kind, Some(path.clone()), probe(kind, path)),
        Err(failure) => answer(kind, None, Err(failure)),
    }
}

fn answer(kind: ToolKind, path: Option<PathBuf>, found: Result<FoundTool, ToolFailure>) -> SurveyedTool {
    let plain = SurveyedTool {
        name: kind.name(),
        state: ToolState::Ok,
        version: None,
        path,
        oldest: kind.oldest().to_string(),
        packages: Vec::new(),
        reason: None,
        hint: None,
    };
    match found {
        Ok(tool) => {
            let packages = if kind == ToolKind::Python { packages(&tool) } else { Vec::new() };
            SurveyedTool { version: Some(tool.version.to_string()), packages, ..plain }
        }
        Err(ToolFailure { state, message, hint }) => {
            SurveyedTool { state, reason: Some(message), hint, ..plain }
        }
    }
}

fn packages(python: &FoundTool) -> Vec<String> {
    let mut command = Command::new(&python.path);
    command.args(["-c", PACKAGES_SCRIPT]);
    plain_environment(&mut command);
    let ended =
        process::run(command, &RunLimits::new(PACKAGES_DEADLINE)).ok().filter(process::Ended::succeeded);
    ended.map(|ended| ended.stdout.text().lines().map(str::to_string).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_has_a_state_and_none_is_taken_for_there() {
        let nowhere = ToolPlaces { path: vec!["/nowhere".into()], ..ToolPlaces::default() };
        let found = survey(&nowhere);
        assert_eq!(found.len(), ToolKind::ALL.len());
        for tool in &found {
            assert_eq!((tool.state, &tool.version), (ToolState::Missing, &None), "{tool:?}");
            assert!(tool.reason.is_some() && tool.hint.is_some(), "{tool:?}");
        }
    }
}
