//! The command line's types.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand};

use crate::error::LabError;

/// Measures how good evo's search strategies are, without a GPU.
#[derive(Debug, Parser)]
#[command(name = "evo-lab", version, propagate_version = true, max_term_width = 100)]
pub struct LabCli {
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Score search strategies on recorded spaces, without a GPU
    #[command(
        name = "bench-search",
        override_usage = "evo-lab bench-search --strategy <NAME>... --data <DIR|FILE>... [OPTIONS]\n       \
                          evo-lab bench-search --judge <FILE>... --data <DIR|FILE>... [OPTIONS]",
        after_help = "Example: evo-lab bench-search --data recordings/ --strategy evolve,random --runs 100\n         \
                      evo-lab bench-search --data conv__A100.json.gz --strategy evolve --trace evolve.jsonl.gz\n         \
                      evo-lab bench-search --data recordings/ --strategy evolve --judge other-tool.jsonl.gz"
    )]
    BenchSearch(BenchSearchArgs),
}

/// A count of threads or proposals that a machine can hold.
fn small_count() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u16).range(1..=1024).map(usize::from)
}

/// `evo-lab bench-search`
#[derive(Debug, Args)]
pub struct BenchSearchArgs {
    /// Recordings of whole spaces (`tuning-data/1`), or folders of them
    #[arg(long, value_name = "DIR|FILE", num_args = 1.., required = true)]
    pub data: Vec<PathBuf>,
    /// Strategies to compare, by name; needed unless `--judge` is given
    #[arg(long = "strategy", value_name = "NAME", num_args = 1.., value_delimiter = ',',
          required_unless_present = "judge")]
    pub strategies: Vec<String>,
    /// Traces of other tools' runs (JSON lines, compressed or not), judged in the same table
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub judge: Vec<PathBuf>,
    /// Start each run from what `evolve` finds in these recordings of the same kernel on other GPUs
    #[arg(long, value_name = "DIR|FILE", num_args = 1..)]
    pub prior: Vec<PathBuf>,
    /// Runs of each strategy on each space
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 25,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Seed of the first run; the next has the next
    #[arg(long, value_name = "S", allow_negative_numbers = true, default_value_t = 1)]
    pub seed: u64,
    /// Runs side by side, each on one core (default: cores)
    #[arg(long, value_name = "J", allow_negative_numbers = true, value_parser = small_count())]
    pub jobs: Option<usize>,
    /// Proposals in flight in each run
    #[arg(long, value_name = "B", allow_negative_numbers = true, default_value = "1", value_parser = small_count())]
    pub batch: usize,
    /// Instead: at most this many, fewer while the strategy cannot use more; outcomes come in the order in
    /// which a compiler for each and one device, with the recorded times, are done with them
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = small_count(),
          conflicts_with = "batch")]
    pub in_flight: Option<usize>,
    /// Do not count the strategies' own time: the same result on every machine
    #[arg(long)]
    pub no_overhead: bool,
    /// Write what each run asked for, a JSON object a line, compressed if the name ends in `.gz`
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

impl BenchSearchArgs {
    /// The strategies' names without repetitions, each of them known.
    pub(crate) fn known_strategies(&self) -> Result<Vec<&str>, LabError> {
        let mut known: Vec<&str> = Vec::new();
        for name in &self.strategies {
            evo_search::registry::check(name)
                .map_err(|error| LabError::bad_input(&error, Some(error.hint())))?;
            if !known.contains(&name.as_str()) {
                known.push(name);
            }
        }
        Ok(known)
    }
}
