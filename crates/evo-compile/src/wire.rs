//! What passes between the farm and a compile worker, as frames of `process`.

use std::path::PathBuf;

use evo_protocol::binary::{CompileOutcome, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::toolchain::FoundCompiler;

/// Raised by any change that an older peer would misread.
pub const VERSION: u32 = 4;

/// Farm to worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompileOrder {
    /// The first order.
    Setup(Box<WorkerSetup>),
    Compile(Box<KernelSource>),
}

/// What a worker needs to know once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSetup {
    pub kind: DeviceKind,
    pub arch: String,
    /// The compiler that the farm found.
    pub found: FoundCompiler,
    /// Where binaries go.
    pub cache: PathBuf,
    /// A folder of the worker's own; the farm removes it.
    pub scratch: PathBuf,
    /// Whether files that the compiler opens outside the include folders are refused: always, except in the self-test
    /// of the gates.
    pub judge_opened: bool,
}

/// Worker to farm.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompileAnswer {
    /// Set up.
    Ready { toolchain: String, fingerprint: ContentHash },
    /// Cannot be set up.
    Refused { message: String, hint: Option<String> },
    /// What became of a source, and the files that the compiler says it read.
    Done { outcome: CompileOutcome, read: Vec<PathBuf> },
}
