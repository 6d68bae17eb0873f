//! Compiling variants in processes that can be killed.

pub mod compiler;
pub mod error;
pub mod image;
pub mod locate;
pub mod ptxas_log;
pub mod toolbox;
