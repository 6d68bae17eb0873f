//! What a device cannot take, as far as it is known without running anything: before compiling
//! (`launch`, `memory`, `copy_engine`) and from what the compiler reports (`resources`).

pub mod constraints;
pub mod copy_engine;
pub mod launch;
pub mod memory;
pub mod resources;
