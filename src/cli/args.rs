//! The options of commands that have no file of their own for them.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::candidate::CandidateArgs;
use super::limits::{COMPILING, JUDGING, LimitArgs, OPENING, WHOLE};
use super::one_args::{SandboxMode, jobs};
use super::sanitize::{SanitizeWhen, sanitize_when};

fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a whole number, 0 or more, that is not too large".to_string())
}

/// What `--resume` does where there is nothing to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResumeMode {
    /// A name that no study has is an error
    Existing,
    /// A study of that name is begun
    OrBegin,
}

#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Space file (TOML or JSON), or the name of an embedded space [default: the recording's, the folder's only space file,
    /// or attention_simt]
    pub space: Option<String>,
    /// Number of generations
    #[arg(long = "gen", value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub generations: Option<u32>,
    /// Evaluations per generation
    #[arg(long = "pop", value_name = "P", allow_negative_numbers = true, default_value_t = 16, value_parser = whole::<u32>)]
    pub population: u32,
    /// Evaluations (`500`), or wall time of the whole command, confirmation included (`90s`, `10m`, `2h`)
    #[arg(long, value_name = "LIMIT", allow_negative_numbers = true)]
    pub budget: Option<String>,
    /// Seed of the search and of the inputs [default: random, or the resumed study's]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub seed: Option<u64>,
    /// Search strategy; exhaustive under 2,000 valid points if the budget covers them, else evolve
    #[arg(long, value_name = "X")]
    pub strategy: Option<String>,
    /// `auto`, `host`, `cuda`, `cuda:INDEX`, or `replay:FILE` to replay a recording
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Continue the study that an earlier run left, also after an edit of its space; `or-begin` begins one where there is
    /// none of that name
    #[arg(long, value_name = "MODE", value_enum, num_args = 0..=1, require_equals = true,
          default_missing_value = "existing", hide_possible_values = true)]
    pub resume: Option<ResumeMode>,
    /// Measure again what was measured before, instead of taking results over from studies in --out
    #[arg(long)]
    pub remeasure: bool,
    /// Folder for the leaderboard and the study
    #[arg(long = "out", value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Name of the study's folder under --out (default: kernel and device)
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// Compile processes (default: cores)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = jobs())]
    pub jobs: Option<usize>,
    /// Command of a device worker instead of `evo worker`, split at spaces
    #[arg(long = "worker-command", value_name = "COMMAND")]
    pub worker_command: Option<String>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    /// Only these problems (repeatable)
    #[arg(long = "problem", value_name = "NAME")]
    pub problems: Vec<String>,
    /// Search for the best configuration of each timed problem, instead of the least mean: proposals go where a problem is
    /// still far from its roofline
    #[arg(long = "per-problem")]
    pub per_problem: bool,
    /// Run every variant that compiles, even those that the strategy would reject by their registers and spills
    #[arg(long = "run-all")]
    pub run_all: bool,
    /// Start from the results of this study or recording of the same kernel (repeatable) [default: studies in --out]
    #[arg(long, value_name = "PATH", conflicts_with = "no_prior")]
    pub prior: Vec<PathBuf>,
    /// Ignore earlier studies: neither start from them nor take over their results
    #[arg(long)]
    pub no_prior: bool,
    /// Leave out the ranking of `evo micro` that generation 0 would begin with
    #[arg(long)]
    pub no_micro: bool,
    /// Number of finalists to confirm in fresh processes
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 3, value_parser = whole::<usize>)]
    pub finalists: usize,
    /// Whether a profiler looks at the champion once the search is over: its counters are kept beside the journal
    #[arg(long, value_enum, default_value_t = ProfileWhen::Off, value_name = "finalists|off", hide_possible_values = true)]
    pub profile: ProfileWhen,
    /// Whom compute-sanitizer looks at, and then demand its answer [default: finalists and every=5 on a GPU, not demanded]
    #[arg(long, value_name = "finalists|every=N|off", value_parser = sanitize_when)]
    pub sanitize: Option<SanitizeWhen>,
    /// Print before the answer what else is known of the run: verdicts, lanes, sanitizer, insight, every confirmed row
    #[arg(long)]
    pub verbose: bool,
    /// Devices to evaluate on: `gpus`, `gpus:0,1`, `host:N`, `srun:N`, `ssh:HOST,…`, `ray:N`, `cmd:COMMAND`, or a TOML file
    #[arg(long, value_name = "LIST", conflicts_with = "worker_command")]
    pub workers: Option<String>,
    /// Number of workers that `--workers cmd:COMMAND` starts [default: 1]
    #[arg(long, value_name = "N", requires = "workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub lanes: Option<u32>,
    #[command(flatten)]
    pub limits: LimitArgs<JUDGING>,
    /// One JSON object per event on stdout, and a last one with the result
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileWhen {
    /// The champion among this run's finalists
    Finalists,
    /// Nothing
    Off,
}

#[derive(Debug, Args)]
pub struct RenderArgs {
    /// [SPACE] then values in declared order, NAME=VALUE, or @champion, @previous, @baseline, @NUMBER, @HASH
    #[arg(value_name = "SPACE|VALUE|NAME=VALUE|@NAME", allow_negative_numbers = true)]
    pub words: Vec<String>,
    #[command(flatten)]
    pub candidate: CandidateArgs,
    #[command(flatten)]
    pub limits: LimitArgs<OPENING>,
    /// Of a specialized kernel, the text for this problem only, as the compiler gets it
    #[arg(long, value_name = "NAME")]
    pub problem: Option<String>,
    /// Print a header that ships with evo (`evo/ptx.cuh`) instead of a variant
    #[arg(long, value_name = "NAME", conflicts_with_all = ["words", "json"])]
    pub header: Option<String>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CompileArgs {
    /// [SPACE] then values in declared order, NAME=VALUE, or @champion, @previous, @baseline, @NUMBER, @HASH
    #[arg(value_name = "SPACE|VALUE|NAME=VALUE|@NAME", allow_negative_numbers = true)]
    pub words: Vec<String>,
    #[command(flatten)]
    pub candidate: CandidateArgs,
    /// Target: `sm_80`, `sm_89`, `sm_90a`, …, or `host`
    #[arg(long, default_value = "sm_90a")]
    pub arch: String,
    /// Every valid configuration instead of one
    #[arg(long)]
    pub all: bool,
    /// This many random valid configurations instead of one
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "all")]
    pub sample: Option<usize>,
    /// Seed of the sample
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Compile processes (default: cores)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = jobs())]
    pub jobs: Option<usize>,
    #[command(flatten)]
    pub limits: LimitArgs<COMPILING>,
    /// One JSON object on stdout; with --all or --sample one per variant and a last one
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct LeaderboardArgs {
    /// Folder with leaderboard.json
    #[arg(long = "out", value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Rebuild leaderboard.json from the journals
    #[arg(long)]
    pub rebuild: bool,
    /// Print the file's object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PreflightArgs {
    /// `auto`, `host`, `cuda` or `cuda:INDEX`
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
    /// Keep what was found as `toolchain.json` in the folder of `--out`
    #[arg(long)]
    pub write: bool,
    /// Folder of the evidence
    #[arg(long, default_value = "evidence", value_name = "DIR", requires = "write")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// What to test
    #[arg(value_enum)]
    pub subject: SelftestSubject,
    /// `auto`, `host`, `cuda` or `cuda:INDEX`
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Only faults whose name contains this; a fault's number (`W13`) works too
    #[arg(long, value_name = "ROW")]
    pub only: Option<String>,
    /// `faults`, on a GPU: which check of compute-sanitizer finds which of them
    #[arg(long)]
    pub sanitize: bool,
    /// `faults`: inputs and the order of faults; random when absent
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub limits: LimitArgs<WHOLE>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SelftestSubject {
    /// Every call of the device trait: buffers, guards, compare, hash, launch, graphs, timing
    Device,
    /// Broken kernels between good ones: verdicts, recovery, nothing left behind
    Faults,
}

#[derive(Debug, Args)]
pub struct CacheArgs {
    /// Remove what was used least recently, down to EVO_CACHE_BYTES
    #[arg(long)]
    pub prune: bool,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Compile for this toolchain instead of owning a device
    #[arg(long, value_name = "cuda|host")]
    pub compile: Option<String>,
    /// Start the processes in which host variants run, on a socket that is the standard input
    #[arg(long, conflicts_with = "compile")]
    pub executor: bool,
    /// Render templates
    #[arg(long, conflicts_with_all = ["compile", "executor"])]
    pub render: bool,
    /// Wait for the end of the standard input, then kill what carries marks that begin so
    #[arg(long, value_name = "MARK", conflicts_with_all = ["compile", "executor", "render"])]
    pub keep: Option<String>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
}
