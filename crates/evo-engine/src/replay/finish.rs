//! From a file's content as its reader understands it, a draft, to a recording: the space is built, and every row is
//! checked and finds its place in the space.

use evo_kernel::access::SpaceAccess;
use evo_protocol::verdict::VerdictKind;
use evo_space::diagnostic::Diagnostics;
use evo_space::genome::{Configuration, ContentHash, Genome};
use evo_space::space::{Parameter, SearchSpace};
use evo_space::value::Value;
use indexmap::IndexSet;
use serde_json::{Map, json};

use super::{Cost, Format, Recording, RecordingFault, Row};

#[derive(Debug)]
pub struct Draft {
    pub kernel: String,
    pub gpu: String,
    pub problem: String,
    pub format: Format,
    /// Without one the recorded configurations are the valid ones.
    pub space: Option<SearchSpace>,
    /// The file says that its rows are exactly the valid points.
    pub exhaustive: bool,
    /// Whether a configuration may have several rows, of which the first counts.
    pub repeats: bool,
    pub rows: Vec<DraftRow>,
    pub notices: Vec<String>,
}

#[derive(Debug)]
pub struct DraftRow {
    /// The file's name for the row: its number, if it has no other.
    pub name: String,
    pub configuration: Configuration,
    pub kind: VerdictKind,
    pub objective_ns: Option<f64>,
    pub cost: Cost,
}

/// Checks each row against the space (`own`, or else the file's), and the claim to be exhaustive.
pub fn finish(
    draft: Draft,
    own: Option<SearchSpace>,
    content: ContentHash,
) -> Result<Recording, RecordingFault> {
    let Draft { kernel, gpu, problem, format, space, exhaustive, repeats, rows, mut notices } = draft;
    if rows.is_empty() {
        let hint = "a recording holds at least one evaluation";
        return Err(RecordingFault::new("it has no rows").with_hint(hint));
    }
    // A file claims to be exhaustive for its own space, not for the caller's.
    let claims_all = exhaustive && own.is_none();
    // A study may have gone on after an edit of its space.
    let is_selection = own.is_some() || format == Format::Journal;
    let space = match own.or(space) {
        Some(space) => check_parameters(&rows, space)?,
        None => {
            let space = listed(&rows)?;
            if space.cartesian() != *space.valid() {
                let notice = "the recording has no constraints: its configurations are the space";
                notices.push(notice.to_string());
            }
            space
        }
    };
    let total = rows.len();
    let (mut finished, mut points) = (Vec::with_capacity(total), IndexSet::with_capacity(total));
    let (mut repeated, mut left_out) = (0, 0);
    for row in rows {
        let genome = point(&space, &row.configuration);
        let Some(genome) = genome.filter(|genome| !is_selection || space.contains(genome)) else {
            left_out += 1;
            continue;
        };
        if let Some(earlier) = points.get_index_of(&genome) {
            if !repeats {
                let cause = format!("`{}` is already in row {earlier}", space.configuration(&genome));
                return Err(RecordingFault::new(cause).in_row(row.name));
            }
            repeated += 1;
            continue;
        }
        if !space.contains(&genome) {
            return Err(violation(&space, &genome).in_row(row.name));
        }
        let number = finished.len();
        points.insert(genome);
        let DraftRow { kind, objective_ns, cost, .. } = row;
        finished.push(Row { number, class: kind.class(), kind, objective_ns, cost });
    }
    if finished.is_empty() {
        return Err(of_another_space(format!("none of its {total} rows is a valid point of the space")));
    }
    if left_out > 0 {
        let left_out = format!("{left_out} of {total} recorded configurations");
        notices.push(format!("{left_out} are outside the space and are left out"));
    }
    if repeated > 0 {
        notices.push(format!("{repeated} rows repeat an earlier configuration and are left out"));
    }
    // The count of a space that is not exact is only an upper bound.
    let exhaustive = space.is_exact() && space.count() == points.len() as u128;
    if claims_all && !exhaustive {
        return Err(incomplete(&space, &points));
    }
    let name = format!("{kernel}__{gpu}");
    let rows = finished;
    Ok(Recording { name, kernel, gpu, problem, format, space, exhaustive, content, notices, rows, points })
}

pub fn space_of<'a>(
    parameters: impl Iterator<Item = (&'a str, &'a [Value])>,
    constraints: &[String],
) -> Result<SearchSpace, RecordingFault> {
    let parameters: Map<_, _> = parameters.map(|(name, values)| (name.to_string(), json!(values))).collect();
    let text = json!({ "parameters": parameters, "constraints": constraints }).to_string();
    SearchSpace::parse_watched(&text, &SpaceAccess::default().watch()).map_err(|found| unusable(&found))
}

fn unusable(diagnostics: &Diagnostics) -> RecordingFault {
    let list = diagnostics.list();
    let causes: Vec<&str> = list.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    let causes = causes.join("; ");
    let hint = list.iter().find_map(|diagnostic| diagnostic.hint.clone());
    let cause = format!("its parameters and constraints do not make a space: {causes}");
    RecordingFault { hint, ..RecordingFault::new(cause) }
}

/// The recorded configurations as a space, with values in ascending order, where they can be compared: nothing says
/// whether another configuration is valid.
fn listed(rows: &[DraftRow]) -> Result<SearchSpace, RecordingFault> {
    let mut columns: Vec<(&str, Vec<Value>)> =
        rows[0].configuration.iter().map(|(name, _)| (name, Vec::new())).collect();
    for DraftRow { name: row, configuration, .. } in rows {
        let fault = |cause: String| RecordingFault::new(format!("its configuration has {cause}")).in_row(row);
        for (name, values) in &mut columns {
            let value = configuration.get(name);
            let value = value.ok_or_else(|| fault(format!("no `{name}`, which the first row has")))?;
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        if let Some((name, _)) = configuration.iter().find(|one| columns.iter().all(|own| own.0 != one.0)) {
            return Err(fault(format!("`{name}`, which the first row does not have")));
        }
    }
    for (_, values) in &mut columns {
        if values.iter().all(|value| value.compare(&values[0]).is_some()) {
            values.sort_by(|a, b| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
        }
    }
    let space = space_of(columns.iter().map(|(name, values)| (*name, values.as_slice())), &[])?;
    let points = rows.iter().filter_map(|row| point(&space, &row.configuration)).collect();
    Ok(SearchSpace::of_points(space.parameters().to_vec(), points))
}

/// A parameter with a single value may be missing on either side.
fn point(space: &SearchSpace, configuration: &Configuration) -> Option<Genome> {
    let position = |parameter: &Parameter| match configuration.get(&parameter.name) {
        Some(value) => parameter.position(value).map(|at| at as u16),
        None => (parameter.values.len() == 1).then_some(0),
    };
    space.parameters().iter().map(position).collect::<Option<Vec<u16>>>().map(Genome::from)
}

fn of_another_space(cause: String) -> RecordingFault {
    RecordingFault::new(cause).with_hint("the recording is of another space: leave the space file out")
}

fn check_parameters(rows: &[DraftRow], space: SearchSpace) -> Result<SearchSpace, RecordingFault> {
    let first = &rows[0].configuration;
    let varies = |name: &str| rows.iter().any(|row| row.configuration.get(name) != first.get(name));
    let is_known = |name: &str| space.parameters().iter().any(|parameter| &*parameter.name == name);
    if let Some((name, _)) = first.iter().find(|(name, _)| !is_known(name) && varies(name)) {
        return Err(of_another_space(format!("its parameter `{name}` is not in the space")));
    }
    let is_missing = |one: &&Parameter| first.get(&one.name).is_none() && one.values.len() > 1;
    match space.parameters().iter().find(is_missing) {
        Some(one) => {
            Err(of_another_space(format!("it has no parameter `{}`, which the space has", one.name)))
        }
        None => Ok(space),
    }
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

fn incomplete(space: &SearchSpace, points: &IndexSet<Genome>) -> RecordingFault {
    let missing = space.iter().find(|genome| !points.contains(genome));
    let missing = missing.map(|genome| format!("; `{}` is missing", space.configuration(&genome)));
    let cause = format!(
        "it says that its {} rows are exhaustive, but its constraints allow {} configurations{}",
        points.len(),
        space.count(),
        missing.unwrap_or_default()
    );
    RecordingFault::new(cause)
        .with_hint("write `\"exhaustive\": false`, or complete the rows or the constraints")
}
