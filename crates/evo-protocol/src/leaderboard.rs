//! The leaderboard: the file that evo writes for other programs. Its JSON Schema is
//! derived from these types.
//!
//! Times are nanoseconds and sizes bytes. An absent number is `null`: not known or not measured, never zero.

use std::collections::BTreeMap;

use evo_space::genome::{Configuration, ContentHash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::binary::EntryResources;
use crate::device::{DeviceInfo, EntryAttributes, Telemetry};
use crate::measurement::RankingMode;
use crate::verdict::GateState;

/// Raised by any change that an older reader would misread. 2: a section keeps the best confirmed of all studies of one
/// space, with its history, and all numbers of an entry come from the same samples.
pub const VERSION: u32 = 2;

/// The ranking that `evo sweep` writes: one section per kernel, space, set of timed problems and class of
/// device. Only freshly confirmed numbers enter it. Times are nanoseconds, sizes bytes; null means not known or not measured, never
/// zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Leaderboard {
    #[schemars(extend("const" = "evo.leaderboard"))]
    pub schema: String,
    /// Raised by any change that an older reader would misread.
    #[schemars(extend("const" = 2))]
    pub version: u32,
    /// UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    /// In order of kernel, space, problems and device.
    pub sections: Vec<LeaderboardSection>,
}

impl Leaderboard {
    pub fn empty(updated_at: String) -> Leaderboard {
        Leaderboard { schema: "evo.leaderboard".into(), version: VERSION, updated_at, sections: Vec::new() }
    }
}

/// One space of one kernel, one set of problems, one class of device: the study with the best confirmed
/// champion so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeaderboardSection {
    pub kernel: String,
    /// Hash of everything that decides what a variant is: see `StudySummary::space_hash`. Another space of the
    /// same kernel has another section.
    pub space_hash: ContentHash,
    pub problems: Vec<String>,
    pub device: DeviceInfo,
    pub ranking: RankingMode,
    /// The fastest by its paired ratio to the baseline, among those that are not slower than the baseline on
    /// any problem.
    pub champion: RankedEntry,
    /// The next, at most ten.
    #[schemars(length(max = 10))]
    pub runners_up: Vec<RankedEntry>,
    /// Relative difference below which two times are a tie, by A against A on the champion's device.
    pub noise_floor: Option<f64>,
    /// The evaluation that `speedup` compares with.
    pub baseline: Baseline,
    /// Each change of the champion, oldest first; the last one is the champion's own. At most 50: the oldest
    /// are dropped.
    #[schemars(length(max = 50))]
    pub history: Vec<ChampionChange>,
    /// Which configuration to use where one does not fit all problems; absent with one problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portfolio: Option<Portfolio>,
    /// What the space file leaves unchecked, as `evo space` says it: sizes that are equal in every problem, for
    /// example, hide swapped strides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub study: StudySummary,
    pub environment: Environment,
    /// UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub confirmed_at: String,
}

/// The fastest of each problem, and the smallest sets that are nearly as fast on all. Only confirmed configurations of
/// the section's study are in it, compared by their paired ratios to the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Portfolio {
    /// The fastest of each timed problem, in the order of the problems.
    pub best: Vec<ProblemChampion>,
    /// The smallest set within 2 % of the fastest on every problem, and that within 5 %.
    pub sets: Vec<PortfolioSet>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemChampion {
    pub problem: String,
    /// Number of its evaluation in the study. The section's champion where the lead is within the noise floor.
    pub number: u64,
    pub configuration: Configuration,
    /// Baseline's time over this one's on the problem.
    pub speedup: f64,
    /// The champion's time over this one's on the problem.
    pub speedup_over_champion: f64,
}

/// Configurations of which every problem has one that is nearly as fast as its fastest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortfolioSet {
    /// How far from the fastest a problem's configuration may be: 0.02 is 2 %.
    pub within: f64,
    /// Whether no smaller set does; false where there were too many sets to try.
    pub is_exact: bool,
    /// The largest time over that of a problem's fastest.
    pub worst_factor: f64,
    /// The champion's time over the set's: geometric mean over the problems, by their weights.
    pub speedup_over_champion: f64,
    pub members: Vec<PortfolioMember>,
    /// Which one to use, by the sizes of a problem; null where problems of the same sizes need different ones. Between
    /// sizes of problems, nothing was measured.
    pub rule: Option<Vec<PortfolioStep>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortfolioMember {
    /// Number of its evaluation in the study.
    pub number: u64,
    pub configuration: Configuration,
    pub problems: Vec<String>,
}

/// A step of a rule: the first one whose condition holds names the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortfolioStep {
    /// An expression over sizes, as space files have them; null in the last step, which always holds.
    pub when: Option<String>,
    /// Number of the evaluation whose configuration to use.
    pub number: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChampionChange {
    pub study: String,
    /// When; UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// Number of its evaluation in that study.
    pub number: u64,
    pub configuration: Configuration,
    /// Its `objective_ns` then.
    pub objective_ns: f64,
    /// Its `speedup` then; null for the baseline.
    pub speedup: Option<f64>,
    /// Its time over that of the champion before it, where the same study compared both with the same
    /// baseline; below 1 is faster.
    pub ratio_to_previous: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TradedProblem {
    pub problem: String,
    /// Its time over the baseline's, by the paired runs.
    pub ratio: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// Number of its evaluation in the study.
    pub number: u64,
    pub configuration: Configuration,
    pub is_default: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StudySummary {
    /// The study's folder in the evidence folder.
    pub name: String,
    /// The space file, as the command line named it.
    pub space: String,
    /// Hash of the space file, the kernel's text, the reference's, the files that they include, and the compiler.
    pub space_hash: ContentHash,
    /// Valid points, in decimal; may exceed 64 bits.
    #[schemars(regex(pattern = r"^[0-9]+$"))]
    pub valid: String,
    pub seed: u64,
    pub strategy: String,
    /// Evaluations, without variants that were compiled and passed over.
    pub evaluations: u64,
    pub verdicts: BTreeMap<String, u64>,
    /// Version of the list of verdicts. Sections of different versions may share a board.
    pub verdict_version: u32,
    pub throughput: Throughput,
    pub evo: String,
}

impl LeaderboardSection {
    /// What makes a section: studies with equal keys compete for one champion.
    pub fn key(&self) -> impl Ord + use<> {
        let DeviceInfo { kind, name, arch, .. } = self.device.clone();
        (self.kernel.clone(), self.space_hash.to_string(), self.problems.clone(), kind.as_str(), name, arch)
    }

    pub fn entries(&self) -> impl Iterator<Item = &RankedEntry> {
        std::iter::once(&self.champion).chain(&self.runners_up)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankedEntry {
    /// From 1.
    pub rank: u32,
    /// Number of its evaluation in the study.
    pub number: u64,
    pub configuration: Configuration,
    pub configuration_hash: ContentHash,
    /// Weighted geometric mean over the timed problems, nanoseconds, from the samples of `results`. What ranks
    /// is `speedup`.
    pub objective_ns: f64,
    /// The same from the screening; the difference is the luck of the draw.
    pub screened_ns: Option<f64>,
    /// Baseline's time over this one's, from paired blocks in fresh processes; above 1 is faster.
    pub speedup: Option<f64>,
    /// Lower end of the 95 % interval of `speedup`.
    pub speedup_low: Option<f64>,
    pub speedup_high: Option<f64>,
    /// How the comparison with the baseline ended, over all problems.
    pub decision: Option<PairedDecision>,
    /// Whether the champion's lead may be within the noise floor, given the intervals of both.
    pub tie_with_champion: bool,
    /// Whether a tenth of its samples took more than twice the median on some problem.
    pub noisy: bool,
    /// Problems on which it is certainly slower than the baseline by more than 2 %.
    pub traded: Vec<TradedProblem>,
    /// Measurements, a timed problem each.
    pub results: Vec<ProblemResult>,
    pub pairs: Vec<PairedProblem>,
    pub resources: Vec<EntryResources>,
    /// Attributes of each launch of the first problem, read back from the device.
    pub attributes: Vec<EntryAttributes>,
    pub toolchain: String,
    /// Hash of the rendered source and of the files that it includes.
    pub source_hash: Option<ContentHash>,
    pub binary_hash: Option<ContentHash>,
    /// Hash of the code in the binary.
    pub code_hash: Option<ContentHash>,
    pub gates: BTreeMap<String, GateState>,
    /// What a sanitizer said of it; absent where nothing was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sanitizer: Option<SanitizerNote>,
    /// What a second device says; absent where the run had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<RepeatedSpeed>,
    /// A command that evaluates it again.
    pub repro: String,
}

/// What a sanitizer said of an entry. One with a finding is not on the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SanitizerNote {
    /// `pass` or `not_run`.
    pub state: GateState,
    pub tool: String,
    /// Its version; null where it was not there.
    pub version: Option<String>,
    /// The checks that found nothing.
    pub passed: Vec<String>,
    /// What was checked, or why there is no answer.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemResult {
    pub problem: String,
    pub sizes: BTreeMap<String, i64>,
    pub weight: f64,
    /// By mode: `hot`, `cold`, `eager`.
    pub modes: BTreeMap<String, ModeResult>,
    /// 10^12 operations per second, in the ranking mode, by the kernel's own count of operations.
    pub tflops: Option<f64>,
    /// 10^9 bytes per second, in the ranking mode, by the kernel's own count of bytes.
    pub gigabytes_per_second: Option<f64>,
    /// Least time the device's peaks allow over measured time, 0 to 1.
    pub roofline_share: Option<f64>,
    pub blocks: Option<i64>,
    /// Threads per block of the first launch.
    pub threads_per_block: Option<i64>,
    /// Dynamic shared memory of the first launch.
    pub shared_bytes: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModeResult {
    pub p50_ns: f64,
    pub p90_ns: f64,
    /// Lower end of the median's 95 % interval.
    pub ci_low_ns: f64,
    pub ci_high_ns: f64,
    pub samples: u32,
    pub batch: u32,
    /// Samples far from the median; counted, not deleted.
    pub outliers: u32,
    pub dropped: u32,
    /// Clocks, power, temperature and throttle reasons at the end.
    pub telemetry: Telemetry,
}

/// How the paired comparison of a finalist ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairedDecision {
    /// Faster than the baseline by more than the noise.
    Faster,
    /// Slower than the baseline by more than the noise.
    Slower,
    /// A tie: the difference is within the noise floor.
    Same,
    /// The interval is too wide to say.
    Ambiguous,
}

/// What a second device of the same class says of an entry's speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedSpeed {
    pub device_uuid: String,
    /// Baseline over entry, as `speedup` is.
    pub speedup: Option<f64>,
    /// Lower end of its 95 % interval.
    pub speedup_low: Option<f64>,
    pub speedup_high: Option<f64>,
    /// What its comparisons say together.
    pub decision: Option<PairedDecision>,
    /// Whether the entry is certainly faster on the first device and not on this one.
    pub this_card_only: bool,
}

/// A finalist against the baseline on one problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairedProblem {
    pub problem: String,
    /// Median of finalist's time / baseline's time over all block pairs.
    pub ratio: f64,
    /// Lower end of that ratio's 95 % interval.
    pub ratio_low: f64,
    pub ratio_high: f64,
    /// Fresh processes in all.
    pub processes: u32,
    pub pairs: u32,
    pub decision: PairedDecision,
    /// Median of the baseline's blocks.
    pub baseline_ns: f64,
    pub finalist_ns: f64,
    /// Relative difference between the baseline's first and second half of blocks in a process, the largest over processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_drift: Option<f64>,
}

/// The conditions outside the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Operating system and processor architecture.
    pub platform: String,
    pub cores: u32,
    /// Commit of the folder in which evo was started; absent outside a repository.
    pub git_commit: Option<String>,
    pub git_dirty: Option<bool>,
    pub command: Vec<String>,
}

/// How fast a run was and how busy its lanes were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// From the first proposal to the last verdict; confirmation is not part of it.
    pub search_seconds: f64,
    /// Over that time.
    pub evaluations_per_second: f64,
    /// Share of that time in which the device lane worked. The greater of this and `compile_busy` is the pace as a share
    /// of what the two allow.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub device_busy: f64,
    /// Share of that time in which the first lane's GPU ran kernels, as NVML says; absent where it does not. The lane's
    /// other time goes to loading, launching and judging.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_busy: Option<f64>,
    /// The same for the compile processes, over their number.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub compile_busy: f64,
    pub compile_jobs: u32,
}
