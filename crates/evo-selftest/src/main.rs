//! The `evo-selftest` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    evo_selftest::main()
}
