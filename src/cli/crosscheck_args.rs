//! The options of `evo crosscheck`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use clap::{Args, ValueEnum};

use super::one_args::TestOneArgs;

/// `evo crosscheck`
#[derive(Debug, Args)]
pub struct CrosscheckArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Who measures too, each of whom has to do so then: nvbench, torch, kernelbench, cutlass, command [default: whoever can]
    #[arg(
        long = "harness",
        value_enum,
        value_name = "A,B",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub harnesses: Vec<Harness>,
    /// A program of yours for the harness `command`; the path of a request becomes its last argument
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// A peer that evo times beside the candidate: `torch`, `python`, or the name of one in `[[peers]]` (repeatable)
    #[arg(long = "peer", value_name = "NAME")]
    pub peers: Vec<String>,
}

/// Somebody who times and checks a kernel too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Harness {
    /// The Python package `cuda-bench`
    Nvbench,
    /// `torch.utils.benchmark` and `torch.testing`
    Torch,
    /// The evaluator of KernelBench
    Kernelbench,
    /// CUTLASS's profiler on the same GEMM
    Cutlass,
    /// A program of yours
    Command,
}

impl Harness {
    /// The name on the command line and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Harness::Nvbench => "nvbench",
            Harness::Torch => "torch",
            Harness::Kernelbench => "kernelbench",
            Harness::Cutlass => "cutlass",
            Harness::Command => "command",
        }
    }
}

impl CrosscheckArgs {
    /// Those that are asked: the named ones, or all.
    pub fn asked(&self) -> Vec<Harness> {
        let mut asked = self.harnesses.clone();
        if asked.is_empty() {
            asked.extend(Harness::value_variants());
            asked.retain(|own| *own != Harness::Command || self.command.is_some());
        }
        asked.sort();
        asked.dedup();
        asked
    }
}
