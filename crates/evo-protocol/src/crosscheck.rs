//! `crosscheck.json`: what other people's clocks and checks say of a candidate, beside what evo says; and the lines that a
//! harness answers a request with.
//!
//! A row is a comparison and never a result of the candidate: no journal and no board takes one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::leaderboard::{PairedDecision, PairedProblem};
use crate::measurement::{Measurement, TimingMode};

/// Two clocks agree within this share, or within the larger of both noises.
pub const AGREES_WITHIN: f64 = 0.05;

/// Samples that spread by more than this are not a time: every other clock would agree with them.
pub const SPREAD_MAX: f64 = 0.25;

/// What a reason begins with where a harness did not time a problem.
pub const NOT_RUN: &str = "not run: ";

/// One harness on one problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrosscheckRow {
    /// `nvbench`, `torch`, `kernelbench`, `cutlass` or `command`.
    pub harness: String,
    /// As the harness names it; null where it did not.
    pub version: Option<String>,
    /// The problem's name.
    pub problem: String,
    /// How the harness took its samples; null where it took none.
    pub mode: Option<TimingMode>,
    /// Its time of a call, nanoseconds.
    pub time_ns: Option<f64>,
    /// Relative spread of its samples.
    pub spread_ratio: Option<f64>,
    /// evo's median in the same mode, nanoseconds.
    pub evo_ns: Option<f64>,
    /// The harness's time / evo's time.
    pub ratio: Option<f64>,
    /// Whether both times are the same within 5 % or the larger noise; null where nothing was compared.
    pub agrees: Option<bool>,
    /// Whether the answers are right, by the harness.
    pub correct: Option<bool>,
    /// The same by evo's gates.
    pub evo_correct: Option<bool>,
    /// Whether the harness finds the candidate faster than the default configuration.
    pub faster_than_baseline: Option<bool>,
    /// Whether the harness finds the candidate faster than the peer that it timed beside it.
    pub faster_than_peer: Option<bool>,
    /// Whether no comparison with baseline or peer points the other way than evo's, beyond both noises.
    pub sign_kept: Option<bool>,
    /// What is to be said beside the numbers: why they are missing, or what disagrees.
    pub reason: Option<String>,
}

/// What a harness is asked: one kernel on several problems. It is a file, whose path is the harness's last argument.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrosscheckRequest {
    /// `evo.crosscheck.request`.
    pub schema: String,
    /// 1; raised by changes that an older harness would misread.
    pub version: u32,
    /// The harness that is asked.
    pub harness: String,
    /// `candidate` or `baseline`: each is asked about in a call of its own.
    pub role: String,
    /// `host` or `cuda:0`.
    pub device: String,
    /// The kernel's name.
    pub kernel: String,
    /// The built-in reference that says what is computed: `attention`, `gemm`; null where the task has another one.
    pub operator: Option<String>,
    /// The mode that ranks. A harness that cannot time so uses another one and says which.
    pub mode: TimingMode,
    /// The harness is ended after this many seconds.
    pub limit_s: f64,
    /// The problems, each of which gets one line.
    pub problems: Vec<CrosscheckProblem>,
}

/// A problem as a harness sees it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrosscheckProblem {
    /// Its name, which the line repeats.
    pub problem: String,
    /// Sizes, by name.
    pub sizes: BTreeMap<String, i64>,
    /// Scalars that the kernel takes, by name.
    pub scalars: BTreeMap<String, Value>,
    /// The folder with the exported files for these sizes, as `evo export` writes them; `manifest.json` lists them.
    pub folder: PathBuf,
    /// Files with the inputs.
    pub inputs: BTreeMap<String, CrosscheckArray>,
    /// Files with the answers of evo's reference: what the outputs should be.
    pub expected: BTreeMap<String, CrosscheckArray>,
}

/// An array in a `.npy` file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrosscheckArray {
    /// The file.
    pub path: PathBuf,
    /// The element type that the kernel has: `bf16`.
    pub dtype: String,
    /// The element type in the file: `<f4`, because NumPy has no bf16 and answers are wider than outputs.
    pub npy: String,
    /// Its extents.
    pub shape: Vec<u64>,
}

/// What a harness prints of one problem, a line of JSON on stdout. Fields that it does not know are left out or null.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct CrosscheckLine {
    /// The problem's name.
    pub problem: String,
    /// The harness's own version.
    #[serde(default)]
    pub version: Option<String>,
    /// How samples were taken.
    #[serde(default)]
    pub mode: Option<TimingMode>,
    /// The middle of the samples, nanoseconds a call.
    #[serde(default)]
    pub time_ns: Option<f64>,
    /// Their relative standard deviation, or another measure of the same size.
    #[serde(default)]
    pub spread_ratio: Option<f64>,
    /// What the clock itself adds to each call, nanoseconds, where that was measured: times may differ by as much.
    #[serde(default)]
    pub overhead_ns: Option<f64>,
    /// Whether the outputs are right, by the harness's own check.
    #[serde(default)]
    pub correct: Option<bool>,
    /// The time of somebody else's implementation of the same problem, by the same clock.
    #[serde(default)]
    pub peer_ns: Option<f64>,
    /// Why something is missing, or what a reader should know.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What evo knows of the candidate on one problem.
#[derive(Clone, Copy, Debug)]
pub struct OwnFinding<'a> {
    /// Its verdict; null where the gates did not decide.
    pub correct: Option<bool>,
    /// Its measurements of every problem and mode.
    pub measurements: &'a [Measurement],
    /// How far the baseline differs from itself.
    pub noise_floor: Option<f64>,
    /// The paired comparison with the baseline on this problem.
    pub against_baseline: Option<&'a PairedProblem>,
    /// Candidate's time / the peer's time on this problem, by evo.
    pub against_peer: Option<f64>,
}

/// Which way a comparison points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Faster,
    Slower,
    /// Within the noise.
    Same,
}

impl Direction {
    fn of(ratio: f64, noise: f64) -> Direction {
        match ratio {
            _ if ratio < 1.0 - noise => Direction::Faster,
            _ if ratio > 1.0 + noise => Direction::Slower,
            _ => Direction::Same,
        }
    }

    fn opposes(self, other: Direction) -> bool {
        matches!(
            (self, other),
            (Direction::Faster, Direction::Slower) | (Direction::Slower, Direction::Faster)
        )
    }
}

impl CrosscheckLine {
    /// The time and its spread, if they can be what a clock says.
    fn timed(&self) -> Result<(f64, f64, TimingMode), String> {
        let none = || self.reason.clone().unwrap_or_else(|| "it gave no time".to_string());
        let time = self.time_ns.ok_or_else(none)?;
        if !(time.is_finite() && time > 0.0) {
            return Err(format!("it reported a time of {time} ns"));
        }
        let mode = self.mode.ok_or("it gave a time without a mode")?;
        let spread = self.spread_ratio.ok_or("it gave a time without a spread")?;
        match spread.is_finite() && spread >= 0.0 {
            false => Err(format!("it reported a spread of {spread}")),
            true if spread > SPREAD_MAX => Err(format!("its samples spread by {:.0} %", 100.0 * spread)),
            true => Ok((time, spread, mode)),
        }
    }
}

impl CrosscheckRow {
    /// A problem that a harness did not time.
    pub fn not_run(harness: &str, problem: &str, evo_correct: Option<bool>, why: &str) -> CrosscheckRow {
        CrosscheckRow {
            harness: harness.to_string(),
            version: None,
            problem: problem.to_string(),
            mode: None,
            time_ns: None,
            spread_ratio: None,
            evo_ns: None,
            ratio: None,
            agrees: None,
            correct: None,
            evo_correct,
            faster_than_baseline: None,
            faster_than_peer: None,
            sign_kept: None,
            reason: Some(format!("{NOT_RUN}{why}")),
        }
    }

    /// What a harness said of a problem, beside what evo says. `baseline` is its line about the default configuration.
    pub fn judged(
        harness: &str,
        line: &CrosscheckLine,
        baseline: Option<&CrosscheckLine>,
        own: &OwnFinding<'_>,
    ) -> CrosscheckRow {
        let mut row = CrosscheckRow {
            version: line.version.clone(),
            correct: line.correct,
            ..CrosscheckRow::not_run(harness, &line.problem, own.correct, "")
        };
        let mut said = Vec::new();
        if let (Some(theirs), Some(ours)) = (line.correct, own.correct)
            && theirs != ours
        {
            let word = |is_right: bool| if is_right { "right" } else { "wrong" };
            said.push(format!("it says that the answers are {}, evo {}", word(theirs), word(ours)));
        }
        match line.timed() {
            Ok(timed) => {
                said.extend(row.compare(timed, line, own));
                said.extend(row.direct(timed, line, baseline, own));
                said.extend(line.reason.clone());
            }
            // A wrong kernel need not be timed.
            Err(why) if line.correct.is_some() => said.push(why),
            Err(why) => said.push(format!("{NOT_RUN}{why}")),
        }
        row.reason = (!said.is_empty()).then(|| said.join("; "));
        row
    }

    /// The time of another kernel that does the same work: a point of reference.
    pub fn reference(harness: &str, line: &CrosscheckLine, own: &OwnFinding<'_>) -> CrosscheckRow {
        let row = CrosscheckRow::not_run(harness, &line.problem, own.correct, "");
        let (time, spread, mode) = match line.timed() {
            Ok(timed) => timed,
            Err(why) => {
                let reason = Some(format!("{NOT_RUN}{why}"));
                return CrosscheckRow { version: line.version.clone(), reason, ..row };
            }
        };
        let is_it = |found: &&Measurement| found.problem == line.problem && found.mode == mode;
        let evo_ns = own.measurements.iter().find(is_it).map(|ours| ours.p50_ns);
        CrosscheckRow {
            version: line.version.clone(),
            mode: Some(mode),
            time_ns: Some(time),
            spread_ratio: Some(spread),
            evo_ns,
            ratio: evo_ns.map(|ours| time / ours),
            faster_than_peer: evo_ns.map(|ours| ours < time),
            reason: Some(line.reason.clone().unwrap_or_else(|| "the time of another kernel".to_string())),
            ..row
        }
    }

    /// Their time beside ours; what is to be said of it.
    fn compare(
        &mut self,
        (time, spread, mode): (f64, f64, TimingMode),
        line: &CrosscheckLine,
        own: &OwnFinding<'_>,
    ) -> Option<String> {
        (self.time_ns, self.spread_ratio, self.mode) = (Some(time), Some(spread), Some(mode));
        let is_it = |found: &&Measurement| found.problem == line.problem && found.mode == mode;
        let Some(ours) = own.measurements.iter().find(is_it) else {
            return Some(format!("evo has no time of it in the mode `{}`", mode.as_str()));
        };
        let ratio = time / ours.p50_ns;
        (self.evo_ns, self.ratio) = (Some(ours.p50_ns), Some(ratio));
        // The same factor makes a deviation that few samples exceed comparable with a standard deviation.
        let noise = (1.4826 * ours.mad_ns / ours.p50_ns).max(own.noise_floor.unwrap_or(0.0));
        // Capped as theirs is: with more noise every other clock would agree.
        let within = AGREES_WITHIN.max(spread).max(noise.min(SPREAD_MAX));
        let overhead = line.overhead_ns.filter(|own| own.is_finite() && *own > 0.0).unwrap_or(0.0);
        if overhead > ours.p50_ns {
            return Some(format!(
                "its clock adds {:.1} µs to each call, more than a call takes",
                overhead / 1e3
            ));
        }
        let low = ours.p50_ns * (1.0 - within);
        let high = ours.p50_ns * (1.0 + within) + overhead;
        let agrees = (low..=high).contains(&time);
        self.agrees = Some(agrees);
        (!agrees).then(|| format!("its time is {ratio:.3} of evo's, beyond {:.1} %", 100.0 * within))
    }

    /// Which way comparisons point, and whether evo's point there too; what is to be said of it.
    fn direct(
        &mut self,
        (time, spread, mode): (f64, f64, TimingMode),
        line: &CrosscheckLine,
        baseline: Option<&CrosscheckLine>,
        own: &OwnFinding<'_>,
    ) -> Option<String> {
        let mut kept = Vec::new();
        let base = baseline.and_then(|own| own.timed().ok()).filter(|(_, _, other)| *other == mode);
        if let Some((base, base_spread, _)) = base {
            self.faster_than_baseline = Some(time < base);
            let theirs = Direction::of(time / base, spread.max(base_spread));
            let ours = own.against_baseline.map(|pair| match pair.decision {
                PairedDecision::Faster => Direction::Faster,
                PairedDecision::Slower => Direction::Slower,
                PairedDecision::Same | PairedDecision::Ambiguous => Direction::Same,
            });
            kept.extend(ours.map(|ours| ("the default configuration", !theirs.opposes(ours))));
        }
        if let Some(peer) = line.peer_ns.filter(|own| own.is_finite() && *own > 0.0) {
            self.faster_than_peer = Some(time < peer);
            let theirs = Direction::of(time / peer, spread.max(AGREES_WITHIN));
            let ours = own.against_peer.map(|ratio| Direction::of(ratio, AGREES_WITHIN));
            kept.extend(ours.map(|ours| ("the peer", !theirs.opposes(ours))));
        }
        self.sign_kept = (!kept.is_empty()).then(|| kept.iter().all(|(_, is_kept)| *is_kept));
        let lost: Vec<&str> = kept.iter().filter(|(_, is_kept)| !is_kept).map(|(name, _)| *name).collect();
        let text =
            || format!("its comparison with {} points the other way than evo's", lost.join(" and with "));
        (!lost.is_empty()).then(text)
    }

    /// Whether both say different things of the answers: the headline.
    pub fn differs_in_answers(&self) -> bool {
        self.correct.zip(self.evo_correct).is_some_and(|(theirs, ours)| theirs != ours)
    }

    /// Whether anything disagrees.
    pub fn disagrees(&self) -> bool {
        self.differs_in_answers() || self.agrees == Some(false) || self.sign_kept == Some(false)
    }

    /// Whether the harness did what was asked: it checked the answers, and where they are right it timed them in a mode
    /// that evo has too. The time of another kernel is a point of reference, which agrees with nothing.
    pub fn is_complete(&self, is_reference: bool) -> bool {
        match is_reference {
            true => self.time_ns.is_some(),
            false => self.correct.is_some() && (self.agrees.is_some() || self.evo_correct == Some(false)),
        }
    }
}

#[cfg(test)]
#[path = "crosscheck_tests.rs"]
mod tests;
