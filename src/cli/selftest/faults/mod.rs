//! `evo selftest faults`: broken variants between good ones, in random order. Each must get its own verdict
//! with its cause in words and within its time, leave nothing behind, and the good one after it must be judged
//! as if nothing had happened. Some variants are honest and odd: they must pass.
//!
//! The catalogue numbers every known way to be bad. Each number has a row that is played, or a reason why no
//! device can play it; `docs/FAULTS.md` is made from these tables.

mod absent;
mod catalogue;
mod heads;
mod leftovers;
mod neighbor;
#[cfg(test)]
mod page;
mod play;
mod row;
mod rows;
mod sanitized;

pub use play::{run, sanitize};
pub use sanitized::{FaultLook, SANITIZED, SanitizedFault, SanitizedRow, table};
