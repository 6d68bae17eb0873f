//! The files of a task.

use evo_kernel::sketch::SketchGuess;

use super::model::BenchmarkTask;
use super::{script, skeleton, space};
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    /// Its name in the task's folder.
    pub name: String,
    pub text: String,
}

/// The files: the space file first.
pub fn files(task: &BenchmarkTask) -> Vec<TaskFile> {
    let file = |name: &str, text: String| TaskFile { name: name.to_string(), text };
    vec![
        file("space.toml", space::text(task)),
        file("kernel.cu", skeleton::source(task)),
        file("reference.py", script::reference(task)),
        file("task.py", task.program.clone()),
    ]
}

/// What to look at before a number counts; the entry point's name first.
pub fn guesses(task: &BenchmarkTask) -> (String, Vec<SketchGuess>) {
    (skeleton::entry(task), space::guesses(task))
}
