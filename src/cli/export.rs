//! `evo export`: a candidate as files that other programs compile, load and call.
//!
//! What is exported has passed every gate on correctness, here and now or for the leaderboard. Nothing is written before
//! everything is known to be in order.

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
use super::export_args::ExportArgs;
use super::export_plan::{self, ExportPlan};
use super::export_unit::{self, ExportedVariant};
use super::export_verified::VerifiedRow;
use super::one_args::TestOneArgs;
use super::trial::{self, AskedCandidate};
use super::{export_results, export_verify, export_write, output};
use crate::supervise::job::Standing;

/// Runs the command.
pub fn run(arguments: &ExportArgs, call: &Call) -> Result<Answer, CliError> {
    if export_results::is_asked(arguments)? {
        return export_results::run(arguments, call);
    }
    let formats = ExportFormat::parse_list(&arguments.formats).map_err(CliError::usage)?;
    export_write::check(&arguments.to, arguments.force)?;
    let one = judged_here(arguments);
    let asked = trial::ask(&one, call, Aim::Gates)?;
    let target = target(arguments, &asked)?;
    let plan = export_plan::plan(arguments, &asked, target.kind, &formats)?;
    let arch = (target.kind == DeviceKind::Cuda).then_some(target.arch.as_str());
    // Before the gates, which take longer: what cannot be exported is known without them.
    let mut variants: Vec<ExportedVariant> = Vec::new();
    for wish in &plan.variants {
        variants.push(export_unit::make(wish, &formats, arch)?);
    }
    check_demanded(arguments, &variants, &plan)?;
    if plan.judged == ExportJudgement::Now
        && let Some(refused) = judge(arguments, &one, &asked, call)?
    {
        return Ok(refused);
    }
    let files = all_files(&variants, plan.dispatch.as_ref())?;
    export_write::write(&arguments.to, &files)?;
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
    let variant = |(wish, own): (&export_unit::VariantWish<'_>, &ExportedVariant)| {
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
