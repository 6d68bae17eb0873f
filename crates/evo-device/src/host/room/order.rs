//! What a worker asks of an executor, and what an executor answers.

use evo_protocol::check::CheckSet;
use evo_protocol::device::{DeviceError, EntryAttributes};
use evo_protocol::measurement::TimingMode;
use serde::{Deserialize, Serialize};

use super::ending::Asked;
use crate::device::{
    BoundLaunch, BufferId, PlacedCopy, RunConditions, SeriesCall, VariableState, Watch, WatchReport,
};

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
    Attributes {
        launch: BoundLaunch,
    },
    Launch {
        launches: Vec<BoundLaunch>,
    },
    /// The same launches once for each call, in one message: at small shapes messages take longer than launches.
    Series {
        launches: Vec<BoundLaunch>,
        calls: Vec<SeriesCall>,
    },
    Watch {
        launches: Vec<BoundLaunch>,
        watch: Watch,
    },
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
    Variables,
    RestoreVariables,
    WriteVariable {
        name: String,
        buffer: BufferId,
    },
    ReadVariable {
        name: String,
        buffer: BufferId,
    },
}

impl RoomOrder {
    pub fn asked(&self) -> Asked {
        match self {
            RoomOrder::Load { .. } => Asked::Load,
            RoomOrder::Watch { .. } => Asked::Watch,
            _ => Asked::Other,
        }
    }

    pub fn buffers(&self) -> Vec<BufferId> {
        let of = |launches: &[BoundLaunch]| -> Vec<BufferId> {
            launches.iter().flat_map(BoundLaunch::buffers).collect()
        };
        let mut all = match self {
            RoomOrder::Launch { launches } | RoomOrder::Stage { call: launches, .. } => of(launches),
            RoomOrder::Watch { launches, watch } => {
                let watched = watch.buffers.iter().map(|own| own.buffer);
                of(launches).into_iter().chain(watched).collect()
            }
            RoomOrder::Series { launches, calls } => {
                let both = |own: &PlacedCopy| [own.from, own.to];
                let copied = calls.iter().flat_map(|own| own.before.iter().chain(&own.after)).flat_map(both);
                of(launches).into_iter().chain(copied).collect()
            }
            RoomOrder::WriteVariable { buffer, .. } | RoomOrder::ReadVariable { buffer, .. } => vec![*buffer],
            _ => Vec::new(),
        };
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoomReply {
    pub number: u64,
    pub result: Result<RoomAnswer, DeviceError>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomAnswer {
    Done,
    Loaded {
        echo: Option<String>,
    },
    Attributes(EntryAttributes),
    Watched(Option<WatchReport>),
    Samples(Vec<f64>),
    Variables(Vec<VariableState>),
    /// Whether what lies behind a variable's contents is as it was.
    Read {
        intact: bool,
    },
}
