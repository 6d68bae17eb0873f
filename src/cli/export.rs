//! `evo export`: a candidate as files that other programs compile, load and call.
//!
//! What is exported has passed every gate on correctness, here and now or for the leaderboard. Nothing is written before
//! everything is known to be in order.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evo_export::dispatch::{self, Dispatch};
use evo_export::files::ExportFile;
use evo_export::format::ExportFormat;
use evo_export::results::{StudyResults, kernel_tuner, optuna, t4};
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::EnvelopeStatus;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::export::ExportJudgement;
use evo_protocol::known::Known;
use evo_protocol::schema::ConfigurationObject;
use evo_protocol::specialization::Specialization;
use evo_protocol::verdict::{Gate, GateState};
use evo_space::genome::Configuration;
use evo_space::value;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::call::Call;
use super::compile::CompileTarget;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::export_args::ExportArgs;
use super::export_plan::{self, ExportPlan, ExportedVariant};
use super::export_verify::{self, VerifiedRow};
use super::judge::{self, Aim, AskedCandidate};
use super::one_args::TestOneArgs;
use super::output;
use crate::journal::error::JournalError;
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader;
use crate::journal::replay::History;
use crate::report::csv;
use crate::report::envelope::ResultAlone;

/// Runs the command.
pub fn run(arguments: &ExportArgs, call: &Call) -> Result<Answer, CliError> {
    if is_asked(arguments)? {
        return export_results(arguments, call);
    }
    let formats = ExportFormat::parse_list(&arguments.formats).map_err(CliError::usage)?;
    check(&arguments.to, arguments.force)?;
    let one = judged_here(arguments);
    let asked = judge::ask(&one, call, Aim::Gates)?;
    let target = target(arguments, &asked)?;
    let plan = export_plan::plan(arguments, &asked, target.kind, &formats)?;
    let arch = (target.kind == DeviceKind::Cuda).then_some(target.arch.as_str());
    // Before the gates, which take longer: what cannot be exported is known without them.
    let mut variants: Vec<ExportedVariant> = Vec::new();
    for wish in &plan.variants {
        variants.push(export_plan::make(wish, &formats, arch)?);
    }
    check_demanded(arguments, &variants, &plan)?;
    if plan.judged == ExportJudgement::Now
        && let Some(refused) = judge(arguments, &asked, call)?
    {
        return Ok(refused);
    }
    let files = all_files(&variants, plan.dispatch.as_ref())?;
    write(&arguments.to, &files)?;
    let rows = match arguments.verify {
        true => export_verify::verify(arguments, &asked, &plan, &variants, &formats)?,
        false => Vec::new(),
    };
    answer(arguments, call, &plan, &variants, &formats, &rows)
}

/// What is judged on this device. With `--arch`, problems that are named are those of a GPU, which may not be here.
fn judged_here(arguments: &ExportArgs) -> TestOneArgs {
    let mut one = arguments.one.clone();
    if arguments.arch.is_some() {
        one.problems.clear();
    }
    one
}

/// What the cubin is compiled for.
fn target(arguments: &ExportArgs, asked: &AskedCandidate) -> Result<CompileTarget, CliError> {
    match &arguments.arch {
        Some(arch) if arch == DeviceKind::Host.as_str() => {
            Err(CliError::usage("`--arch host`: a cubin is for a GPU").with_hint("sm_80, sm_89, sm_90a, …"))
        }
        Some(arch) => CompileTarget::parse(arch),
        None => CompileTarget::parse(&asked.setup.choice.arch),
    }
}

/// A form that was named, and not only meant by `all`, has to be there.
fn check_demanded(
    arguments: &ExportArgs,
    variants: &[ExportedVariant],
    plan: &ExportPlan<'_>,
) -> Result<(), CliError> {
    let is_named = |format: ExportFormat| arguments.formats.iter().any(|own| own.trim() == format.as_str());
    let missing = variants.iter().flat_map(|own| &own.missing);
    let of_plan = plan.without_dispatch.iter().map(|why| (ExportFormat::Dispatch, why.clone()));
    match missing.cloned().chain(of_plan).find(|(format, _)| is_named(*format)) {
        Some((format, why)) => {
            Err(CliError::usage(format!("the format `{}` cannot be written: {why}", format.as_str())))
        }
        None => Ok(()),
    }
}

/// Judges the candidate; the answer of the command where it fails.
fn judge(arguments: &ExportArgs, asked: &AskedCandidate, call: &Call) -> Result<Option<Answer>, CliError> {
    let (judged, _) = asked.on_device(call, Aim::Gates, |_, _| Ok(()))?;
    let evaluation = judged.evaluation();
    if judged.single.lost {
        return Err(CliError::device(evaluation.verdict.message.as_str()));
    }
    let verdict = &evaluation.verdict;
    // A verdict alone does not say that the gates ran.
    let is_good = |gate: Gate| {
        evaluation.gate(gate).is_some_and(|own| own.state == GateState::Pass || own.lacks_shapes())
    };
    let absent = Aim::Gates.demanded().find(|gate| !is_good(*gate));
    let Some(gate) = absent.or((!verdict.is_pass()).then_some(Gate::Launch)) else { return Ok(None) };
    if verdict.is_trouble() {
        return Err(super::session::trouble("the candidate was not judged", verdict));
    }
    let text = match verdict.is_pass() {
        true => format!("it is not exported, because the gate `{}` did not run", gate.as_str()),
        false => {
            format!(
                "it is not exported, because it fails its gates: {}: {}",
                verdict.label(),
                verdict.message
            )
        }
    };
    output::say(&text);
    let result = Exported::empty(arguments, text);
    let own = NotExported { verdict: verdict.label(), message: verdict.message.clone(), result };
    Ok(Some(Answer::of(ExitCode::Failed, &own)))
}

fn all_files(variants: &[ExportedVariant], dispatch: Option<&Dispatch>) -> Result<Vec<ExportFile>, CliError> {
    let mut all = Vec::new();
    for variant in variants {
        let path = |own: &ExportFile| match variant.folder.as_str() {
            "" => own.path.clone(),
            folder => format!("{folder}/{}", own.path),
        };
        all.extend(variant.files.iter().map(|own| ExportFile { path: path(own), ..own.clone() }));
    }
    if let Some(dispatch) = dispatch {
        let own = dispatch::files(dispatch, env!("CARGO_PKG_VERSION"));
        for file in own.map_err(|error| CliError::harness(error.to_string()))? {
            if !all.iter().any(|other| other.path == file.path) {
                all.push(file);
            }
        }
    }
    Ok(all)
}

fn answer(
    arguments: &ExportArgs,
    call: &Call,
    plan: &ExportPlan<'_>,
    variants: &[ExportedVariant],
    formats: &[ExportFormat],
    rows: &[VerifiedRow],
) -> Result<Answer, CliError> {
    let folder = arguments.to.display().to_string();
    let written = |format: &'static str, variant: &str, why: Option<&String>| ExportedFormat {
        format,
        variant: variant.to_string(),
        written: why.is_none(),
        reason: Known::of(why.cloned(), format!("`{format}` was written")),
    };
    let mut listed = Vec::new();
    for variant in variants {
        for format in formats.iter().filter(|format| **format != ExportFormat::Dispatch) {
            let why = variant.missing.iter().find(|(missing, _)| missing == format).map(|(_, why)| why);
            listed.push(written(format.as_str(), &variant.folder, why));
        }
    }
    if formats.contains(&ExportFormat::Dispatch) {
        listed.push(written("dispatch", "", plan.without_dispatch.as_ref()));
    }
    let variant = |(wish, made): (&export_plan::VariantWish<'_>, &ExportedVariant)| ExportedFiles {
        folder: made.folder.clone(),
        configuration: wish.configuration.clone(),
        constants: wish.constants.clone(),
        problems: wish.problems.iter().map(|problem| problem.name.clone()).collect(),
        files: made.files.iter().map(|file| file.path.clone()).collect(),
    };
    let failed = rows.iter().any(|row| row.status == "fail");
    let absent = arguments.verify && rows.iter().all(|row| row.status != "pass");
    if !call.is_json() {
        output::stdout(&text(&folder, plan, &listed, rows))?;
    }
    let exit = if failed || absent { ExitCode::Failed } else { ExitCode::Done };
    let status = match (failed, absent) {
        (true, _) => EnvelopeStatus::Fail,
        (false, true) => EnvelopeStatus::NotRun,
        (false, false) => EnvelopeStatus::Pass,
    };
    let result = Exported {
        folder,
        judged: Known::Is(plan.judged),
        variants: plan.variants.iter().zip(variants).map(variant).collect(),
        formats: listed,
        verified: rows.to_vec(),
    };
    Ok(Answer { status, ..Answer::of(exit, &ResultAlone { result }) })
}

fn text(folder: &str, plan: &ExportPlan<'_>, listed: &[ExportedFormat], rows: &[VerifiedRow]) -> String {
    let judged = match plan.judged {
        ExportJudgement::Now => "it passed its gates",
        ExportJudgement::Recorded => "it stands on the leaderboard",
        ExportJudgement::Unchecked => "it was not judged (`--unchecked`)",
    };
    let mut text = format!("exported to {folder}: {judged}\n");
    for ExportedFormat { format, variant, reason, .. } in listed {
        let place = if variant.is_empty() { String::new() } else { format!(" ({variant})") };
        text += &match reason.value() {
            None => format!("  {format:<10} written{place}\n"),
            Some(why) => format!("  {format:<10} not written{place}: {why}\n"),
        };
    }
    rows.iter().for_each(|row| text.push_str(&row.line()));
    text
}

/// Names shown of what is in a folder.
const SHOWN: usize = 8;

/// Refuses a folder that cannot be written to, before anything is made for it.
pub fn check(to: &Path, force: bool) -> Result<(), CliError> {
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
        .map(|entries| entries.flatten().map(|own| own.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    if names.is_empty() || force {
        return Ok(());
    }
    names.sort();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    names.truncate(SHOWN);
    let text = format!("the folder `{}` is there and has {}{more}", to.display(), names.join(", "));
    Err(CliError::bad_file(text, to)
        .with_hint("name another one, or add `--force` to replace the files of an export in it"))
}

/// Writes the files; others in the folder stay.
///
/// # Errors
/// Something that is not a file stands in the place of one, or the disk is full. A folder that was made is gone then.
pub fn write(to: &Path, files: &[ExportFile]) -> Result<(), CliError> {
    let to: &Path = &plain(to);
    let missing: Vec<&Path> = to.ancestors().take_while(|own| is_missing(own)).collect();
    let refused = |error: std::io::Error| {
        let text = format!("cannot make `{}`: {error}", to.display());
        CliError::bad_file(text, to).with_hint("name another folder")
    };
    let folder = OwnFolder::create(to).map_err(refused)?;
    let written = write_all(&folder, files);
    if written.is_err() && !missing.is_empty() {
        // Half of an export would look like one. Nothing in a folder that was made just now is anybody else's.
        let _ = std::fs::remove_dir_all(to);
        missing.iter().for_each(|own| drop(std::fs::remove_dir(own)));
    }
    written
}

fn write_all(root: &OwnFolder, files: &[ExportFile]) -> Result<(), CliError> {
    let mut open: Vec<(OwnFolder, &str, &ExportFile)> = Vec::new();
    for file in files {
        let mut parts: Vec<&str> = file.path.split('/').collect();
        let Some(name) = parts.pop() else { continue };
        let mut folder = OwnFolder::open(root.path()).map_err(|error| trouble(root, &file.path, &error))?;
        for part in parts {
            folder = folder.create_folder(part).map_err(|error| trouble(root, &file.path, &error))?;
        }
        open.push((folder, name, file));
    }
    // All of them first: a refusal writes nothing.
    if let Some((folder, name, what)) =
        open.iter().find_map(|(folder, name, _)| Some((folder, name, folder.irregular(name)?)))
    {
        let place = folder.place(name);
        return Err(
            CliError::bad_file(format!("`{}` is {what}", place.display()), &place).with_hint("move it away")
        );
    }
    for (folder, name, file) in &open {
        folder.replace(name, &file.contents, true).map_err(|error| trouble(root, &file.path, &error))?;
    }
    Ok(())
}

fn trouble(root: &OwnFolder, path: &str, error: &std::io::Error) -> CliError {
    CliError::harness(format!("cannot write `{}`: {error}", root.path().join(path).display()))
}

/// Without the slash at the end, which would follow a link.
fn plain(to: &Path) -> PathBuf {
    to.components().collect()
}

fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty() && std::fs::symlink_metadata(path).is_err()
}

/// The forms, with their files.
pub const RESULT_FORMATS: [(&str, &str); 4] = [
    ("t4", "t4-results.json"),
    ("kernel-tuner", "kernel-tuner-cache.json"),
    ("optuna", "optuna-journal.log"),
    ("csv", "results.csv"),
];

/// Whether forms of results are asked for.
pub fn is_asked(arguments: &ExportArgs) -> Result<bool, CliError> {
    let is_result = |name: &&String| RESULT_FORMATS.iter().any(|(own, _)| *own == name.trim());
    let count = arguments.formats.iter().filter(is_result).count();
    if count > 0 && count < arguments.formats.len() {
        let text = "`--format` mixes forms of a study's results and forms of a candidate";
        return Err(CliError::usage(text).with_hint("call `evo export` once for each"));
    }
    Ok(count > 0)
}

/// Runs the command.
pub fn export_results(arguments: &ExportArgs, call: &Call) -> Result<Answer, CliError> {
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
    let history = history(&arguments.one.candidate.out, study)?;
    let Some(header) = &history.header else {
        return Err(CliError::usage(format!("the journal of `{study}` has no header")));
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
    let mut files = Vec::new();
    for (format, path) in RESULT_FORMATS {
        if !arguments.formats.iter().any(|own| own.trim() == format) {
            continue;
        }
        let contents = match format {
            "t4" => format!("{:#}\n", t4(&results)).into_bytes(),
            "kernel-tuner" => format!("{:#}\n", kernel_tuner(&results)).into_bytes(),
            "optuna" => optuna(&results).into_bytes(),
            _ => csv::table(&history.evaluations),
        };
        files.push(ExportFile { path: path.to_string(), contents, about: "" });
    }
    write(&arguments.to, &files)?;
    call.know(|facts| facts.device = Some(header.device.name.clone()));
    let folder = arguments.to.display().to_string();
    let is_written = |(_, path): &&(&str, &str)| files.iter().any(|file| file.path == *path);
    let format = |(format, _): &(&'static str, &str)| ExportedFormat {
        format,
        variant: String::new(),
        written: true,
        reason: Known::Unknown("it was written".into()),
    };
    let formats = RESULT_FORMATS.iter().filter(is_written).map(format).collect();
    if !call.is_json() {
        output::stdout(&format!(
            "{} evaluations of `{study}` exported to {folder}\n",
            history.evaluations.len()
        ))?;
    }
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
    #[schemars(with = "ConfigurationObject")]
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

fn history(out: &Path, study: &str) -> Result<History, CliError> {
    let path = if study.contains('/') { study.into() } else { out.join(study) };
    let folder = OwnFolder::open(&path).map_err(|error| {
        let text = format!("there is no study `{study}`: cannot open `{}`: {error}", path.display());
        CliError::bad_file(text, &path)
            .with_hint("`evo history` lists studies; `--out` names the folder that they are in")
    })?;
    if !folder.has_file("journal.jsonl") {
        let text = format!("`{}` is not a study: it has no journal", path.display());
        return Err(CliError::bad_file(text, &path));
    }
    let journal = reader::read_in(&folder).map_err(|error: JournalError| CliError::from(error))?;
    Ok(History::replay(journal))
}

/// Names and the values that occur, ascending.
fn parameters(evaluations: &[Evaluation]) -> Vec<(String, Vec<value::Value>)> {
    let mut found: Vec<(String, Vec<value::Value>)> = Vec::new();
    for (name, value) in evaluations.iter().flat_map(|own| own.configuration.iter()) {
        match found.iter_mut().find(|(own, _)| own == name) {
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
