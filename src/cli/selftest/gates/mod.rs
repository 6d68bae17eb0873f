//! `evo selftest gates`: every check inside the gates left out in turn, and the fixture that then slips through.
//!
//! `rows` lists the checks with their fixtures, `tasks` has the space files of the fixtures, `bench` builds and judges
//! one fixture, `play` runs the rows and decides what each check is worth, `table` shows it.

mod bench;
mod command;
mod play;
mod rows;
mod table;
mod tasks;

pub use bench::sources;
pub use command::run;
