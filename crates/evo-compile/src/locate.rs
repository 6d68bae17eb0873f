//! Finding NVRTC and the CUDA headers: the folder that the user names, a toolkit, the usual folders, the loader, pip.
//! An explicit `$EVO_NVRTC_DIR` that holds no NVRTC is an error: quietly using another compiler would be worse.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::CompileSetupError;
use super::toolbox::Toolbox;
use evo_system::process::{self, RunLimits};

const PYTHON_DEADLINE: Duration = Duration::from_secs(5);

const LIBRARY_FOLDERS: &[&str] = &[
    "",
    "lib64",
    "lib",
    "targets/x86_64-linux/lib",
    "targets/sbsa-linux/lib",
    "nvidia/cu13/lib",
    "nvidia/cuda_nvrtc/lib",
];

const INCLUDE_FOLDERS: &[&str] =
    &["../include", "../../include", "../../cuda_runtime/include", "../../../include"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvrtcLibrary {
    pub path: PathBuf,
    /// Its companion, loaded first because the loader would not find it.
    pub builtins: Option<PathBuf>,
    pub includes: Vec<PathBuf>,
}

pub fn locate(toolbox: &Toolbox) -> Result<NvrtcLibrary, CompileSetupError> {
    let mut looked_at = Vec::new();
    let Some(path) = find_library(toolbox, &mut looked_at) else {
        return Err(CompileSetupError::NoNvrtc { looked_at });
    };
    let builtins = path.parent().and_then(|folder| newest(folder, "libnvrtc-builtins.so"));
    let includes = find_includes(&path, toolbox);
    Ok(NvrtcLibrary { path, builtins, includes })
}

fn find_library(toolbox: &Toolbox, looked_at: &mut Vec<String>) -> Option<PathBuf> {
    if let Some(folder) = &toolbox.nvrtc_dir {
        looked_at.push(format!("{} ($EVO_NVRTC_DIR, and its usual subfolders)", folder.display()));
        return below(folder);
    }
    let homes = toolbox.cuda_homes.iter().map(|home| (home.clone(), " ($CUDA_HOME or $CUDA_PATH)"));
    for (folder, origin) in homes.chain(usual_toolkits().into_iter().map(|folder| (folder, ""))) {
        looked_at.push(format!("{}{origin}", folder.display()));
        if let Some(path) = below(&folder) {
            return Some(path);
        }
    }
    looked_at.push("the dynamic loader: libnvrtc.so.13, libnvrtc.so.12, libnvrtc.so".to_string());
    if let Some(path) = ask_loader() {
        return Some(path);
    }
    // Last, because it starts a process and may wait for it.
    let sites = python_sites();
    match sites.is_empty() {
        true => looked_at.push("python3's packages (python3 gave no answer)".to_string()),
        false => looked_at.extend(sites.iter().map(|site| format!("{}/nvidia", site.display()))),
    }
    sites.iter().find_map(|site| below(site))
}

fn below(folder: &Path) -> Option<PathBuf> {
    LIBRARY_FOLDERS.iter().find_map(|relative| newest(&folder.join(relative), "libnvrtc.so"))
}

fn newest(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let names = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let versioned = names.filter_map(|name| Some((version_after(name.strip_prefix(prefix)?)?, name)));
    let (_, name) = versioned.max()?;
    let path = folder.join(name);
    // The real file and not a link: its name has the full version and enters the cache key.
    Some(path.canonicalize().unwrap_or(path))
}

/// `.13.0` gives `[13, 0]`, the empty text gives `[]`, anything else is not a version.
fn version_after(suffix: &str) -> Option<Vec<u32>> {
    if suffix.is_empty() {
        return Some(Vec::new());
    }
    suffix.strip_prefix('.')?.split('.').map(|part| part.parse().ok()).collect()
}

/// `/usr/local/cuda`, then `/usr/local/cuda-*` with the newest first, then `/opt/cuda`.
pub fn usual_toolkits() -> Vec<PathBuf> {
    let version = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some((version_after(&format!(".{}", name.strip_prefix("cuda-")?))?, entry.path()))
    };
    let entries = fs::read_dir("/usr/local").into_iter().flatten().flatten();
    let mut versioned: Vec<(Vec<u32>, PathBuf)> = entries.filter_map(version).collect();
    versioned.sort();
    let newest_first = versioned.into_iter().rev().map(|(_, path)| path);
    let [first, last] = ["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from);
    [first].into_iter().chain(newest_first).chain([last]).collect()
}

fn ask_loader() -> Option<PathBuf> {
    ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].into_iter().find_map(|name| {
        // SAFETY: loading NVRTC runs its initializers, which have no preconditions; nothing of it is
        // called before it is unloaded again.
        let library = unsafe { libloading::Library::new(name) }.ok()?;
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        drop(library);
        maps.lines().find_map(|line| {
            let path = line.get(line.find('/')?..)?;
            path.contains("libnvrtc.so").then(|| PathBuf::from(path))
        })
    })
}

pub fn python_sites() -> Vec<PathBuf> {
    let script = "import site,sysconfig\n\
        paths=[sysconfig.get_path('purelib'),sysconfig.get_path('platlib')]\n\
        paths+=getattr(site,'getsitepackages',lambda:[])()+[site.getusersitepackages()]\n\
        print('\\n'.join(dict.fromkeys(p for p in paths if p)))";
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    let text = answer_within(command, PYTHON_DEADLINE).ok().flatten().unwrap_or_default();
    text.lines().map(PathBuf::from).filter(|path| path.is_dir()).collect()
}

/// Nothing if the helper fails or is too slow; the error is that it does not start.
pub(crate) fn answer_within(command: Command, deadline: Duration) -> io::Result<Option<String>> {
    // A helper has nothing to put in order, and whoever waits for it wants to go on.
    // A compiler's cache may start its server for this, which is to serve those that come after.
    let limits = RunLimits { grace: Duration::ZERO, ends_strays: false, ..RunLimits::new(deadline) };
    let ended = process::run(command, &limits)?;
    Ok(ended.succeeded().then(|| ended.stdout.text()))
}

fn find_includes(library: &Path, toolbox: &Toolbox) -> Vec<PathBuf> {
    let beside = INCLUDE_FOLDERS.iter().filter_map(|relative| Some(library.parent()?.join(relative)));
    let homes = toolbox.cuda_homes.iter().map(|home| home.join("include"));
    let candidates = toolbox.cuda_include.iter().cloned().chain(beside).chain(homes);
    let usual = ["/usr/local/cuda/include", "/usr/include"].into_iter().map(PathBuf::from);
    let holds_headers = |folder: &PathBuf| folder.join("cuda_fp16.h").is_file();
    let Some(include) = candidates.chain(usual).find(holds_headers) else { return Vec::new() };
    let include = include.canonicalize().unwrap_or(include);
    let cccl = [include.join("cccl"), include.join("../../cuda_cccl/include")];
    // Its files name each other in quotes, which NVRTC looks for in named folders alone.
    let inner = ["cooperative_groups", "cooperative_groups/details", "crt"].map(|own| include.join(own));
    let mut includes = vec![include];
    includes.extend(cccl.into_iter().chain(inner).filter(|folder| folder.is_dir()));
    includes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder_of;

    fn made(files: &str) -> (tempfile::TempDir, PathBuf) {
        let root = folder_of(&files.split(' ').map(|name| (name, "")).collect::<Vec<_>>());
        let base = root.path().canonicalize().unwrap();
        (root, base)
    }

    fn check(files: &str, expected: Option<&str>) {
        let (_root, base) = made(files);
        let found = below(&base).map(|path| path.strip_prefix(&base).unwrap().display().to_string());
        assert_eq!(found.as_deref(), expected, "{files:?}");
    }

    #[test]
    fn the_newest_library_of_a_toolkit_or_a_pip_folder_is_found() {
        check("lib64/libnvrtc.so.12 lib64/libnvrtc.so.13", Some("lib64/libnvrtc.so.13"));
        check("libnvrtc.so.9.2 libnvrtc.so.12.8.93", Some("libnvrtc.so.12.8.93"));
        check("nvidia/cu13/lib/libnvrtc.so.13", Some("nvidia/cu13/lib/libnvrtc.so.13"));
        check("lib/libnvrtc.alt.so.13 lib/libnvrtc-builtins.so.13.0", None);
    }

    #[test]
    fn an_explicit_folder_without_nvrtc_is_an_error_that_names_it() {
        let root = tempfile::tempdir().unwrap();
        let toolbox = Toolbox { nvrtc_dir: Some(root.path().to_path_buf()), ..Toolbox::default() };
        let message = locate(&toolbox).unwrap_err().with_hint();
        let expected = format!(
            "no NVRTC library found; looked at:\n  {} ($EVO_NVRTC_DIR, and its usual subfolders)\nhint: pip install",
            root.path().display()
        );
        assert!(message.starts_with(&expected), "{message}");
    }

    #[test]
    fn headers_beside_the_library_are_found() {
        let beside = "lib/libnvrtc.so.13 lib/libnvrtc-builtins.so.13.0 include/cuda_fp16.h include/cccl/x";
        let (_root, base) = made(beside);
        let toolbox = Toolbox { nvrtc_dir: Some(base.clone()), ..Toolbox::default() };
        let library = locate(&toolbox).unwrap();
        assert_eq!(library.includes, [base.join("include"), base.join("include/cccl")]);
        assert_eq!(library.builtins, Some(base.join("lib/libnvrtc-builtins.so.13.0")));
    }

    #[test]
    fn a_slow_helper_is_given_up() {
        let mut command = Command::new("sleep");
        command.arg("30");
        assert_eq!(answer_within(command, Duration::from_millis(50)).unwrap(), None);
    }
}
