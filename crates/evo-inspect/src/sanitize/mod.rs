//! One candidate under compute-sanitizer.
//!
//! A check passes only where two independent answers agree: the tool has written its summary and found nothing, and
//! the worker has made every launch.

mod arguments;
mod finding;
mod log;
mod look;
mod outcome;
mod records;
mod run;

pub use evo_protocol::verdict::SanitizerCheck;

pub use arguments::sanitizer_command;
pub use finding::SanitizerFinding;
pub use log::{SanitizerLog, read_log};
pub use look::{LookOrder, SanitizerLook, StandIn, look, not_on_host, unlooked};
pub use outcome::{SanitizerEvidence, SanitizerOutcome};
pub use records::{RecordList, SanitizerRecord, read_records};
pub use run::{run_check, run_without, shapes};
