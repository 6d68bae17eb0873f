//! Devices behind one trait: `cuda`, `host`, later `replay`.

pub mod device;
