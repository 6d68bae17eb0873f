//! What git says of the folder that evo runs in. It is only asked, and told not to take locks.

use std::path::Path;
use std::time::Duration;

use super::find::ToolPlaces;
use super::kind::{FoundTool, ToolKind};
use super::probe::locate;
use super::run::{ToolArguments, run_tool};

/// A large working tree takes git seconds.
pub const GIT_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitState {
    pub commit: Option<String>,
    pub is_dirty: Option<bool>,
}

/// `patience` is for each of two questions.
pub fn git_state(folder: &Path, places: &ToolPlaces, patience: Duration) -> GitState {
    let Ok(git) = locate(ToolKind::Git, None, places) else { return GitState::default() };
    let commit = said(&git, folder, patience, &["rev-parse", "HEAD"]).map(|text| text.trim().to_string());
    let changes = commit.as_ref().and_then(|_| {
        // Without this option `status` may write the index.
        let status = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"];
        said(&git, folder, patience, &status)
    });
    GitState { commit, is_dirty: changes.map(|text| !text.trim().is_empty()) }
}

fn said(git: &FoundTool, folder: &Path, patience: Duration, words: &[&str]) -> Option<String> {
    let arguments = ToolArguments::default().plain(words.iter().copied());
    let run = run_tool(git, &arguments, folder, patience).ok()?;
    run.succeeded().then(|| run.stdout.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_outside_of_any_tree_has_no_state() {
        let folder = tempfile::tempdir().unwrap();
        for places in [ToolPlaces::of_environment(), ToolPlaces::default()] {
            assert_eq!(git_state(folder.path(), &places, GIT_PATIENCE), GitState::default());
        }
    }
}
