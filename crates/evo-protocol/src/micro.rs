//! `micro_best.json`: a cheap ranking of configurations on one problem, from which a search may begin.
//!
//! The ranking is a hint and never evidence: its variants met the small shapes only, and a search judges and times
//! whatever it takes from here.

use evo_space::genome::{Configuration, ContentHash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{DeviceInfo, DeviceKind};
use crate::schema::{ConfigurationObject, HashText};

/// The [`MicroRanking::schema`] of this version.
pub const MICRO_SCHEMA: &str = "evo.micro";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MicroRanking {
    pub schema: String,
    pub kernel: String,
    pub device: MicroDevice,
    /// Hash of the space file, the kernel's text, what it includes and the compiler: the `space_hash` of a study.
    #[schemars(with = "HashText")]
    pub space_hash: ContentHash,
    /// The one problem, with the sizes that differ from the space file's: `square (M=2048)`.
    pub problem: String,
    /// Configurations that were tried, failures included.
    pub tried: u64,
    /// The best of them, the fastest first.
    pub ranked: Vec<MicroRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MicroDevice {
    pub kind: DeviceKind,
    pub name: String,
    /// `sm_90a`, or the processor's architecture.
    pub arch: String,
    pub multiprocessors: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MicroRow {
    pub rank: u32,
    #[schemars(with = "ConfigurationObject")]
    pub configuration: Configuration,
    /// Names the configuration, and tells whether it was edited.
    #[schemars(with = "HashText")]
    pub configuration_hash: ContentHash,
    /// Median time of one call in the mode that ranks, nanoseconds.
    pub time_ns: f64,
    /// The same over the work of one call: operations where the space states them, else bytes, else elements.
    pub ns_per_work: f64,
    /// Blocks of the launch with the most threads.
    pub ctas: u64,
    /// Resident warps over the device's maximum; none where that is unknown, as on the host.
    pub occupancy_percent: Option<f64>,
}

impl MicroDevice {
    pub fn of(info: &DeviceInfo) -> MicroDevice {
        let DeviceInfo { kind, name, arch, multiprocessors, .. } = info;
        MicroDevice { kind: *kind, name: name.clone(), arch: arch.clone(), multiprocessors: *multiprocessors }
    }
}

impl MicroRanking {
    /// Why the rows cannot be what was written: edited by hand, cut, or made by another program.
    pub fn damage(&self) -> Option<String> {
        for (at, row) in self.ranked.iter().enumerate() {
            let place = at + 1;
            if row.rank as usize != place {
                return Some(format!("row {place} says that it has rank {}", row.rank));
            }
            if row.configuration.hash() != row.configuration_hash {
                return Some(format!("row {place} was edited: its hash is not that of its configuration"));
            }
            let is_time = |time: f64| time.is_finite() && time > 0.0;
            if !is_time(row.time_ns) || !is_time(row.ns_per_work) {
                return Some(format!("row {place} has no time"));
            }
            if at > 0 && self.ranked[at - 1].ns_per_work > row.ns_per_work {
                return Some(format!("row {place} is faster than the row above it"));
            }
        }
        (self.tried < self.ranked.len() as u64).then(|| "it has more rows than were tried".to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evo_space::value::Value;

    use super::*;

    fn ranking() -> MicroRanking {
        let row = |rank: u32| {
            let configuration = Configuration::new(vec![(Arc::from("TILE"), Value::Int(rank.into()))]);
            MicroRow {
                rank,
                configuration_hash: configuration.hash(),
                configuration,
                time_ns: 10.0 * f64::from(rank),
                ns_per_work: f64::from(rank),
                ctas: 8,
                occupancy_percent: None,
            }
        };
        MicroRanking {
            schema: MICRO_SCHEMA.to_string(),
            kernel: "k".to_string(),
            device: MicroDevice {
                kind: DeviceKind::Host,
                name: "processor".to_string(),
                arch: "x86_64".to_string(),
                multiprocessors: 4,
            },
            space_hash: ContentHash::of(b"space"),
            problem: "square (M=64)".to_string(),
            tried: 7,
            ranked: vec![row(1), row(2), row(3)],
        }
    }

    #[test]
    fn what_was_written_is_whole_and_comes_back() {
        let text = serde_json::to_string(&ranking()).unwrap();
        let back: MicroRanking = serde_json::from_str(&text).unwrap();
        assert_eq!((&back, back.damage()), (&ranking(), None));
    }

    #[test]
    fn an_edited_row_is_seen() {
        let check = |edit: fn(&mut MicroRanking), said: &str| {
            let mut own = ranking();
            edit(&mut own);
            let damage = own.damage().unwrap_or_default();
            assert!(damage.contains(said), "{damage}");
        };
        check(|own| own.ranked.swap(0, 2), "row 1 says that it has rank 3");
        check(|own| own.ranked[1].configuration = own.ranked[0].configuration.clone(), "row 2 was edited");
        check(|own| own.ranked[2].ns_per_work = 0.5, "row 3 is faster than the row above it");
        check(|own| own.ranked[0].time_ns = 0.0, "row 1 has no time");
        check(|own| own.ranked[0].ns_per_work = f64::NAN, "row 1 has no time");
        check(|own| own.tried = 2, "more rows than were tried");
    }
}
