//! `evo import FORMAT PATH`: a tuning problem in another tool's form as a space file beside it, or a benchmark's tasks as
//! folders of their own. A definition is only read; a Python file is run, by a child that is killed when it takes too long.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use evo_kernel::foreign::ForeignError;
use evo_kernel::t1;
use evo_protocol::envelope::ErrorCode;

use super::init::{self, ImportArgs, ImportFormat, WrittenSpace, folder_of};
use super::{Answer, Call, CliError, Result, peers};
use crate::journal::own_folder::OwnFolder;
use crate::peer::{last_words, shown};
use crate::process::{self, RunLimits};
use crate::task::{self, BenchmarkTask, PROBE, TaskForm};

/// Most files of one import, and how deep folders are looked at.
const FILES_MAX: usize = 1000;
const DEPTH_MAX: usize = 4;

fn refused(path: &Path, error: &ForeignError) -> CliError {
    CliError::bad_file(format!("`{}`: {error}", path.display()), path).with_hint(error.hint.clone())
}

fn of_t1(arguments: &ImportArgs, call: &Call) -> Result<Answer> {
    if !arguments.task.is_empty() || !arguments.workload.is_empty() {
        return Err(CliError::usage("a T1 file has neither tasks nor workloads")
            .with_hint("leave `--task` and `--workload` out"));
    }
    let text = init::read(&arguments.file)?;
    let to = init::target(arguments.target.to.as_ref(), &arguments.file)?;
    if folder_of(&to) != folder_of(&arguments.file) {
        let text = format!("`{}` is in another folder than `{}`", to.display(), arguments.file.display());
        return Err(CliError::usage(text).with_hint(
            "the file names its sources from its own folder, so the space file stands there too",
        ));
    }
    let drawn = t1::space_of(&text, &init::name_of(&arguments.file))
        .map_err(|error| refused(&arguments.file, &error))?;
    init::write_beside(&to, drawn, arguments.target.force, call)
}

/// Writes what is imported, all of it, or nothing where one is in the way: 0 when what is written opens, 1 when it needs
/// a hand first.
pub fn run(arguments: &ImportArgs, call: &Call) -> Result<Answer> {
    let form = match arguments.format {
        ImportFormat::T1 => return of_t1(arguments, call),
        ImportFormat::Flashinfer => TaskForm::FlashInfer,
        ImportFormat::Sol => TaskForm::Sol,
        ImportFormat::Kernelbench => TaskForm::KernelBench,
    };
    if arguments.target.force {
        return Err(CliError::usage(
            "`--force` replaces files, and a task is written to a folder of its own",
        )
        .with_hint("name a folder that is not there with `--to`"));
    }
    let paths = chosen(form, arguments)?;
    let read = |path: &PathBuf| match form {
        TaskForm::KernelBench => of_python(path, arguments),
        TaskForm::FlashInfer | TaskForm::Sol => of_definition(form, path, arguments),
    };
    let tasks: Vec<BenchmarkTask> = paths.iter().map(read).collect::<Result<_>>()?;
    let folders = folders(&tasks, &arguments.file, arguments.target.to.as_deref())?;
    let mut written = Vec::new();
    for (at, (task, to)) in tasks.iter().zip(&folders).enumerate() {
        let drawn = task::folder(task);
        let folder = OwnFolder::create(to).map_err(|error| init::unwritable(to, &error));
        match folder.and_then(|folder| init::write(&folder, "space.toml", &drawn, false)) {
            Ok(files) => {
                let space = to.join("space.toml").display().to_string();
                written.push(WrittenSpace { space, files, drawn });
            }
            Err(error) => {
                // They were made just now, so nothing in them is anybody else's.
                folders[..=at].iter().for_each(|folder| drop(std::fs::remove_dir_all(folder)));
                return Err(error);
            }
        }
    }
    init::answer(call, &written, "next: write the kernel, then", &["test-one"])
}

fn folders(tasks: &[BenchmarkTask], from: &Path, to: Option<&Path>) -> Result<Vec<PathBuf>> {
    let folders: Vec<PathBuf> = match (tasks, to) {
        ([_], Some(to)) => vec![to.components().collect()],
        _ => tasks.iter().map(|task| to.unwrap_or(Path::new("")).join(&task.name)).collect(),
    };
    for (at, folder) in folders.iter().enumerate() {
        if folder.as_os_str().is_empty() {
            return Err(CliError::usage("`--to` names no folder"));
        }
        if folders[..at].contains(folder) {
            let text = format!("`{}` has two tasks `{}`", from.display(), tasks[at].name);
            return Err(CliError::bad_file(text, from).with_hint("import one of them by its own file"));
        }
        if std::fs::symlink_metadata(folder).is_ok() {
            let text = format!("`{}` is there", folder.display());
            return Err(CliError::bad_file(text, folder)
                .with_hint("a task is written to a folder of its own: name another one with `--to`"));
        }
    }
    Ok(folders)
}

fn chosen(form: TaskForm, arguments: &ImportArgs) -> Result<Vec<PathBuf>> {
    let path = &arguments.file;
    let mut found = match path.is_dir() {
        true => below(form, path),
        false => vec![path.clone()],
    };
    if found.is_empty() {
        let wanted = match form {
            TaskForm::FlashInfer => "`definitions/` with one JSON file a task",
            TaskForm::Sol => "`definition.json` and `workload.jsonl`",
            TaskForm::KernelBench => "Python files with a class `Model`",
        };
        let text = format!("`{}` has no task of {}", path.display(), form.name());
        return Err(CliError::bad_file(text, path).with_hint(format!("a folder has {wanted}")));
    }
    if arguments.task.is_empty() {
        return Ok(found);
    }
    let names: Vec<String> = found.iter().map(|path| called(path)).collect();
    if let Some(unknown) = arguments.task.iter().find(|name| !names.contains(name)) {
        let text = format!("`{}` has no task `{unknown}`", path.display());
        let first = names.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(CliError::bad_file(text, path).with_hint(format!("there are {first}")));
    }
    found.retain(|path| arguments.task.contains(&called(path)));
    Ok(found)
}

/// A task's name by its file: that of the folder where the file is called `definition.json`.
fn called(path: &Path) -> String {
    let name = match path.file_name() == Some(OsStr::new("definition.json")) {
        true => path.parent().and_then(Path::file_name),
        false => path.file_stem(),
    };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

fn below(form: TaskForm, folder: &Path) -> Vec<PathBuf> {
    let is_task = |path: &Path, name: &str| match form {
        TaskForm::KernelBench => name.ends_with(".py") && has_model(path),
        TaskForm::Sol => name == "definition.json",
        TaskForm::FlashInfer => name.ends_with(".json"),
    };
    let definition = folder.join("definition.json");
    if form != TaskForm::KernelBench && definition.is_file() {
        return vec![definition];
    }
    let definitions = folder.join("definitions");
    let start =
        if form == TaskForm::FlashInfer && definitions.is_dir() { definitions } else { folder.to_path_buf() };
    let mut found = Vec::new();
    walk(&start, DEPTH_MAX, &is_task, &mut found);
    found
}

fn walk(folder: &Path, depth: usize, is_task: &dyn Fn(&Path, &str) -> bool, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || found.len() >= FILES_MAX {
            continue;
        }
        if path.is_dir() && depth > 0 {
            walk(&path, depth - 1, is_task, found);
        } else if is_task(&path, &name) {
            found.push(path);
        }
    }
}

/// Whether a Python file looks like a task: others in the folder, such as helpers, are not run.
fn has_model(path: &Path) -> bool {
    let text = init::read(path).unwrap_or_default();
    text.lines().any(|line| line.starts_with("class Model(") || line.starts_with("class Model:"))
}

fn of_definition(form: TaskForm, path: &Path, arguments: &ImportArgs) -> Result<BenchmarkTask> {
    let text = init::read(path)?;
    let beside = path.with_file_name("reference.py");
    let beside = if beside.is_file() { Some(init::read(&beside)?) } else { None };
    let read = task::definition(&text, form, beside.as_deref()).map_err(|error| refused(path, &error))?;
    let places = places_of_workloads(path);
    let Some(lines) = places.iter().find(|place| place.is_file()) else {
        let text = format!("`{}` has no workloads", path.display());
        let names: Vec<String> = places.iter().map(|place| format!("`{}`", place.display())).collect();
        let hint = format!("a task needs sizes to be judged at; looked for {}", names.join(", "));
        return Err(CliError::bad_file(text, path).with_hint(hint));
    };
    task::workloads(read, &init::read(lines)?, &arguments.workload).map_err(|error| refused(lines, &error))
}

/// Where the workloads of a definition may be: beside it, or under `workloads/` as it is under `definitions/`.
fn places_of_workloads(path: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> =
        ["workload.jsonl", "workloads.jsonl"].iter().map(|name| path.with_file_name(name)).collect();
    places.push(path.with_extension("jsonl"));
    let definitions = path.ancestors().find(|own| own.file_name() == Some(OsStr::new("definitions")));
    let below = definitions.and_then(|own| Some((own, path.strip_prefix(own).ok()?)));
    let swapped = below.map(|(own, below)| own.with_file_name("workloads").join(below));
    places.extend(swapped.map(|place| place.with_extension("jsonl")));
    places
}

fn of_python(path: &Path, arguments: &ImportArgs) -> Result<BenchmarkTask> {
    if !arguments.workload.is_empty() {
        return Err(CliError::usage("a task of KernelBench has one set of inputs and no workloads")
            .with_hint("leave `--workload` out"));
    }
    let program = init::read(path)?;
    let python = peers::python().map_err(|failure| {
        let text = format!("`{}` is a Python file: {}", path.display(), failure.message);
        let hint = failure.hint.unwrap_or_else(|| "install Python, or set EVO_PYTHON".to_string());
        CliError::usage(text).with_code(ErrorCode::ToolMissing).with_hint(hint)
    })?;
    let answer = probed(&python, path, arguments.limits.python)?;
    let json: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
    if let Some(why) = json["missing"].as_str() {
        let text = format!(
            "`{}` needs PyTorch, which `{}` does not have: {}",
            path.display(),
            python.display(),
            shown(why)
        );
        let hint = "install the package `torch` for it, or name another Python with EVO_PYTHON";
        return Err(CliError::usage(text).with_code(ErrorCode::ToolMissing).with_hint(hint));
    }
    task::module(&answer, &program).map_err(|error| refused(path, &error))
}

fn probed(python: &Path, path: &Path, limit: Duration) -> Result<String> {
    let refused = |text: String, hint: &str| {
        CliError::bad_file(format!("`{}`: {text}", path.display()), path).with_hint(hint)
    };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut command = Command::new(python);
    // No files of Python's own beside the task.
    command
        .args(["-B", "-c", PROBE])
        .arg(&absolute)
        .arg(init::name_of(path))
        .current_dir(folder_of(&absolute));
    let ended = process::run(command, &RunLimits::new(limit)).map_err(|error| {
        CliError::usage(format!("`{}` does not start: {error}", python.display()))
            .with_code(ErrorCode::ToolMissing)
            .with_hint("install Python, or set EVO_PYTHON")
    })?;
    let words = ended.stderr.text();
    if ended.timed_out {
        let text = format!("it did not say within {} s what it computes", limit.as_secs_f64());
        return Err(refused(last_words(text, &words), "allow more with `--limit python=TIME`"));
    }
    if !ended.succeeded() {
        let text = last_words("its Python process failed".to_string(), &words);
        return Err(refused(text, "run the file with this Python to see why"));
    }
    Ok(ended.stdout.text())
}
