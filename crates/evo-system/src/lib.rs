//! What evo asks of the operating system, with the care that strangers' programs and files need.
//!
//! `process` starts child processes, talks to them and kills them. `regular` opens files and refuses pipes, devices
//! and folders in their place, `beneath` opens names below an open folder and nothing outside, and `scratch` makes
//! folders that are swept once nobody holds them. `machine` knows this machine's name.

pub mod beneath;
pub mod machine;
pub mod process;
pub mod regular;
pub mod scratch;
