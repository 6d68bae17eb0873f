//! `evo history` and `evo summary`: what was tried on a kernel, and where it led. Both only read.

use std::path::{Path, PathBuf};

use clap::Args;
use evo_space::diagnostic::nearest;

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::limits::{LimitArgs, OPENING};
use super::output;
use crate::journal::champions::output_folder;
use crate::journal::ladder::{Ladder, Rung};
use crate::kernel::catalog;
use crate::report::envelope::ResultAlone;
use crate::report::history;
use crate::report::standing::beside_peers;
use crate::study::newest_profile;

pub fn run(arguments: &HistoryArgs, call: &Call) -> Result<Answer, CliError> {
    let ladder = read(&arguments.out)?;
    let rungs = chosen(&ladder, arguments.kernel.as_deref(), arguments.device.as_deref())?;
    let out = output_folder(&arguments.out)?;
    let beside = |rung: &&Rung| beside_peers(out.as_ref()?, &rung.kernel, &rung.device);
    let ladders: Vec<_> = rungs.into_iter().map(|rung| (rung, beside(&rung))).collect();
    let result = history::history(&ladders, &ladder.notes);
    if !call.is_json() {
        output::stdout(&history::history_text(&ladders))?;
    }
    say_notes(&ladder);
    Ok(Answer::of(ExitCode::Done, &ResultAlone { result }))
}

pub fn summary(arguments: &HistoryArgs, call: &Call) -> Result<Answer, CliError> {
    let ladder = read(&arguments.out)?;
    let rungs = chosen(&ladder, arguments.kernel.as_deref(), arguments.device.as_deref())?;
    let Some(rung) = rungs.iter().max_by(|a, b| a.last_at().cmp(b.last_at())).copied() else {
        let text =
            format!("nothing was tried yet: `{}` has no evaluation and no study", arguments.out.display());
        return Err(
            CliError::usage(text).with_hint("`evo sweep` and `evo evaluate` leave something to sum up")
        );
    };
    let others = ladder.rungs.iter().filter(|other| other.folder_name() != rung.folder_name());
    let others: Vec<&Rung> = others.collect();
    let result = history::summary(rung, &findings(&arguments.out, rung), &others, &ladder.notes);
    if !call.is_json() {
        output::stdout(&result.text())?;
    }
    Ok(Answer::of(ExitCode::Done, &ResultAlone { result }))
}

/// Everything below the output folder, which there must be.
pub fn read(out: &Path) -> Result<Ladder, CliError> {
    if output_folder(out)?.is_none() {
        let error = CliError::bad_file(format!("there is no folder `{}`", out.display()), out);
        return Err(error.with_hint("`evo sweep` and `evo evaluate` make it; `--out` names another one"));
    }
    Ok(Ladder::read(out)?)
}

/// The ladders of a kernel and a kind of device, or of all.
pub fn chosen<'a>(
    ladder: &'a Ladder,
    kernel: Option<&str>,
    device: Option<&str>,
) -> Result<Vec<&'a Rung>, CliError> {
    let kernels = ladder.kernels();
    // A space stands for its kernel, as in the commands that judge.
    let of_space = kernel.filter(|name| !kernels.contains(name)).and_then(kernel_of_space);
    let kernel = of_space.as_deref().or(kernel);
    if let Some(unknown) = kernel.filter(|name| !kernels.contains(name)) {
        let hint = match nearest(unknown, kernels.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if kernels.is_empty() => "nothing was tried yet".to_string(),
            None => format!("there are {}", kernels.join(", ")),
        };
        return Err(CliError::usage(format!("nothing was tried on a kernel `{unknown}`")).with_hint(hint));
    }
    let is_wanted = |own: &&Rung| {
        kernel.is_none_or(|name| own.kernel == name) && device.is_none_or(|kind| own.device_kind == kind)
    };
    Ok(ladder.rungs.iter().filter(is_wanted).collect())
}

/// The kernel of a space that can be opened.
fn kernel_of_space(word: &str) -> Option<String> {
    let file = catalog::open(word).ok()?;
    Some(file.kernel?.name)
}

pub fn say_notes(ladder: &Ladder) {
    for note in &ladder.notes {
        output::say(&format!("note: {note}"));
    }
}

/// What the newest profile of the kernel found, a line each.
fn findings(out: &Path, rung: &Rung) -> Vec<String> {
    let Ok(Some(out)) = output_folder(out) else { return Vec::new() };
    let study = rung.section.as_ref().map(|own| own.study.name.clone());
    let folders = [Some(rung.folder_name()), study].into_iter().flatten();
    let object = folders.filter_map(|name| newest_profile(&out.folder(&name).ok()?)).next();
    let object = object.unwrap_or_default();
    let found = object["result"]["findings"].as_array().into_iter().flatten();
    found
        .map(|one| {
            let word = |name: &str| one[name].as_str().unwrap_or_default().to_string();
            format!("{} {}; {}", word("metric"), one["value"], word("next"))
        })
        .collect()
}

/// `evo history`, `evo summary`
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Only this kernel
    pub kernel: Option<String>,
    /// The folder of the leaderboard, the studies and the evaluations
    #[arg(long, value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Only this kind of device: `host` or `cuda` [default: all; `summary`: the one that was used last]
    #[arg(long, value_name = "KIND", value_parser = ["host", "cuda"])]
    pub device: Option<String>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// [SPACE|KERNEL] and @champion, @previous, @NUMBER or @HASH as everywhere, or @best or @iteration-NUMBER of `evo evaluate`
    #[arg(value_name = "SPACE|KERNEL|@NAME", required = true, num_args = 1..=2)]
    pub words: Vec<String>,
    /// Write config.json, kernel.cu and launch.json to this folder, which is made
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
    /// Replace files of these names, and restore although the kernel was edited since
    #[arg(long)]
    pub force: bool,
    /// The folder of the leaderboard, the studies and the evaluations
    #[arg(long, value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Only this kind of device: `host` or `cuda` [default: the one that was used last]
    #[arg(long, value_name = "KIND", value_parser = ["host", "cuda"])]
    pub device: Option<String>,
    #[command(flatten)]
    pub limits: LimitArgs<OPENING>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
