//! The parent's side of a device: jobs in, verdicts out, whatever happens to the workers.
//!
//! `cascade` decides which gate a job meets next, `race` who is too slow, `deadline` how long each step may
//! take, `blame` who caused a death, `supervisor` replaces workers, `renewal` does so after the answer where a launcher
//! may let wait, `class` says which devices compare, and `lane` joins them into one call for each job.

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
