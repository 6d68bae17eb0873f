//! What a reader makes of its file, and the checks that turn it into a recording.

use std::collections::HashMap;

use super::error::Fault;
use super::recording::{Cost, Lookup, Recording, Row};
use crate::genome::Genome;
use crate::space::diagnostic::{Diagnostic, Diagnostics};
use crate::space::document::{Data, Entry, Node};
use crate::space::load::read_space;
use crate::space::space::SearchSpace;
use crate::space::value::Value;
use crate::verdict::VerdictKind;

/// The content of a file, not checked against itself yet.
#[derive(Debug)]
pub(super) struct Draft {
    pub kernel: String,
    pub gpu: String,
    pub space: SearchSpace,
    pub unit_ns: f64,
    /// The file says that its rows are exactly the valid points.
    pub exhaustive: bool,
    pub rows: Vec<DraftRow>,
}

/// One row of it.
#[derive(Debug)]
pub(super) struct DraftRow {
    pub genome: Genome,
    pub kind: VerdictKind,
    pub objective_ns: Option<f64>,
    pub cost: Cost,
}

impl Draft {
    /// Checks each row against the space, and the claim to be exhaustive.
    pub fn finish(self) -> Result<Recording, Fault> {
        let Draft { kernel, gpu, space, unit_ns, exhaustive, rows } = self;
        let (mut finished, mut genomes) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        let mut canonical = true;
        for (number, row) in rows.into_iter().enumerate() {
            let index = space.index_of(&row.genome);
            canonical &= index == Some(number as u128);
            if index.is_none() {
                refuse_violation(&space, &row.genome).map_err(|fault| fault.in_row(number))?;
            }
            let DraftRow { genome, kind, objective_ns, cost } = row;
            finished.push(Row { number, class: kind.class(), kind, objective_ns, cost });
            genomes.push(genome);
        }
        let lookup = if canonical { Lookup::Canonical } else { Lookup::Map(map(&space, &genomes)?) };
        let complete = space.is_exact() && space.count() == genomes.len() as u128;
        if exhaustive && !complete {
            return Err(incomplete(&space, &lookup, genomes.len()));
        }
        let name = format!("{kernel}__{gpu}");
        Ok(Recording {
            name,
            kernel,
            gpu,
            space,
            unit_ns,
            exhaustive: complete,
            rows: finished,
            genomes,
            lookup,
        })
    }
}

fn refuse_violation(space: &SearchSpace, genome: &Genome) -> Result<(), Fault> {
    let violations = space.violations(genome);
    let Some(first) = violations.first() else { return Ok(()) };
    let cause = format!(
        "`{}` violates the constraint `{}` of the same file",
        space.configuration(genome),
        first.expr.text()
    );
    Err(Fault::new(cause).with_hint("take the constraint out of the file, or the row"))
}

fn map(space: &SearchSpace, genomes: &[Genome]) -> Result<HashMap<Genome, u32>, Fault> {
    let mut map = HashMap::with_capacity(genomes.len());
    for (number, genome) in genomes.iter().enumerate() {
        if let Some(earlier) = map.insert(genome.clone(), number as u32) {
            let cause = format!("`{}` stands in row {earlier} already", space.configuration(genome));
            return Err(Fault::new(cause).in_row(number));
        }
    }
    Ok(map)
}

fn incomplete(space: &SearchSpace, lookup: &Lookup, rows: usize) -> Fault {
    let recorded = |genome: &Genome| match lookup {
        Lookup::Canonical => space.index_of(genome).is_some_and(|index| index < rows as u128),
        Lookup::Map(map) => map.contains_key(genome),
    };
    let missing = space.iter().find(|genome| !recorded(genome));
    let missing = missing.map(|genome| format!("; `{}` is missing", space.configuration(&genome)));
    let cause = format!(
        "it says that its {rows} rows are exhaustive, but its constraints allow {} configurations{}",
        space.count(),
        missing.unwrap_or_default()
    );
    Fault::new(cause).with_hint("write `\"exhaustive\": false`, or complete the rows or the constraints")
}

/// The space of parameters with their values and of constraints in the expression language, checked
/// like a space file.
pub(super) fn space_of(
    parameters: &[(String, Vec<Value>)],
    constraints: &[String],
) -> Result<SearchSpace, Fault> {
    let list = |items: Vec<Node>| node(Data::List(items));
    let text = |text: &String| node(Data::Text(text.clone()));
    let entry = |(name, values): &(String, Vec<Value>)| Entry {
        key: name.clone(),
        key_span: 0..0,
        value: list(values.iter().map(value_node).collect()),
    };
    let table = |key: &str, value: Node| Entry { key: key.to_string(), key_span: 0..0, value };
    let parameters = node(Data::Table(parameters.iter().map(entry).collect()));
    let constraints = list(constraints.iter().map(text).collect());
    let root = node(Data::Table(vec![table("parameters", parameters), table("constraints", constraints)]));
    let mut diagnostics = Diagnostics::default();
    read_space(&root, &mut diagnostics).ok_or_else(|| unusable(diagnostics.list()))
}

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

fn unusable(diagnostics: &[Diagnostic]) -> Fault {
    let causes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    let fault = Fault::new(format!("its parameters and constraints make no space: {}", causes.join("; ")));
    match diagnostics.iter().find_map(|diagnostic| diagnostic.hint.clone()) {
        Some(hint) => fault.with_hint(hint),
        None => fault,
    }
}
