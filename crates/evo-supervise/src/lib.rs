//! The parent's side of a device: jobs in, verdicts out, whatever happens to the workers.

pub mod blame;
pub mod cascade;
pub mod child;
pub mod deadline;
pub mod job;
pub mod lane;
pub mod solo;
mod supervisor;
mod unfit;
