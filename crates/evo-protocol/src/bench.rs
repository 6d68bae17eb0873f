//! `bench.json`, which `evo bench` keeps beside its tables: implementations of a kernel, each on each problem. What is not
//! known is null, with its reason.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::leaderboard::PairedDecision;
use crate::measurement::TimingMode;
use crate::words::words;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BenchReport {
    /// `evo.bench-rows`.
    pub schema: &'static str,
    pub version: u32,
    #[serde(flatten)]
    pub run: BenchRun,
    pub device: String,
    /// When it began: UTC, RFC 3339.
    pub at: String,
    /// A command that does the same again.
    pub command: String,
    /// `unfinished`, `pass`, `fail` or `not_run`.
    pub status: &'static str,
    pub why: Vec<String>,
    pub implementations: Vec<Implementation>,
    pub rows: Vec<BenchRow>,
    /// What all problems say together.
    pub summary: Vec<MeanRatio>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BenchRun {
    pub name: String,
    /// The space as the command line names it.
    pub space: String,
    pub kernel: String,
    /// Of the inputs.
    pub seed: u64,
    /// Whether canonical problems and one mode were enough.
    pub quick: bool,
    pub modes: Vec<TimingMode>,
    /// The mode that rates and ratios are of.
    pub ranking_mode: TimingMode,
    /// Every implementation has two blocks in each.
    pub rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImplementationKind {
    /// A candidate.
    Own,
    /// Somebody else's.
    Peer,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Implementation {
    pub name: String,
    pub kind: ImplementationKind,
    /// As it says itself, or the hash of a source.
    pub version: Option<String>,
}

words! {
    #[derive(Default, JsonSchema)]
    RowStatus {
        /// Its answer is right, and it was timed in every mode.
        Pass = "pass",
        /// Its answer is wrong, or it broke a rule while it was timed.
        Fail = "fail",
        /// It says, or evo knows beforehand, that it cannot run this problem.
        Skipped = "skipped",
        /// It should have run and did not.
        #[default]
        NotRun = "not_run",
    }
}

/// Times of one mode, nanoseconds a call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RowTimes {
    pub p50_ns: f64,
    pub p90_ns: f64,
    /// The 95 % interval of the median.
    pub ci_low_ns: f64,
    pub ci_high_ns: f64,
    pub samples: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct BenchRow {
    pub problem: String,
    pub sizes: BTreeMap<String, i64>,
    /// Whether a quick run has it too.
    pub canonical: bool,
    /// Of the first output.
    pub dtype: Option<String>,
    pub implementation: String,
    /// As it says itself, or the hash of a source.
    pub version: Option<String>,
    pub status: RowStatus,
    pub reason: Option<String>,
    /// Unknown where it never answered.
    pub correct: Option<bool>,
    /// The largest error of an element.
    pub max_abs_error: Option<f64>,
    /// Whether all elements are within 1e-3.
    #[serde(rename = "allclose_1e-3")]
    pub allclose_fine: Option<bool>,
    /// The same for 1e-2.
    #[serde(rename = "allclose_1e-2")]
    pub allclose_coarse: Option<bool>,
    /// Times by mode; empty where it was not timed.
    pub modes: BTreeMap<String, RowTimes>,
    /// By the median in the mode that ranks.
    pub tflops: Option<f64>,
    /// The same for bytes.
    pub gigabytes_per_second: Option<f64>,
    /// The device's shortest possible time over this one's.
    pub roofline_ratio: Option<f64>,
    /// Its time over the best right peer's: below 1 it is faster.
    pub ratio_to_best_peer: Option<f64>,
    /// Lower end of its 95 % interval.
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    /// What the interval says, with the noise.
    pub decision: Option<PairedDecision>,
    /// Blocks of its largest launch.
    pub ctas: Option<u64>,
    /// Whether they are fewer than the device needs.
    pub few_ctas: Option<bool>,
    pub reasons: BTreeMap<String, String>,
}

impl BenchRow {
    /// A row of which nothing is known but how it ended.
    pub fn unmeasured(implementation: &str, problem: &str, status: RowStatus) -> BenchRow {
        let (implementation, problem) = (implementation.to_string(), problem.to_string());
        BenchRow { implementation, problem, status, canonical: true, ..BenchRow::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeanRatio {
    /// The candidate; null for the fastest of each problem.
    pub implementation: Option<String>,
    /// Problems that it was compared on, of those of the run.
    pub problems: usize,
    pub of: usize,
    /// Its time over the best right peer's: below 1 it is faster.
    pub ratio: f64,
    /// The largest of these ratios, and its problem.
    pub worst_ratio: f64,
    pub worst_problem: String,
}
