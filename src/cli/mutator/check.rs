//! `evo mutator check`: whether a program speaks the protocol, told case by case. No source is compiled.

use std::time::{Duration, Instant};

use evo_protocol::mutator::{
    MutatorAnswer, MutatorOperator, MutatorOrder, MutatorParent, MutatorProposal, MutatorRequest,
    MutatorResult,
};
use evo_space::genome::Configuration;
use serde_json::{Value, json};

use super::args::MutatorCheckArgs;
use super::rounds::started;
use super::task;
use crate::cli::answer::Answer;
use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;
use crate::cli::output;
use crate::mutator::edits::{edited, replaced};
use crate::mutator::process::{GRACE, MutatorProgram, ending, message};
use crate::mutator::records::MutatorRecords;
use crate::mutator::species::OWN;
use crate::mutator::wire;

/// Proposals that are asked for.
const ASKED: usize = 2;
/// The cases, in order.
const CASES: [&str; 7] =
    ["ready", "unknown_fields", "proposals", "forms", "unknown_types", "results", "shutdown"];

/// A case and how it ended; nothing where it did not run.
type CaseEnd = Option<Result<(), String>>;

/// Runs the command: 0 where every case passes.
///
/// # Errors
/// The command cannot be read or does not start.
pub fn run(arguments: &MutatorCheckArgs, call: &Call) -> Result<Answer, CliError> {
    let program = started(&arguments.mutator)?;
    let ends = Conformance::play(program, arguments.timeout)?;
    let rows: Vec<Value> = CASES.iter().zip(&ends).map(|(name, end)| object(name, end)).collect();
    let all = ends.iter().all(|end| matches!(end, Some(Ok(()))));
    let exit = if all { ExitCode::Done } else { ExitCode::Failed };
    if !call.is_json() {
        let line = |row: &Value| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_string();
            let why = row["reason"].as_str().map_or(String::new(), |why| format!("  {why}"));
            format!("{:<15} {:<7}{why}", text("name"), text("status")).trim_end().to_string() + "\n"
        };
        output::stdout(&rows.iter().map(line).collect::<String>())?;
    }
    let own = json!({ "action": "check", "subject": arguments.mutator.text, "rows": rows });
    Ok(Answer::object(exit, &own).in_brief(json!({ "rows": rows })))
}

fn object(name: &str, end: &CaseEnd) -> Value {
    let (status, reason) = match end {
        None => ("not_run", Some("the program was gone".to_string())),
        Some(Ok(())) => ("pass", None),
        Some(Err(why)) => ("fail", Some(why.clone())),
    };
    json!({ "name": name, "status": status, "reason": reason })
}

/// A conversation with a program whose answers are known to be right or wrong.
struct Conformance {
    program: MutatorProgram,
    records: MutatorRecords,
    limit: Duration,
    last_id: u64,
}

impl Conformance {
    /// How each case ended.
    fn play(program: MutatorProgram, limit: Duration) -> Result<Vec<CaseEnd>, CliError> {
        let task = task::example(ASKED, limit).map_err(|error| CliError::harness(error.to_string()))?;
        let mut own = Conformance { program, records: MutatorRecords::default(), limit, last_id: 0 };
        let mut ends: Vec<CaseEnd> = vec![None; CASES.len()];
        let hello = MutatorRequest::Hello(Box::new(task));
        let greeted = own.ask(&hello, false).and_then(|answer| match answer {
            MutatorAnswer::Ready { .. } => Ok(()),
            other => Err(strange("hello", &other)),
        });
        ends[0] = Some(greeted.clone());
        if greeted.is_err() {
            return Ok(ends);
        }
        ends[1] = Some(own.ask(&hello, true).and_then(|answer| match answer {
            MutatorAnswer::Ready { .. } => Ok(()),
            other => Err(strange("a second `hello` with fields that it does not know", &other)),
        }));
        if ends[1] != Some(Ok(())) {
            return Ok(ends);
        }
        let order = MutatorRequest::Propose(Box::new(order(limit)));
        let first = own.proposals(&order);
        ends[2] = Some(first.as_ref().map(|_| ()).map_err(Clone::clone));
        let Ok(proposals) = first else { return Ok(ends) };
        ends[3] = Some(proposals.iter().try_for_each(form));
        let unknown = own.unknown();
        ends[4] = Some(unknown.clone());
        if unknown.is_err() {
            return Ok(ends);
        }
        ends[5] = Some(own.told(&order, &proposals));
        if ends[5] == Some(Ok(())) {
            ends[6] = Some(own.shutdown());
        }
        Ok(ends)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The answer to a message, which may have fields of a later version.
    fn ask(&mut self, request: &MutatorRequest, with_more: bool) -> Result<MutatorAnswer, String> {
        let id = self.next_id();
        let mut line = message(id, request);
        if with_more {
            line["from_a_later_version"] = json!({ "deep": [1, null, "x"] });
        }
        self.program.send(&line, &mut self.records);
        self.program.answer(id, self.limit, &mut self.records).map_err(|fault| fault.why)
    }

    fn proposals(&mut self, order: &MutatorRequest) -> Result<Vec<MutatorProposal>, String> {
        match self.ask(order, false)? {
            MutatorAnswer::Proposals { proposals } if proposals.len() <= ASKED => Ok(proposals),
            MutatorAnswer::Proposals { proposals } => {
                Err(format!("{} proposals, and {ASKED} were asked for", proposals.len()))
            }
            other => Err(strange("propose", &other)),
        }
    }

    /// A message of an unknown type wants `error`.
    fn unknown(&mut self) -> Result<(), String> {
        let id = self.next_id();
        self.program.send(&json!({ "v": 1, "type": "from_a_later_version", "id": id }), &mut self.records);
        match self.program.answer(id, self.limit, &mut self.records) {
            Err(fault) if !fault.is_dead => Ok(()),
            Err(fault) => Err(fault.why),
            Ok(other) => Err(strange("a message of an unknown type", &other)),
        }
    }

    /// Results are not answered, and the next question is.
    fn told(&mut self, order: &MutatorRequest, proposals: &[MutatorProposal]) -> Result<(), String> {
        for (at, own) in proposals.iter().enumerate() {
            let id = self.next_id();
            let request = MutatorRequest::Result(Box::new(result(at, own)));
            self.program.send(&message(id, &request), &mut self.records);
        }
        self.proposals(order).map(|_| ())
    }

    fn shutdown(mut self) -> Result<(), String> {
        let (id, began) = (self.next_id(), Instant::now());
        match self.program.shutdown(id, &mut self.records) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(ending(status)),
            None => Err(format!(
                "it did not end within {} s ({:.1} s)",
                GRACE.as_secs_f64(),
                began.elapsed().as_secs_f64()
            )),
        }
    }
}

/// A proposal has one of the forms, and its edits can be made.
fn form(proposal: &MutatorProposal) -> Result<(), String> {
    let named = |why: String| format!("proposal `{}`: {why}", wire::shown(&proposal.name));
    wire::check(proposal).map_err(named)?;
    match (&proposal.source, &proposal.edits) {
        (Some(source), _) => replaced(task::EXAMPLE, source).map_err(named),
        (None, Some(edits)) => edited(task::EXAMPLE, edits).map(|_| ()).map_err(named),
        (None, None) => Ok(()),
    }
}

fn order(limit: Duration) -> MutatorOrder {
    let configuration = Configuration::new(vec![("BLOCK".into(), evo_space::Value::Int(64))]);
    MutatorOrder {
        n: ASKED,
        deadline_s: limit.as_secs_f64(),
        budget_left_s: 600.0,
        operator: MutatorOperator::Init,
        parents: vec![MutatorParent {
            id: OWN.to_string(),
            source: task::EXAMPLE.to_string(),
            configuration,
            verdict: "pass".into(),
            objective_ns: Some(1000.0),
            resources: Value::Null,
            bottleneck: None,
            log_tail: String::new(),
        }],
        failures: Vec::new(),
        archive: Vec::new(),
        knows: None,
    }
}

fn result(at: usize, own: &MutatorProposal) -> MutatorResult {
    MutatorResult {
        proposal: format!("3.{}", at + 1),
        name: own.name.clone(),
        verdict: "compile_error".into(),
        message: "an example of a failure".into(),
        configuration: None,
        tried: 1,
        objective_ns: None,
        speedup: None,
        accepted: false,
        resources: Value::Null,
        log_tail: String::new(),
    }
}

fn strange(question: &str, answer: &MutatorAnswer) -> String {
    format!("it answered {question} with {}", wire::shown(&format!("{answer:?}")))
}
