//! The command line's types, and nothing else.

// Comments here are help texts, in which `[SPACE]` is an optional argument and not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::bench_args::BenchArgs;
use super::candidate::CandidateArgs;
use super::crosscheck::CrosscheckArgs;
use super::evaluate_args::EvaluateArgs;
use super::explain::ExplainArgs;
use super::export::ExportArgs;
use super::gate_args::GateArgs;
use super::history::{HistoryArgs, RestoreArgs};
use super::init::{ImportArgs, InitArgs};
use super::invert::InvertArgs;
pub use super::judge_args::JudgeArgs;
use super::limits::{LimitArgs, TotalLimit};
use super::mcp::McpArgs;
use super::micro::MicroArgs;
pub use super::one_args::{SandboxMode, SpaceAccessArgs, TestOneArgs};
use super::one_args::{jobs, sampling};
use super::profile::ProfileArgs;
use super::report::{ReportArgs, WatchArgs};
use super::sanitize::{SanitizeArgs, SanitizeWhen, sanitize_when};
use super::shell_args::{CompletionsArgs, ManArgs};
pub use super::space_args::{NeighborKind, RowFormat, SpaceArgs};
use super::workers_args::WorkersArgs;

/// Finds the fastest variant of a CUDA kernel that still gives correct results, and shows the evidence for both claims
#[derive(Debug, Parser)]
#[command(name = "evo", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Search a space and rank its fastest correct variants
    #[command(
        after_help = "Example: evo sweep --gen 3\n         evo sweep search_spaces/gemm.toml --device cuda --budget 10m"
    )]
    Sweep(SweepArgs),
    /// Write a first space file for a plain kernel, from its signature and its macros
    #[command(
        after_help = "Example: evo init my_kernel.cu\n         evo init kernels.cu --entry scale --to scale.toml"
    )]
    Init(InitArgs),
    /// Turn another tool's tuning problem, or tasks of a benchmark, into space files
    #[command(
        after_help = "Example: evo import t1 convolution.json\n         evo import flashinfer definitions/rmsnorm.json\n         evo import kernelbench softmax.py --to softmax"
    )]
    Import(ImportArgs),
    /// Run one configuration through every gate and show each gate's findings
    #[command(
        name = "test-one",
        after_help = "Example: evo test-one 32 8 4\n         evo test-one my_kernel.toml BLOCK=128 VEC=4"
    )]
    TestOne(JudgeArgs),
    /// Run one configuration through every gate on correctness, and time nothing
    #[command(after_help = "Example: evo test 32 8 4 --json")]
    Test(JudgeArgs),
    /// Time one configuration, and compare it with the default one in the same run
    #[command(
        after_help = "Example: evo benchmark attention_simt 32 8 4 --json\n\nAll gates run, and a variant that fails one has no number."
    )]
    Benchmark(TestOneArgs),
    /// Judge one configuration beside the best so far, and say whether it takes its place
    #[command(
        after_help = "Example: evo evaluate attention_simt 32 8 4 --json\n         evo evaluate my_kernel.toml --source faster.cu --against @champion --require accepted"
    )]
    Evaluate(EvaluateArgs),
    /// Time candidates beside other people's implementations over many shapes, in one run
    #[command(
        after_help = "Example: evo bench attention_simt --quick --peer torch\n         evo bench my_bench.toml --json\n\nAll answers are checked first. A peer that is wrong, dead or missing is a row with its reason, never the bar."
    )]
    Bench(BenchArgs),
    /// Compare a configuration with a committed baseline, and fail where it is slower or wrong
    #[command(
        after_help = "Example: evo gate my_kernel.toml --init\n         evo gate --format github\n\nBoth sides are measured in the same run. What could not be seen does not pass: exit code 1."
    )]
    Gate(GateArgs),
    /// Rank a space cheaply on one problem, for the beginning of the next sweep
    #[command(
        after_help = "Example: evo micro gemm --budget 60s\n         evo micro my_kernel.toml --top 16 --json\n\nThe ranking is a hint: a sweep judges and times whatever it takes from it."
    )]
    Micro(MicroArgs),
    /// Write a candidate as files for other programs: CUDA source, launch code, PyTorch, CuPy, tvm-ffi
    #[command(
        after_help = "Example: evo export my_kernel.toml @champion --to exported --verify\n         evo export softmax 256 4 --to exported --format cu,torch-op --arch sm_90a\n\nA candidate that fails a gate is not exported."
    )]
    Export(ExportArgs),
    /// Read a profiler's counters of one configuration, and name its bottleneck
    #[command(
        after_help = "Example: evo profile attention_simt 32 8 4 --problem s1024\n         evo profile my.toml @champion --set wide --keep-report\n\nNeeds Nsight Compute (`ncu`) and the right to read the GPU's counters; `evo preflight` shows both."
    )]
    Profile(ProfileArgs),
    /// Harm one configuration on purpose, one resource at a time, and rank what binds it
    #[command(
        after_help = "Example: evo invert my_kernel.toml @champion\n         evo invert gemm --only barriers,entry_delay --json\n\nEach harmed copy meets the gates and is timed beside the unharmed kernel; none is kept."
    )]
    Invert(InvertArgs),
    /// Have other clocks and checks measure one configuration too: NVBench, PyTorch, KernelBench, CUTLASS, a program of yours
    #[command(
        after_help = "Example: evo crosscheck my_kernel.toml @champion --harness nvbench,torch\n         evo crosscheck gemm --command \"python3 mine.py\" --json\n\nA disagreement on time or answers: exit code 1. Who is not installed does not count as agreeing."
    )]
    Crosscheck(CrosscheckArgs),
    /// Look for bad accesses, races and barriers in one configuration with compute-sanitizer
    #[command(
        after_help = "Example: evo sanitize attention_simt 32 8 4\n         evo sanitize my_kernel.toml BLOCK=128 --tool racecheck --json\n\nA check that gives no answer does not pass: exit code 1."
    )]
    Sanitize(SanitizeArgs),
    /// Count, sample and explain a search space
    #[command(after_help = "Example: evo space search_spaces/gemm.toml --sample 5 --seed 1")]
    Space(SpaceArgs),
    /// Print the exact source that the compiler gets for one configuration
    #[command(after_help = "Example: evo render attention_simt 32 8 4")]
    Render(RenderArgs),
    /// Compile variants without a device and print their resource table
    #[command(after_help = "Example: evo compile attention_simt --arch sm_89 --all")]
    Compile(CompileArgs),
    /// Compile one configuration for this machine's device
    #[command(after_help = "Example: evo build attention_simt 32 8 4 --json")]
    Build(BuildArgs),
    /// Explain a verdict: what was seen, what usually causes it, what to do next
    #[command(after_help = "Example: evo explain wrong_answer\n         evo explain static_reject:smem")]
    Explain(ExplainArgs),
    /// Show the leaderboard
    #[command(after_help = "Example: evo leaderboard --json")]
    Leaderboard(LeaderboardArgs),
    /// List what was tried on a kernel, in time order, with the best so far
    #[command(after_help = "Example: evo history attention_simt --json")]
    History(HistoryArgs),
    /// Sum up where a kernel stands: the best so far, the last decisions, what is open, what failed
    #[command(after_help = "Example: evo summary attention_simt")]
    Summary(HistoryArgs),
    /// Write configuration, source and launches of an earlier candidate to a folder
    #[command(
        after_help = "Example: evo restore @previous --to back\n         evo restore my_kernel.toml @7 --to seventh"
    )]
    Restore(RestoreArgs),
    /// Write a study as report.md, final_summary.md and report.html
    #[command(after_help = "Example: evo report\n         evo report gemm-cuda --to shared/gemm")]
    Report(ReportArgs),
    /// Serve the page of a study on this machine, and keep it up to date
    #[command(
        after_help = "Example: evo watch\n         evo watch gemm-cuda --port 8080\n\nOnly this machine can read it, and only with the token in the address that is printed. Ctrl-C ends it."
    )]
    Watch(WatchArgs),
    /// Check that this machine has everything that evo needs
    #[command(after_help = "Example: evo preflight --device cuda")]
    Preflight(PreflightArgs),
    /// Test evo itself on this machine's device
    #[command(
        after_help = "Example: evo selftest device --device cuda\n         evo selftest gates --device host --only bias"
    )]
    Selftest(SelftestArgs),
    /// Show how large the compile cache is, or make it smaller
    #[command(after_help = "Example: evo cache --prune")]
    Cache(CacheArgs),
    /// Serve evo's commands as tools to a program that speaks the Model Context Protocol, on stdin and stdout
    #[command(
        after_help = "Example: evo mcp --device cuda --out evidence\n\nA call of a tool is a command of evo's own, with the same gates and records. The server ends when stdin ends."
    )]
    Mcp(McpArgs),
    /// Serve as a device worker or a compile worker on stdin and stdout
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Print a shell completion script
    #[command(after_help = "Example: evo completions bash > ~/.local/share/bash-completion/completions/evo")]
    Completions(CompletionsArgs),
    /// Print the manual page, of all commands or of one
    #[command(after_help = "Example: evo man | man -l -\n         evo man sweep | man -l -")]
    Man(ManArgs),
}

impl Command {
    /// Whether `--json` asks for an object.
    pub fn is_json(&self) -> bool {
        match self {
            Command::Sweep(arguments) => arguments.json,
            Command::TestOne(arguments) | Command::Test(arguments) => arguments.one.run.json,
            Command::Benchmark(arguments) => arguments.run.json,
            Command::Evaluate(arguments) => arguments.one.run.json,
            Command::Bench(arguments) => arguments.run.json,
            Command::Gate(arguments) => arguments.run.json,
            Command::Micro(arguments) => arguments.json,
            Command::Export(arguments) => arguments.one.run.json,
            Command::Init(arguments) => arguments.target.json,
            Command::Import(arguments) => arguments.target.json,
            Command::Profile(arguments) => arguments.one.run.json,
            Command::Invert(arguments) => arguments.one.run.json,
            Command::Crosscheck(arguments) => arguments.one.run.json,
            Command::Sanitize(arguments) => arguments.one.run.json,
            Command::Space(arguments) => arguments.json,
            Command::Render(arguments) => arguments.json,
            Command::Compile(arguments) => arguments.json,
            Command::Build(arguments) => arguments.json,
            Command::Explain(arguments) => arguments.json,
            Command::Leaderboard(arguments) => arguments.json,
            Command::History(arguments) | Command::Summary(arguments) => arguments.json,
            Command::Restore(arguments) => arguments.json,
            Command::Report(arguments) => arguments.json,
            Command::Preflight(arguments) => arguments.json,
            Command::Selftest(arguments) => arguments.json,
            Command::Cache(arguments) => arguments.json,
            Command::Mcp(_)
            | Command::Watch(_)
            | Command::Worker(_)
            | Command::Completions(_)
            | Command::Man(_) => false,
        }
    }
}

/// A number that is not negative, with an error that says so.
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

/// `evo sweep`
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
    /// Longest time to sample one problem in one timing mode, `100ms` to `5s` [default: as long as a better interval is in sight]
    #[arg(long = "limit-sampling", value_name = "TIME", value_parser = sampling, allow_negative_numbers = true)]
    pub limit_sampling: Option<Duration>,
    /// Print before the answer what else is known of the run: verdicts, lanes, sanitizer, insight, every confirmed row
    #[arg(long)]
    pub verbose: bool,
    #[command(flatten)]
    pub workers: WorkersArgs,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// One JSON object per event on stdout, and a last one with the result
    #[arg(long)]
    pub json: bool,
}

/// What `evo sweep` profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileWhen {
    /// The champion among this run's finalists
    Finalists,
    /// Nothing
    Off,
}

/// `evo render`
#[derive(Debug, Args)]
pub struct RenderArgs {
    /// [SPACE] then values in declared order, NAME=VALUE, or @champion, @previous, @baseline, @NUMBER, @HASH
    #[arg(value_name = "SPACE|VALUE|NAME=VALUE|@NAME", allow_negative_numbers = true)]
    pub words: Vec<String>,
    #[command(flatten)]
    pub candidate: CandidateArgs,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
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

/// `evo compile`
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
    pub access: SpaceAccessArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// One JSON object on stdout; with --all or --sample one per variant and a last one
    #[arg(long)]
    pub json: bool,
}

/// `evo build`
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// [SPACE] then values in declared order, NAME=VALUE, or @champion, @previous, @baseline, @NUMBER, @HASH
    #[arg(value_name = "SPACE|VALUE|NAME=VALUE|@NAME", allow_negative_numbers = true)]
    pub words: Vec<String>,
    #[command(flatten)]
    pub candidate: CandidateArgs,
    /// `auto`, `host`, `cuda` or `cuda:INDEX`
    #[arg(long, default_value = "auto")]
    pub device: String,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// `evo leaderboard`
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

/// `evo preflight`
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

/// `evo selftest`
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// What to test
    #[arg(value_enum)]
    pub subject: SelftestSubject,
    /// `auto`, `host`, `cuda` or `cuda:INDEX`
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Only faults, checks or, for `alarms`, spaces whose name contains this; a fault's number (`W13`) works too
    #[arg(long, value_name = "ROW")]
    pub only: Option<String>,
    /// `faults`, on a GPU: which check of compute-sanitizer finds which of them
    #[arg(long)]
    pub sanitize: bool,
    /// `faults`, `gates`, `alarms`, `references`, `ptx`: inputs, the order of faults, configurations; `crash`: the moments; random when absent
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// `alarms`: configurations, shared out to the spaces [default: 60]; `crash`: how many moments [default: 200]
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    #[command(flatten)]
    pub limits: TotalLimit,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Subjects of `evo selftest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SelftestSubject {
    /// Every call of the device trait: buffers, guards, compare, hash, launch, graphs, timing
    Device,
    /// Instructions of evo/ptx.cuh: fragments, copies, barriers, beside plain loops
    Ptx,
    /// Built-in references: the device's kernels beside the plain functions, in every input family
    References,
    /// SIGKILL to usable, worker start, guard and poison overhead, A/A noise floor
    Latency,
    /// Broken kernels between good ones: verdicts, recovery, nothing left behind
    Faults,
    /// Each check inside the gates left out in turn: which broken kernel then slips through
    Gates,
    /// Random configurations of the kernels that ship, judged again by plain loops: is an honest one refused?
    Alarms,
    /// evo, its workers and its compilers killed at moments of a sweep on the host, each resumed
    Crash,
}

/// `evo cache`
#[derive(Debug, Args)]
pub struct CacheArgs {
    /// Remove what was used least recently, down to EVO_CACHE_BYTES
    #[arg(long)]
    pub prune: bool,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// `evo worker`
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Compile for this toolchain instead of owning a device
    #[arg(long, value_name = "cuda|host")]
    pub compile: Option<String>,
    /// Run variants beside plain loops, for `evo selftest alarms`
    #[arg(long, conflicts_with_all = ["compile", "executor"])]
    pub plain: bool,
    /// Start the processes in which host variants run, on a socket that is the standard input
    #[arg(long, conflicts_with = "compile")]
    pub executor: bool,
    /// Render templates
    #[arg(long, conflicts_with_all = ["compile", "executor", "plain"])]
    pub render: bool,
    /// Wait for the end of the standard input, then kill what carries marks that begin so
    #[arg(long, value_name = "MARK", conflicts_with_all = ["compile", "executor", "plain", "render"])]
    pub keep: Option<String>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
}

impl SandboxMode {
    /// The value of `--sandbox`.
    pub fn as_str(self) -> &'static str {
        match self {
            SandboxMode::On => "on",
            SandboxMode::Off => "off",
        }
    }
}
