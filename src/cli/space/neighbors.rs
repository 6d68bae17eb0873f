//! `evo space --neighbors`: the valid neighbors of a configuration, found while they are printed.

use std::io::{self, Write};

use evo_space::Neighborhood;
use evo_space::genome::{Configuration, Genome};
use serde_json::json;

use super::inquiry::SpaceInquiry;
use super::json::{SpaceAnswer, object};
use super::stream::{announce, stream};
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::space_args::NeighborKind;

impl From<NeighborKind> for Neighborhood {
    fn from(kind: NeighborKind) -> Neighborhood {
        match kind {
            NeighborKind::Hamming => Neighborhood::Hamming,
            NeighborKind::HammingAdjacent => Neighborhood::HammingAdjacent,
            NeighborKind::Adjacent => Neighborhood::Adjacent,
            NeighborKind::StrictlyAdjacent => Neighborhood::StrictlyAdjacent,
        }
    }
}

/// The point need not be valid.
pub fn print(inquiry: &SpaceInquiry, values: &[String]) -> Result<(), CliError> {
    let (configuration, genome) = inquiry.point(values)?;
    let kind = inquiry.arguments.kind.unwrap_or(NeighborKind::Hamming);
    if !inquiry.space.contains(&genome) {
        eprintln!("note: the configuration itself is not valid; `evo space --check` says why");
    }
    let limit = inquiry.arguments.limit;
    // Where points have to be checked one by one, counting would mean to find them all first.
    let count = inquiry.space.is_exact().then(|| inquiry.space.neighbor_count(&genome, kind.into()));
    if let Some(count) = &count {
        let count = count.clone();
        announce(&limit.map_or(count.clone(), |limit| count.min(limit.into())), "neighbors", false);
    }
    let count = count.map_or("null".to_string(), |count| count.to_string());
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let neighbors = inquiry.space.iter_neighbors(&genome, kind.into()).take(limit);
    let configurations = neighbors.map(|genome: Genome| inquiry.space.configuration(&genome));
    if !inquiry.arguments.json {
        return stream(inquiry.call, |out| write_lines(configurations, out));
    }
    // The list may be long: it goes out while it is made, between the two halves of the object.
    let name =
        clap::ValueEnum::to_possible_value(&kind).map_or(String::new(), |name| name.get_name().to_string());
    let head = object(inquiry, SpaceAnswer::default())?;
    let of = serde_json::to_string(&configuration)?;
    let head = format!(
        "{},\"neighbors\":{{\"of\":{of},\"kind\":{},\"count\":{count},\"points\":[",
        head.strip_suffix('}').unwrap_or(&head),
        json!(name)
    );
    let own = format!("{head}]}}}}");
    output::written(inquiry.call.open(&head, own, "]}"))?;
    stream(inquiry.call, |out| write_array(configurations, out))
}

fn write_lines(configurations: impl Iterator<Item = Configuration>, out: &mut dyn Write) -> io::Result<()> {
    for configuration in configurations {
        writeln!(out, "{configuration}")?;
    }
    Ok(())
}

fn write_array(configurations: impl Iterator<Item = Configuration>, out: &mut dyn Write) -> io::Result<()> {
    for (number, configuration) in configurations.enumerate() {
        let mut item = if number > 0 { b",".to_vec() } else { Vec::new() };
        serde_json::to_writer(&mut item, &configuration)?;
        out.write_all(&item)?;
    }
    Ok(())
}
