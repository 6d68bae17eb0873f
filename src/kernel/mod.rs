//! The kernel half of a space file, rendering, and launch plans.

pub mod catalog;
pub mod load;
pub mod render;
pub mod resolve;
pub mod spec;
pub mod template;
mod tiny;
