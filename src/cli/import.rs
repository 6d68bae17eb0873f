//! `evo import FORMAT PATH`: a tuning problem in another tool's form as a space file beside it, or a benchmark's tasks as
//! folders of their own.

use evo_kernel::t1;

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::import_task;
use super::init::{self, folder_of};
use super::init::{ImportArgs, ImportFormat};
use crate::task::TaskForm;

/// Runs the command: 0 when the file is written and opens, 1 when it is written and needs a hand first.
pub fn run(arguments: &ImportArgs, call: &Call) -> Result<Answer, CliError> {
    match arguments.format {
        ImportFormat::T1 => of_t1(arguments, call),
        ImportFormat::Flashinfer => import_task::run(TaskForm::FlashInfer, arguments, call),
        ImportFormat::Sol => import_task::run(TaskForm::Sol, arguments, call),
        ImportFormat::Kernelbench => import_task::run(TaskForm::KernelBench, arguments, call),
    }
}

fn of_t1(arguments: &ImportArgs, call: &Call) -> Result<Answer, CliError> {
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
    let drawn = t1::space_of(&text, &init::name_of(&arguments.file)).map_err(|error| {
        let text = format!("`{}`: {error}", arguments.file.display());
        CliError::bad_file(text, &arguments.file).with_hint(error.hint.clone())
    })?;
    let files = init::write(&to, &drawn, arguments.target.force)?;
    init::answer(call, &to, &drawn, &files)
}
