//! What a tool that was found is: its version and its options; and every tool of this machine at once, as `evo preflight`
//! shows them before anybody waits for one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use evo_system::process::Ended;
use schemars::JsonSchema;
use serde::Serialize;

use super::find::{ToolPlaces, find};
use super::kind::{FoundTool, ToolKind, ToolVersion};
use super::run::{ToolArguments, ToolFailure, ToolState, last_words, options_in, run_plainly, run_tool};

/// How long a tool may take to say what it is. Profilers unpack themselves at their first start.
const DEADLINE: Duration = Duration::from_secs(30);

pub fn locate(kind: ToolKind, named: Option<&Path>, places: &ToolPlaces) -> Result<FoundTool, ToolFailure> {
    probe(kind, find(kind, named, places)?)
}

/// `Broken` if the program does not run, fails or is another one, `TimedOut` if it does not answer, `Incompatible` if
/// it is too old.
pub fn probe(kind: ToolKind, path: PathBuf) -> Result<FoundTool, ToolFailure> {
    let said = said(kind, &path, "--version")?;
    let row = kind.row();
    let version = ToolVersion::first_in(&said).filter(|_| said.contains(row.mark)).ok_or_else(|| {
        let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let message =
            format!("`{}` is not `{}`: its version is `{}`", path.display(), kind.as_str(), first.trim());
        ToolFailure::new(ToolState::Broken, message)
    })?;
    if version < kind.oldest() {
        let message = format!("`{}` {version} is too old", kind.as_str());
        let hint = format!("evo works with {} and later", kind.oldest());
        return Err(ToolFailure::new(ToolState::Incompatible, message).with_hint(hint));
    }
    let options = match row.has_options {
        true => options_in(&self::said(kind, &path, "--help")?),
        false => BTreeSet::new(),
    };
    Ok(FoundTool { kind, path, version, options })
}

fn said(kind: ToolKind, path: &Path, question: &str) -> Result<String, ToolFailure> {
    let failure = |state, why: String| {
        ToolFailure::new(state, format!("`{} {question}` {why} (`{}`)", kind.as_str(), path.display()))
    };
    let ended = run_plainly(path, [question], None, DEADLINE)
        .map_err(|error| failure(ToolState::Broken, format!("does not run: {error}")))?;
    if ended.timed_out {
        return Err(failure(ToolState::TimedOut, format!("gave no answer within {} s", DEADLINE.as_secs())));
    }
    if !ended.succeeded() {
        return Err(failure(ToolState::Broken, format!("failed{}", last_words(&ended))));
    }
    Ok(format!("{}{}", ended.stdout.text(), ended.stderr.text()))
}

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
        let surveyed = move |kind: ToolKind| {
            let path = find(kind, None, places);
            answer(kind, path.as_ref().ok().cloned(), path.and_then(|path| probe(kind, path)))
        };
        let start = |kind: ToolKind| (kind, scope.spawn(move || surveyed(kind)));
        let asked: Vec<_> = ToolKind::ALL.iter().copied().map(start).collect();
        let panicked = |kind: ToolKind| {
            let why = "the thread that asked for it panicked";
            answer(kind, None, Err(ToolFailure::new(ToolState::Broken, why)))
        };
        asked.into_iter().map(|(kind, thread)| thread.join().unwrap_or_else(|_| panicked(kind))).collect()
    })
}

fn answer(kind: ToolKind, path: Option<PathBuf>, found: Result<FoundTool, ToolFailure>) -> SurveyedTool {
    let plain = SurveyedTool {
        name: kind.as_str(),
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
    let ended = run_plainly(&python.path, ["-c", PACKAGES_SCRIPT], None, PACKAGES_DEADLINE);
    let ended = ended.ok().filter(Ended::succeeded);
    ended.map(|ended| ended.stdout.text().lines().map(str::to_string).collect()).unwrap_or_default()
}

/// A large working tree takes git seconds.
pub const GIT_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitState {
    pub commit: Option<String>,
    pub is_dirty: Option<bool>,
}

/// What git says of the folder that evo runs in. It is only asked, and told not to take locks. `patience` is for each of
/// two questions.
pub fn git_state(folder: &Path, places: &ToolPlaces, patience: Duration) -> GitState {
    let Ok(git) = locate(ToolKind::Git, None, places) else { return GitState::default() };
    let commit = git_said(&git, folder, patience, &["rev-parse", "HEAD"]).map(|text| text.trim().to_string());
    let changes = commit.as_ref().and_then(|_| {
        // Without this option `status` may write the index.
        let status = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"];
        git_said(&git, folder, patience, &status)
    });
    GitState { commit, is_dirty: changes.map(|text| !text.trim().is_empty()) }
}

fn git_said(git: &FoundTool, folder: &Path, patience: Duration, words: &[&str]) -> Option<String> {
    let arguments = ToolArguments::default().plain(words.iter().copied());
    let run = run_tool(git, &arguments, folder, patience).ok()?;
    run.succeeded().then(|| run.stdout.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn check(script: &str) -> Result<FoundTool, ToolFailure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        probe(ToolKind::ComputeSanitizer, path)
    }

    #[test]
    fn a_tool_says_its_version_and_its_options() {
        let words = "case $1 in --version) echo NVIDIA Compute Sanitizer; echo Version 2025.3.1.0;; *) echo ' --xml  --save f';; esac";
        let found = check(words).unwrap();
        assert_eq!((found.version.to_string().as_str(), found.options.len()), ("2025.3.1.0", 2));
    }

    #[test]
    fn what_is_something_else_or_fails_is_no_tool() {
        let state = |script| check(script).unwrap_err().state;
        assert_eq!(state("echo some other program 1.2.3"), ToolState::Broken);
        assert_eq!(state("echo Compute Sanitizer"), ToolState::Broken);
        assert_eq!(state("echo Compute Sanitizer 2019.1.0"), ToolState::Incompatible);
        let failed = check("echo no libraries >&2; exit 127").unwrap_err();
        assert!(failed.message.contains("no libraries") && failed.state == ToolState::Broken, "{failed:?}");
        // It answers the first question and not the second.
        let half = "test $1 = --version && echo Compute Sanitizer 2025.3.0 || exit 3";
        assert_eq!(state(half), ToolState::Broken);
    }

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
    #[test]
    fn a_folder_outside_of_any_tree_has_no_state() {
        let folder = tempfile::tempdir().unwrap();
        for places in [ToolPlaces::of_environment(), ToolPlaces::default()] {
            assert_eq!(git_state(folder.path(), &places, GIT_PATIENCE), GitState::default());
        }
    }
}
