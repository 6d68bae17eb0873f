//! `evo sweep`: search a space, confirm the best, rank them.
//!
//! Everything that the user can get wrong is checked (`plan`) before anything is written.

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
pub use result::SweepAnswer;
