//! The options of `evo completions` and `evo man`.

use clap::Args;

/// `evo completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `evo man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command whose page is wanted (default: all)
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}
