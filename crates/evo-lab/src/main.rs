//! The `evo-lab` program: parse the command line, run the command, return its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    evo_lab::main()
}
