//! The host device with its variants in rooms of their own.
//!
//! A host variant is native code. Whoever shares an address space with it cannot keep anything from it: expected
//! answers could be read, comparisons rewritten, answers to the parent forged. So each loaded module runs in a
//! process of its own, an *executor*, and the worker's device is a proxy that asks it over a socket.
//!
//! ```text
//! worker (judge, answers, protocol) ── socket ── executor (one module, its kernels)
//!    │          └─ buffers bound to a launch: memory that both map, inputs read-only in the executor
//!    └─ fork server: one clean process that forks each executor, fenced in before the first
//! ```
//!
//! Nothing that an executor says is believed beyond what a variant may claim about itself: outputs are compared by
//! the worker in its own mapping, errors must be of a kind that speaks against the variant, and times must fit the
//! worker's clock.

mod clock;
mod ending;
mod executor;
mod fences;
mod fork_server;
mod order;
mod proxy;
mod wire;

pub use fences::FenceReport;
pub use fork_server::{RoomOptions, fences, serve};
pub use proxy::RoomDevice;
