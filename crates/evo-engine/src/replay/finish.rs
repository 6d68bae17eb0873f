//! From a draft to a recording: the space is built, and every row finds its place in it.

use evo_space::diagnostic::{Diagnostic, Diagnostics};
use evo_space::document::{Data, Node, TableEntry};
use evo_space::genome::{ContentHash, Genome};
use evo_space::load::read_space;
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use super::draft::{Draft, Valid};
use super::error::RecordingFault;
use super::place::{self, Placed};
use super::recording::Recording;
use evo_kernel::access::SpaceAccess;

/// The notice of a file without constraints.
const LISTED: &str = "the recording has no constraints: its configurations are the space";

/// Checks each row of a draft against the space, and the claim to be exhaustive. The space is `own`, or else the
/// file's.
pub fn finish(
    mut draft: Draft,
    own: Option<SearchSpace>,
    content: ContentHash,
) -> Result<Recording, RecordingFault> {
    if draft.rows.is_empty() {
        return Err(
            RecordingFault::new("it has no rows").with_hint("a recording holds at least one evaluation")
        );
    }
    // A file claims to be exhaustive for its own space, not for the caller's.
    draft.exhaustive &= own.is_none();
    let rows = std::mem::take(&mut draft.rows);
    let Placed { space, rows, genomes, lookup } =
        match (own, std::mem::replace(&mut draft.valid, Valid::Listed)) {
            (Some(space), _) => {
                let (rows, left_out) = place::translate(&draft.parameters, rows, &space)?;
                draft.notices.extend(left_out);
                place::place(space, rows, draft.repeats, &mut draft.notices)?
            }
            (None, Valid::Space(space)) => {
                let (rows, left_out) = place::translate(&draft.parameters, rows, &space)?;
                draft.notices.extend(left_out);
                place::place(*space, rows, draft.repeats, &mut draft.notices)?
            }
            (None, Valid::Constraints(constraints)) => {
                let space = space_of(&draft.parameters, &constraints)?;
                place::place(space, rows, draft.repeats, &mut draft.notices)?
            }
            (None, Valid::Listed) => {
                let parameters = space_of(&draft.parameters, &[])?.parameters().to_vec();
                let points = rows.iter().map(|row| Genome::from(row.positions.clone())).collect();
                // Without constraints nothing says whether an unrecorded configuration is valid, so the
                // recorded ones are the space.
                let space = SearchSpace::of_points(parameters, points);
                if space.cartesian() != *space.valid() {
                    draft.notices.push(LISTED.to_string());
                }
                place::place(space, rows, draft.repeats, &mut draft.notices)?
            }
        };
    // The count of a space that is not exact is only an upper bound.
    let exhaustive = space.is_exact() && space.count() == genomes.len() as u128;
    if draft.exhaustive && !exhaustive {
        return Err(place::incomplete(&space, &genomes));
    }
    let Draft { kernel, gpu, problem, format, unit_ns, notices, .. } = draft;
    let name = format!("{kernel}__{gpu}");
    Ok(Recording {
        name,
        kernel,
        gpu,
        problem,
        format,
        space,
        unit_ns,
        exhaustive,
        content,
        notices,
        rows,
        genomes,
        lookup,
    })
}

/// The space of parameters with their values and of constraints in the expression language, checked
/// like a space file.
fn space_of(
    parameters: &[(String, Vec<Value>)],
    constraints: &[String],
) -> Result<SearchSpace, RecordingFault> {
    let list = |items: Vec<Node>| node(Data::List(items));
    let text = |text: &String| node(Data::Text(text.clone()));
    let entry = |key: &str, value: Node| TableEntry { key: key.to_string(), key_span: 0..0, value };
    let parameter =
        |(name, values): &(String, Vec<Value>)| entry(name, list(values.iter().map(value_node).collect()));
    let parameters = node(Data::Table(parameters.iter().map(parameter).collect()));
    let constraints = list(constraints.iter().map(text).collect());
    let root = node(Data::Table(vec![entry("parameters", parameters), entry("constraints", constraints)]));
    let mut diagnostics = Diagnostics::default();
    let watch = SpaceAccess::default().watch();
    read_space(&root, &watch, &mut diagnostics).ok_or_else(|| unusable(diagnostics.list()))
}

/// A node without a place in the text, which another reader has read already.
fn node(data: Data) -> Node {
    Node { span: 0..0, data }
}

fn value_node(value: &Value) -> Node {
    node(match value {
        Value::Bool(value) => Data::Bool(*value),
        Value::Int(value) => Data::Int(*value),
        Value::Float(value) => Data::Float(*value),
        Value::Text(text) => Data::Text(text.to_string()),
    })
}

fn unusable(diagnostics: &[Diagnostic]) -> RecordingFault {
    let causes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    let fault = RecordingFault::new(format!(
        "its parameters and constraints do not make a space: {}",
        causes.join("; ")
    ));
    match diagnostics.iter().find_map(|diagnostic| diagnostic.hint.clone()) {
        Some(hint) => fault.with_hint(hint),
        None => fault,
    }
}
