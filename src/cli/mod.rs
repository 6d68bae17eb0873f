//! Commands: arguments become a validated plan, the plan is run, the result is reported.

pub mod args;
mod cache;
mod candidate;
mod compile;
mod compile_columns;
mod compile_table;
mod completions;
mod entry;
mod environment;
pub mod error;
pub mod exit_code;
mod explain;
mod leaderboard;
mod man;
mod output;
mod preflight;
mod progress;
mod render;
mod seed;
mod selftest;
mod session;
mod space;
mod sweep;
mod test_one;
pub mod words;
mod worker;

pub use entry::{finish, main};
pub use selftest::gate_fixtures;
