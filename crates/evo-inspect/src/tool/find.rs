//! Where a tool is.
//!
//! The order is: what a flag names, what an environment variable names, `PATH`, toolkits of `$CUDA_HOME` and
//! `$CUDA_PATH`, the usual toolkits, and pip's packages. A place that the user names and that holds no program is an
//! error: quietly using another one would be worse.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::kind::ToolKind;
use super::run::{ToolFailure, ToolState};
use evo_compile::locate::{python_sites, usual_toolkits};
use evo_compile::toolbox::Toolbox;
use evo_space::text::quoted;

#[derive(Clone, Debug, Default)]
pub struct ToolPlaces {
    pub named: Vec<(ToolKind, PathBuf)>,
    pub path: Vec<PathBuf>,
    pub toolkits: Vec<PathBuf>,
    /// Whether the machine's own folders and Python's packages are looked at too.
    pub of_machine: bool,
}

impl ToolPlaces {
    /// Empty variables count as unset.
    pub fn of_environment() -> ToolPlaces {
        let value = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let named =
            ToolKind::ALL.iter().filter_map(|kind| Some((*kind, PathBuf::from(value(kind.variable()?)?))));
        let mut path: Vec<PathBuf> =
            value("PATH").map(|folders| env::split_paths(&folders).collect()).unwrap_or_default();
        let mut seen = HashSet::new();
        path.retain(|folder| seen.insert(folder.clone()));
        let toolkits = Toolbox::from_env().cuda_homes.into_iter().chain(usual_toolkits()).collect();
        ToolPlaces { named: named.collect(), path, toolkits, of_machine: true }
    }
}

/// `named` is what a flag says: the program, or the folder that holds it. `Missing` has all places that were looked
/// at.
pub fn find(kind: ToolKind, named: Option<&Path>, places: &ToolPlaces) -> Result<PathBuf, ToolFailure> {
    let variable = places.named.iter().find(|(own, _)| *own == kind).map(|(_, path)| path.as_path());
    if let Some(path) = named.or(variable) {
        let by =
            if named.is_some() { "the command line" } else { kind.variable().unwrap_or("the environment") };
        return named_program(kind, path, by);
    }
    let mut looked_at = Vec::new();
    let mut try_folder = |folder: PathBuf| {
        let program = folder.join(kind.as_str());
        let found = is_program(&program);
        looked_at.push(folder.display().to_string());
        found.then_some(program)
    };
    let row = kind.row();
    let toolkits = places.toolkits.iter().flat_map(|home| folders_below(home, row.toolkit_folders));
    let own = if places.of_machine { folders_below(Path::new("/"), row.own_folders) } else { Vec::new() };
    let early = places.path.iter().cloned().chain(toolkits).chain(own);
    if let Some(program) = early.into_iter().find_map(&mut try_folder) {
        return Ok(program);
    }
    // Last, because it starts a process and may wait for it.
    if places.of_machine && !row.package_folders.is_empty() {
        let folders = python_sites().into_iter().flat_map(|site| folders_below(&site, row.package_folders));
        if let Some(program) = folders.into_iter().find_map(&mut try_folder) {
            return Ok(program);
        }
    }
    let message = format!("`{}` is not found; looked in {}", kind.as_str(), listed(&looked_at));
    Err(ToolFailure::new(ToolState::Missing, message).with_hint(kind.install_hint()))
}

fn named_program(kind: ToolKind, path: &Path, by: &str) -> Result<PathBuf, ToolFailure> {
    let program = if path.is_dir() { path.join(kind.as_str()) } else { path.to_path_buf() };
    if is_program(&program) {
        return Ok(program);
    }
    let shown = program.display();
    let what = match program.is_file() {
        true => format!("`{shown}` may not be executed"),
        false => format!("`{shown}` is not a program"),
    };
    let message = format!("{what}, which {by} names as `{}`", kind.as_str());
    Err(ToolFailure::new(ToolState::Missing, message)
        .with_hint("name the program itself or the folder that holds it"))
}

pub fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// A `*` is one folder; those of a pattern come with the newest name first.
fn folders_below(root: &Path, patterns: &[&str]) -> Vec<PathBuf> {
    patterns.iter().flat_map(|pattern| matching(root, pattern)).collect()
}

fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let (first, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let here = match first.split_once('*') {
        None => vec![root.join(first)],
        Some((before, after)) => {
            let names = fs::read_dir(root).into_iter().flatten().flatten();
            let names = names.filter_map(|entry| entry.file_name().into_string().ok());
            let fits = |name: &String| {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            };
            let mut names: Vec<String> = names.filter(fits).collect();
            names.sort_unstable_by(|a, b| b.cmp(a));
            names.into_iter().map(|name| root.join(name)).collect()
        }
    };
    if rest.is_empty() { here } else { here.iter().flat_map(|folder| matching(folder, rest)).collect() }
}

fn listed(folders: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = folders.len().saturating_sub(SHOWN);
    let shown = quoted(folders.iter().take(SHOWN));
    match (folders.is_empty(), more) {
        (true, _) => "no folder".to_string(),
        (false, 0) => shown,
        (false, more) => format!("{shown} and {more} more folders"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder_of(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let (name, mode) = file.strip_suffix("+x").map_or((*file, 0o644), |name| (name, 0o755));
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        root
    }

    fn places(root: &Path, path: &[&str], toolkits: &[&str]) -> ToolPlaces {
        let below = |names: &[&str]| names.iter().map(|name| root.join(name)).collect();
        ToolPlaces { named: Vec::new(), path: below(path), toolkits: below(toolkits), of_machine: false }
    }

    #[test]
    fn the_path_comes_before_toolkits_and_newer_folders_before_older_ones() {
        let root = folder_of(&[
            "cuda/nsight-compute-2024.1/ncu+x",
            "cuda/nsight-compute-2025.3/ncu+x",
            "cuda/bin/compute-sanitizer+x",
            "path/compute-sanitizer+x",
            "plain/ncu",
        ]);
        let places = places(root.path(), &["none", "plain", "path"], &["cuda"]);
        let found = |kind| find(kind, None, &places).unwrap();
        assert_eq!(found(ToolKind::Ncu), root.path().join("cuda/nsight-compute-2025.3/ncu"));
        assert_eq!(found(ToolKind::ComputeSanitizer), root.path().join("path/compute-sanitizer"));
        let missing = find(ToolKind::Ninja, None, &places).unwrap_err();
        assert_eq!(missing.state, ToolState::Missing);
        assert!(missing.message.contains("/plain`") && missing.hint.is_some(), "{missing:?}");
    }

    #[test]
    fn what_is_named_is_taken_or_refused() {
        let root = folder_of(&["own/ncu+x", "path/ncu+x", "plain"]);
        let mut places = places(root.path(), &["path"], &[]);
        places.named.push((ToolKind::Ncu, root.path().join("gone")));
        let own = root.path().join("own");
        assert_eq!(find(ToolKind::Ncu, Some(&own), &places).unwrap(), own.join("ncu"));
        assert_eq!(find(ToolKind::Ncu, Some(&own.join("ncu")), &places).unwrap(), own.join("ncu"));
        let by_variable = find(ToolKind::Ncu, None, &places).unwrap_err().message;
        assert!(
            by_variable.contains("gone` is not a program, which EVO_NCU names as `ncu`"),
            "{by_variable}"
        );
        let plain = find(ToolKind::Ncu, Some(&root.path().join("plain")), &places).unwrap_err().message;
        assert!(plain.contains("may not be executed"), "{plain}");
    }
}
