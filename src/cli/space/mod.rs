//! `evo space`: how many points a space has, what each constraint removes, samples, lists, neighbors,
//! and why a point is not valid.

mod command;
mod inquiry;
mod json;
mod rows;
mod summary;

pub use command::run;
pub use json::SpaceJson;
pub use rows::RowsAnswer;
