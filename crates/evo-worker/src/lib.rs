//! The code of the child that owns a device: the serve loop, the judge, the health check, measuring.

pub mod canary;
pub mod judge;
mod measure;
pub mod serve;
