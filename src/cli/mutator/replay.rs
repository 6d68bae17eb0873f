//! `evo mutator replay`: the proposals of a recorded run judged again, without the program. Nothing is recorded: what is
//! compared is the verdict of each proposal.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use evo_protocol::mutator::{
    MutatorAnswer, MutatorMessage, MutatorOrder, MutatorProposal, MutatorRequest, MutatorResult,
};
use serde_json::{Value, json};

use super::args::MutatorReplayArgs;
use super::judge::{EvaluateJudge, JudgeSetting, arguments};
use super::task;
use crate::cli::answer::Answer;
use crate::cli::call::Call;
use crate::cli::error::{CliError, Explanation};
use crate::cli::exit_code::ExitCode;
use crate::cli::{opened, output, session};
use crate::journal::own_folder::OwnFolder;
use crate::mutator::process::Proposer;
use crate::mutator::records::{MUTATORS, MutatorEvent, MutatorRecords, RecordedRun, last_run};
use crate::mutator::species::{self, SpeciesBounds, SpeciesTask};
use crate::request::ask::EvaluationLevel;

/// Runs the command: 0 where every proposal gets the verdict that it had.
///
/// # Errors
/// The file or its space cannot be read, or there is no device.
pub fn run(own: &MutatorReplayArgs, call: &Call) -> Result<Answer, CliError> {
    own.limits.begin(call)?;
    let (recorded, parent) = read(&own.file)?;
    let begun = &recorded.begun;
    let space = own.space.clone().unwrap_or_else(|| begun.space.clone());
    let file = opened::space(&space, own.access.access())?;
    let kernel = session::kernel_of(&file)?;
    if kernel.name != begun.kernel {
        let text = format!("the run is about `{}`, and `{space}` has `{}`", begun.kernel, kernel.name);
        return Err(CliError::usage(text).with_hint("`--space` names the space of the run"));
    }
    if file.space.genome(&begun.start).is_none() {
        let text = format!("`{}`, with which the run began, is not a point of `{space}`", begun.start);
        return Err(CliError::usage(text).with_hint("the space was edited since"));
    }
    let judged_as = arguments(JudgeSetting {
        space: session::space_word(&file),
        device: own.device.clone().unwrap_or_else(|| begun.device.clone()),
        seed: begun.seed,
        problems: begun.problems.clone(),
        out: parent,
        worker_command: None,
        sandbox: own.sandbox,
        access: own.access.clone(),
        limits: own.limits.clone(),
        limit_sampling: None,
        time: own.time,
    });
    let until = Instant::now() + own.time;
    let bounds =
        SpeciesBounds { rounds: begun.rounds, proposals: begun.proposals, deadline: own.time, until };
    let species =
        SpeciesTask { space: &file.space, source: &kernel.source.text, start: &begun.start, bounds };
    let is_template = task::kind(kernel) == "template";
    // Not `confirm`, which would write down evaluations that were written down before.
    let mut judge = EvaluateJudge::begin(&judged_as, is_template, until, EvaluationLevel::Full)?;
    let (mut proposer, before) = (RecordedMutator::of(&recorded), results(&recorded));
    let run = species::run(&species, &mut proposer, &mut judge, &mut MutatorRecords::default());
    let rows: Vec<Value> = before
        .iter()
        .map(|old| {
            let now = run.rows.iter().find(|row| row.result.proposal == old.proposal);
            compared(old, now.map(|row| &row.result))
        })
        .collect();
    for note in &recorded.notes {
        output::say(&format!("note: {note}"));
    }
    if !call.is_json() {
        let line = |row: &Value| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_string();
            format!("{} {}  {}\n", text("name"), text("status"), text("reason"))
        };
        output::stdout(&rows.iter().map(line).collect::<String>())?;
    }
    let all = !rows.is_empty() && rows.iter().all(|row| row["status"] == "pass");
    let exit = if all { ExitCode::Done } else { ExitCode::Failed };
    let own = json!({ "action": "replay", "subject": own.file.display().to_string(), "rows": rows });
    Ok(Answer::object(exit, &own).in_brief(json!({ "rows": rows })))
}

/// The run in a file, and the evidence folder that it lies in.
fn read(file: &Path) -> Result<(RecordedRun, std::path::PathBuf), CliError> {
    let hint = "name the `mutators.jsonl` of a study's folder";
    if file.file_name().is_none_or(|name| name != MUTATORS) {
        let text = format!("`{}` is not called `{MUTATORS}`", file.display());
        return Err(CliError::usage(text).with_hint(hint));
    }
    let study = file.parent().unwrap_or(Path::new(""));
    let folder = OwnFolder::open(study).map_err(|error| {
        CliError::bad_file(format!("cannot open `{}`: {error}", study.display()), study).with_hint(hint)
    })?;
    let run = last_run(&folder)
        .map_err(|error| CliError::bad_file(Explanation::of(&error, Some(hint.into())), file))?;
    let out = study.parent().filter(|own| !own.as_os_str().is_empty());
    let above = if study.as_os_str().is_empty() { Path::new("..") } else { Path::new(".") };
    Ok((run, out.unwrap_or(above).to_path_buf()))
}

/// Whether a proposal has the verdict that it had.
fn compared(old: &MutatorResult, now: Option<&MutatorResult>) -> Value {
    let name = format!("{} {}", old.proposal, crate::mutator::wire::shown(&old.name));
    let (status, reason) = match now {
        None => ("not_run", "its turn did not come".to_string()),
        Some(now) if now.verdict == "not_run" => ("not_run", now.message.clone()),
        Some(now) if now.verdict == old.verdict => ("pass", old.verdict.clone()),
        Some(now) => ("fail", format!("`{}` then, `{}` now", old.verdict, now.verdict)),
    };
    json!({ "name": name, "status": status, "reason": reason })
}

/// What the mutator was told, proposal by proposal.
fn results(recorded: &RecordedRun) -> Vec<MutatorResult> {
    let sent = recorded.events.iter().filter_map(|event| match event {
        MutatorEvent::Sent(message) => {
            serde_json::from_value::<MutatorMessage<MutatorRequest>>(message.clone()).ok()
        }
        _ => None,
    });
    sent.filter_map(|message| match message.body {
        MutatorRequest::Result(result) => Some(*result),
        _ => None,
    })
    .collect()
}

/// The answers of a recorded run, in their order.
struct RecordedMutator(VecDeque<(u64, Vec<MutatorProposal>)>);

impl RecordedMutator {
    fn of(recorded: &RecordedRun) -> RecordedMutator {
        let (mut parent, mut asked, mut found) = (None::<String>, None::<u64>, VecDeque::new());
        for event in &recorded.events {
            match event {
                MutatorEvent::Sent(message) if message["type"] == "propose" => {
                    parent = message["parents"][0]["id"].as_str().map(String::from);
                    asked = message["id"].as_u64();
                }
                MutatorEvent::Received(message) => {
                    let read = serde_json::from_value::<MutatorMessage<MutatorAnswer>>(message.clone());
                    let Ok(MutatorMessage { id, body: MutatorAnswer::Proposals { mut proposals }, .. }) =
                        read
                    else {
                        continue;
                    };
                    if asked != Some(id) {
                        continue;
                    }
                    asked = None;
                    // The first parent may be another one today: times differ.
                    for own in &mut proposals {
                        own.parent = own.parent.take().or_else(|| parent.clone());
                    }
                    found.push_back((id, proposals));
                }
                // What came with it did not count.
                MutatorEvent::Strike { .. } => asked = None,
                _ => {}
            }
        }
        RecordedMutator(found)
    }
}

impl Proposer for RecordedMutator {
    fn propose(
        &mut self,
        _order: &MutatorOrder,
        _records: &mut MutatorRecords,
    ) -> Option<(u64, Vec<MutatorProposal>)> {
        self.0.pop_front()
    }

    fn tell(&mut self, _result: &MutatorResult, _records: &mut MutatorRecords) {}

    fn end(&mut self, _records: &mut MutatorRecords) -> Option<String> {
        None
    }
}
