//! What passes between the farm and a compile worker: one JSON object a line.

use std::path::PathBuf;

use evo_protocol::binary::{CompileOutcome, CompileRequest};
use evo_protocol::device::DeviceKind;
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::toolchain::Found;

/// Raised by any change that an older peer would misread.
pub const VERSION: u32 = 1;

/// Farm to worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Order {
    /// The first line.
    Setup(Box<Setup>),
    /// Compile this.
    Compile(Box<CompileRequest>),
}

/// What a worker needs to know once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    pub version: u32,
    pub kind: DeviceKind,
    pub arch: String,
    /// The compiler that the farm found.
    pub found: Found,
    /// Where binaries go.
    pub cache: PathBuf,
    /// A folder of the worker's own; the farm removes it.
    pub scratch: PathBuf,
    /// Address-space limit of the worker and of what it starts, bytes; 0 for none.
    pub memory_bytes: u64,
}

/// Worker to farm.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
    /// Set up.
    Ready { toolchain: String, fingerprint: ContentHash },
    /// Cannot be set up.
    Refused { message: String },
    /// The answer to a request.
    Done { outcome: CompileOutcome },
}
