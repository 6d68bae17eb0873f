//! What outside programs see of one candidate: its own launches, in a worker that runs under the program.

pub mod profile;
pub mod sanitize;
pub mod tool;
pub mod twin;
