//! The one loop: ask, render, compile, evaluate, record, tell.
//!
//! Threads and child processes do the work and send messages; only the thread that runs `Engine`
//! changes state, so that events have one order. Nothing waits for a generation to end: the compile
//! queue stays ahead of the device, and the device queue stays non-empty. A verdict is in the journal
//! before anything acts on it.

mod ago;
mod ahead;
mod anchors;
mod apart;
pub mod built;
pub mod candidate;
mod carry;
mod confirm;
mod doubt;
pub mod error;
mod fleet;
mod guesses;
pub mod interrupt;
mod lane;
mod lanes;
pub mod live;
pub mod live_sanitizer;
mod mean;
pub mod micro;
pub mod options;
pub mod ports;
pub mod prepared;
pub mod recipe;
mod reconsider;
pub mod regress;
pub mod replay;
pub mod restored;
mod run;
mod sanitizing;
pub mod single;
mod specialists;
mod stages;
mod state;
mod take_over;
mod trouble;
pub mod twin_looks;
mod variant;
mod wall;

#[cfg(test)]
mod apart_tests;
#[cfg(test)]
mod expected_tests;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod fake_sanitizer;
#[cfg(test)]
mod fake_study;
#[cfg(test)]
#[cfg(debug_assertions)]
mod fault_tests;
#[cfg(test)]
mod guesses_tests;
#[cfg(test)]
mod lanes_tests;
#[cfg(test)]
mod reconsider_tests;
#[cfg(test)]
mod renewal_tests;
#[cfg(test)]
mod sanitizing_tests;
#[cfg(test)]
mod take_over_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trouble_tests;
#[cfg(test)]
mod wall_tests;

pub use doubt::RunTrouble;
pub use error::EngineError;
pub use options::{Options, RunSummary, SanitizePlan};
pub use ports::{
    Compilers, Evaluate, Inbox, LaneIdentity, LanePart, Message, NoSanitizer, Recipe, Refused, Sanitizer,
    Utilization,
};
pub use run::{Engine, Parts};
