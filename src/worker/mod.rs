//! Workers: processes that own a device, and the parent's side of them.

pub mod protocol;
