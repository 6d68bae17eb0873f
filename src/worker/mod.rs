//! What runs in the child that owns a device: the serve loop, the judge, the canary, measuring.

pub mod canary;
pub mod judge;
mod measure;
pub mod serve;
mod stand;
pub mod wire;
