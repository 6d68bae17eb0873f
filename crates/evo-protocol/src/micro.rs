//! `micro_best.json`: a cheap ranking of configurations on one problem, from which a search may begin.
//!
//! The ranking is a hint and never evidence: its variants met the small shapes only, and a search judges and times
//! whatever it takes from here.

use evo_space::genome::{Configuration, ContentHash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{DeviceInfo, DeviceKind};

/// The [`MicroRanking::schema`] of this version.
pub const MICRO_SCHEMA: &str = "evo.micro";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MicroRanking {
    pub schema: String,
    pub kernel: String,
    pub device: MicroDevice,
    /// Hash of the space file, the kernel's text, what it includes and the compiler: the `space_hash` of a study.
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
    pub configuration: Configuration,
    /// Names the configuration, and tells whether it was edited.
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
