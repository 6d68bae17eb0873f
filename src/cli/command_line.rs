//! The command line: its commands, each with its options.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Args, CommandFactory, Parser, Subcommand};
use serde::Deserialize;

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
use super::micro::MicroArgs;
use super::one_args::TestOneArgs;
use super::profile::ProfileArgs;
use super::report::ReportArgs;
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
// Within the crate, as `Command` is: what clap derives for types that others can reach is all compiled.
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Deserialize)]
struct HelpEnd {
    examples: Vec<String>,
    note: Option<String>,
}

pub fn command() -> clap::Command {
    let ends: BTreeMap<String, HelpEnd> =
        toml::from_str(include_str!("examples.toml")).expect("a table of examples");
    ends.into_iter().fold(Cli::command(), |cli, (name, HelpEnd { examples, note })| {
        let note = note.map_or(String::new(), |note| format!("\n\n{note}"));
        let text = format!("Example: {}{note}", examples.join("\n         "));
        cli.mut_subcommand(name, |command| command.after_help(text))
    })
}

const SHORT: [(&str, [&str; 2]); 2] = [("mcp", ["serve", "--mcp"]), ("watch", ["report", "--watch"])];

/// Words of a command line as they are written today, with the command that a short one stands for. `--limit-compile 30s` was a
/// limit once, and `--limit-space` took seconds: kept command lines have them.
pub fn modern(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut words, mut modern) = (words.into_iter().peekable(), Vec::<OsString>::new());
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        let is_asked = modern.len() == 1 && (modern[0] == "help" || modern[0] == "man");
        let short = SHORT.iter().find(|(short, _)| (modern.is_empty() || is_asked) && *short == text);
        match (short, text.strip_prefix("--limit-")) {
            (Some((_, [whole, _])), _) if is_asked => modern.push(whole.into()),
            (Some((_, whole)), _) => modern.extend(whole.map(OsString::from)),
            (None, Some(limit)) => {
                // What looks like an option is not taken for its value.
                let mut next = || {
                    let value = words.next_if(|word| !word.to_string_lossy().starts_with("--"));
                    value.unwrap_or_default().to_string_lossy().into_owned()
                };
                let limit =
                    if limit.contains('=') { limit.to_string() } else { format!("{limit}={}", next()) };
                let unit = if limit.ends_with(|letter: char| letter.is_ascii_digit()) { "s" } else { "" };
                modern.extend([OsString::from("--limit"), OsString::from(limit + unit)]);
            }
            // Behind `--` nothing is an option.
            (None, None) => {
                modern.push(word);
                modern.extend(words.by_ref().take(if text == "--" { usize::MAX } else { 0 }));
            }
        }
    }
    modern
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// Speak the Model Context Protocol: evo's commands as tools, for which `--device`, `--out`, `--visibility` and `--time-limit` hold
    #[arg(long, conflicts_with_all = ["words", "space", "request", "serve", "stdin", "quick", "emit", "json", "against", "hypothesis", "parent", "claimed", "grid", "seed", "profile", "sanitize", "source", "config", "launch"])]
    pub mcp: bool,
    #[command(flatten)]
    pub evaluate: EvaluateArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Search a space and rank its fastest correct variants
    Sweep(SweepArgs),
    /// Write a first space file for a plain kernel, from its signature and its macros
    Init(InitArgs),
    /// Turn another tool's tuning problem, or tasks of a benchmark, into space files
    Import(ImportArgs),
    /// Run one configuration through every gate and show each gate's findings
    #[command(name = "test-one")]
    TestOne(LevelArgs),
    /// Run one configuration through every gate on correctness, and time nothing
    #[command(hide = true)]
    Test(JudgeArgs),
    /// Time one configuration, and compare it with the default one in the same run
    #[command(hide = true)]
    Benchmark(TestOneArgs),
    /// Judge one configuration beside the best so far, and say whether it takes its place
    #[command(hide = true)]
    Evaluate(EvaluateArgs),
    /// Time candidates, of a space or as a benchmark file lists them, beside other implementations over many shapes
    Bench(BenchArgs),
    /// Compare a configuration with a committed baseline, and fail where it is slower or wrong
    #[command(hide = true)]
    Gate(GateArgs),
    /// Rank a space cheaply on one problem, for the beginning of the next sweep
    #[command(hide = true)]
    Micro(MicroArgs),
    /// Write a candidate as files for other programs: CUDA source, launch code, PyTorch, CuPy, tvm-ffi
    Export(ExportArgs),
    /// Read a profiler's counters of one configuration, and name its bottleneck
    #[command(hide = true)]
    Profile(ProfileArgs),
    /// Harm one configuration on purpose, one resource at a time, and rank what binds it
    #[command(hide = true)]
    Invert(InvertArgs),
    /// Have other clocks and checks measure one configuration too: NVBench, PyTorch, KernelBench, CUTLASS, a program of yours
    #[command(hide = true)]
    Crosscheck(CrosscheckArgs),
    /// Look for bad accesses, races and barriers in one configuration with compute-sanitizer
    #[command(hide = true)]
    Sanitize(SanitizeArgs),
    /// Count, sample and explain a search space
    Space(SpaceArgs),
    /// Print the exact source that the compiler gets for one configuration
    Render(RenderArgs),
    /// Compile variants without a device and print their resource table
    Compile(CompileArgs),
    /// Compile one configuration for this machine's device
    #[command(hide = true)]
    Build(TestOneArgs),
    /// Explain a verdict: what was seen, what usually causes it, what to do next
    Explain(ExplainArgs),
    /// Show the leaderboard
    Leaderboard(LeaderboardArgs),
    /// List what was tried on a kernel, in time order, with the best so far
    History(HistoryArgs),
    /// Sum up where a kernel stands: the best so far, the last decisions, what is open, what failed
    #[command(hide = true)]
    Summary(HistoryArgs),
    /// Write configuration, source and launches of an earlier candidate to a folder
    #[command(hide = true)]
    Restore(RestoreArgs),
    /// Write a study as report.json, report.md, final_summary.md and report.html
    Report(ReportArgs),
    /// Check that this machine has everything that evo needs
    Preflight(PreflightArgs),
    /// Test evo itself on this machine's device
    Selftest(SelftestArgs),
    /// Show how large the compile cache is, or make it smaller
    Cache(CacheArgs),
    /// Answer JSON requests on stdin, a line each, on one warm device; or serve tools with `--mcp`
    Serve(ServeArgs),
    /// Serve as a device worker or a compile worker on stdin and stdout
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Print the manual page, of all commands or of one
    #[command(hide = true)]
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_earlier_versions_are_written_as_today() {
        for (line, expected) in [
            (
                "test-one --limit-compile 30s a --limit-tool=5m",
                "test-one --limit compile=30s a --limit tool=5m",
            ),
            ("space a --limit-space 0.5 --limit tool=1m", "space a --limit space=0.5s --limit tool=1m"),
            ("test-one --limit-total", "test-one --limit total="),
            ("test-one --limit-tool --json", "test-one --limit tool= --json"),
            ("help watch", "help report"),
            ("man mcp", "man serve"),
            ("sweep -- --limit-compile 30s", "sweep -- --limit-compile 30s"),
            ("watch a --port 1", "report --watch a --port 1"),
            ("space watch", "space watch"),
        ] {
            let words = modern(line.split(' ').map(OsString::from));
            assert_eq!(words.join(" ".as_ref()), OsString::from(expected), "{line}");
        }
    }
}
