//! `evo space --neighbors`: the valid neighbors of a configuration, found while they are printed.

use std::io::{self, Write};

use evo_space::Neighborhood;
use evo_space::genome::{Configuration, Genome};
use serde_json::json;

use super::Job;
use super::json::{Answer, object};
use super::stream::{announce, stream};
use crate::cli::args::NeighborKind;

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

impl Job<'_> {
    /// Prints the neighbors of the point that some values mean, which need not be valid.
    pub fn neighbors(&self, values: &[String]) -> anyhow::Result<()> {
        let (configuration, genome) = self.point(values)?;
        let kind = self.arguments.kind.unwrap_or(NeighborKind::Hamming);
        if !self.space.contains(&genome) {
            eprintln!("note: the configuration itself is not valid; `evo space --check` says why");
        }
        let limit = self.arguments.limit;
        // Where points have to be checked one by one, counting would mean to find them all first.
        let count = self.space.is_exact().then(|| self.space.neighbor_count(&genome, kind.into()));
        if let Some(count) = &count {
            let count = count.clone();
            announce(&limit.map_or(count.clone(), |limit| count.min(limit.into())), "neighbors", false);
        }
        let count = count.map_or("null".to_string(), |count| count.to_string());
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let neighbors = self.space.iter_neighbors(&genome, kind.into()).take(limit);
        let configurations = neighbors.map(|genome: Genome| self.space.configuration(&genome));
        if !self.arguments.json {
            return stream(|out| write_lines(configurations, out));
        }
        // The list may be long: it goes out while it is made, between the two halves of the object.
        let name = clap::ValueEnum::to_possible_value(&kind)
            .map_or(String::new(), |name| name.get_name().to_string());
        let head = object(self, Answer::default())?;
        let of = serde_json::to_string(&configuration)?;
        let head = format!(
            "{},\"neighbors\":{{\"of\":{of},\"kind\":{},\"count\":{count},\"points\":[",
            head.strip_suffix('}').unwrap_or(&head),
            json!(name)
        );
        stream(|out| {
            out.write_all(head.as_bytes())?;
            write_array(configurations, out)?;
            out.write_all(b"]}}\n")
        })
    }
}

fn write_lines(configurations: impl Iterator<Item = Configuration>, out: &mut dyn Write) -> io::Result<()> {
    for configuration in configurations {
        writeln!(out, "{configuration}")?;
    }
    Ok(())
}

fn write_array(configurations: impl Iterator<Item = Configuration>, out: &mut dyn Write) -> io::Result<()> {
    for (number, configuration) in configurations.enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, &configuration)?;
    }
    Ok(())
}
