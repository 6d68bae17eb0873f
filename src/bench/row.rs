//! A row of a benchmark: one implementation on one problem. What is not known is null, with its reason.

use std::collections::BTreeMap;

use evo_protocol::leaderboard::PairedDecision;
use serde::Serialize;

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowStatus {
    /// Its answer is right, and it was timed in every mode.
    Pass,
    /// Its answer is wrong, or it broke a rule while it was timed.
    Fail,
    /// It says, or evo knows beforehand, that it cannot run this problem.
    Skipped,
    /// It should have run and did not.
    NotRun,
}

impl RowStatus {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            RowStatus::Pass => "pass",
            RowStatus::Fail => "fail",
            RowStatus::Skipped => "skipped",
            RowStatus::NotRun => "not_run",
        }
    }
}

/// Times of one mode, nanoseconds a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowTimes {
    pub p50_ns: f64,
    pub p90_ns: f64,
    /// The 95 % interval of the median.
    pub ci_low_ns: f64,
    pub ci_high_ns: f64,
    pub samples: u64,
}

/// One implementation on one problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchRow {
    pub problem: String,
    pub sizes: BTreeMap<String, i64>,
    pub canonical: bool,
    /// Of the first output.
    pub dtype: Option<String>,
    pub implementation: String,
    pub version: Option<String>,
    pub status: RowStatus,
    /// Why it is not `pass`.
    pub reason: Option<String>,
    /// Unknown where it never answered.
    pub correct: Option<bool>,
    pub max_abs_error: Option<f64>,
    #[serde(rename = "allclose_1e-3")]
    pub allclose_fine: Option<bool>,
    #[serde(rename = "allclose_1e-2")]
    pub allclose_coarse: Option<bool>,
    pub modes: BTreeMap<String, RowTimes>,
    pub tflops: Option<f64>,
    pub gigabytes_per_second: Option<f64>,
    /// The device's shortest possible time over this one's.
    pub roofline_ratio: Option<f64>,
    /// Its time over the best right peer's: below 1 it is faster.
    pub ratio_to_best_peer: Option<f64>,
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub decision: Option<PairedDecision>,
    /// Blocks of its largest launch.
    pub ctas: Option<u64>,
    pub few_ctas: Option<bool>,
    pub scales_badly: Option<bool>,
    /// Why fields are null.
    pub reasons: BTreeMap<String, String>,
}

impl BenchRow {
    /// A row of which nothing is known but how it ended.
    pub fn unmeasured(implementation: &str, problem: &str, status: RowStatus) -> BenchRow {
        BenchRow {
            problem: problem.into(),
            sizes: BTreeMap::new(),
            canonical: true,
            dtype: None,
            implementation: implementation.into(),
            version: None,
            status,
            reason: None,
            correct: None,
            max_abs_error: None,
            allclose_fine: None,
            allclose_coarse: None,
            modes: BTreeMap::new(),
            tflops: None,
            gigabytes_per_second: None,
            roofline_ratio: None,
            ratio_to_best_peer: None,
            ratio_low: None,
            ratio_high: None,
            decision: None,
            ctas: None,
            few_ctas: None,
            scales_badly: None,
            reasons: BTreeMap::new(),
        }
    }
}
