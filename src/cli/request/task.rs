//! What a program that proposes candidates may know of its task: everything that the author of a kernel needs, what a search
//! over the space's parameters has learned, and nothing of how candidates are checked.

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_search::insight::{Insight, expected_points};
use evo_space::expr::Expr;
use evo_space::space::SearchSpace;
use serde_json::{Value, json};

use super::answer::AnswerHead;
use crate::cli::{CliError, TestOneArgs, session};
use crate::journal::champions::output_folder;
use crate::journal::reader::{self, JOURNAL};
use crate::journal::replay::History;
use crate::kernel::spec::{ArgumentSpec, LaunchSpec, SourceKind, SpaceFile};

/// Points that were never tried, with their expected times.
const EXPECTED: usize = 10;

/// The answer to a request for the task in `file`.
pub fn answer(
    file: &SpaceFile,
    one: &TestOneArgs,
    kind: DeviceKind,
    seed: u64,
    head: &AnswerHead,
) -> Result<Value, CliError> {
    let kernel = session::kernel_of(file)?;
    let problems = session::problems(kernel, kind, &one.problems)?;
    let timed = problems.iter().filter(|problem| problem.timed);
    let parameters = file.space.parameters().iter().map(|parameter| {
        json!({
            "name": parameter.name.to_string(), "values": parameter.values, "default": parameter.default_value(),
        })
    });
    let study = output_folder(&one.candidate.out)?
        .and_then(|out| out.folder(&format!("{}-{}", kernel.name, kind.as_str())).ok())
        .filter(|folder| folder.has_file(JOURNAL))
        .map(|folder| reader::read_in(&folder))
        .transpose()?;
    let mut answer = json!({
        "schema": "evo.evaluate.task",
        "version": 1,
        "id": null,
        "status": "done",
        "kernel": kernel.name,
        "source_kind": match kernel.source.kind {
            SourceKind::Template => "template",
            SourceKind::Plain | SourceKind::Given => "cuda",
        },
        "source": kernel.source.text,
        "arguments": kernel.arguments.iter().map(argument).collect::<Vec<_>>(),
        "launches": kernel.launches.iter().map(launch).collect::<Vec<_>>(),
        "parameters": parameters.collect::<Vec<_>>(),
        "problems": timed.map(|problem| json!({ "name": problem.name, "sizes": problem.sizes })).collect::<Vec<_>>(),
        "known": study.map(|journal| known(&file.space, &History::replay(journal).evaluations, seed)),
    });
    head.put_on(&mut answer);
    Ok(answer)
}

/// What the study `KERNEL-DEVICE` has learned.
fn known(space: &SearchSpace, evaluations: &[Evaluation], seed: u64) -> Value {
    let insight = Insight::of(space, evaluations, seed);
    let best = insight.best.as_ref().map(|best| best.number);
    let best = evaluations.iter().find(|evaluation| Some(evaluation.number) == best);
    let mut known = json!(insight);
    known["best_configuration"] = json!(best.map(|best| &best.configuration));
    known["expected"] = json!(expected_points(space, evaluations, seed, EXPECTED));
    known
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
