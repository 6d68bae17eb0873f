//! Mutators: outside programs that propose sources of a kernel, which evo judges as it judges everything else.
//!
//! `wire` reads the lines of a mutator, `edits` makes sources out of proposals, `command` splits a command line,
//! `species` plays the rounds, `process` keeps the program going or gives it up, and `records` is `mutators.jsonl`. Nothing here compiles, judges or
//! times. The protocol is in `docs/MUTATORS.md`.

pub mod archive;
pub mod command;
pub mod edits;
pub mod process;
pub mod records;
pub mod species;
pub mod wire;
