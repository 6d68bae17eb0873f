//! `evo restore`: writes what is needed to judge a candidate of the past again. Git is never asked to change anything.

use std::path::{Path, PathBuf};

use evo_export::files::ExportFile;
use evo_protocol::device::DeviceKind;
use evo_protocol::known::Known;
use evo_protocol::schema::{ConfigurationObject, HashText};
use evo_space::genome::{Configuration, ContentHash};
use evo_space::text::quote;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::history::RestoreArgs;
use super::{export, history, output, words};
use crate::engine::candidate::{RestoreRequest, RestoredFiles, restored};
use crate::journal::ladder::{LadderStep, Rung, StepKind};
use crate::report::envelope::ResultAlone;
use crate::study::StudySearch;

const CONFIG: &str = "config.json";
const SOURCE: &str = "kernel.cu";
const LAUNCH: &str = "launch.json";

struct Past<'a> {
    step: &'a LadderStep,
    /// As the record names it.
    space: String,
    candidate: RestoreRequest<'a>,
}

pub fn run(arguments: &RestoreArgs, call: &Call) -> Result<Answer, CliError> {
    let (name, place) = split(&arguments.words)?;
    let ladder = history::read(&arguments.out)?;
    let kernels = ladder.kernels();
    let is_kernel = place.is_some_and(|word| kernels.contains(&word));
    let named = place.filter(|_| !is_kernel);
    let opened = named.map(|space| open(space, arguments)).transpose()?;
    let of_space = opened.as_ref().and_then(|file| file.kernel.as_ref()).map(|own| own.name.as_str());
    let kernel = of_space.or(place.filter(|_| is_kernel));
    if kernel.is_none() && kernels.len() > 1 {
        let text = format!("`{name}` of which kernel? There are {}", kernels.join(", "));
        return Err(CliError::usage(text).with_hint(format!("`evo restore {} {name} …`", kernels[0])));
    }
    let rungs = history::chosen(&ladder, kernel, arguments.device.as_deref())?;
    let rung = rungs.iter().max_by(|a, b| a.last_at().cmp(b.last_at())).copied();
    let rung = rung.ok_or_else(|| {
        CliError::usage(format!("there is nothing to restore in `{}`", arguments.out.display()))
            .with_hint("`evo history` lists what there is")
    })?;
    let device = if rung.device_kind == "cuda" { DeviceKind::Cuda } else { DeviceKind::Host };
    let in_study = in_study(rung, name, device, arguments);
    let past = past(rung, name, device).map_err(|error| match &in_study {
        Some(hint) => error.with_hint(hint.clone()),
        None => error,
    })?;
    let file = match opened {
        Some(file) => file,
        None => open(&past.space, arguments).map_err(|error| {
            let hint = format!("name the space as it is today: `evo restore SPACE {name} --to FOLDER`");
            error.with_hint(hint)
        })?,
    };
    let files = restored(&file, &past.candidate).map_err(|error| {
        CliError::usage(error).with_hint(format!("the space was edited since; {}", at_commit(past.step)))
    })?;
    if files.source_changed && !arguments.force {
        let text = format!(
            "the kernel was edited since {} {} was measured",
            past.step.kind.as_str(),
            past.step.number
        );
        let hint =
            format!("{}, or take its configuration with today's source: `--force`", at_commit(past.step));
        return Err(CliError::usage(text).with_hint(hint));
    }
    write(&arguments.to, &files, arguments.force)?;
    let space = named.map_or_else(|| past.space.clone(), String::from);
    answer(arguments, call, &past, &files, (&space, in_study))
}

/// Where the evaluation of a study is found that has the number of an `@NUMBER`, which names one of `evo evaluate` here.
fn in_study(rung: &Rung, name: &str, device: DeviceKind, arguments: &RestoreArgs) -> Option<String> {
    let number = name.strip_prefix('@')?.parse::<u64>().ok()?;
    let search = StudySearch { out: &arguments.out, study: None, kernel: &rung.kernel, device: Some(device) };
    let study = search.number(number).ok()?.study;
    Some(format!(
        "evaluation {number} of study `{study}` is `@{number}` of `evo render`, `test` and the others"
    ))
}

/// The name behind `@`, and the word beside it.
fn split(words: &[String]) -> Result<(&str, Option<&str>), CliError> {
    let names: Vec<&str> = words.iter().map(String::as_str).filter(|word| word.starts_with('@')).collect();
    let [name] = names[..] else {
        let text = "`evo restore` takes one of `@champion`, `@best`, `@previous` and `@NUMBER`";
        return Err(CliError::usage(text).with_hint("`evo history` lists the numbers"));
    };
    Ok((name, words.iter().map(String::as_str).find(|word| *word != name)))
}

fn open(space: &str, arguments: &RestoreArgs) -> Result<crate::kernel::spec::SpaceFile, CliError> {
    words::named_space(&[space.to_string()]).open(arguments.access.access())
}

fn past<'a>(rung: &'a Rung, name: &str, device: DeviceKind) -> Result<Past<'a>, CliError> {
    let refused = |text: String, hint: &str| Err(CliError::usage(text).with_hint(hint));
    let word = name.strip_prefix('@').unwrap_or(name);
    let step = match word {
        "champion" => rung.champion(),
        "best" => rung.best(),
        "previous" => rung.previous(),
        _ => match word.parse::<u64>() {
            Ok(number) => {
                rung.steps.iter().find(|step| step.kind == StepKind::Evaluation && step.number == number)
            }
            Err(_) => {
                let text = format!("`{name}` is not `@champion`, `@best`, `@previous` or `@NUMBER`");
                let hint = "`evo render SPACE @champion` prints what other names mean";
                return refused(text, hint);
            }
        },
    };
    let kernel = &rung.kernel;
    let Some(step) = step else {
        let text = match word {
            "champion" | "best" => format!("`{kernel}` has no {word} yet: nothing was accepted or confirmed"),
            "previous" => format!("`{kernel}` has no best candidate before the present one"),
            _ => format!("`{kernel}` has no evaluation {word} on {}", rung.device_kind),
        };
        return refused(text, "`evo history` lists what there is");
    };
    let is_evaluation = step.kind == StepKind::Evaluation;
    let iteration = rung.iterations.iter().find(|line| is_evaluation && line.number == step.number);
    let section = rung.section.as_ref().map(|section| section.study.space.clone());
    let candidate = iteration.map(|line| &line.candidate);
    Ok(Past {
        step,
        space: iteration.map(|line| line.space.clone()).or(section).unwrap_or_default(),
        candidate: RestoreRequest {
            configuration: candidate.map_or(&step.configuration, |candidate| &candidate.configuration),
            source: candidate.and_then(|candidate| candidate.source.as_deref()),
            launch: candidate.and_then(|candidate| candidate.launch.as_deref()),
            source_hash: candidate.map_or(&step.source_hash, |candidate| &candidate.source_hash).as_ref(),
            device,
        },
    })
}

fn at_commit(step: &LadderStep) -> String {
    match &step.git_commit {
        Some(commit) => format!("it was measured at commit {commit}"),
        None => "no commit was recorded".to_string(),
    }
}

/// Writes the files into a folder, which is made. Names that are there are replaced where `force` allows it, and never
/// followed.
fn write(to: &Path, files: &RestoredFiles, force: bool) -> Result<(), CliError> {
    let refused = |text: String, hint: &str| CliError::bad_file(text, to).with_hint(hint);
    // Without the slash at the end, which would follow a link.
    let to: &Path = &to.components().collect::<PathBuf>();
    if std::fs::symlink_metadata(to).is_ok_and(|found| !found.is_dir()) {
        let text = format!("`{}` is not a folder", to.display());
        return Err(refused(text, "`--to` names a folder that is not there yet, and no link"));
    }
    let is_filled = std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some());
    if is_filled && !force {
        let text = format!("the folder `{}` is there and not empty", to.display());
        return Err(refused(text, "name another one, or add `--force` to replace the three files in it"));
    }
    let texts = [(CONFIG, &files.configuration), (SOURCE, &files.source), (LAUNCH, &files.launch)];
    export::write(to, &texts.map(|(name, text)| ExportFile::of(name, text.as_str(), "")))
}

fn answer(
    arguments: &RestoreArgs,
    call: &Call,
    past: &Past<'_>,
    files: &RestoredFiles,
    (space, in_study): (&str, Option<String>),
) -> Result<Answer, CliError> {
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
    notes.extend(in_study);
    if files.source_changed {
        notes.push("the kernel was edited since: this is its configuration with today's source".into());
    }
    let result = Restored {
        number: past.step.number,
        kind: past.step.kind.as_str(),
        at: &past.step.at,
        folder: arguments.to.display().to_string(),
        files: [CONFIG, SOURCE, LAUNCH],
        configuration: past.candidate.configuration,
        source_hash: Known::of(files.source_hash.as_ref(), "the record has none"),
        source_changed: files.source_changed,
        again: &again,
        notes: &notes,
    };
    let answer = Answer::of(ExitCode::Done, &ResultAlone { result });
    notes.iter().for_each(|note| output::say(&format!("note: {note}")));
    if !call.is_json() {
        let step = past.step;
        let (kind, number, folder) = (step.kind.as_str(), step.number, arguments.to.display());
        output::stdout(&format!("{kind} {number} of {} is in {folder}\nagain: {again}\n", step.at))?;
    }
    Ok(answer)
}

/// The `result` of `evo restore`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Restored<'a> {
    number: u64,
    /// `champion` or `evaluation`.
    kind: &'a str,
    at: &'a str,
    folder: String,
    files: [&'static str; 3],
    #[schemars(with = "ConfigurationObject")]
    configuration: &'a Configuration,
    #[schemars(with = "Option<HashText>")]
    source_hash: Known<&'a ContentHash>,
    source_changed: bool,
    /// A command line.
    again: &'a str,
    notes: &'a [String],
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
            has_launch: false,
            source_hash: None,
            source_changed: false,
            notes: Vec::new(),
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
