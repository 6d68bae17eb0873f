//! Child processes: started so that they die with us, talked to without blocking, killed with everything they
//! started.
//!
//! The parent's side has four users. Compile workers and device workers are `Conversation`s: JSON lines over
//! stdin and stdout, each request with a deadline. Wrapped tools go through `run`, which keeps the capped
//! output of a command. A command of evo's own whose lines a client waits for is a `FollowedProgram`. All of them are
//! `ChildProcess`es, started by `spawn` and ended by a kill of their process group. `serve` is the other side: the
//! loop inside a worker.

mod child;
mod conversation;
mod follow;
mod log;
mod pipe;
mod program;
mod run;
mod serve;
mod signal;
mod spawn;
mod strays;
mod waits;

pub use child::{ProcessGroup, wait_measured};
pub use conversation::{Conversation, DeathCause, PATIENCE, ProcessDeath};
pub use follow::{FollowedLine, FollowedProgram};
pub use log::CappedLog;
pub use program::worker_program;
pub use run::{Ended, RunLimits, run, run_reading};
pub use serve::{Orphaned, ParentLink, REQUEST, RequestHandler, serve};
pub use signal::{is_fault, is_ignored, signal_name};
pub use spawn::{EXHAUSTED_HINT, ResourceLimits, is_exhausted, limit, memory_limit, spawn};
pub use strays::{RunMark, keep_with, serve_keeper};
