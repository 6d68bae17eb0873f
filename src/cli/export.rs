//! `evo export`: a candidate as files that other programs compile, load and call.
//!
//! What is exported has passed every gate on correctness, here and now or for the leaderboard. Nothing is written before
//! everything is known to be in order.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use evo_export::dispatch::{self, Dispatch};
use evo_export::files::{ExportFile, ExportFormat};
use evo_export::results::{StudyResults, kernel_tuner, optuna, t4};
use evo_protocol::binary::Specialization;
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::EnvelopeStatus;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::export::ExportJudgement;
use evo_protocol::known::{Known, told};
use evo_space::genome::Configuration;
use evo_space::value;
use schemars::JsonSchema;
use serde::Serialize;

use super::compile::CompileTarget;
use super::export_plan::{self, ExportArgs, ExportPlan, ExportVariant};
use super::export_verify::{self, VerifiedRow};
use super::judge::{self, Aim, AskedCandidate};
use super::{Answer, Call, CliError, ExitCode, Result, output, report};
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader;
use crate::journal::replay::History;
use crate::report::csv;
use crate::report::envelope::ResultAlone;
use crate::report::templates::page;

pub fn run(arguments: &ExportArgs, call: &Call) -> Result<Answer> {
    let is_result = |name: &&String| RESULT_FORMATS.iter().any(|(format, ..)| *format == name.trim());
    let results = arguments.formats.iter().filter(is_result).count();
    if results > 0 && results < arguments.formats.len() {
        let text = "`--format` mixes forms of a study's results and forms of a candidate";
        return Err(CliError::usage(text).with_hint("call `evo export` once for each"));
    }
    if results > 0 {
        return export_results(arguments, call);
    }
    let formats = ExportFormat::parse_list(&arguments.formats).map_err(CliError::usage)?;
    check(&arguments.to, arguments.force)?;
    let mut one = arguments.one.clone();
    if arguments.arch.is_some() {
        // Problems that are named are those of a GPU then, which may not be here.
        one.problems.clear();
    }
    let asked = judge::ask(&one, call, Aim::Gates)?;
    let target = target(arguments, &asked)?;
    // Before the gates, which take longer: what cannot be exported is known without them.
    let plan = export_plan::plan(arguments, &asked, &target, &formats)?;
    let listed = listed(&plan, &formats);
    // A form that was named, and not only meant by `all`, has to be there.
    let is_named = |row: &&ExportedFormat| arguments.formats.iter().any(|name| name.trim() == row.format);
    for ExportedFormat { format, reason, .. } in listed.iter().filter(is_named) {
        if let Some(why) = reason.value() {
            return Err(CliError::usage(format!("the format `{format}` cannot be written: {why}")));
        }
    }
    let ExportPlan { variants, judged, dispatch, .. } = plan;
    if judged == ExportJudgement::Now
        && let Some(refused) = judge(arguments, &asked, call)?
    {
        return Ok(refused);
    }
    write(&arguments.to, &all_files(&variants, dispatch.as_ref())?)?;
    let verified = match arguments.verify {
        true => export_verify::verify(arguments, &asked, &variants, &formats)?,
        false => Vec::new(),
    };
    let status = if verified.iter().any(|row| row.status == "fail") {
        EnvelopeStatus::Fail
    } else if arguments.verify && verified.iter().all(|row| row.status != "pass") {
        EnvelopeStatus::NotRun
    } else {
        EnvelopeStatus::Pass
    };
    let variant = |made: ExportVariant<'_>| ExportedFiles {
        files: made.files.into_iter().map(|file| file.path).collect(),
        problems: made.problems.iter().map(|problem| problem.name.clone()).collect(),
        folder: made.folder,
        configuration: made.configuration,
        constants: made.constants,
    };
    let result = Exported {
        folder: arguments.to.display().to_string(),
        judged: Known::Is(judged),
        variants: variants.into_iter().map(variant).collect(),
        formats: listed,
        verified,
    };
    call.show(&page("export.txt.j2", &told(&result).0))?;
    let exit = if status == EnvelopeStatus::Pass { ExitCode::Done } else { ExitCode::Failed };
    Ok(Answer { status, ..Answer::of(exit, &ResultAlone { result }) })
}

fn target(arguments: &ExportArgs, asked: &AskedCandidate) -> Result<CompileTarget> {
    match &arguments.arch {
        Some(arch) if arch == DeviceKind::Host.as_str() => {
            Err(CliError::usage("`--arch host`: a cubin is for a GPU").with_hint("sm_80, sm_89, sm_90a, …"))
        }
        Some(arch) => CompileTarget::parse(arch),
        None => CompileTarget::parse(&asked.setup.choice.arch),
    }
}

fn judge(arguments: &ExportArgs, asked: &AskedCandidate, call: &Call) -> Result<Option<Answer>> {
    let (judged, _) = asked.on_device(call, Aim::Gates, |_, _| Ok(()))?;
    let evaluation = judged.evaluation();
    if judged.single.lost {
        return Err(CliError::device(evaluation.verdict.message.as_str()));
    }
    let verdict = &evaluation.verdict;
    // A verdict alone does not say that the gates ran.
    let missing = judge::missing(evaluation, Aim::Gates);
    let text = match (verdict.is_pass(), missing.first()) {
        (true, None) => return Ok(None),
        (true, Some(gate)) => format!("it is not exported, because the gate `{gate}` did not run"),
        (false, _) if verdict.is_trouble() => {
            return Err(super::session::trouble("the candidate was not judged", verdict));
        }
        (false, _) => {
            let (label, message) = (verdict.label(), &verdict.message);
            format!("it is not exported, because it fails its gates: {label}: {message}")
        }
    };
    output::say(&text);
    let result = Exported::empty(arguments, text);
    let answer = NotExported { verdict: verdict.label(), message: verdict.message.clone(), result };
    Ok(Some(Answer::of(ExitCode::Failed, &answer)))
}

fn all_files(variants: &[ExportVariant<'_>], dispatch: Option<&Dispatch>) -> Result<Vec<ExportFile>> {
    let mut all = Vec::new();
    for ExportVariant { folder, files, .. } in variants {
        let path = |file: &ExportFile| match folder.as_str() {
            "" => file.path.clone(),
            folder => format!("{folder}/{}", file.path),
        };
        all.extend(files.iter().map(|file| ExportFile { path: path(file), ..file.clone() }));
    }
    if let Some(dispatch) = dispatch {
        let files = dispatch::files(dispatch, env!("CARGO_PKG_VERSION"));
        for file in files.map_err(|error| CliError::harness(error.to_string()))? {
            if !all.iter().any(|other| other.path == file.path) {
                all.push(file);
            }
        }
    }
    Ok(all)
}

fn listed(plan: &ExportPlan<'_>, formats: &[ExportFormat]) -> Vec<ExportedFormat> {
    let mut listed = Vec::new();
    for ExportVariant { folder, missing, .. } in &plan.variants {
        for format in formats.iter().filter(|format| **format != ExportFormat::Dispatch) {
            let why = missing.iter().find(|(missing, _)| missing == format).map(|(_, why)| why);
            listed.push(ExportedFormat::of(*format, folder, why));
        }
    }
    if formats.contains(&ExportFormat::Dispatch) {
        listed.push(ExportedFormat::of(ExportFormat::Dispatch, "", plan.without_dispatch.as_ref()));
    }
    listed
}

const SHOWN: usize = 8;

/// Refuses a folder that cannot be written to, before anything is made for it.
pub fn check(to: &Path, force: bool) -> Result<()> {
    let to: &Path = &plain(to);
    if to.as_os_str().is_empty() {
        return Err(CliError::usage("`--to` names no folder"));
    }
    if std::fs::symlink_metadata(to).is_ok_and(|found| !found.is_dir()) {
        let text = format!("`{}` is not a folder", to.display());
        return Err(CliError::bad_file(text, to)
            .with_hint("`--to` names a folder that is not there yet, and no link"));
    }
    let mut names: Vec<String> = std::fs::read_dir(to)
        .map(|entries| {
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    if names.is_empty() || force {
        return Ok(());
    }
    names.sort();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    names.truncate(SHOWN);
    let text = format!("the folder `{}` is there and has {}{more}", to.display(), names.join(", "));
    Err(CliError::bad_file(text, to)
        .with_hint("name another one, or add `--force` to replace files of the same names in it"))
}

/// Writes the files; others in the folder stay. Where that fails, a folder that was made is gone again.
pub fn write(to: &Path, files: &[ExportFile]) -> Result<()> {
    let to: &Path = &plain(to);
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && std::fs::symlink_metadata(path).is_err();
    let missing: Vec<&Path> = to.ancestors().take_while(is_missing).collect();
    let refused = |error: io::Error| {
        let text = format!("cannot make `{}`: {error}", to.display());
        CliError::bad_file(text, to).with_hint("name another folder")
    };
    let folder = OwnFolder::create(to).map_err(refused)?;
    let written = write_all(&folder, files);
    if written.is_err() && !missing.is_empty() {
        // Half of them would look like all. Nothing in a folder that was made just now is anybody else's.
        let _ = std::fs::remove_dir_all(to);
        missing.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
    }
    written
}

fn write_all(root: &OwnFolder, files: &[ExportFile]) -> Result<()> {
    let trouble =
        |file: &ExportFile, error: io::Error| CliError::lost_file(&root.path().join(&file.path), &error);
    let mut open: Vec<(OwnFolder, &str, &ExportFile)> = Vec::new();
    for file in files {
        let (folders, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let mut folders = folders.split('/').filter(|part| !part.is_empty());
        let folder = folders.try_fold(root.clone(), |folder, part| folder.create_folder(part));
        open.push((folder.map_err(|error| trouble(file, error))?, name, file));
    }
    // All of them first: a refusal writes nothing.
    for (folder, name, _) in &open {
        CliError::refuse_irregular(folder, name, "move it away")?;
    }
    for (folder, name, file) in &open {
        folder.replace(name, &file.contents, true).map_err(|error| trouble(file, error))?;
    }
    Ok(())
}

/// Without the slash at the end, which would follow a link.
fn plain(to: &Path) -> PathBuf {
    to.components().collect()
}

/// Forms of results: name, file, and what is in it.
type ResultFormat = (&'static str, &'static str, fn(&StudyResults<'_>) -> Vec<u8>);

const RESULT_FORMATS: [ResultFormat; 4] = [
    ("t4", "t4-results.json", |results| format!("{:#}\n", t4(results)).into()),
    ("kernel-tuner", "kernel-tuner-cache.json", |results| format!("{:#}\n", kernel_tuner(results)).into()),
    ("optuna", "optuna-journal.log", |results| optuna(results).into()),
    ("csv", "results.csv", |results| csv::table(results.evaluations)),
];

fn export_results(arguments: &ExportArgs, call: &Call) -> Result<Answer> {
    check(&arguments.to, arguments.force)?;
    if arguments.verify || arguments.arch.is_some() || arguments.unchecked {
        return Err(CliError::usage(
            "`--verify`, `--unchecked` and `--arch` are for candidates, not for results",
        ));
    }
    let [study] = &arguments.one.words[..] else {
        let text = "results are those of one study: `evo export STUDY --format t4 --to FOLDER`";
        return Err(CliError::usage(text)
            .with_hint("a study is named by its folder under `--out`, or by a path with a `/`"));
    };
    let chosen = report::choose(&arguments.one.candidate.out, Some(study))?;
    let history = History::replay(reader::read_in(&chosen.folder)?);
    let Some(header) = &history.header else {
        let text = format!("the journal of `{study}` has no header that this evo reads");
        return Err(CliError::usage(text));
    };
    if history.evaluations.is_empty() {
        return Err(CliError::usage(format!("nothing in study `{study}` has a verdict yet")));
    }
    let parameters = parameters(&history.evaluations);
    let began = header.started_at.trim_end_matches('Z');
    let results = StudyResults {
        kernel: &header.kernel,
        device: &header.device.name,
        study: &header.study,
        parameters: &parameters,
        problems: &header.problems,
        evaluations: &history.evaluations,
        began,
    };
    let is_wanted =
        |(format, ..): &&ResultFormat| arguments.formats.iter().any(|name| name.trim() == *format);
    let wanted: Vec<&ResultFormat> = RESULT_FORMATS.iter().filter(is_wanted).collect();
    let file = |(_, path, contents): &&ResultFormat| ExportFile::of(path, contents(&results), "");
    write(&arguments.to, &wanted.iter().map(file).collect::<Vec<_>>())?;
    call.know(|facts| facts.device = Some(header.device.name.clone()));
    let folder = arguments.to.display().to_string();
    let format = |(format, ..): &ResultFormat| ExportedFormat {
        format,
        variant: String::new(),
        written: true,
        reason: Known::Unknown("it was written".into()),
    };
    let formats = wanted.into_iter().map(format).collect();
    call.show(&format!("{} evaluations of `{study}` exported to {folder}\n", history.evaluations.len()))?;
    let none = Exported::empty(arguments, "these are results, and no candidate".to_string());
    Ok(Answer::of(ExitCode::Done, &ResultAlone { result: Exported { formats, ..none } }))
}

/// The answer of `evo export` about a candidate that fails a gate.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NotExported {
    /// With its cause behind a colon.
    verdict: String,
    message: String,
    result: Exported,
}

/// The `result` of `evo export`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Exported {
    folder: String,
    judged: Known<ExportJudgement>,
    variants: Vec<ExportedFiles>,
    formats: Vec<ExportedFormat>,
    verified: Vec<VerifiedRow>,
}

impl Exported {
    /// Nothing is exported, or no candidate: the reason why none was judged.
    fn empty(arguments: &ExportArgs, why: String) -> Exported {
        Exported {
            folder: arguments.to.display().to_string(),
            judged: Known::Unknown(why),
            variants: Vec::new(),
            formats: Vec::new(),
            verified: Vec::new(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct ExportedFiles {
    folder: String,
    configuration: Configuration,
    #[schemars(with = "BTreeMap<String, i64>")]
    constants: Specialization,
    problems: Vec<String>,
    files: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ExportedFormat {
    format: &'static str,
    variant: String,
    written: bool,
    /// Why it was not.
    reason: Known<String>,
}

impl ExportedFormat {
    fn of(format: ExportFormat, variant: &str, why_not: Option<&String>) -> ExportedFormat {
        let format = format.as_str();
        let reason = Known::of(why_not.cloned(), format!("`{format}` was written"));
        ExportedFormat { format, variant: variant.to_string(), written: why_not.is_none(), reason }
    }
}

fn parameters(evaluations: &[Evaluation]) -> Vec<(String, Vec<value::Value>)> {
    let mut found: Vec<(String, Vec<value::Value>)> = Vec::new();
    for (name, value) in evaluations.iter().flat_map(|evaluation| evaluation.configuration.iter()) {
        match found.iter_mut().find(|(other, _)| other == name) {
            Some((_, values)) if values.contains(value) => {}
            Some((_, values)) => values.push(value.clone()),
            None => found.push((name.to_string(), vec![value.clone()])),
        }
    }
    for (_, values) in &mut found {
        values.sort_by(|a, b| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
    }
    found
}
