//! `evo sweep`: search a space, confirm the best, rank them.
//!
//! Everything that the user can get wrong is checked (`plan`) before anything is written.

mod anchors;
mod apart;
mod choice;
mod conditions;
mod execute;
mod lanes;
mod live;
mod plan;
mod prior;
mod profiled;
mod replayed;
mod result;
mod sanitized;
mod workers;

pub use execute::{execute, run};
pub use plan::{SweepPlan, SweepSubject};
pub use result::SweepAnswer;
