//! The options of `evo explain`.

use clap::Args;

/// `evo explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A verdict, with a cause if you like; all verdicts are listed without one
    #[arg(value_name = "VERDICT[:CAUSE]")]
    pub verdict: Option<String>,
    /// Print a JSON schema of what evo writes for programs: `leaderboard-file`, `evaluation`, `sweep`, …
    #[arg(long, value_name = "NAME", conflicts_with_all = ["verdict", "json"])]
    pub schema: Option<String>,
    /// One JSON object on stdout
    #[arg(long, requires = "verdict")]
    pub json: bool,
}
