//! `evo sweep --workers`: on which devices a sweep evaluates.

use clap::Args;

/// The lanes of a sweep.
#[derive(Debug, Args)]
pub struct WorkersArgs {
    /// Devices to evaluate on: `gpus`, `gpus:0,1`, `host:N`, `srun:N`, `ssh:HOST,…`, `ray:N`, `cmd:COMMAND`, or a TOML file
    #[arg(long, value_name = "LIST", conflicts_with = "worker_command")]
    pub workers: Option<String>,
    /// Number of workers that `--workers cmd:COMMAND` starts [default: 1]
    #[arg(long, value_name = "N", requires = "workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub lanes: Option<u32>,
}
