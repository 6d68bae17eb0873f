//! Compiling variants in processes that can be killed.
//!
//! `farm` is the pool, `starter` starts a process of it, `child` is one seen from outside, `serve` the same from inside, `wire`
//! what they say to each other. `nvrtc` and `hostcxx` are the two compilers behind `toolchain`. `cache`
//! keeps what was compiled; `image` and `ptxas_log` read what a variant uses; `diagnose` makes verdicts;
//! `guard` refuses sources that would read this machine's files. `facts` are the numbers that a search may learn from, `occupancy`
//! one of them.

pub mod cache;
mod child;
pub mod compiled;
pub mod diagnose;
mod drain;
pub mod error;
pub mod facts;
pub mod farm;
mod guard;
pub mod hostcxx;
pub mod image;
mod locate;
pub mod nvrtc;
pub mod occupancy;
pub mod options;
mod ptxas_log;
mod serve;
mod starter;
pub mod support;
pub mod toolbox;
pub mod toolchain;
mod wire;

pub use error::CompileSetupError;
pub use farm::{CompileFarm, compile_one, compile_one_with, full_cache};
pub use options::FarmOptions;
pub use serve::run as serve;
