//! `evo evaluate` for programs: requests in JSON instead of words and flags. `options` has the flags, `once` answers one
//! request and `serve` a stream of them, `session` keeps the device and the compilers between them, `baselines` has times of baselines, `ready` finds
//! task and candidate, `task` says what may be known of it, `judge` takes one
//! request from its task to its answer, `level` goes as deep as it asks, and `watch` answers in time whatever the candidate does.

mod baselines;
mod judge;
mod known;
mod level;
mod once;
pub mod options;
mod ready;
mod serve;
mod session;
mod task;
mod watch;

pub use once::run as once;
pub use serve::run as serve;
