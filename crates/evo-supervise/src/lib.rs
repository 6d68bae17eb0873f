//! The parent's side of a device: jobs in, verdicts out, whatever happens to the workers.

mod ahead;
pub mod blame;
pub mod blocks;
pub mod cascade;
pub mod child;
pub mod class;
pub mod deadline;
mod described;
pub mod job;
pub mod lane;
pub mod race;
pub mod renewal;
pub mod solo;
mod supervisor;
mod unfit;
