//! `evo selftest alarms`: random configurations of the kernels that ship with evo, judged by the gates and judged
//! again by a path that shares no code with them.
//!
//! `command` draws configurations and compares the two answers, `plain` runs a variant in a child on inputs of its
//! own, `loops` computes the answers in fp64 with plain loops and says how far off an honest kernel may be.

mod command;
mod loops;
mod plain;

pub use command::run;
pub use plain::serve;
