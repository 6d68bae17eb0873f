//! `evo worker`: a compile worker, a device worker, a renderer of templates or a keeper of tools on stdin and stdout.

use evo_device::host::room;

use super::args::WorkerArgs;
use super::one_args::SandboxMode;
use super::{CliError, ExitCode, Result};
use crate::compile;
use crate::kernel::apart;
use crate::process::serve_keeper;
use crate::worker::serve;

/// Which gates and which timing this program has. The hash is that of the sources (`build.rs`).
const JUDGE: &str = concat!("evo ", env!("CARGO_PKG_VERSION"), " ", env!("EVO_JUDGE_HASH"));

pub fn run(arguments: &WorkerArgs) -> Result<ExitCode> {
    let gone = |error| CliError::harness(format!("cannot talk to the parent: {error}"));
    let fenced = arguments.sandbox == SandboxMode::On;
    match (&arguments.keep, arguments.compile.as_deref()) {
        _ if arguments.executor => room::serve(fenced)
            .map_err(|error| CliError::harness(format!("the fork server of executors: {error}")))?,
        _ if arguments.render => apart::serve().map_err(gone)?,
        (Some(prefix), _) => {
            serve_keeper(prefix).map_err(|error| CliError::usage(format!("`--keep`: {error}")))?;
        }
        (None, Some("cuda" | "host")) => {
            compile::serve().map_err(|error| CliError::harness(format!("the farm is gone: {error}")))?;
        }
        (None, Some(other)) => {
            return Err(CliError::usage(format!("`--compile {other}`: expected `cuda` or `host`")));
        }
        (None, None) => serve::run(fenced, JUDGE).map_err(gone)?,
    }
    Ok(ExitCode::Done)
}
