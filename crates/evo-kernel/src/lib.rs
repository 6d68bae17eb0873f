//! The kernel half of a space file, rendering, and launch plans.

pub mod access;
pub mod apart;
pub mod catalog;
pub mod dictionary;
pub mod foreign;
pub mod harm;
pub mod identifiers;
pub mod label;
pub mod launch_file;
pub mod limits;
pub mod lint;
pub mod load;
mod range;
pub mod render;
pub mod resolve;
pub mod signature;
pub mod sketch;
pub mod spec;
pub mod specialize;
pub mod t1;
pub mod template;
pub mod tiny;
mod unfilled;
mod words;
