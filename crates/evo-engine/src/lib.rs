//! The one loop: ask, render, compile, evaluate, record, tell.
//!
//! Threads and child processes do the work and send messages; only the thread that runs `Engine`
//! changes state, so that events have one order. Nothing waits for a generation to end: the compile
//! queue stays ahead of the device, and the device queue stays non-empty. A verdict is in the journal
//! before anything acts on it.

mod ahead;
pub mod candidate;
mod carry;
mod confirm;
mod fleet;
mod lane;
mod lanes;
pub mod live;
pub mod live_sanitizer;
pub mod ports;
pub mod prepared;
pub mod recipe;
mod reconsider;
pub mod regress;
pub mod replay;
mod run;
mod sanitizing;
pub mod single;
mod stages;
mod state;
mod take_over;
mod trouble;
mod variant;
mod wall;

#[cfg(test)]
mod fake;
#[cfg(test)]
#[cfg(debug_assertions)]
mod fault_tests;
#[cfg(test)]
mod tests;

pub use ports::{
    Compilers, Evaluate, Inbox, LanePart, Message, NoSanitizer, Recipe, Refused, Sanitizer, Utilization,
};
pub use run::{Engine, Options, Parts, RunSummary, SanitizePlan};
pub use trouble::{EngineError, RunTrouble};
