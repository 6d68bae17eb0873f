//! The thin shell around the library: parse, dispatch, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    evo::cli::main()
}
