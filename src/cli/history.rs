//! `evo history`, `evo summary` and `evo leaderboard`: what was tried on a kernel, and where it led; and `evo restore`,
//! which brings a candidate of that past back.

use std::path::{Path, PathBuf};

use clap::Args;
use evo_export::files::ExportFile;
use evo_protocol::device::DeviceKind;
use evo_protocol::known::Known;
use evo_protocol::leaderboard::Leaderboard;
use evo_space::diagnostic::nearest;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::text::quote;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::LeaderboardArgs;
use super::limits::{LimitArgs, OPENING};
use super::{Answer, Call, CliError, ExitCode, Result, candidate as cli_candidate, export, output, words};
use crate::engine::candidate::{self, CandidateKind, RestoreRequest, RestoredFiles, restored};
use crate::journal::iterations::{ITERATION, IterationCandidate};
use crate::journal::ladder::{Ladder, LadderStep, Rung, StepKind};
use crate::journal::ladder::{output_folder, sections_in};
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;
use crate::journal::{leaderboard, leaderboard_file};
use crate::kernel::catalog;
use crate::report::envelope::ResultAlone;
use crate::report::standing::beside_peers;
use crate::report::width::stdout_width;
use crate::report::{history, text};
use crate::study::{NamedEvaluation, StudySearch, newest_profile};

pub fn run(arguments: &HistoryArgs, call: &Call) -> Result<Answer> {
    let ladder = read(&arguments.out)?;
    let rungs = chosen(&ladder, arguments.kernel.as_deref(), arguments.device.as_deref())?;
    let out = output_folder(&arguments.out)?;
    let beside = |rung: &&Rung| beside_peers(out.as_ref()?, &rung.kernel, &rung.device);
    let ladders: Vec<_> = rungs.into_iter().map(|rung| (rung, beside(&rung))).collect();
    let result = history::history(&ladders, &ladder.notes);
    call.show(&result.text())?;
    ladder.notes.iter().for_each(|note| output::say(&format!("note: {note}")));
    Ok(Answer::of(ExitCode::Done, &ResultAlone { result }))
}

pub fn summary(arguments: &HistoryArgs, call: &Call) -> Result<Answer> {
    let ladder = read(&arguments.out)?;
    let rungs = chosen(&ladder, arguments.kernel.as_deref(), arguments.device.as_deref())?;
    let Some(rung) = newest(&rungs) else {
        let why = nothing_tried(&ladder);
        let text = format!("{why}: `{}` has no evaluation and no study", arguments.out.display());
        return Err(
            CliError::usage(text).with_hint("`evo sweep` and `evo evaluate` leave something to sum up")
        );
    };
    let others = ladder.rungs.iter().filter(|other| other.folder_name() != rung.folder_name());
    let others: Vec<&Rung> = others.collect();
    let result = history::summary(rung, &findings(&arguments.out, rung), &others, &ladder.notes);
    call.show(&result.text())?;
    Ok(Answer::of(ExitCode::Done, &ResultAlone { result }))
}

/// Shows the board, or computes it again from the journals.
pub fn leaderboard(arguments: &LeaderboardArgs, call: &Call) -> Result<Answer> {
    if arguments.rebuild {
        rebuild(&arguments.out)?;
    }
    let path = arguments.out.join("leaderboard.json");
    let out = output_folder(&arguments.out)?;
    let board = match out.map(|out| leaderboard_file::load(&out)).transpose()?.flatten() {
        Some(Ok(board)) => board,
        Some(Err(reason)) => {
            let error = CliError::bad_file(format!("`{}` cannot be read: {reason}", path.display()), &path);
            return Err(error.with_hint("`evo leaderboard --rebuild` computes it again from the journals"));
        }
        None => {
            let error = CliError::bad_file(format!("there is no leaderboard at `{}`", path.display()), &path);
            return Err(error.with_hint("`evo sweep` makes one; `--out` names another folder"));
        }
    };
    call.show(&text::board(&board, stdout_width()))?;
    Ok(Answer::of(ExitCode::Done, &board))
}

fn rebuild(out: &Path) -> Result<()> {
    let out = OwnFolder::open(out).map_err(|error| {
        CliError::bad_file(format!("cannot read the folder `{}`: {error}", out.display()), out)
            .with_hint("`--out` names the folder that `evo sweep` wrote to")
    })?;
    let mut board = Leaderboard::empty(now());
    let found = sections_in(&out)?;
    for note in &found.notes {
        eprintln!("note: {note}");
    }
    if found.studies == 0 {
        let text = format!("no study under `{}` has a journal", out.path().display());
        return Err(CliError::usage(text).with_hint("`--out` names another folder"));
    }
    // In the order in which the runs ended and wrote them: a champion falls only to a faster one, whatever
    // came before it, and the history is that of the runs.
    for (_, section) in found.sections {
        leaderboard::merge(&mut board, section);
    }
    if let Some(aside) = leaderboard_file::replace(&out, &board)?.put_aside {
        eprintln!("note: an unreadable leaderboard was put aside as `{}`", aside.display());
    }
    Ok(())
}

fn read(out: &Path) -> Result<Ladder> {
    if output_folder(out)?.is_none() {
        let error = CliError::bad_file(format!("there is no folder `{}`", out.display()), out);
        return Err(error.with_hint("`evo sweep` and `evo evaluate` make it; `--out` names another one"));
    }
    Ok(Ladder::read(out)?)
}

/// Why there is nothing: a journal may be damaged, or of an early build.
fn nothing_tried(ladder: &Ladder) -> String {
    ladder.notes.first().cloned().unwrap_or_else(|| "nothing was tried yet".to_string())
}

fn chosen<'a>(ladder: &'a Ladder, kernel: Option<&str>, device: Option<&str>) -> Result<Vec<&'a Rung>> {
    let kernels = ladder.kernels();
    // A space stands for its kernel, as in the commands that judge.
    let of_space = kernel
        .filter(|name| !kernels.contains(name))
        .and_then(|name| Some(catalog::open(name).ok()?.kernel?.name));
    let kernel = of_space.as_deref().or(kernel);
    if let Some(unknown) = kernel.filter(|name| !kernels.contains(name)) {
        let hint = match nearest(unknown, kernels.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if kernels.is_empty() => nothing_tried(ladder),
            None => format!("there are {}", kernels.join(", ")),
        };
        return Err(CliError::usage(format!("nothing was tried on a kernel `{unknown}`")).with_hint(hint));
    }
    let is_wanted = |own: &&Rung| {
        kernel.is_none_or(|name| own.kernel == name) && device.is_none_or(|kind| own.device_kind == kind)
    };
    Ok(ladder.rungs.iter().filter(is_wanted).collect())
}

fn newest<'a>(rungs: &[&'a Rung]) -> Option<&'a Rung> {
    rungs.iter().max_by(|a, b| a.last_at().cmp(b.last_at())).copied()
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

const CONFIG: &str = "config.json";
const SOURCE: &str = "kernel.cu";
const LAUNCH: &str = "launch.json";

/// A candidate of the past. Its time and its commit are in the history, where champions and evaluations of
/// `evo evaluate` are.
struct Past<'a> {
    /// `champion`, `evaluation` for one of `evo evaluate`, or `study` for another of a study.
    kind: &'static str,
    number: u64,
    shown: String,
    step: Option<&'a LadderStep>,
    /// As the record names it.
    space: String,
    candidate: IterationCandidate,
    /// What else has this number.
    namesake: Option<String>,
}

/// `evo restore` writes what is needed to judge a candidate of the past again. Git is never asked to change anything.
pub fn restore(arguments: &RestoreArgs, call: &Call) -> Result<Answer> {
    let (name, place) = split(&arguments.words)?;
    let ladder = read(&arguments.out)?;
    let kernels = ladder.kernels();
    let is_kernel = place.is_some_and(|word| kernels.contains(&word));
    let named = place.filter(|_| !is_kernel);
    let access = arguments.limits.access();
    let opened = named.map(|space| words::space(space, access)).transpose()?;
    let of_space = opened.as_ref().and_then(|file| file.kernel.as_ref()).map(|own| own.name.as_str());
    let kernel = of_space.or(place.filter(|_| is_kernel));
    if kernel.is_none() && kernels.len() > 1 {
        let text = format!("`{name}` of which kernel? There are {}", kernels.join(", "));
        return Err(CliError::usage(text).with_hint(format!("`evo restore {} {name} …`", kernels[0])));
    }
    let rungs = chosen(&ladder, kernel, arguments.device.as_deref())?;
    let rung = newest(&rungs).ok_or_else(|| {
        CliError::usage(format!("there is nothing to restore in `{}`", arguments.out.display()))
            .with_hint("`evo history` lists what there is")
    })?;
    let device = if rung.device_kind == "cuda" { DeviceKind::Cuda } else { DeviceKind::Host };
    let past = past(rung, name, device, &arguments.out)?;
    let file = match opened {
        Some(file) => file,
        None => words::space(&past.space, access).map_err(|error| {
            let hint = format!("name the space as it is today: `evo restore SPACE {name} --to FOLDER`");
            error.with_hint(hint)
        })?,
    };
    let at_commit = match past.step.and_then(|step| step.git_commit.as_ref()) {
        Some(commit) => format!("it was measured at commit {commit}"),
        None => "no commit was recorded".to_string(),
    };
    let request = RestoreRequest {
        configuration: &past.candidate.configuration,
        source: past.candidate.source.as_deref(),
        launch: past.candidate.launch.as_deref(),
        source_hash: past.candidate.source_hash.as_ref(),
        device,
    };
    let files = restored(&file, &request).map_err(|error| {
        CliError::usage(error).with_hint(format!("the space was edited since; {at_commit}"))
    })?;
    if files.source_changed && !arguments.force {
        let text = format!("the kernel was edited since {} was measured", past.shown);
        let hint = format!("{at_commit}, or take its configuration with today's source: `--force`");
        return Err(CliError::usage(text).with_hint(hint));
    }
    write(&arguments.to, &files, arguments.force)?;
    let space = named.unwrap_or(&past.space);
    answer(arguments, call, &past, &files, space)
}

fn split(words: &[String]) -> Result<(&str, Option<&str>)> {
    let names: Vec<&str> = words.iter().map(String::as_str).filter(|word| word.starts_with('@')).collect();
    let [name] = names[..] else {
        let text = "`evo restore` takes one name, such as `@champion`, `@best`, `@17` or `@iteration-3`";
        return Err(CliError::usage(text).with_hint("`evo history` lists what there is"));
    };
    Ok((name, words.iter().map(String::as_str).find(|word| *word != name)))
}

/// `@best` and `@iteration-3` are of `evo evaluate`; every other name means what it means everywhere.
fn past<'a>(rung: &'a Rung, name: &str, device: DeviceKind, out: &Path) -> Result<Past<'a>> {
    let Rung { kernel, device_kind, steps, iterations, section, .. } = rung;
    let of_evaluate =
        |number: u64| steps.iter().find(|step| step.kind == StepKind::Evaluation && step.number == number);
    let refused = |text: String| CliError::usage(text).with_hint("`evo history` lists what there is");
    let of_section = section.as_ref().map(|section| &section.study.space);
    let space = of_section.or(iterations.last().map(|line| &line.space)).cloned().unwrap_or_default();
    let step = match name.strip_prefix(ITERATION).map(str::parse::<u64>) {
        Some(Ok(number)) => of_evaluate(number).ok_or_else(|| {
            refused(format!("`{kernel}` has no evaluation {number} of `evo evaluate` on {device_kind}"))
        })?,
        _ if name == "@best" => rung.best().ok_or_else(|| {
            refused(format!("`{kernel}` has no best yet: nothing was accepted or confirmed"))
        })?,
        _ => {
            let search = StudySearch { out, study: None, kernel, device: Some(device) };
            let number = name[1..].parse().ok().filter(|number| of_evaluate(*number).is_some());
            let namesake = number
                .map(|number| format!("evaluation {number} of `evo evaluate` is `{ITERATION}{number}`"));
            let found = candidate::named(&search, name);
            let (found, kind) =
                found.map_err(|error| cli_candidate::error(error).with_hint_of(namesake.clone()))?;
            let NamedEvaluation { study, number, configuration, source_hash, .. } = found;
            let step = steps.iter().find(|step| {
                step.kind == StepKind::Champion
                    && step.number == number
                    && step.study.as_ref() == Some(&study)
            });
            let (kind, shown) = match kind {
                CandidateKind::Champion | CandidateKind::Previous => {
                    ("champion", format!("champion {number}"))
                }
                _ => ("study", format!("evaluation {number} of study `{study}`")),
            };
            // A champion of before is a line of the board's history, whose hash its step has.
            let source_hash = source_hash.or_else(|| step.and_then(|step| step.source_hash.clone()));
            let candidate =
                IterationCandidate { configuration, source_hash, ..IterationCandidate::default() };
            return Ok(Past { kind, number, shown, step, space, candidate, namesake });
        }
    };
    let (kind, number) = (step.kind.as_str(), step.number);
    let is_evaluation = step.kind == StepKind::Evaluation;
    let iteration = iterations.iter().find(|line| is_evaluation && line.number == number);
    let of_step = || IterationCandidate {
        configuration: step.configuration.clone(),
        source_hash: step.source_hash.clone(),
        ..IterationCandidate::default()
    };
    Ok(Past {
        kind,
        number,
        shown: format!("{kind} {number}"),
        step: Some(step),
        space: iteration.map_or(space, |line| line.space.clone()),
        candidate: iteration.map_or_else(of_step, |line| line.candidate.clone()),
        namesake: None,
    })
}

/// Writes the files into a folder, which is made. Names that are there are replaced where `force` allows it, and never
/// followed.
fn write(to: &Path, files: &RestoredFiles, force: bool) -> Result<()> {
    export::check(to, force)?;
    let texts = [(CONFIG, &files.configuration), (SOURCE, &files.source), (LAUNCH, &files.launch)];
    export::write(to, &texts.map(|(name, text)| ExportFile::of(name, text.as_bytes(), "")))
}

fn answer(
    arguments: &RestoreArgs,
    call: &Call,
    past: &Past<'_>,
    files: &RestoredFiles,
    space: &str,
) -> Result<Answer> {
    let quoted = |name: &str| quote(&arguments.to.join(name).display().to_string()).into_owned();
    let mut again = format!("evo evaluate {} --config {}", quote(space), quoted(CONFIG));
    if past.candidate.source.is_some() {
        again += &format!(" --source {}", quoted(SOURCE));
        again += &if files.has_launch { format!(" --launch {}", quoted(LAUNCH)) } else { String::new() };
    }
    if arguments.out != Path::new("evidence") {
        again += &format!(" --out {}", quote(&arguments.out.display().to_string()));
    }
    let mut notes = files.notes.clone();
    notes.extend(past.namesake.clone());
    if files.source_changed {
        notes.push("the kernel was edited since: this is its configuration with today's source".into());
    }
    let result = Restored {
        number: past.number,
        kind: past.kind,
        at: Known::of(past.step.map(|step| step.at.as_str()), "no time was recorded"),
        folder: arguments.to.display().to_string(),
        files: [CONFIG, SOURCE, LAUNCH],
        configuration: &past.candidate.configuration,
        source_hash: Known::of(files.source_hash.as_ref(), "the record has none"),
        source_changed: files.source_changed,
        again: &again,
        notes: &notes,
    };
    let answer = Answer::of(ExitCode::Done, &ResultAlone { result });
    notes.iter().for_each(|note| output::say(&format!("note: {note}")));
    let at = past.step.map_or(String::new(), |step| format!(" of {}", step.at));
    let folder = arguments.to.display();
    call.show(&format!("{}{at} is in {folder}\nagain: {again}\n", past.shown))?;
    Ok(answer)
}

/// The `result` of `evo restore`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Restored<'a> {
    number: u64,
    kind: &'a str,
    at: Known<&'a str>,
    folder: String,
    files: [&'static str; 3],
    configuration: &'a Configuration,
    source_hash: Known<&'a ContentHash>,
    source_changed: bool,
    again: &'a str,
    notes: &'a [String],
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

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(debug_assertions)]
    use crate::journal::disk::faults;

    #[cfg(debug_assertions)]
    #[test]
    fn a_full_disk_leaves_no_folder_that_was_not_there() {
        let root = tempfile::tempdir().unwrap();
        let to = root.path().join("outer/inner");
        let files = RestoredFiles {
            configuration: "{}".into(),
            source: "int x;".into(),
            launch: "{}".into(),
            ..RestoredFiles::default()
        };
        faults::begin(1, 1.0);
        let failed = write(&to, &files, false);
        assert!(!faults::end().is_empty());
        assert!(failed.is_err() && !root.path().join("outer").exists(), "{failed:?}");
        // A folder that was there stays.
        std::fs::create_dir(root.path().join("outer")).unwrap();
        faults::begin(1, 1.0);
        let failed = write(&to, &files, false);
        faults::end();
        assert!(failed.is_err() && root.path().join("outer").is_dir() && !to.exists(), "{failed:?}");
        write(&to, &files, false).unwrap();
        assert!(to.join(CONFIG).is_file());
    }
}
