//! `--workers FILE.toml`: lanes of several kinds.

use std::path::Path;

use evo_protocol::envelope::ErrorPlace;
use serde::Deserialize;

use super::lane_order::{LANES_MAX, LaneOrder, LaneSource};
use crate::cli::error::CliError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkersFile {
    lanes: Vec<ListedLane>,
}

/// One entry, for one lane or several that are alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedLane {
    /// Leads to a worker; workers of this machine where it is absent.
    command: Option<String>,
    device: Option<String>,
    name: Option<String>,
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

pub fn read(path: &Path) -> Result<Vec<LaneOrder>, CliError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CliError::usage(format!("cannot read the list of workers `{shown}`: {error}"))
            .at(ErrorPlace::file(path))
    })?;
    let file: WorkersFile = toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1) as u32);
        let place = ErrorPlace { line, column: line.map(|_| 1), ..ErrorPlace::file(path) };
        CliError::usage(format!("`{shown}` is not a list of workers: {}", error.message()))
            .with_hint("each `[[lanes]]` has `command` or `device`, and perhaps `count` and `name`")
            .at(place)
    })?;
    let mut orders = Vec::new();
    for (at, lane) in file.lanes.into_iter().enumerate() {
        let order = ordered(&lane).map_err(|why| {
            CliError::usage(format!("`{shown}`, entry {}: {why}", at + 1)).at(ErrorPlace::file(path))
        })?;
        orders.extend(std::iter::repeat_n(order, lane.count as usize));
    }
    Ok(orders)
}

fn ordered(lane: &ListedLane) -> Result<LaneOrder, String> {
    if !(1..=LANES_MAX).contains(&lane.count) {
        return Err(format!("`count` is from 1 to {LANES_MAX}"));
    }
    let (name, source) = match (&lane.command, &lane.device) {
        (Some(command), device) => {
            let words: Vec<String> = command.split_whitespace().map(String::from).collect();
            if words.is_empty() {
                return Err("the command is empty".into());
            }
            (command.clone(), LaneSource::Command { words, device: device.clone() })
        }
        (None, Some(device)) => (device.clone(), LaneSource::Local { device: device.clone() }),
        (None, None) => return Err("it has neither `command` nor `device`".into()),
    };
    Ok(LaneOrder { name: lane.name.clone().unwrap_or(name), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_several_kinds_stand_in_one_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lanes.toml");
        let seen = |text: &str| {
            std::fs::write(&path, text).unwrap();
            match read(&path) {
                Ok(orders) => orders.into_iter().map(|own| own.name).collect::<Vec<_>>().join(", "),
                Err(error) => error.to_string().replace(&path.display().to_string(), "FILE"),
            }
        };
        let text = "[[lanes]]\ncommand = \"ssh a evo worker\"\ncount = 2\n[[lanes]]\ndevice = \"cuda:1\"\nname = \"own\"\n";
        assert_eq!(seen(text), "ssh a evo worker, ssh a evo worker, own");
        assert_eq!(seen("[[lanes]]\ncount = 2\n"), "`FILE`, entry 1: it has neither `command` nor `device`");
        assert!(
            seen("[[lanes]]\nkommand = 2\n")
                .starts_with("`FILE` is not a list of workers: unknown field `kommand`")
        );
    }
}
