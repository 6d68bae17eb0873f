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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrosscheckRow {
    /// `nvbench`, `torch`, `kernelbench`, `cutlass` or `command`.
    pub harness: String,
    /// As the harness names it; null where it did not.
    pub version: Option<String>,
    pub problem: String,
    /// How the harness took its samples; null where it took none.
    pub mode: Option<TimingMode>,
    /// Its time of a call, nanoseconds.
    pub time_ns: Option<f64>,
    /// Relative spread of its samples.
    pub spread_ratio: Option<f64>,
    /// evo's median in the same mode, nanoseconds.
    pub evo_ns: Option<f64>,
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
    pub schema: String,
    /// 1; raised by changes that an older harness would misread.
    pub version: u32,
    pub harness: String,
    /// `candidate` or `baseline`: each is asked about in a call of its own.
    pub role: String,
    /// `host` or `cuda:0`.
    pub device: String,
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

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrosscheckProblem {
    /// Its name, which the line repeats.
    pub problem: String,
    pub sizes: BTreeMap<String, i64>,
    pub scalars: BTreeMap<String, Value>,
    /// The folder with the exported files for these sizes, as `evo export` writes them; `manifest.json` lists them.
    pub folder: PathBuf,
    pub inputs: BTreeMap<String, CrosscheckArray>,
    /// Files with the answers of evo's reference: what the outputs should be.
    pub expected: BTreeMap<String, CrosscheckArray>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CrosscheckArray {
    pub path: PathBuf,
    /// The element type that the kernel has: `bf16`.
    pub dtype: String,
    /// The element type in the file: `<f4`, because NumPy has no bf16 and answers are wider than outputs.
    pub npy: String,
    pub shape: Vec<u64>,
}

/// What a harness prints of one problem, a line of JSON on stdout. Fields that it does not know are left out or null.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct CrosscheckLine {
    pub problem: String,
    #[serde(default)]
    pub version: Option<String>,
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

/// Which way a ratio of times points; within the noise both are the same.
fn direction(ratio: f64, noise: f64) -> PairedDecision {
    match ratio {
        _ if ratio < 1.0 - noise => PairedDecision::Faster,
        _ if ratio > 1.0 + noise => PairedDecision::Slower,
        _ => PairedDecision::Same,
    }
}

fn are_opposite(theirs: PairedDecision, ours: PairedDecision) -> bool {
    use PairedDecision::{Faster, Slower};
    matches!((theirs, ours), (Faster, Slower) | (Slower, Faster))
}

/// What can be what a clock says of a call.
#[derive(Clone, Copy)]
struct ClockTime {
    ns: f64,
    spread: f64,
    mode: TimingMode,
}

impl CrosscheckLine {
    fn timed(&self) -> Result<ClockTime, String> {
        let none = || self.reason.clone().unwrap_or_else(|| "it gave no time".to_string());
        let ns = self.time_ns.ok_or_else(none)?;
        if !(ns.is_finite() && ns > 0.0) {
            return Err(format!("it reported a time of {ns} ns"));
        }
        let mode = self.mode.ok_or("it gave a time without a mode")?;
        let spread = self.spread_ratio.ok_or("it gave a time without a spread")?;
        match spread.is_finite() && spread >= 0.0 {
            false => Err(format!("it reported a spread of {spread}")),
            true if spread > SPREAD_MAX => Err(format!("its samples spread by {:.0} %", 100.0 * spread)),
            true => Ok(ClockTime { ns, spread, mode }),
        }
    }
}

impl CrosscheckRow {
    /// A problem that a harness did not time.
    pub fn not_run(harness: &str, problem: &str, evo_correct: Option<bool>, why: &str) -> CrosscheckRow {
        CrosscheckRow {
            harness: harness.to_string(),
            problem: problem.to_string(),
            evo_correct,
            reason: Some(format!("{NOT_RUN}{why}")),
            ..CrosscheckRow::default()
        }
    }

    /// What a harness said of a problem, beside what evo says. `baseline` is its line about the default configuration. A
    /// reference is the time of another kernel that does the same work, which agrees with nothing.
    pub fn judged(
        harness: &str,
        line: &CrosscheckLine,
        baseline: Option<&CrosscheckLine>,
        own: &OwnFinding<'_>,
        is_reference: bool,
    ) -> CrosscheckRow {
        let mut row = CrosscheckRow {
            version: line.version.clone(),
            correct: line.correct.filter(|_| !is_reference),
            ..CrosscheckRow::not_run(harness, &line.problem, own.correct, "")
        };
        let mut remarks = Vec::new();
        if row.differs_in_answers() {
            let (theirs, ours) =
                if row.correct == Some(true) { ("right", "wrong") } else { ("wrong", "right") };
            remarks.push(format!("it says that the answers are {theirs}, evo {ours}"));
        }
        match line.timed() {
            Ok(time) => {
                (row.time_ns, row.spread_ratio, row.mode) =
                    (Some(time.ns), Some(time.spread), Some(time.mode));
                let is_it = |found: &&Measurement| found.problem == line.problem && found.mode == time.mode;
                let ours = own.measurements.iter().find(is_it);
                row.evo_ns = ours.map(|ours| ours.p50_ns);
                row.ratio = ours.map(|ours| time.ns / ours.p50_ns);
                if is_reference {
                    row.faster_than_peer = row.ratio.map(|ratio| ratio > 1.0);
                    let other = || "the time of another kernel".to_string();
                    remarks.push(line.reason.clone().unwrap_or_else(other));
                } else {
                    remarks.extend(row.compare(time, line, ours, own.noise_floor));
                    remarks.extend(row.direct(time, line, baseline, own));
                    remarks.extend(line.reason.clone());
                }
            }
            // A wrong kernel need not be timed.
            Err(why) if row.correct.is_some() => remarks.push(why),
            Err(why) => remarks.push(format!("{NOT_RUN}{why}")),
        }
        row.reason = (!remarks.is_empty()).then(|| remarks.join("; "));
        row
    }

    fn compare(
        &mut self,
        time: ClockTime,
        line: &CrosscheckLine,
        ours: Option<&Measurement>,
        noise_floor: Option<f64>,
    ) -> Option<String> {
        let Some(ours) = ours else {
            return Some(format!("evo has no time of it in the mode `{}`", time.mode.as_str()));
        };
        let ratio = time.ns / ours.p50_ns;
        // The same factor makes a deviation that few samples exceed comparable with a standard deviation.
        let noise = (1.4826 * ours.mad_ns / ours.p50_ns).max(noise_floor.unwrap_or(0.0));
        // Capped as theirs is: with more noise every other clock would agree.
        let within = AGREES_WITHIN.max(time.spread).max(noise.min(SPREAD_MAX));
        let overhead = line.overhead_ns.filter(|own| own.is_finite() && *own > 0.0).unwrap_or(0.0);
        if overhead > ours.p50_ns {
            return Some(format!(
                "its clock adds {:.1} µs to each call, more than a call takes",
                overhead / 1e3
            ));
        }
        let low = ours.p50_ns * (1.0 - within);
        let high = ours.p50_ns * (1.0 + within) + overhead;
        let agrees = (low..=high).contains(&time.ns);
        self.agrees = Some(agrees);
        (!agrees).then(|| format!("its time is {ratio:.3} of evo's, beyond {:.1} %", 100.0 * within))
    }

    /// Which way comparisons point, and whether evo's point there too; what is to be said of it.
    fn direct(
        &mut self,
        time: ClockTime,
        line: &CrosscheckLine,
        baseline: Option<&CrosscheckLine>,
        own: &OwnFinding<'_>,
    ) -> Option<String> {
        let mut kept = Vec::new();
        let base = baseline.and_then(|line| line.timed().ok()).filter(|base| base.mode == time.mode);
        if let Some(base) = base {
            self.faster_than_baseline = Some(time.ns < base.ns);
            let theirs = direction(time.ns / base.ns, time.spread.max(base.spread));
            let ours = own.against_baseline.map(|pair| pair.decision);
            kept.extend(ours.map(|ours| ("the default configuration", !are_opposite(theirs, ours))));
        }
        if let Some(peer) = line.peer_ns.filter(|own| own.is_finite() && *own > 0.0) {
            self.faster_than_peer = Some(time.ns < peer);
            let theirs = direction(time.ns / peer, time.spread.max(AGREES_WITHIN));
            let ours = own.against_peer.map(|ratio| direction(ratio, AGREES_WITHIN));
            kept.extend(ours.map(|ours| ("the peer", !are_opposite(theirs, ours))));
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
mod tests {
    use super::*;

    fn measured(p50_ns: f64) -> Vec<Measurement> {
        let text = serde_json::json!({
            "problem": "p", "mode": "hot", "samples": 100, "batch": 1, "p10_ns": p50_ns, "p50_ns": p50_ns, "p90_ns": p50_ns,
            "min_ns": p50_ns, "mad_ns": 0.0, "ci_low_ns": p50_ns, "ci_high_ns": p50_ns, "outliers": 0, "dropped": 0,
            "stop": "interval", "telemetry": {},
        });
        vec![serde_json::from_value(text).unwrap()]
    }

    fn line(time_ns: f64) -> CrosscheckLine {
        CrosscheckLine {
            problem: "p".to_string(),
            mode: Some(TimingMode::Hot),
            time_ns: Some(time_ns),
            spread_ratio: Some(0.01),
            correct: Some(true),
            ..CrosscheckLine::default()
        }
    }

    fn own(measurements: &[Measurement]) -> OwnFinding<'_> {
        let (correct, noise_floor) = (Some(true), Some(0.01));
        OwnFinding { correct, measurements, noise_floor, against_baseline: None, against_peer: None }
    }

    /// What is said of a line about a kernel that evo finds right and measured at 1000 ns.
    fn judged(line: &CrosscheckLine) -> CrosscheckRow {
        CrosscheckRow::judged("torch", line, None, &own(&measured(1000.0)), false)
    }

    fn pair(ratio: f64, decision: PairedDecision) -> PairedProblem {
        PairedProblem {
            problem: "p".to_string(),
            ratio,
            ratio_low: ratio - 0.01,
            ratio_high: ratio + 0.01,
            processes: 2,
            pairs: 12,
            decision,
            baseline_ns: 100.0,
            finalist_ns: 100.0 * ratio,
            baseline_drift: None,
        }
    }

    fn agrees(line: &CrosscheckLine) -> Option<bool> {
        judged(line).agrees
    }

    #[test]
    fn clocks_agree_within_five_percent_or_the_larger_noise() {
        assert_eq!(agrees(&line(1049.0)), Some(true));
        assert_eq!(agrees(&line(951.0)), Some(true));
        assert_eq!(agrees(&line(1051.0)), Some(false));
        assert_eq!(agrees(&line(949.0)), Some(false));
        assert_eq!(agrees(&CrosscheckLine { spread_ratio: Some(0.2), ..line(1190.0) }), Some(true));
        // What the clock itself adds makes a call longer and never shorter.
        let slow_clock = |time| CrosscheckLine { overhead_ns: Some(500.0), ..line(time) };
        assert_eq!((agrees(&slow_clock(1540.0)), agrees(&slow_clock(940.0))), (Some(true), Some(false)));
        let blind = CrosscheckLine { overhead_ns: Some(1001.0), ..line(1540.0) };
        let row = judged(&blind);
        assert_eq!((row.agrees, row.is_complete(false)), (None, false));
        let cold = CrosscheckLine { mode: Some(TimingMode::Cold), ..line(1000.0) };
        let row = judged(&cold);
        assert_eq!((row.agrees, row.evo_ns), (None, None));
        assert_eq!(row.reason.as_deref(), Some("evo has no time of it in the mode `cold`"));
    }

    #[test]
    fn what_no_clock_says_is_not_a_time() {
        let reason = |line: CrosscheckLine| {
            let row = judged(&CrosscheckLine { correct: None, ..line });
            assert_eq!((row.time_ns, row.agrees, row.is_complete(false)), (None, None, false));
            row.reason.unwrap()
        };
        assert_eq!(reason(line(-3.0)), "not run: it reported a time of -3 ns");
        assert_eq!(reason(line(f64::NAN)), "not run: it reported a time of NaN ns");
        assert_eq!(
            reason(CrosscheckLine { mode: None, ..line(1.0) }),
            "not run: it gave a time without a mode"
        );
        let wide = CrosscheckLine { spread_ratio: Some(0.5), ..line(1.0) };
        assert_eq!(reason(wide), "not run: its samples spread by 50 %");
        let none = CrosscheckLine { time_ns: None, reason: Some("no torch".into()), ..line(1.0) };
        assert_eq!(reason(none), "not run: no torch");
    }

    #[test]
    fn a_disagreement_on_answers_either_way_is_one() {
        let measurements = measured(1000.0);
        let says = |theirs, ours| {
            let line = CrosscheckLine { correct: theirs, ..line(1000.0) };
            let own = OwnFinding { correct: ours, ..own(&measurements) };
            CrosscheckRow::judged("torch", &line, None, &own, false)
        };
        let wrong = says(Some(false), Some(true));
        assert!(wrong.differs_in_answers() && wrong.disagrees());
        assert_eq!(wrong.reason.as_deref(), Some("it says that the answers are wrong, evo right"));
        assert!(says(Some(true), Some(false)).differs_in_answers());
        assert!(!says(Some(false), Some(false)).disagrees());
        assert!(says(Some(true), Some(true)).is_complete(false));
        assert!(!says(None, Some(true)).is_complete(false), "it did not check");
    }

    #[test]
    fn only_opposite_signs_beyond_both_noises_are_lost() {
        let kept = |base: f64, ratio, decision| {
            let (pair, measurements) = (pair(ratio, decision), measured(1000.0));
            let own = OwnFinding { against_baseline: Some(&pair), ..own(&measurements) };
            let row = CrosscheckRow::judged("torch", &line(1000.0), Some(&line(base)), &own, false);
            (row.faster_than_baseline, row.sign_kept)
        };
        assert_eq!(kept(1200.0, 0.8, PairedDecision::Faster), (Some(true), Some(true)));
        assert_eq!(kept(900.0, 0.8, PairedDecision::Faster), (Some(false), Some(false)));
        assert_eq!(kept(1200.0, 1.2, PairedDecision::Slower), (Some(true), Some(false)));
        // Within the noise of either there is no sign to keep.
        assert_eq!(kept(995.0, 0.8, PairedDecision::Faster), (Some(false), Some(true)));
        assert_eq!(kept(900.0, 0.999, PairedDecision::Same), (Some(false), Some(true)));
        let peer = CrosscheckLine { peer_ns: Some(500.0), ..line(1000.0) };
        let measurements = measured(1000.0);
        let own = OwnFinding { against_peer: Some(0.5), ..own(&measurements) };
        let row = CrosscheckRow::judged("torch", &peer, None, &own, false);
        assert_eq!((row.faster_than_peer, row.sign_kept), (Some(false), Some(false)));
    }

    #[test]
    fn another_kernel_is_a_point_of_reference() {
        let row = CrosscheckRow::judged("cutlass", &line(1300.0), None, &own(&measured(1000.0)), true);
        assert_eq!((row.agrees, row.correct, row.faster_than_peer), (None, None, Some(true)));
        assert!(!row.disagrees() && row.is_complete(true) && !row.is_complete(false));
    }

    #[test]
    fn noise_of_our_own_does_not_make_every_clock_agree() {
        let noisy = Measurement { mad_ns: 900.0, ..measured(1000.0)[0].clone() };
        let says = |time| {
            CrosscheckRow::judged("torch", &line(time), None, &own(std::slice::from_ref(&noisy)), false)
                .agrees
        };
        assert_eq!((says(1240.0), says(1260.0), says(1.0)), (Some(true), Some(false), Some(false)));
    }
}
