//! The kernel half of a space file, rendering, and launch plans.

pub mod plan;
pub mod spec;
