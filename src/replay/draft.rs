//! What a reader makes of its file, and the space that this gives.

use evo_protocol::verdict::VerdictKind;
use evo_space::diagnostic::{Diagnostic, Diagnostics};
use evo_space::document::{Data, Node, TableEntry};
use evo_space::genome::{ContentHash, Genome};
use evo_space::load::read_space;
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use super::error::Fault;
use super::format::Format;
use super::recording::{Cost, Recording};
use super::rows::{self, Placed};

/// Said of a file without constraints.
const LISTED: &str = "the recording has no constraints: its configurations are the space";

/// Names with their values, in order.
pub(super) type Parameters = Vec<(String, Vec<Value>)>;

/// The content of a file, not checked against itself yet.
#[derive(Debug)]
pub(super) struct Draft {
    pub kernel: String,
    pub gpu: String,
    pub problem: String,
    pub format: Format,
    pub unit_ns: f64,
    /// Names with values, in order.
    pub parameters: Parameters,
    pub valid: Valid,
    /// The file says that its rows are exactly the valid points.
    pub exhaustive: bool,
    /// Whether a configuration may have several rows, of which the first counts.
    pub repeats: bool,
    pub rows: Vec<DraftRow>,
    pub notices: Vec<String>,
}

/// What the file says about which configurations are valid.
#[derive(Debug)]
pub(super) enum Valid {
    Constraints(Vec<String>),
    /// Nothing: only those that have rows.
    Listed,
    /// Another file's space.
    Space(Box<SearchSpace>),
}

/// One row of it.
#[derive(Debug)]
pub(super) struct DraftRow {
    /// How the file names it, where that is not its number.
    pub name: Option<String>,
    /// Positions in the draft's values.
    pub positions: Vec<u16>,
    pub kind: VerdictKind,
    pub objective_ns: Option<f64>,
    pub cost: Cost,
}

impl DraftRow {
    /// The row's name in messages.
    pub fn shown(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| number.to_string())
    }
}

impl Draft {
    /// Checks each row against the space, which is the caller's or else the file's, and the claim to be
    /// exhaustive.
    pub fn finish(mut self, own: Option<SearchSpace>, content: ContentHash) -> Result<Recording, Fault> {
        if self.rows.is_empty() {
            return Err(Fault::new("it has no rows").with_hint("a recording holds at least one evaluation"));
        }
        // The claim is about the file's own space.
        self.exhaustive &= own.is_none();
        let rows = std::mem::take(&mut self.rows);
        let Placed { space, rows, genomes, lookup } =
            match (own, std::mem::replace(&mut self.valid, Valid::Listed)) {
                (Some(space), _) => {
                    let (rows, left_out) = rows::translate(&self.parameters, rows, &space)?;
                    self.notices.extend(left_out);
                    rows::place(space, rows, self.repeats, &mut self.notices)?
                }
                (None, Valid::Space(space)) => {
                    let (rows, left_out) = rows::translate(&self.parameters, rows, &space)?;
                    self.notices.extend(left_out);
                    rows::place(*space, rows, self.repeats, &mut self.notices)?
                }
                (None, Valid::Constraints(constraints)) => {
                    let space = space_of(&self.parameters, &constraints)?;
                    rows::place(space, rows, self.repeats, &mut self.notices)?
                }
                (None, Valid::Listed) => {
                    let parameters = space_of(&self.parameters, &[])?.parameters().to_vec();
                    let points = rows.iter().map(|row| Genome::from(row.positions.clone())).collect();
                    let space = SearchSpace::of_points(parameters, points);
                    if space.cartesian() != *space.valid() {
                        self.notices.push(LISTED.to_string());
                    }
                    rows::place(space, rows, self.repeats, &mut self.notices)?
                }
            };
        let exhaustive = space.is_exact() && space.count() == genomes.len() as u128;
        if self.exhaustive && !exhaustive {
            return Err(rows::incomplete(&space, &genomes));
        }
        let Draft { kernel, gpu, problem, format, unit_ns, notices, .. } = self;
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
}

/// The space of parameters with their values and of constraints in the expression language, checked
/// like a space file.
fn space_of(parameters: &[(String, Vec<Value>)], constraints: &[String]) -> Result<SearchSpace, Fault> {
    let list = |items: Vec<Node>| node(Data::List(items));
    let text = |text: &String| node(Data::Text(text.clone()));
    let entry = |key: &str, value: Node| TableEntry { key: key.to_string(), key_span: 0..0, value };
    let parameter =
        |(name, values): &(String, Vec<Value>)| entry(name, list(values.iter().map(value_node).collect()));
    let parameters = node(Data::Table(parameters.iter().map(parameter).collect()));
    let constraints = list(constraints.iter().map(text).collect());
    let root = node(Data::Table(vec![entry("parameters", parameters), entry("constraints", constraints)]));
    let mut diagnostics = Diagnostics::default();
    read_space(&root, &mut diagnostics).ok_or_else(|| unusable(diagnostics.list()))
}

/// The place is unknown: the text went through another reader.
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
