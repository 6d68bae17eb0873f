//! What a device cannot take, as far as it is known without running anything: before compiling
//! (`launch`) and from what the compiler reports (`resources`).

pub mod launch;
pub mod resources;
