//! Rows in a space: translated from the value lists of their file, checked, and found again by their point.

use std::collections::HashMap;

use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use super::draft::DraftRow;
use super::error::RecordingFault;
use super::recording::{Row, RowLookup};

/// Rows in a space.
pub struct Placed {
    pub space: SearchSpace,
    pub rows: Vec<Row>,
    pub genomes: Vec<Genome>,
    pub lookup: RowLookup,
}

/// Places rows whose positions are the space's own. Each must be valid, and unique unless `repeats` allows more.
pub fn place(
    space: SearchSpace,
    rows: Vec<DraftRow>,
    repeats: bool,
    notices: &mut Vec<String>,
) -> Result<Placed, RecordingFault> {
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
            return Err(violation(&space, &genome).in_row(row.shown(at)));
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
    Ok(Placed { space, rows: finished, genomes, lookup })
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
pub fn translate(
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
    // For each slot of the space: the recording's parameter, and its positions as the space's. Values are
    // compared once per column, so that rows need only a lookup.
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
        // A value that the space does not have leaves the row out.
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

/// The fault of rows that claim to be exhaustive and are not.
pub fn incomplete(space: &SearchSpace, genomes: &[Genome]) -> RecordingFault {
    let recorded: std::collections::HashSet<&Genome> = genomes.iter().collect();
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
