//! The laboratory: how good evo's search strategies are, measured without a GPU.
//!
//! A strategy is judged on spaces where the best possible result is known. Recorded spaces hold a
//! measurement of every configuration: `simulate` replays a search on one with a virtual clock, `trace` and
//! `trace_reader` write and read what searches asked for, and `score` compares runs with random search.
//! Synthetic spaces (`synthetic`) are too large to record; formulas with a planted optimum stand in for the
//! device. `bench_search` is the command that does all of this and prints tables.
//!
//! The product does not depend on this crate, and this crate is not published.

pub mod args;
pub mod bench_search;
pub mod command;
pub mod error;
mod genetic;
pub mod score;
pub mod simulate;
mod strategies;
pub mod synthetic;
pub mod trace;
pub mod trace_reader;
