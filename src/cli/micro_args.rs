//! The options of `evo micro`.

use std::path::PathBuf;

use clap::Args;

use super::limits::LimitArgs;
use super::one_args::{SandboxMode, SpaceAccessArgs, jobs};

/// `evo micro`
#[derive(Debug, Args)]
pub struct MicroArgs {
    /// Space file (TOML or JSON), or the name of an embedded space [default: the folder's only space file, or attention_simt]
    pub space: Option<String>,
    /// Configurations that the ranking keeps
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub top: u16,
    /// Evaluations (`500`), or wall time of the whole command (`90s`, `10m`)
    #[arg(long, value_name = "LIMIT", default_value = "60s", allow_negative_numbers = true)]
    pub budget: String,
    /// Seed of the search and of the inputs [default: random]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// `auto`, `host`, `cuda` or `cuda:INDEX`
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Make the problem from one of these (repeatable) [default: all timed problems]
    #[arg(long = "problem", value_name = "NAME")]
    pub problems: Vec<String>,
    /// Folder for micro_best.json
    #[arg(long = "out", value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Compile processes (default: cores)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = jobs())]
    pub jobs: Option<usize>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
