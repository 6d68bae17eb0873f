//! `evo selftest crash`: evo, its workers and its compilers are killed at moments of a small sweep on the host
//! device, and the sweep is resumed. It must come to the verdicts of an undisturbed run, lose none, give none
//! twice, and leave no process, lock or scratch file behind.
//!
//! The moments come from a seed: an event of the sweep and a few milliseconds after it. The same seed kills at the
//! same events; what the machine does in a millisecond is its own.

mod command;
mod moment;
mod processes;
mod stage;
mod study;

pub use command::run;
