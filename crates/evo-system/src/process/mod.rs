//! Child processes: started so that they die with us, talked to without blocking, killed with everything they
//! started.

mod child;
mod conversation;
mod log;
mod run;
mod serve;
mod signal;
mod spawn;
mod strays;
mod waits;

pub use child::{Incoming, ProcessGroup, RunningChild, wait_measured};
pub use conversation::{Conversation, Death, DeathHow, PATIENCE};
pub use log::CappedLog;
pub use run::{Ended, RunLimits, run, run_reading};
pub use serve::{Orphaned, ParentLink, REQUEST};
pub use signal::{is_fault, is_ignored, signal_name};
pub use spawn::{EXHAUSTED_HINT, ResourceLimits, is_exhausted, limit, memory_limit, spawn, worker_program};
pub use strays::{RunMark, keep_with, serve_keeper};
