//! Compiling variants in processes that can be killed.

pub mod compiler;
