//! What a device cannot take, as far as it is known without running anything: before compiling
//! (`launch`, `memory`) and from what the compiler reports (`resources`).

pub mod launch;
pub mod memory;
pub mod resources;
