//! A candidate as files that other programs compile, load and call.
//!
//! Everything here is pure: nothing reads or writes a file, knows a device or runs a program.

pub mod dispatch;
pub mod files;
pub mod model;
pub mod record;
pub mod results;
pub mod source;
pub mod translate;

pub use files::{CROSSCHECK, VERIFY_PEER};
