//! Compiling variants in processes that can be killed.
//!
//! - The pool: `farm` holds the queue, `starter` starts a worker process, `serve` runs inside it, `wire` lists the messages
//!   between them, `cache` keeps results, `guard` refuses sources that would read this machine's files.
//! - The compilers: `toolchain` puts `nvrtc` and `hostcxx` behind one call, `locate` and `toolbox` find them, `compiled` is
//!   their common result.
//! - Reading results: `image` and `ptxas_log` read the resources of a binary, `diagnose` turns logs into verdicts, `facts` and
//!   `occupancy` derive the numbers that a search may learn from.

pub mod cache;
mod compiled;
pub mod diagnose;
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
pub use farm::{CompileFarm, FULL_CACHE_HINT, compile_one, compile_one_with, full_cache};
pub use options::FarmOptions;
pub use serve::run as serve;
