//! What a program that proposes candidates may know of its task: everything that the author of a kernel needs, what a search
//! over the space's parameters has learned, and nothing of how candidates are checked.

use evo_protocol::evaluation::Evaluation;
use evo_search::insight::{ExpectedPoint, Insight, expected_points};
use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use serde::Serialize;
use serde_json::{Value, json};

use super::session::RequestSession;
use crate::cli::error::CliError;
use crate::cli::session;
use crate::journal::champions::output_folder;
use crate::journal::reader::{self, JOURNAL};
use crate::journal::replay::History;
use crate::kernel::spec::{ArgumentSpec, KernelSpec, LaunchSpec, SourceKind, SpaceFile};
use crate::request::answer::AnswerHead;
use crate::request::ask::EvaluationRequest;

/// Points that were never tried, with their expected times.
const EXPECTED: usize = 10;

#[derive(Serialize)]
struct TaskAnswer<'a> {
    schema: &'static str,
    version: u32,
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    tag: &'a Option<Value>,
    status: &'static str,
    kernel: &'a str,
    /// `cuda` or `template`.
    source_kind: &'static str,
    source: &'a str,
    arguments: Vec<Value>,
    launches: Vec<Value>,
    parameters: Vec<Value>,
    /// Timed ones.
    problems: Vec<Value>,
    /// Of the study `KERNEL-DEVICE`; null where there is none.
    known: Option<SearchKnowledge>,
}

#[derive(Serialize)]
struct SearchKnowledge {
    #[serde(flatten)]
    insight: Insight,
    best_configuration: Option<Configuration>,
    /// Never tried, the fastest first.
    expected: Vec<Value>,
}

/// The answer to a request for the task, and the kernel's name.
pub fn answer(
    session: &RequestSession<'_>,
    request: &EvaluationRequest,
    head: &AnswerHead,
) -> Result<(Value, String), CliError> {
    let (_, file) = session.space(request)?;
    let kernel = session::kernel_of(&file)?;
    Ok((task(session, &file, kernel, head)?, kernel.name.clone()))
}

fn task(
    session: &RequestSession<'_>,
    file: &SpaceFile,
    kernel: &KernelSpec,
    head: &AnswerHead,
) -> Result<Value, CliError> {
    let (kind, space) = (session.device_kind(), &file.space);
    let problems = session::problems(kernel, kind, &session.arguments.one.problems)?;
    let parameters = space.parameters().iter().map(|parameter| {
        json!({
            "name": parameter.name.to_string(), "values": parameter.values, "default": parameter.default_value(),
        })
    });
    let timed = problems.iter().filter(|problem| problem.timed);
    let study = output_folder(&session.arguments.one.candidate.out)?
        .and_then(|out| out.folder(&format!("{}-{}", kernel.name, kind.as_str())).ok())
        .filter(|folder| folder.has_file(JOURNAL))
        .map(|folder| reader::read_in(&folder))
        .transpose()?;
    let known = study.map(|journal| {
        let evaluations = History::replay(journal).evaluations;
        let expected = expected_points(space, &evaluations, session.seed, EXPECTED);
        let expected = expected.into_iter().map(|point| {
            let ExpectedPoint { configuration, objective_ns, low_ns, high_ns } = point;
            json!({
                "configuration": configuration, "objective_ns": objective_ns, "low_ns": low_ns, "high_ns": high_ns,
            })
        });
        let insight = Insight::of(space, &evaluations, session.seed);
        let is_best = |evaluation: &&Evaluation| {
            insight.best.as_ref().is_some_and(|best| best.number == evaluation.number)
        };
        let best_configuration = evaluations.iter().find(is_best).map(|best| best.configuration.clone());
        SearchKnowledge { insight, best_configuration, expected: expected.collect() }
    });
    let answer = TaskAnswer {
        schema: "evo.evaluate.task",
        version: 1,
        id: &head.id,
        line: head.line,
        tag: &head.tag,
        status: "done",
        kernel: &kernel.name,
        source_kind: match kernel.source.kind {
            SourceKind::Template => "template",
            SourceKind::Plain | SourceKind::Given => "cuda",
        },
        source: &kernel.source.text,
        arguments: kernel.arguments.iter().map(argument).collect(),
        launches: kernel.launches.iter().map(launch).collect(),
        parameters: parameters.collect(),
        problems: timed.map(|problem| json!({ "name": problem.name, "sizes": problem.sizes })).collect(),
        known,
    };
    Ok(json!(answer))
}

fn argument(argument: &ArgumentSpec) -> Value {
    let name = argument.name();
    match argument {
        ArgumentSpec::Buffer(buffer) => json!({
            "name": name, "kind": "buffer", "dtype": buffer.dtype.as_str(), "role": buffer.role,
            "shape": texts(&buffer.shape),
        }),
        ArgumentSpec::Scalar(scalar) => {
            json!({ "name": name, "kind": "scalar", "dtype": scalar.dtype.as_str() })
        }
        ArgumentSpec::TensorMap(_) => json!({ "name": name, "kind": "tensor_map" }),
    }
}

fn launch(launch: &LaunchSpec) -> Value {
    json!({
        "entry": launch.entry, "grid": texts(&launch.grid), "block": texts(&launch.block),
        "shared": launch.shared_bytes.as_ref().map(Expr::text),
    })
}

fn texts(expressions: &[Expr]) -> Vec<&str> {
    expressions.iter().map(Expr::text).collect()
}
