//! Requests in JSON instead of words and flags. `serve` reads them from a stream, a file or stdin and writes one answer
//! each, in time, whatever the candidate does; `judge` takes one from its task to its verdict, `answer` makes the answer, and
//! `task` says what may be known of its task.

pub mod answer;
mod judge;
mod serve;
mod task;

pub use serve::{check, run};
