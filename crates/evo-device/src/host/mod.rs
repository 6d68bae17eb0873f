//! The host device: the same rendered CUDA source, compiled by the system's C++ compiler, on this
//! processor. A block's threads are fibers, so barriers are real; buffers end at unmapped pages, so an
//! overrun is a fault with a name. Its timings are those of this processor and are labelled so.

mod backend;
mod calls;
pub mod fault;
mod fiber;
mod flush;
mod headers;
pub mod initializers;
mod instrument;
mod lacking;
mod launch;
mod machine;
mod mapping;
mod memory;
mod module;
mod pattern;
mod pool;
mod preempt;
mod rewrite;
pub mod room;
mod runner;
mod shared;
mod stop;
pub mod store;
mod tensor_map;
#[cfg(test)]
mod tests;
mod tls;
pub mod tokens;
pub mod translate;
mod variables;
mod warp;
mod zones;

pub use backend::HostDevice;
pub use machine::limits;
pub use room::{RoomDevice, RoomOptions};
