//! The envelope: the fields that the object of every command has with `--json`, whatever happens. Its JSON
//! Schema is derived from these types.
//!
//! Names end in their unit. A number that is not known is null, never 0 and never NaN, and `reasons` says why under
//! the dotted path of the field (`limits.total_s`). A few fields are null where there is nothing to tell, without a
//! reason: `error` and what is in it, and `limits.hit`.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::words::words;

/// Raised by any change that an older reader would misread.
pub const ENVELOPE_VERSION: u32 = 1;

/// What a command's object says beside the command's own fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandEnvelope {
    /// `evo.COMMAND`; `evo.unknown` where the command line names no command.
    pub schema: String,
    pub version: u32,
    pub status: EnvelopeStatus,
    pub exit_code: u8,
    /// Why the command did not do what it was asked to do; null where it did, also where the answer is `fail`.
    pub error: Option<EnvelopeError>,
    /// What was judged: space, kernel, configuration and its hash.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub candidate: Option<Value>,
    /// The device's name. `preflight` has the device as the command line names it here, and `selftest` all that is
    /// known of it, as both did before there was an envelope.
    pub device: Option<String>,
    /// Under which conditions: device, driver, seed, problems.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub conditions: Option<Value>,
    /// Which limits were in force, and which one was hit.
    pub limits: Option<LimitsReport>,
    pub elapsed_ms: f64,
    /// A command line that does the same again.
    pub repro: String,
    /// What came of it, in brief; the command's own fields have the rest.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub result: Option<Value>,
    /// Gates that did not run and were allowed not to by `--allow-not-run`.
    pub allowed_not_run: Vec<String>,
    pub reasons: BTreeMap<String, String>,
}

impl CommandEnvelope {
    /// Paths that are null without a reason where there is nothing to tell.
    pub const NULL_FOR_NONE: [&str; 6] =
        ["error", "error.hint", "error.place", "error.place.line", "error.place.column", "limits.hit"];
}

words! {
    #[derive(Default, JsonSchema)]
    EnvelopeStatus {
        /// It did what it was asked to do, and what it judged passed.
        #[default]
        Pass = "pass",
        /// A gate or a comparison failed.
        Fail = "fail",
        /// Something that was demanded did not run.
        NotRun = "not_run",
        /// No stable number could be had.
        Noisy = "noisy",
        /// It could not do what it was asked to do: `error` says why.
        Error = "error",
        /// A signal ended it.
        Interrupted = "interrupted",
    }
}

words! {
    /// The closed list of reasons why a command could not do what it was asked to do.
    #[derive(JsonSchema)]
    ErrorCode {
        /// The command line is wrong.
        Usage = "usage",
        /// A file or folder cannot be read, written or understood.
        BadFile = "bad_file",
        /// There is no such device here, or it cannot be opened.
        NoDevice = "no_device",
        /// A program or library that evo needs is not there.
        ToolMissing = "tool_missing",
        /// It is there and may not do its work here.
        ToolRefused = "tool_refused",
        /// It is there in a version that does not fit.
        ToolIncompatible = "tool_incompatible",
        /// Another process holds what it needs, such as the lock of a study.
        ToolBusy = "tool_busy",
        /// It ran and did not do its work.
        ToolBroken = "tool_broken",
        /// A limit was hit: `limits.hit` names it.
        TimedOut = "timed_out",
        /// The device stopped answering.
        DeviceLost = "device_lost",
        /// A signal came.
        Interrupted = "interrupted",
        /// evo itself or the machine failed.
        Internal = "internal",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvelopeError {
    /// For programs.
    pub code: ErrorCode,
    /// For people, with causes.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where it is, if it is in a file.
    pub place: Option<ErrorPlace>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorPlace {
    /// As the command line names it.
    pub file: String,
    /// From 1; null where the error concerns the file as a whole.
    pub line: Option<u32>,
    /// In characters, from 1; null as `line` is.
    pub column: Option<u32>,
}

impl ErrorPlace {
    pub fn file(path: &Path) -> ErrorPlace {
        ErrorPlace { file: path.display().to_string(), line: None, column: None }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitsReport {
    /// For compiling one variant.
    pub compile_s: Option<f64>,
    /// For one step of one variant on the device.
    pub device_s: Option<f64>,
    /// For one run of an outside program.
    pub tool_s: Option<f64>,
    /// For the command as a whole.
    pub total_s: Option<f64>,
    /// The limit that was hit; null where none was.
    pub hit: Option<LimitName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// `--limit compile=TIME`
    Compile,
    /// `--limit device=TIME`
    Device,
    /// `--limit tool=TIME`
    Tool,
    /// `--limit total=TIME`
    Total,
}
