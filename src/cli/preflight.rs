//! `evo preflight`: is everything here that a sweep on this device needs, and what else could be used? Looks, starts one
//! worker, and writes nothing but a probe file in the cache, and with `--write` the answer.

use std::io;
use std::path::Path;

use evo_device::probe::DeviceChoice;
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{ErrorCode, ErrorPlace};

use super::answer::Answer;
use super::args::{PreflightArgs, SandboxMode};
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use super::preflight_checks::{self, Finding};
use super::session::{self, DeviceSetup};
use crate::compile::FarmOptions;
use crate::journal::own_folder::OwnFolder;
use crate::tool::{SurveyedTool, ToolPlaces, ToolState, survey};

/// The file that `--write` makes.
const TOOLCHAIN: &str = "toolchain.json";

/// Runs the command: 0 when a sweep can start, 1 otherwise.
pub fn run(arguments: &PreflightArgs) -> Result<Answer, CliError> {
    let (setup, absent) = match session::setup(&arguments.device, None) {
        Ok(setup) => (setup, None),
        // What else is missing for a GPU is what the command is for.
        Err(error) if arguments.device.starts_with("cuda") => (without_gpu(&arguments.device), Some(error)),
        Err(error) => return Err(error),
    };
    let setup = setup.fenced(arguments.sandbox);
    let findings = preflight_checks::all(&setup);
    let tools = survey(&ToolPlaces::of_environment());
    let ready = findings.iter().all(|finding| finding.ok != Some(false));
    let exit = if ready { ExitCode::Done } else { ExitCode::Failed };
    let whole = json(&setup, ready, &findings, &tools);
    if !arguments.json {
        output::stdout(&text(&setup, ready, &findings, &tools))?;
    }
    let mut answer = Answer::object(exit, &whole);
    if let Some(error) = absent {
        answer = answer.despite(error);
    }
    if !arguments.write {
        return Ok(answer);
    }
    Ok(match keep(&arguments.out, &format!("{whole:#}\n")) {
        Ok(()) => answer,
        Err(error) => answer.despite(error),
    })
}

/// What would be needed for a GPU where there is none.
fn without_gpu(device: &str) -> DeviceSetup {
    let choice =
        DeviceChoice { kind: DeviceKind::Cuda, spec: device.to_string(), arch: String::new(), name: None };
    let farm = FarmOptions::new(choice.kind, &choice.arch);
    DeviceSetup {
        choice,
        farm,
        sandbox: SandboxMode::On,
        step_max: None,
        sampling_max: None,
        until: None,
        warm: None,
    }
}

fn json(setup: &DeviceSetup, ready: bool, findings: &[Finding], tools: &[SurveyedTool]) -> serde_json::Value {
    serde_json::json!({ "device": setup.choice.spec, "ready": ready, "findings": findings, "tools": tools })
}

fn keep(out: &Path, text: &str) -> Result<(), CliError> {
    let written = OwnFolder::create(out).and_then(|folder| folder.replace(TOOLCHAIN, text.as_bytes(), true));
    written.map_err(|error| {
        let place = out.join(TOOLCHAIN).display().to_string();
        let text = format!("cannot write `{place}`: {error}");
        match error.kind() {
            // Nothing that the caller got wrong.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => CliError::harness(text),
            _ => CliError::environment(text).with_code(ErrorCode::BadFile).at(ErrorPlace {
                file: place,
                line: None,
                column: None,
            }),
        }
        .with_hint("choose another folder with `--out`")
    })
}

/// A line a tool: none of them is needed for a sweep.
fn tool_lines(tools: &[SurveyedTool]) -> String {
    let line = |tool: &SurveyedTool| {
        let mark = if tool.state == ToolState::Ok { "ok     " } else { "absent " };
        let version =
            tool.version.iter().cloned().chain(tool.packages.iter().cloned()).collect::<Vec<_>>().join(", ");
        let place = tool.path.as_ref().map(|path| format!(" ({})", path.display())).unwrap_or_default();
        let reason = tool.reason.as_ref().filter(|_| tool.state != ToolState::Missing);
        let told = match reason {
            Some(reason) => format!("{}: {reason}", tool.state.as_str()),
            None if tool.state == ToolState::Missing => "not found".to_string(),
            None => format!("{version}{place}"),
        };
        format!("{mark} {:<17} {}\n", tool.name, told.replace('\n', " "))
    };
    tools.iter().map(line).collect()
}

fn text(setup: &DeviceSetup, ready: bool, findings: &[Finding], tools: &[SurveyedTool]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.ok {
            Some(true) => "ok     ",
            Some(false) => "MISSING",
            None => "absent ",
        };
        let message = finding.message.replace('\n', "\n                      ");
        text.push_str(&format!("{mark} {:<13} {message}\n", finding.name));
    }
    text.push_str("outside programs, for commands that use them:\n");
    text.push_str(&tool_lines(tools));
    let verdict = if ready { "ready" } else { "not ready" };
    text.push_str(&format!("{verdict} for `--device {}`\n", setup.choice.spec));
    text
}
