//! `evo selftest ptx`: every instruction of `evo/ptx.cuh` on this device, beside plain loops on this processor.
//!
//! The loops know nothing of fragments and lanes: they multiply matrices in double precision and move rows. What the
//! host device and a GPU both agree with is the same on the two, within the bound that the header states.

mod bulk;
mod command;
mod groups;
mod moves;
mod numbers;
mod operands;
mod probe;
mod products;

pub use command::run;
