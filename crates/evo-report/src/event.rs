//! Everything an observer may see. Progress, journal and logs read these; adding an output touches
//! no line of the engine. As JSON they are the lines of `--json`.

use std::collections::BTreeMap;

use evo_protocol::evaluation::{Evaluation, RecoveryLevel};
use evo_space::genome::Configuration;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use evo_journal::budget::StopReason;
use evo_journal::record::LaneAccount;

/// The reasons of `Stopped`, by their names in files.
const STOP_REASONS: &str =
    "space_exhausted strategy_done evaluations wall generations interrupted device_lost harness";

/// Something happened in a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The study begins; `total` evaluations are expected, if that is known.
    Started {
        study: String,
        device: String,
        seed: u64,
        /// In decimal: it may exceed 64 bits.
        #[serde(serialize_with = "decimal")]
        #[schemars(with = "String")]
        valid: u128,
        total: Option<u64>,
        #[serde(flatten)]
        earlier: Earlier,
    },
    /// A configuration went to the compilers.
    Compiling { number: u64, configuration: Configuration },
    /// It is on the device.
    Evaluating { number: u64 },
    /// It has its verdict.
    Finished { best: bool, evaluation: Box<Evaluation> },
    /// It has no verdict, because evo or the machine failed; `--resume` tries it again.
    NotFinal { evaluation: Box<Evaluation> },
    /// A generation's slice is complete.
    Generation { generation: u32, best_ns: Option<f64> },
    /// How busy the lanes are.
    Lanes(LaneLoad),
    /// What each of several lanes is doing.
    LaneProgress {
        #[serde(serialize_with = "lane_objects")]
        #[schemars(with = "Vec<Map<String, Value>>")]
        lanes: Vec<LaneProgress>,
    },
    /// A worker was replaced.
    Recovered {
        worker: usize,
        #[serde(rename = "code")]
        level: RecoveryLevel,
        elapsed_ms: f64,
    },
    /// Finalists are being confirmed; 0 is the baseline with the noise floor.
    Confirming {
        finalist: usize,
        of: usize,
        /// What this one and those after it are expected to take, seconds.
        left_seconds: Option<f64>,
    },
    /// Something a person should know.
    Notice { message: String },
    /// The run ended.
    Stopped {
        #[schemars(with = "String", extend("enum" = STOP_REASONS.split(' ').collect::<Vec<_>>()))]
        reason: StopReason,
    },
}

/// How busy the lanes are, in shares of elapsed time.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LaneLoad {
    pub compile_busy: f64,
    pub device_busy: f64,
    pub compile_queue: usize,
    pub device_queue: usize,
    pub compile_jobs: usize,
    /// What the confirmation is expected to take, seconds; unknown before a variant has passed.
    pub confirm_seconds: Option<f64>,
    /// What is left of a wall budget, seconds.
    pub left_seconds: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct LaneProgress {
    pub account: LaneAccount,
    pub activity: LaneActivity,
    /// Share of elapsed time.
    pub busy: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneActivity {
    Working,
    Idle,
    /// Its worker died, and its launcher has not started the next one yet.
    Waiting,
    /// It takes no more variants.
    Out,
}

/// What earlier runs of a study found.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Earlier {
    #[serde(rename = "resumed")]
    pub evaluations: u64,
    /// Results of other studies, which are not evaluations of this one.
    pub taken_over: u64,
    /// Objective in nanoseconds and configuration of the best.
    #[serde(rename = "best_ns", serialize_with = "objective")]
    #[schemars(with = "Option<f64>")]
    pub best: Option<(f64, Configuration)>,
    /// Objective of the default configuration, nanoseconds.
    #[serde(skip)]
    pub default_ns: Option<f64>,
    /// How often each verdict was given.
    #[serde(skip)]
    pub verdicts: BTreeMap<String, u64>,
}

fn decimal<S: Serializer>(value: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn objective<S: Serializer>(best: &Option<(f64, Configuration)>, serializer: S) -> Result<S::Ok, S::Error> {
    best.as_ref().map(|(objective_ns, _)| objective_ns).serialize(serializer)
}

fn lane_objects<S: Serializer>(lanes: &[LaneProgress], serializer: S) -> Result<S::Ok, S::Error> {
    let lanes = lanes.iter().map(|LaneProgress { account, activity, busy }| {
        json!({
            "lane": account.lane, "activity": activity,
            "name": account.name, "device_uuid": account.device_uuid,
            "evaluations": account.evaluations, "busy": busy, "restarts": account.restarts,
            "ratio": account.ratio, "out": account.out,
        })
    });
    serializer.collect_seq(lanes)
}

pub trait Observer {
    fn observe(&mut self, event: &Event);
}
