//! What a worker asks of an executor, and what an executor answers.

use evo_protocol::check::CheckSet;
use evo_protocol::device::DeviceError;
use evo_protocol::measurement::TimingMode;
use serde::{Deserialize, Serialize};

use super::ending::Asked;
use crate::device::{BoundLaunch, BufferId, ModuleAnswer, ModuleRequest, RunConditions};

/// A request. Descriptors come in the order of `map`; `Load` has the module's before them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoomRequest {
    pub number: u64,
    pub drop: Vec<BufferId>,
    /// Buffers to map, or to map otherwise than before.
    pub map: Vec<MappedBuffer>,
    pub checks: CheckSet,
    pub conditions: RunConditions,
    pub order: RoomOrder,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MappedBuffer {
    pub buffer: BufferId,
    pub name: String,
    pub bytes: u64,
    pub margin: usize,
    pub read_only: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomOrder {
    Load {
        entries: Vec<String>,
    },
    Map,
    Execute(ModuleRequest),
    /// The clock of a sample must not count the way of a call to the executor, which takes milliseconds for some
    /// thousand launches.
    Stage {
        call: Vec<BoundLaunch>,
        is_first: bool,
    },
    /// Of the staged calls, or of the one with that number.
    Sample {
        call: Option<u32>,
        mode: TimingMode,
        samples: u32,
        batch: u32,
        untouched: bool,
    },
}

impl RoomOrder {
    pub fn asked(&self) -> Asked {
        match self {
            RoomOrder::Load { .. } => Asked::Load,
            RoomOrder::Execute(ModuleRequest::Watch { .. }) => Asked::Watch,
            _ => Asked::Other,
        }
    }

    /// Each once.
    pub fn buffers(&self) -> Vec<BufferId> {
        let mut buffers = match self {
            RoomOrder::Execute(request) => request.buffers(),
            RoomOrder::Stage { call, .. } => call.iter().flat_map(BoundLaunch::buffers).collect(),
            _ => Vec::new(),
        };
        buffers.sort_unstable();
        buffers.dedup();
        buffers
    }

    pub fn is_answered_by(&self, answer: &RoomAnswer) -> bool {
        match (self, answer) {
            (RoomOrder::Execute(request), RoomAnswer::Executed(answer)) => request.is_answered_by(answer),
            (RoomOrder::Load { .. }, RoomAnswer::Loaded { .. }) => true,
            (RoomOrder::Sample { .. }, RoomAnswer::Samples(_)) => true,
            (RoomOrder::Map | RoomOrder::Stage { .. }, RoomAnswer::Done) => true,
            _ => false,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoomReply {
    pub number: u64,
    pub result: Result<RoomAnswer, DeviceError>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomAnswer {
    Done,
    Loaded { echo: Option<String> },
    Executed(ModuleAnswer),
    Samples(Vec<f64>),
}
