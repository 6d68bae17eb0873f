//! What a gate run leaves: its line, `gate.json`, `gate.md`, and the baseline's file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use evo_protocol::envelope::EnvelopeStatus;
use evo_protocol::measurement::Measurement;
use evo_space::genome::ContentHash;
use serde_json::json;

use super::aim::Aim;
use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::gate::{JudgedGate, judge};
use super::gate_args::GateArgs;
use super::trial::{self, AskedCandidate};
use super::{described, evaluate, opened, output};
use crate::engine::candidate::CandidateKind;
use crate::journal::baseline::{BASELINE_SCHEMA, BASELINE_VERSION, BaselineTimes, GateBaseline};
use crate::journal::error::JournalError;
use crate::journal::gates::{GateRun, GateRunProblem};
use crate::journal::iterations::{IterationCandidate, IterationLog};
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;
use crate::kernel::launch_file::LaunchFile;
use crate::kernel::render::render;
use crate::regular;
use crate::report::gate::{GateOutcome, GateSheet};
use crate::tool::{GitState, ToolPlaces, git_state};

/// The folder of the last run's files.
const FOLDER: &str = "gate";

/// All that is known of a run.
pub struct GateParts<'a> {
    pub arguments: &'a GateArgs,
    pub asked: &'a AskedCandidate,
    pub judged: &'a JudgedGate,
    pub baseline: &'a GateBaseline,
    pub sheet: &'a GateSheet,
}

/// What was written.
pub struct RecordedGate {
    /// Of the line.
    pub number: u64,
    pub files: Vec<String>,
    /// Whether the candidate is the baseline now.
    pub updated: bool,
}

/// Appends the line, writes the files, and after a pass the baseline where `--update` asks for that.
pub fn record(parts: &GateParts<'_>, log: &IterationLog) -> Result<RecordedGate, CliError> {
    let (outcome, why) = parts.sheet.outcome();
    let git = git_state(Path::new("."), &ToolPlaces::of_environment());
    let line = log.append(line(parts, &git, outcome, &why))?;
    let files = write_files(parts, line.number)?;
    let updated = parts.arguments.update && outcome == GateOutcome::Pass;
    if updated {
        write_baseline(&parts.arguments.baseline, &baseline(parts.asked, parts.judged, git)?)?;
    }
    Ok(RecordedGate { number: line.number, files, updated })
}

fn line(parts: &GateParts<'_>, git: &GitState, outcome: GateOutcome, why: &str) -> GateRun {
    let GateParts { asked, judged, sheet, baseline, .. } = parts;
    let own = &asked.candidate;
    let is_source = own.provenance.kind == CandidateKind::Source;
    let kernel = own.file.kernel.as_ref().filter(|_| is_source);
    let problem = |own: &crate::report::gate::GatedProblem| GateRunProblem {
        problem: own.problem.clone(),
        baseline_p50_ns: own.baseline_p50_ns,
        candidate_p50_ns: own.candidate_p50_ns,
        ratio: own.finding.map(|found| found.ratio).filter(|ratio| ratio.is_finite()),
        decision: own.decision.as_str().to_string(),
    };
    GateRun {
        format: 0,
        number: 0,
        at: now(),
        kernel: sheet.kernel.clone(),
        space: asked.setting.space.clone(),
        device: sheet.device.clone(),
        baseline: sheet.baseline.clone(),
        baseline_source_hash: baseline.source_hash.clone(),
        candidate: IterationCandidate {
            configuration: own.configuration.clone(),
            configuration_hash: own.configuration.hash(),
            source_hash: own.provenance.source_hash.clone(),
            code_hash: judged.single.evaluation.code_hash.clone(),
            source: kernel.and_then(|kernel| render(kernel, &own.configuration).ok()).map(|own| own.text),
            launch: None,
        },
        threshold: sheet.threshold,
        decision: outcome.as_str().to_string(),
        why: why.to_string(),
        problems: sheet.problems.iter().map(problem).collect(),
        git_commit: git.commit.clone(),
        git_dirty: git.is_dirty,
    }
}

/// `gate.json` and `gate.md` of the last run.
fn write_files(parts: &GateParts<'_>, number: u64) -> Result<Vec<String>, CliError> {
    let GateParts { arguments, asked, judged, sheet, .. } = parts;
    let out = &arguments.files.out;
    let fail = |error| CliError::from(JournalError::io("write", &out.join(FOLDER), error));
    let folder = OwnFolder::create(out).and_then(|out| out.create_folder(FOLDER)).map_err(fail)?;
    let (mut result, reasons) = sheet.fields();
    result["number"] = number.into();
    let conditions =
        judged.device.as_ref().map(|device| described::conditions(device, asked.seed, &names(judged)));
    let object = json!({
        "schema": "evo.gate.run", "version": 1, "at": now(), "kernel": sheet.kernel, "space": asked.setting.space,
        "device": sheet.device, "repro": asked.setting.repro,
        "conditions": conditions, "result": result, "reasons": reasons,
    });
    let texts = [("gate.json", format!("{object:#}\n")), ("gate.md", sheet.markdown())];
    let mut files = Vec::new();
    for (name, text) in texts {
        JournalError::refuse_irregular(&folder, name)?;
        folder.replace(name, text.as_bytes(), true).map_err(fail)?;
        files.push(folder.place(name).display().to_string());
    }
    Ok(files)
}

fn names(judged: &JudgedGate) -> Vec<String> {
    let plans = judged.job.as_ref().map(|job| &job.timed[..]).unwrap_or_default();
    plans.iter().map(|plan| plan.name.clone()).collect()
}

/// The hash of a candidate's space file.
pub fn space_hash(asked: &AskedCandidate) -> ContentHash {
    ContentHash::of(asked.candidate.file.text.as_bytes())
}

/// Runs `evo gate --init`.
pub fn init(arguments: &GateArgs, call: &Call) -> Result<Answer, CliError> {
    let path = &arguments.baseline;
    check_place(path)?;
    refuse_another(path)?;
    let space = opened::space_name(arguments.space.as_deref())?;
    let one = arguments.one(&space, None);
    let asked = trial::ask(&one, call, Aim::Gate)?;
    let demands = arguments.demands(asked.kernel()?);
    let kernel = asked.kernel()?.name.clone();
    let log = evaluate::take_log(&one.candidate.out, &kernel, &asked.setup.choice)?;
    let judged = judge(&one, call, &asked, None, &demands)?;
    let verdict = &judged.single.evaluation.verdict;
    let (status, why) = match (judged.is_correct(), judged.missing.is_empty()) {
        (false, _) => (EnvelopeStatus::Fail, format!("{}: {}", verdict.label(), verdict.message)),
        (_, false) => {
            (EnvelopeStatus::NotRun, format!("did not run, though demanded: {}", judged.missing.join(", ")))
        }
        _ => (EnvelopeStatus::Pass, "it passed its gates".to_string()),
    };
    let mut own =
        json!({ "decision": status, "why": why, "baseline": path.display().to_string(), "updated": false });
    let mut answer =
        Answer { status, allowed_not_run: judged.allowed.clone(), ..Answer::from(ExitCode::Failed) };
    if status == EnvelopeStatus::Pass {
        // Another call may have made one while this one waited for the device.
        refuse_another(path)?;
        let git = git_state(Path::new("."), &ToolPlaces::of_environment());
        write_baseline(path, &baseline(&asked, &judged, git)?)?;
        own["updated"] = true.into();
        answer = Answer { allowed_not_run: answer.allowed_not_run, ..Answer::from(ExitCode::Done) };
    }
    drop(log);
    if !call.is_json() {
        let text =
            if status == EnvelopeStatus::Pass { "is the baseline now: commit it" } else { "was not written" };
        output::stdout(&format!("{why}\n`{}` {text}\n", path.display()))?;
    }
    Ok(answer.in_brief(own))
}

fn baseline(asked: &AskedCandidate, judged: &JudgedGate, git: GitState) -> Result<GateBaseline, CliError> {
    let kernel = asked.kernel()?;
    let own = &asked.candidate;
    let source = render(kernel, &own.configuration).map_err(|verdict| {
        CliError::harness(format!("the candidate does not render again: {}", verdict.message))
    })?;
    let launches = LaunchFile::of(kernel, &own.configuration);
    let device = judged.device.as_ref().ok_or_else(|| CliError::harness("no device was opened"))?;
    let mut problems = BTreeMap::new();
    for plan in judged.job.iter().flat_map(|job| &job.timed) {
        let is_own = |one: &&Measurement| one.problem == plan.name && one.mode == judged.mode;
        let Some(time) = judged.single.evaluation.measurements.iter().find(is_own) else { continue };
        let Measurement { p50_ns, p90_ns, ci_low_ns, ci_high_ns, .. } = *time;
        let sizes = plan.sizes.clone();
        problems.insert(plan.name.clone(), BaselineTimes { sizes, p50_ns, p90_ns, ci_low_ns, ci_high_ns });
    }
    let floors = judged.compared.iter().filter_map(|own| own.finding).map(|found| found.floor);
    let noise_floor =
        judged.noise_floor.or_else(|| floors.reduce(f64::max)).filter(|floor| floor.is_finite());
    Ok(GateBaseline {
        schema: BASELINE_SCHEMA.into(),
        version: BASELINE_VERSION,
        at: now(),
        kernel: kernel.name.clone(),
        space: asked.setting.space.clone(),
        space_hash: space_hash(asked),
        device: device.name.clone(),
        device_kind: device.kind,
        problems,
        configuration: own.configuration.clone(),
        launch: launches.is_usable().then_some(launches.object),
        source_hash: Some(hash_alone(&source.text)),
        source: source.text,
        code_hash: judged.single.evaluation.code_hash.clone(),
        toolchain: judged.toolchain.clone(),
        noise_floor,
        git_commit: git.commit,
        git_dirty: git.is_dirty,
        conditions: described::conditions(device, asked.seed, &names(judged)),
    })
}

/// The hash of the stored text.
pub fn hash_alone(text: &str) -> ContentHash {
    ContentHash::of(text.as_bytes())
}

/// Refuses a place where no baseline can be.
pub fn check_place(path: &Path) -> Result<(), CliError> {
    let refused =
        |text: String| Err(CliError::bad_file(text, path).with_hint("`--baseline FILE` names another"));
    let shown = path.display();
    if path.file_name().and_then(|name| name.to_str()).is_none() {
        return refused(format!("`{shown}` is not a name of a file"));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return refused(format!("`{shown}` is a link, which evo does not follow here"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return refused(format!("there is no folder `{}`", folder.display()));
    }
    regular::check(path).or_else(|error| refused(format!("`{shown}` cannot be a baseline: {error}")))
}

/// Refuses to make a baseline where there is one.
fn refuse_another(path: &Path) -> Result<(), CliError> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    Err(CliError::usage(format!("`{}` is there already", path.display()))
        .with_hint("`evo gate --update` rewrites it after a pass; `--baseline FILE` names another"))
}

fn write_baseline(path: &Path, baseline: &GateBaseline) -> Result<(), CliError> {
    baseline
        .write(path)
        .map_err(|error| CliError::harness(format!("cannot write `{}`: {error}", path.display())))
}

/// Appends to a file that is there or can be made, and waits for nobody.
pub fn append(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    regular::check(path)?;
    let mut file = File::options().append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")
}
