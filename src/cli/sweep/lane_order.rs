//! One lane of `--workers` before it is started.

use evo_space::text::shortened;

/// Stands in a command for the file with the bridge to Ray, which is written before the first lane starts.
pub const RAY_BRIDGE: &str = "evo_ray.py";

pub const LANES_MAX: u32 = 1024;

const NAME_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneOrder {
    /// For people: `cuda:1`, `ssh node7`.
    pub name: String,
    pub source: LaneSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneSource {
    /// Workers of this program on this machine, for a device of it.
    Local { device: String },
    /// A command whose stdin and stdout lead to one, perhaps on another machine; `device` is what it opens there, and the
    /// run's own where it is absent.
    Command { words: Vec<String>, device: Option<String> },
}

impl LaneOrder {
    pub fn local(device: String) -> LaneOrder {
        LaneOrder { name: device.clone(), source: LaneSource::Local { device } }
    }

    pub fn command(name: &str, words: Vec<String>, device: Option<String>) -> LaneOrder {
        // Long enough to be told from others.
        let name = shortened(name, NAME_MAX).into_owned();
        LaneOrder { name, source: LaneSource::Command { words, device } }
    }

    pub fn words(&self) -> Option<&[String]> {
        match &self.source {
            LaneSource::Local { .. } => None,
            LaneSource::Command { words, .. } => Some(words),
        }
    }
}
