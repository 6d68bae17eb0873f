//! What goes over a peer's stdin and stdout: one object a line, framed as `{"v":1,"id":N,"body":{"type":…}}`.

use std::collections::BTreeMap;

use evo_protocol::crosscheck::CrosscheckArray;
use evo_protocol::measurement::TimingMode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Raised by any change that an older peer would misread.
pub(super) const PEER_VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PeerRequest {
    /// The first request; answered by `ready`.
    Hello {
        /// `host` or `cuda:0`.
        device: String,
    },
    /// A problem with its inputs; answered by `prepared`. It replaces the problem before.
    Prepare(Box<PeerProblem>),
    /// Writes the outputs of one call to their paths; answered by `written`.
    Output { implementation: String },
    /// Times one block; answered by `samples`.
    Block { implementation: String, mode: TimingMode, ms: f64 },
    /// The end; answered by nothing.
    Shutdown,
}

/// A problem as a peer sees it.
#[derive(Clone, Debug, Serialize)]
pub struct PeerProblem {
    pub problem: String,
    pub kernel: String,
    /// The built-in reference that says what is computed: `attention`, `gemm`; null where the task has another one.
    pub operator: Option<String>,
    pub sizes: BTreeMap<String, i64>,
    pub scalars: BTreeMap<String, Value>,
    pub inputs: BTreeMap<String, CrosscheckArray>,
    /// Where outputs are to be written.
    pub outputs: BTreeMap<String, CrosscheckArray>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PeerAnswer {
    Ready {
        #[serde(default)]
        version: Option<String>,
        /// Why it can do nothing here.
        #[serde(default)]
        unable: Option<String>,
    },
    Prepared {
        implementations: Vec<PeerImplementation>,
    },
    Written,
    Samples {
        /// Nanoseconds a call.
        samples_ns: Vec<f64>,
        /// Calls of each sample.
        #[serde(default = "one")]
        calls: u32,
    },
    /// It cannot do what was asked; it goes on with the next request.
    Unable {
        reason: String,
    },
}

fn one() -> u32 {
    1
}

/// One implementation of a prepared problem.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PeerImplementation {
    pub name: String,
    #[serde(default)]
    pub version: Option<String>,
    /// Why it cannot run this problem.
    #[serde(default)]
    pub unable: Option<String>,
}
