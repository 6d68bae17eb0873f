//! `evo export`: a candidate as files that other programs compile, load and call.
//!
//! What is exported has passed every gate on correctness, here and now or for the leaderboard. Nothing is written before
//! everything is known to be in order.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::{Path, PathBuf};

use clap::Args;
use evo_export::dispatch::{self, Dispatch};
use evo_export::files::ExportFile;
use evo_export::format::ExportFormat;
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::EnvelopeStatus;
use evo_protocol::export::ExportJudgement;
use evo_protocol::verdict::{Gate, GateState};
use serde_json::{Value, json};

use super::aim::Aim;
use super::answer::Answer;
use super::call::Call;
use super::compile::CompileTarget;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::export_plan::{self, ExportPlan, ExportedVariant};
use super::export_verify::{self, VerifiedRow};
use super::one_args::TestOneArgs;
use super::trial::{self, AskedCandidate};
use super::{export_results, output};
use crate::journal::own_folder::OwnFolder;
use crate::supervise::job::Standing;

/// Runs the command.
pub fn run(arguments: &ExportArgs, call: &Call) -> Result<Answer, CliError> {
    if export_results::is_asked(arguments)? {
        return export_results::run(arguments, call);
    }
    let formats = ExportFormat::parse_list(&arguments.formats).map_err(CliError::usage)?;
    check(&arguments.to, arguments.force)?;
    let one = judged_here(arguments);
    let asked = trial::ask(&one, call, Aim::Gates)?;
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
        && let Some(refused) = judge(arguments, &one, &asked, call)?
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
fn judge(
    arguments: &ExportArgs,
    one: &TestOneArgs,
    asked: &AskedCandidate,
    call: &Call,
) -> Result<Option<Answer>, CliError> {
    let evaluation = match asked.refused() {
        Some(evaluation) => evaluation,
        None => {
            let mut opened = asked.open(one, call)?;
            match opened.job(true)? {
                Ok((begun, job)) => {
                    let judged = begun.judged(opened.lane.evaluate(&job.gates_only(), &Standing::default()));
                    if judged.lost {
                        return Err(CliError::device(judged.evaluation.verdict.message));
                    }
                    judged.evaluation
                }
                Err(evaluation) => *evaluation,
            }
        }
    };
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
    let own = json!({ "verdict": verdict.label(), "message": verdict.message });
    let result = json!({
        "folder": arguments.to.display().to_string(), "judged": null, "variants": [], "formats": [], "verified": [],
    });
    let mut answer = Answer::object(ExitCode::Failed, &own).in_brief(result);
    answer.reasons.insert("result.judged".to_string(), text);
    Ok(Some(answer))
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
    let mut reasons = std::collections::BTreeMap::new();
    let mut listed: Vec<Value> = Vec::new();
    for variant in variants {
        for format in formats.iter().filter(|own| **own != ExportFormat::Dispatch) {
            let why = variant.missing.iter().find(|(own, _)| own == format).map(|(_, why)| why);
            listed.push(json!({ "format": format.as_str(), "variant": variant.folder, "written": why.is_none(), "reason": why }));
        }
    }
    if formats.contains(&ExportFormat::Dispatch) {
        let why = plan.without_dispatch.as_ref();
        listed.push(json!({ "format": "dispatch", "variant": "", "written": why.is_none(), "reason": why }));
    }
    for (at, own) in listed.iter().enumerate().filter(|(_, own)| own["reason"].is_null()) {
        reasons.insert(
            format!("result.formats.{at}.reason"),
            format!("`{}` was written", own["format"].as_str().unwrap_or_default()),
        );
    }
    let variant = |(wish, own): (&export_plan::VariantWish<'_>, &ExportedVariant)| {
        json!({
            "folder": own.folder,
            "configuration": wish.configuration,
            "constants": wish.constants,
            "problems": wish.problems.iter().map(|own| own.name.as_str()).collect::<Vec<_>>(),
            "files": own.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
        })
    };
    let verified: Vec<Value> =
        rows.iter().enumerate().map(|(at, row)| row.object(at, &mut reasons)).collect();
    let result = json!({
        "folder": folder,
        "judged": plan.judged,
        "variants": plan.variants.iter().zip(variants).map(variant).collect::<Vec<_>>(),
        "formats": listed,
        "verified": verified,
    });
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
    let mut answer = Answer { status, ..Answer::object(exit, &json!({})) }.in_brief(result);
    answer.reasons.extend(reasons);
    Ok(answer)
}

fn text(folder: &str, plan: &ExportPlan<'_>, listed: &[Value], rows: &[VerifiedRow]) -> String {
    let judged = match plan.judged {
        ExportJudgement::Now => "it passed its gates",
        ExportJudgement::Recorded => "it stands on the leaderboard",
        ExportJudgement::Unchecked => "it was not judged (`--unchecked`)",
    };
    let mut text = format!("exported to {folder}: {judged}\n");
    for own in listed {
        let word = |key: &str| own[key].as_str().unwrap_or_default();
        let place =
            if word("variant").is_empty() { String::new() } else { format!(" ({})", word("variant")) };
        match own["written"].as_bool() {
            Some(true) => text.push_str(&format!("  {:<10} written{place}\n", word("format"))),
            _ => text.push_str(&format!("  {:<10} not written{place}: {}\n", word("format"), word("reason"))),
        }
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

/// `evo export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// The folder to write, which is made
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
    /// Of a candidate: cu, cubin, torch, torch-op, tvm-ffi, cupy, cuda-core, dispatch, all; of a study: t4, kernel-tuner, optuna, csv
    #[arg(long = "format", value_name = "A,B", value_delimiter = ',', default_value = "all")]
    pub formats: Vec<String>,
    /// Architecture of the cubin [default: that of the device; none on the host device]
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// Run each form that can run here on evo's inputs, check its answers, and time it beside evo itself
    #[arg(long)]
    pub verify: bool,
    /// Replace the files of an earlier export in the folder
    #[arg(long)]
    pub force: bool,
    /// Skip the gates; the manifest says that the candidate was not judged
    #[arg(long, conflicts_with = "verify")]
    pub unchecked: bool,
    /// With `dispatch`: most variants
    #[arg(long = "variants-max", value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub variants_max: u8,
}
