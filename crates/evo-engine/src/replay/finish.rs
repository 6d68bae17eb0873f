//! From a file's content as its reader understands it, a draft, to a recording: the space is built, and every row is
//! translated from the value lists of its file, checked, and finds its place in the space.

use std::collections::{HashMap, HashSet};

use evo_kernel::access::SpaceAccess;
use evo_protocol::verdict::VerdictKind;
use evo_space::diagnostic::{Diagnostic, Diagnostics};
use evo_space::document::{Data, Node, TableEntry};
use evo_space::genome::{ContentHash, Genome};
use evo_space::load::read_space;
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use super::{Cost, Format, Recording, RecordingFault, Row, RowLookup};

const LISTED: &str = "the recording has no constraints: its configurations are the space";

/// Checks each row against the space (`own`, or else the file's), and the claim to be exhaustive.
pub fn finish(
    draft: Draft,
    own: Option<SearchSpace>,
    content: ContentHash,
) -> Result<Recording, RecordingFault> {
    if draft.rows.is_empty() {
        return Err(
            RecordingFault::new("it has no rows").with_hint("a recording holds at least one evaluation")
        );
    }
    let Draft { kernel, gpu, problem, format, parameters, valid, exhaustive, repeats, rows, mut notices } =
        draft;
    // A file claims to be exhaustive for its own space, not for the caller's.
    let claims_all = exhaustive && own.is_none();
    let (space, rows) = match (own, valid) {
        (Some(space), _) | (None, Valid::Space(space)) => {
            let (rows, left_out) = translate(&parameters, rows, &space)?;
            notices.extend(left_out);
            (space, rows)
        }
        (None, Valid::Constraints(constraints)) => (space_of(&parameters, &constraints)?, rows),
        (None, Valid::Listed) => {
            let parameters = space_of(&parameters, &[])?.parameters().to_vec();
            let points = rows.iter().map(|row| Genome::from(row.positions.clone())).collect();
            // Nothing says whether an unrecorded configuration is valid.
            let space = SearchSpace::of_points(parameters, points);
            if space.cartesian() != *space.valid() {
                notices.push(LISTED.to_string());
            }
            (space, rows)
        }
    };
    let (rows, genomes, lookup) = place(&space, rows, repeats, &mut notices)?;
    // The count of a space that is not exact is only an upper bound.
    let exhaustive = space.is_exact() && space.count() == genomes.len() as u128;
    if claims_all && !exhaustive {
        return Err(incomplete(&space, &genomes));
    }
    let name = format!("{kernel}__{gpu}");
    Ok(Recording {
        name,
        kernel,
        gpu,
        problem,
        format,
        space,
        exhaustive,
        content,
        notices,
        rows,
        genomes,
        lookup,
    })
}

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

pub type Parameters = Vec<(String, Vec<Value>)>;

#[derive(Debug)]
pub struct Draft {
    pub kernel: String,
    pub gpu: String,
    pub problem: String,
    pub format: Format,
    pub parameters: Parameters,
    pub valid: Valid,
    /// The file says that its rows are exactly the valid points.
    pub exhaustive: bool,
    /// Whether a configuration may have several rows, of which the first counts.
    pub repeats: bool,
    pub rows: Vec<DraftRow>,
    pub notices: Vec<String>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Valid {
    Constraints(Vec<String>),
    /// Nothing: the recorded configurations are the valid ones.
    Listed,
    Space(SearchSpace),
}

#[derive(Debug)]
pub struct DraftRow {
    /// The file's name for the row, where that is not its number.
    pub name: Option<String>,
    /// Positions in the value lists of the draft's parameters.
    pub positions: Vec<u16>,
    pub kind: VerdictKind,
    pub objective_ns: Option<f64>,
    pub cost: Cost,
}

impl DraftRow {
    pub fn shown(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| number.to_string())
    }
}

/// Places rows whose positions are the space's own. Each must be valid, and unique unless `repeats` allows more.
fn place(
    space: &SearchSpace,
    rows: Vec<DraftRow>,
    repeats: bool,
    notices: &mut Vec<String>,
) -> Result<(Vec<Row>, Vec<Genome>, RowLookup), RecordingFault> {
    let mut map: HashMap<Genome, u32> = HashMap::with_capacity(rows.len());
    let (mut finished, mut genomes) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    let (mut canonical, mut repeated) = (true, 0usize);
    for (at, row) in rows.into_iter().enumerate() {
        let genome = Genome::from(row.positions.clone());
        if let Some(earlier) = map.get(&genome) {
            if !repeats {
                let cause = format!("`{}` is already in row {earlier}", space.configuration(&genome));
                return Err(RecordingFault::new(cause).in_row(row.shown(at)));
            }
            repeated += 1;
            continue;
        }
        // Spaces that are too large to count have no indices, but can still tell whether a point is valid.
        let index = space.index_of(&genome);
        if index.is_none() && !space.contains(&genome) {
            return Err(violation(space, &genome).in_row(row.shown(at)));
        }
        let number = finished.len();
        // While every row stands at its point's index, no map is needed to find it again.
        canonical &= index == Some(number as u128);
        map.insert(genome.clone(), number as u32);
        genomes.push(genome);
        let DraftRow { kind, objective_ns, cost, .. } = row;
        finished.push(Row { number, class: kind.class(), kind, objective_ns, cost });
    }
    if repeated > 0 {
        notices.push(format!("{repeated} rows repeat an earlier configuration and are left out"));
    }
    let lookup = if canonical { RowLookup::Canonical } else { RowLookup::Map(map) };
    Ok((finished, genomes, lookup))
}

fn violation(space: &SearchSpace, genome: &Genome) -> RecordingFault {
    let configuration = space.configuration(genome);
    let violations = space.explain(genome);
    let cause = match violations.first() {
        Some(first) => match &first.error {
            Some(error) => {
                let text = first.constraint.expr.text();
                format!("the constraint `{text}` has no value for `{configuration}`: {}", error.message)
            }
            None => format!("`{configuration}` violates the constraint `{}`", first.constraint.expr.text()),
        },
        None => format!("`{configuration}` is outside the space"),
    };
    RecordingFault::new(cause).with_hint("the recording contradicts itself: fix the constraint or the row")
}

/// Rows with positions in another space, and a notice if rows outside it were left out. A parameter with a single
/// value may be missing on either side.
fn translate(
    parameters: &[(String, Vec<Value>)],
    rows: Vec<DraftRow>,
    space: &SearchSpace,
) -> Result<(Vec<DraftRow>, Option<String>), RecordingFault> {
    let own = |name: &str| parameters.iter().position(|(own, _)| own == name);
    let is_known = |name: &str| space.parameters().iter().any(|parameter| &*parameter.name == name);
    if let Some((name, _)) = parameters.iter().find(|(name, values)| values.len() > 1 && !is_known(name)) {
        let cause = format!("its parameter `{name}` is not in the space");
        return Err(RecordingFault::new(cause)
            .with_hint("the recording is of another space: leave the space file out"));
    }
    // For each slot: the recording's parameter, and its positions as the space's, compared once per column.
    let mut columns: Vec<Option<(usize, Vec<Option<u16>>)>> = Vec::new();
    for parameter in space.parameters() {
        let column = own(&parameter.name).map(|at| {
            let values = parameters[at].1.iter();
            (at, values.map(|value| parameter.position(value).map(|position| position as u16)).collect())
        });
        if column.is_none() && parameter.values.len() > 1 {
            let cause = format!("it has no parameter `{}`, which the space has", parameter.name);
            return Err(RecordingFault::new(cause)
                .with_hint("the recording is of another space: leave the space file out"));
        }
        columns.push(column);
    }
    let total = rows.len();
    let translated = rows.into_iter().filter_map(|mut row| {
        let position = |column: &Option<(usize, Vec<Option<u16>>)>| match column {
            Some((at, positions)) => positions[usize::from(row.positions[*at])],
            None => Some(0),
        };
        let positions = columns.iter().map(position).collect::<Option<Vec<u16>>>()?;
        row.positions = positions;
        space.contains(&Genome::from(row.positions.clone())).then_some(row)
    });
    let inside: Vec<DraftRow> = translated.collect();
    let left_out = total - inside.len();
    if inside.is_empty() {
        let cause = format!("none of its {total} rows is a valid point of the space");
        return Err(RecordingFault::new(cause)
            .with_hint("the recording is of another space: leave the space file out"));
    }
    let notice = (left_out > 0).then(|| {
        format!("{left_out} of {total} recorded configurations are outside the space and are left out")
    });
    Ok((inside, notice))
}

fn incomplete(space: &SearchSpace, genomes: &[Genome]) -> RecordingFault {
    let recorded: HashSet<&Genome> = genomes.iter().collect();
    let missing = space.iter().find(|genome| !recorded.contains(genome));
    let missing = missing.map(|genome| format!("; `{}` is missing", space.configuration(&genome)));
    let cause = format!(
        "it says that its {} rows are exhaustive, but its constraints allow {} configurations{}",
        genomes.len(),
        space.count(),
        missing.unwrap_or_default()
    );
    RecordingFault::new(cause)
        .with_hint("write `\"exhaustive\": false`, or complete the rows or the constraints")
}
