//! `evo selftest`: evo's checks of itself on this machine's device, kept in `evidence/`.
//!
//! Continuous integration has no GPU, so these commands and their output show that the CUDA device works.

/// The lines by which a space file declares a buffer.
macro_rules! buffer {
    ($name:literal, $dtype:literal, $shape:literal, $role:literal) => {
        concat!(
            "[[arguments]]\nname = \"",
            $name,
            "\"\ndtype = \"",
            $dtype,
            "\"\nshape = [",
            $shape,
            "]\nrole = \"",
            $role,
            "\"\n"
        )
    };
}

/// The lines by which a space file declares a number of elements.
macro_rules! count {
    ($name:literal, $value:literal) => {
        concat!("[[arguments]]\nname = \"", $name, "\"\ndtype = \"i32\"\nvalue = \"", $value, "\"\n")
    };
}

mod alarms;
mod bench;
mod checks;
mod command;
mod crash;
mod device;
mod faults;
mod gates;
mod latency;
mod ptx;
mod references;

pub use alarms::serve as serve_plain;
pub use command::run;
pub use faults::{FaultLook, SANITIZED, SanitizedFault};
pub use gates::sources as gate_fixtures;
