//! What passes between the farm and a compile worker, as frames of `process`.

use std::path::PathBuf;

use evo_protocol::binary::{CompileOutcome, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::toolchain::FoundCompiler;

/// Raised by any change that an older peer would misread.
pub const VERSION: u32 = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompileOrder {
    Setup(Box<WorkerSetup>),
    Compile(Box<KernelSource>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSetup {
    pub kind: DeviceKind,
    pub arch: String,
    pub found: FoundCompiler,
    pub cache: PathBuf,
    pub scratch: PathBuf,
    /// Whether files that the compiler opens outside the include folders are refused: always, except in the self-test
    /// of the gates.
    pub judge_opened: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CompileAnswer {
    Ready { toolchain: String, fingerprint: ContentHash },
    Refused { message: String, hint: Option<String> },
    Done { outcome: CompileOutcome },
}
