//! What other people's programs are handed. Over a peer's stdin and stdout goes one object a line, framed as
//! `{"v":1,"id":N,"body":{"type":…}}`; a harness of `evo crosscheck` gets the path of a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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

/// A problem with its inputs, as every program sees it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForeignProblem {
    /// Its name, which a harness's line repeats.
    pub problem: String,
    pub sizes: BTreeMap<String, i64>,
    pub scalars: BTreeMap<String, Value>,
    pub inputs: ForeignArrays,
}

/// Files by the names of buffers.
pub type ForeignArrays = BTreeMap<String, ForeignArray>;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForeignArray {
    pub path: PathBuf,
    /// The element type that the kernel has: `bf16`.
    pub dtype: String,
    /// The element type in the file: `<f4`, because NumPy has no bf16 and answers are wider than outputs.
    pub npy: String,
    pub shape: Vec<u64>,
}

impl ForeignProblem {
    pub fn of(plan: &ProblemPlan, folder: &Path) -> ForeignProblem {
        let number = |value: f64| if value.is_finite() { json!(value) } else { json!(value.to_string()) };
        let scalars = plan.scalars.iter().map(|own| {
            let value = own.integer.map_or_else(|| number(own.value), |integer| json!(integer));
            (own.name.clone(), value)
        });
        ForeignProblem {
            problem: plan.name.clone(),
            sizes: plan.sizes.clone(),
            scalars: scalars.collect(),
            inputs: arrays(plan, |own| own.role.is_read(), &folder.join("inputs"), |dtype| dtype),
        }
    }
}

/// The files in a folder of those buffers, and of which type a file is.
pub fn arrays(
    plan: &ProblemPlan,
    is_meant: impl Fn(&BufferPlan) -> bool,
    folder: &Path,
    written_as: fn(DType) -> DType,
) -> ForeignArrays {
    let array = |own: &BufferPlan| ForeignArray {
        path: folder.join(format!("{}.npy", own.name)),
        dtype: own.dtype.as_str().to_string(),
        npy: written_as(own.dtype).npy().to_string(),
        shape: own.shape.clone(),
    };
    let meant = plan.buffers.iter().filter(|own| is_meant(own));
    meant.map(|own| (own.name.clone(), array(own))).collect()
}

#[derive(Clone, Debug, Serialize)]
pub struct PeerProblem {
    #[serde(flatten)]
    pub problem: ForeignProblem,
    pub kernel: String,
    /// The built-in reference that says what is computed: `attention`, `gemm`; null where the task has another one.
    pub operator: Option<String>,
    /// Where outputs are to be written.
    pub outputs: ForeignArrays,
}

/// What a harness is asked: one kernel on several problems. It is a file, whose path is the harness's last argument.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrosscheckRequest {
    pub schema: &'static str,
    /// 1; raised by changes that an older harness would misread.
    pub version: u32,
    pub harness: String,
    /// `candidate` or `baseline`: each is asked about in a call of its own.
    pub role: String,
    /// `host` or `cuda:0`.
    pub device: String,
    pub kernel: String,
    /// As for a peer.
    pub operator: Option<String>,
    /// The mode that ranks. A harness that cannot time so uses another one and says which.
    pub mode: TimingMode,
    /// The harness is ended after this many seconds.
    pub limit_s: f64,
    /// The problems, each of which gets one line.
    pub problems: Vec<CrosscheckProblem>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrosscheckProblem {
    #[serde(flatten)]
    pub problem: ForeignProblem,
    /// The folder with the exported files for these sizes, as `evo export` writes them; `manifest.json` lists them.
    pub folder: PathBuf,
    /// Files with the answers of evo's reference: what the outputs should be.
    pub expected: ForeignArrays,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PeerAnswer {
    Ready {
        version: Option<String>,
        /// Why it can do nothing here.
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
    pub version: Option<String>,
    /// Why it cannot run this problem.
    pub unable: Option<String>,
}
