//! The command line: its commands, each with its options.

use clap::{Args, Parser, Subcommand};

use super::args::{
    CacheArgs, CompileArgs, LeaderboardArgs, PreflightArgs, RenderArgs, SelftestArgs, SweepArgs, WorkerArgs,
};
use super::bench::{BenchArgs, CrosscheckArgs};
use super::evaluate::EvaluateArgs;
use super::explain::ExplainArgs;
use super::export_plan::ExportArgs;
use super::gate::GateArgs;
use super::history::{HistoryArgs, RestoreArgs};
use super::init::{ImportArgs, InitArgs};
use super::invert::InvertArgs;
use super::man::{CompletionsArgs, ManArgs};
use super::mcp::McpArgs;
use super::micro::MicroArgs;
use super::one_args::TestOneArgs;
use super::profile::ProfileArgs;
use super::report::{ReportArgs, WatchArgs};
use super::sanitize::SanitizeArgs;
use super::space::SpaceArgs;
use super::test_one::{JudgeArgs, LevelArgs};

/// Finds the fastest variant of a CUDA kernel that still gives correct results, and shows the evidence for both claims
#[derive(Debug, Parser)]
#[command(
    name = "evo",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "`evo --help --all` lists the presets of these commands too, for scripts: build, test, benchmark, evaluate, gate, …"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Speak the Model Context Protocol: evo's commands as tools, for which `--device`, `--out`, `--visibility` and `--time-limit` hold
    #[arg(long, conflicts_with_all = ["words", "space", "request", "serve", "stdin", "quick", "emit", "json"])]
    pub mcp: bool,
    #[command(flatten)]
    pub evaluate: EvaluateArgs,
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
        after_help = "Example: evo test-one 32 8 4\n         evo test-one my_kernel.toml BLOCK=128 VEC=4\n         evo test-one my_kernel.toml --source faster.cu --against @champion"
    )]
    TestOne(LevelArgs),
    /// Run one configuration through every gate on correctness, and time nothing
    #[command(hide = true, after_help = "Example: evo test 32 8 4 --json")]
    Test(JudgeArgs),
    /// Time one configuration, and compare it with the default one in the same run
    #[command(
        hide = true,
        after_help = "Example: evo benchmark attention_simt 32 8 4 --json\n\nAll gates run, and a variant that fails one has no number."
    )]
    Benchmark(TestOneArgs),
    /// Judge one configuration beside the best so far, and say whether it takes its place
    #[command(
        hide = true,
        after_help = "Example: evo evaluate attention_simt 32 8 4 --json\n         evo evaluate my_kernel.toml --source faster.cu --against @champion --require accepted"
    )]
    Evaluate(EvaluateArgs),
    /// Time candidates, of a space or as a benchmark file lists them, beside other implementations over many shapes
    #[command(
        after_help = "Example: evo bench attention_simt --quick --peer torch\n         evo bench my_bench.toml --json\n         evo bench my.toml @champion --clock nvbench,torch\n\nAll answers are checked first. A peer that is wrong, dead or missing is a row with its reason, never the bar."
    )]
    Bench(BenchArgs),
    /// Compare a configuration with a committed baseline, and fail where it is slower or wrong
    #[command(
        hide = true,
        after_help = "Example: evo gate my_kernel.toml --init\n         evo gate --format github\n\nBoth sides are measured in the same run. What could not be seen does not pass: exit code 1."
    )]
    Gate(GateArgs),
    /// Rank a space cheaply on one problem, for the beginning of the next sweep
    #[command(
        hide = true,
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
        hide = true,
        after_help = "Example: evo profile attention_simt 32 8 4 --problem s1024\n         evo profile my.toml @champion --set wide --keep-report\n\nNeeds Nsight Compute (`ncu`) and the right to read the GPU's counters; `evo preflight` shows both."
    )]
    Profile(ProfileArgs),
    /// Harm one configuration on purpose, one resource at a time, and rank what binds it
    #[command(
        hide = true,
        after_help = "Example: evo invert my_kernel.toml @champion\n         evo invert gemm --only barriers,entry_delay --json\n\nEach harmed copy meets the gates and is timed beside the unharmed kernel; none is kept."
    )]
    Invert(InvertArgs),
    /// Have other clocks and checks measure one configuration too: NVBench, PyTorch, KernelBench, CUTLASS, a program of yours
    #[command(
        hide = true,
        after_help = "Example: evo crosscheck my_kernel.toml @champion --clock nvbench,torch\n         evo crosscheck gemm --command \"python3 mine.py\" --json\n\nA disagreement on time or answers: exit code 1. Who is not installed does not count as agreeing."
    )]
    Crosscheck(CrosscheckArgs),
    /// Look for bad accesses, races and barriers in one configuration with compute-sanitizer
    #[command(
        hide = true,
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
    #[command(hide = true, after_help = "Example: evo build attention_simt 32 8 4 --json")]
    Build(TestOneArgs),
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
    #[command(hide = true, after_help = "Example: evo summary attention_simt")]
    Summary(HistoryArgs),
    /// Write configuration, source and launches of an earlier candidate to a folder
    #[command(
        hide = true,
        after_help = "Example: evo restore @best --to back\n         evo restore my_kernel.toml @iteration-7 --to seventh"
    )]
    Restore(RestoreArgs),
    /// Write a study as report.md, final_summary.md and report.html
    #[command(
        after_help = "Example: evo report\n         evo report gemm-cuda --to shared/gemm\n         evo report gemm-cuda --watch"
    )]
    Report(ReportArgs),
    /// Serve the page of a study on this machine, and keep it up to date
    #[command(
        hide = true,
        after_help = "Example: evo watch\n         evo watch gemm-cuda --port 8080\n\nOnly this machine can read it, and only with the token in the address that is printed. Ctrl-C ends it."
    )]
    Watch(WatchArgs),
    /// Check that this machine has everything that evo needs
    #[command(after_help = "Example: evo preflight --device cuda")]
    Preflight(PreflightArgs),
    /// Test evo itself on this machine's device
    #[command(
        after_help = "Example: evo selftest device --device cuda\n         evo selftest faults --device host --only race"
    )]
    Selftest(SelftestArgs),
    /// Show how large the compile cache is, or make it smaller
    #[command(after_help = "Example: evo cache --prune")]
    Cache(CacheArgs),
    /// Answer JSON requests on stdin, a line each, on one warm device; or serve tools with `--mcp`
    #[command(
        after_help = "Example: evo serve my_kernel.toml --device cuda\n         evo serve --mcp --out evidence\n\n`evo evaluate --serve` and `evo mcp` are the same."
    )]
    Serve(ServeArgs),
    /// Serve evo's commands as tools to a program that speaks the Model Context Protocol, on stdin and stdout
    #[command(
        hide = true,
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
    #[command(hide = true, after_help = "Example: evo man | man -l -\n         evo man sweep | man -l -")]
    Man(ManArgs),
}
