//! `evo-lab bench-search`: strategies on spaces with a known optimum, many seeds each.
//!
//! On recorded spaces (`command`), runs are simulated on a virtual clock (`runs`, several at a time by `parallel`)
//! and scored beside the traces of other tools (`judged`); `results`, `table` and `json` hold and print the scores.
//! On synthetic spaces (`synthetic`), what counts is how near runs come to the optimum.

mod command;
mod data;
mod json;
mod judged;
mod parallel;
mod results;
mod runs;
mod synthetic;
mod table;

pub use command::run;
