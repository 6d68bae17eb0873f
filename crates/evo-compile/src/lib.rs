//! Compiling variants in processes that can be killed.
//!
//! - The pool: `farm` holds the queue, `variant_farm` answers for all sources of a configuration together, `warm` waits for one source at a time, `starter` starts a worker process, `serve` runs inside it, `wire` lists the messages
//!   between them, `cache` keeps results and `cache_size` forgets old ones, `scratch` holds what is being made, `guard` refuses
//!   sources that would read this machine's files, `host_half` leaves out what only the host runs.
//! - Included files: `includes` finds and hashes them, `search_path` knows where they may be, `preprocessor` reads the lines
//!   that name them, `dependencies` and `opened` read what a C++ compiler says of them, `manifest` tells which result belongs
//!   to them.
//! - The compilers: `toolchain` puts `nvrtc` and `hostcxx` behind one call, `standard` has headers for NVRTC, `locate` and `toolbox` find them, `compiled` is
//!   their common result.
//! - Reading results: `image` and `ptxas_log` read the resources of a binary, `diagnose` and `entries` turn logs into verdicts, `facts` and
//!   `occupancy` derive the numbers that a search may learn from.

pub mod cache;
pub mod cache_size;
mod compiled;
pub mod confined;
mod dependencies;
pub mod diagnose;
mod entries;
pub mod error;
pub mod facts;
pub mod farm;
mod guard;
mod host_half;
pub mod hostcxx;
pub mod image;
pub mod includes;
pub mod instructions;
mod known_options;
pub mod locate;
mod manifest;
pub mod nvrtc;
pub mod occupancy;
mod opened;
pub mod options;
mod preprocessor;
mod ptxas_log;
pub mod search_path;
mod serve;
mod standard;
mod starter;
pub mod strong;
pub mod support;
pub mod toolbox;
pub mod toolchain;
pub mod variant_farm;
pub mod warm;
mod wire;

pub use error::CompileSetupError;
pub use farm::{CompileFarm, FULL_CACHE_HINT, compile_one, compile_one_with, full_cache};
pub use options::FarmOptions;
pub use serve::run as serve;
pub use variant_farm::{VariantFarm, VariantOutcome};
