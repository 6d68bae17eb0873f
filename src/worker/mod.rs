//! Workers: processes that own a device, and the parent's side of them.

pub mod blame;
pub mod canary;
pub mod child;
pub mod deadline;
pub mod job;
pub mod lane;
pub mod serve;
mod stand;
mod supervise;
pub mod wire;
