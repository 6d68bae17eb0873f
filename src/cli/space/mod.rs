//! `evo space`: how many points a space has, what each constraint removes, samples, lists, neighbors,
//! and why a point is not valid.

mod check;
mod command;
mod inquiry;
mod integers;
mod json;
mod neighbors;
mod question;
mod rows;
mod stream;
mod summary;

pub use command::run;
pub use json::SpaceJson;
pub use rows::RowsAnswer;
