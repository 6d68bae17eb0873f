//! Samples and the measurement made of them: a number with its method.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Telemetry;
use crate::words::words;

/// Statistics of one problem in one timing mode, with how they were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    pub problem: String,
    pub mode: TimingMode,
    pub samples: u32,
    /// Calls per sample (hot mode averages over a batch).
    pub batch: u32,
    pub p10_ns: f64,
    /// Median of a call, nanoseconds.
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub min_ns: f64,
    /// Median absolute deviation.
    pub mad_ns: f64,
    /// 95 % interval of the median.
    pub ci_low_ns: f64,
    pub ci_high_ns: f64,
    /// Samples beyond median + 5 × 1.4826 × MAD; counted, not deleted.
    pub outliers: u32,
    pub dropped: u32,
    pub stop: StopRule,
    /// Clocks, power and heat at the end.
    #[serde(default)]
    pub telemetry: Telemetry,
    /// The samples themselves, in order, nanoseconds; left out of screening records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw_ns: Vec<f64>,
}

impl Measurement {
    pub fn scale(&mut self, factor: f64) {
        let times = [
            &mut self.p10_ns,
            &mut self.p50_ns,
            &mut self.p90_ns,
            &mut self.min_ns,
            &mut self.mad_ns,
            &mut self.ci_low_ns,
            &mut self.ci_high_ns,
        ];
        times.into_iter().chain(&mut self.raw_ns).for_each(|time| *time *= factor);
    }
}

/// Which rule ended the sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopRule {
    /// The median's interval is as tight as was asked.
    Interval,
    /// The interval stopped shrinking: more samples would not help.
    Stable,
    /// The cap on samples or time was reached.
    Limit,
    /// A screening took its few samples.
    Screen,
    /// Even the fastest sample is above the policy's limit.
    Abandoned,
    /// The interval lies to one side of the time to beat.
    Separated,
}

words! {
    /// How samples are taken.
    #[derive(Hash, PartialOrd, Ord, JsonSchema)]
    TimingMode {
        /// Device time per call, back to back (CUDA: graph replay of a batch).
        Hot = "hot",
        /// Device time of one call after the L2 cache was flushed.
        Cold = "cold",
        /// Host-visible time of one call, launch included.
        Eager = "eager",
    }
}

/// Whether the L2 cache is flushed before each call of the timing that ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RankingMode {
    #[default]
    Hot,
    Cold,
}

impl RankingMode {
    pub fn as_str(self) -> &'static str {
        self.timing().as_str()
    }

    /// The timing mode whose median ranks.
    pub fn timing(self) -> TimingMode {
        match self {
            RankingMode::Hot => TimingMode::Hot,
            RankingMode::Cold => TimingMode::Cold,
        }
    }
}
