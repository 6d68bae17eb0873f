//! `gates.jsonl`: what `evo gate` judged, one checksummed line each, beside the evaluations of the same kernel on the
//! same kind of device and under the same lock.

use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::iterations::IterationCandidate;
use super::numbered::NumberedLine;

pub const GATES: &str = "gates.jsonl";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateRun {
    pub format: u32,
    /// From 1, in the order of the lines.
    pub number: u64,
    /// UTC, RFC 3339.
    pub at: String,
    pub kernel: String,
    pub space: String,
    pub device: String,
    /// The baseline's file as the command line names it, and the hash of its source.
    pub baseline: String,
    pub baseline_source_hash: Option<ContentHash>,
    pub candidate: IterationCandidate,
    /// The slowdown above which a problem regresses, as a share.
    pub threshold: f64,
    /// `pass`, `fail`, `noisy` or `not_run`.
    pub decision: String,
    pub why: String,
    pub problems: Vec<GateRunProblem>,
    pub git_commit: Option<String>,
    pub git_dirty: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateRunProblem {
    pub problem: String,
    /// Times of this run, nanoseconds.
    pub baseline_p50_ns: Option<f64>,
    pub candidate_p50_ns: Option<f64>,
    /// Candidate's time over the baseline's, paired.
    pub ratio: Option<f64>,
    pub decision: String,
}

impl GateRun {
    /// None where a problem has none.
    pub fn ratio(&self) -> Option<f64> {
        let logs: Option<Vec<f64>> = self.problems.iter().map(|one| one.ratio.map(f64::ln)).collect();
        let logs = logs.filter(|logs| !logs.is_empty())?;
        Some((logs.iter().sum::<f64>() / logs.len() as f64).exp()).filter(|ratio| ratio.is_finite())
    }
}

impl NumberedLine for GateRun {
    const FILE: &'static str = GATES;
    const FORMAT: u32 = 1;

    fn format(&self) -> u32 {
        self.format
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn stamp(&mut self, format: u32, number: u64) {
        self.format = format;
        self.number = number;
    }
}
