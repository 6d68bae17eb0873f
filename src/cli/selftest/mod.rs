//! `evo selftest`: evo's checks of itself on this machine's device, kept in `evidence/`.
//!
//! Continuous integration has no GPU, so these commands and their output show that the CUDA device works.

mod alarms;
mod bench;
mod checks;
mod command;
mod crash;
mod device;
mod faults;
mod gates;
mod latency;

pub use alarms::serve as serve_plain;
pub use command::run;
pub use gates::sources as gate_fixtures;
