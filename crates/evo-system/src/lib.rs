//! What evo asks of the operating system, with the care that strangers' programs and files need.

pub mod beneath;
pub mod machine;
pub mod process;
pub mod regular;
pub mod scratch;
