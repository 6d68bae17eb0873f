//! `manifest.json` of an export: what the files are, how the kernel is called, and what was measured of it.

use std::collections::BTreeMap;

use evo_space::genome::{Configuration, ContentHash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::binary::{EntryResources, Specialization};
use crate::leaderboard::ProblemResult;

/// The [`ExportManifest::schema`] of this version.
pub const EXPORT_SCHEMA: &str = "evo.export-manifest";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportManifest {
    #[schemars(extend("const" = "evo.export-manifest"))]
    pub schema: String,
    /// Raised by any change that an older reader would misread.
    #[schemars(extend("const" = 1))]
    pub version: u32,
    pub evo: String,
    pub kernel: String,
    pub configuration: Configuration,
    pub configuration_hash: ContentHash,
    /// Sizes that are constants of this binary, with their values.
    #[schemars(with = "BTreeMap<String, i64>")]
    pub constants: Specialization,
    /// Hash of the source that evo renders for this configuration, with the files that it includes.
    pub source_hash: Option<ContentHash>,
    pub judged: ExportJudgement,
    /// The device on which it was judged; null where nobody looked.
    pub judged_on: Option<String>,
    /// The architecture of the cubin, where there is one.
    pub arch: Option<String>,
    pub toolchain: Option<String>,
    /// Options with which the kernel was measured; `kernel.cu` needs them too.
    pub compiler_options: Vec<String>,
    /// Names in the space file and in the files, shapes and roles; formulas over sizes as text.
    pub arguments: Value,
    /// The launches of a call, in order.
    pub launches: Value,
    pub conditions: Value,
    /// Addresses of buffers are multiples of this.
    pub alignment_bytes: u64,
    /// What each kernel uses; empty where nothing was compiled.
    pub resources: Vec<EntryResources>,
    /// Times that evo measured; null where nobody did.
    pub numbers: Option<ExportNumbers>,
    /// The files beside this one, by path.
    pub files: BTreeMap<String, ExportedFile>,
    /// Why fields are null, by their names, and why formats are missing, by theirs.
    pub reasons: BTreeMap<String, String>,
}

/// How it is known that an exported kernel is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportJudgement {
    /// It passed every gate on correctness when it was exported.
    Now,
    /// It stands on a leaderboard and its source has not changed since.
    Recorded,
    /// Nobody looked.
    Unchecked,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportNumbers {
    /// The study that confirmed them.
    pub study: String,
    /// Number of the evaluation in that study.
    pub number: u64,
    pub device: String,
    pub driver: String,
    /// When; UTC, RFC 3339.
    pub confirmed_at: String,
    /// The timing mode that ranks.
    pub ranking: String,
    /// Baseline's time over this one's.
    pub speedup: Option<f64>,
    /// Relative difference below which two times are a tie.
    pub noise_floor: Option<f64>,
    pub problems: Vec<ProblemResult>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedFile {
    pub hash: ContentHash,
    pub bytes: u64,
}
