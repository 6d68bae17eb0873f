//! `evo sweep`: search a space, confirm the best, rank them.
//!
//! The arguments become a plan (`plan`), in which everything that the user can get wrong is checked before
//! anything is written. One function runs a plan (`execute`), whether a device answers (`live`) or a
//! recording (`replayed`), and one reports what came of it (`result`).

mod anchors;
mod apart;
mod choice;
mod command;
mod conditions;
mod execute;
mod inputs;
mod lane_order;
mod lanes;
mod live;
mod plan;
mod prior;
mod profiled;
mod replayed;
mod result;
mod sanitized;
mod seeds;
mod stage;
mod workers;
mod workers_file;

pub use command::run;
pub use execute::execute;
pub use plan::{SweepPlan, SweepSubject};
