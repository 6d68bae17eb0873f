//! What other people's clocks and checks say of a candidate, beside what evo says: rows, and the same as text and as Markdown.
//!
//! A row is a comparison and never a result of the candidate: no journal and no board takes one.

use evo_protocol::leaderboard::{PairedDecision, PairedProblem};
use evo_protocol::measurement::{Measurement, TimingMode};
use minijinja::context;
use minijinja::value::{Serde, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::templates;

/// Two clocks agree within this share, or within the larger of both noises.
const AGREES_WITHIN: f64 = 0.05;

/// Samples that spread by more than this are not a time: every other clock would agree with them.
const SPREAD_MAX: f64 = 0.25;

/// What a reason begins with where a harness did not time a problem.
const NOT_RUN: &str = "not run: ";

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

/// What a harness prints of one problem, a line of JSON on stdout. Fields that it does not know are left out or null.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct CrosscheckLine {
    pub problem: String,
    pub version: Option<String>,
    pub mode: Option<TimingMode>,
    /// The middle of the samples, nanoseconds a call.
    pub time_ns: Option<f64>,
    /// Their relative standard deviation, or another measure of the same size.
    pub spread_ratio: Option<f64>,
    /// What the clock itself adds to each call, nanoseconds, where that was measured: times may differ by as much.
    pub overhead_ns: Option<f64>,
    /// Whether the outputs are right, by the harness's own check.
    pub correct: Option<bool>,
    /// The time of somebody else's implementation of the same problem, by the same clock.
    pub peer_ns: Option<f64>,
    /// Why something is missing, or what a reader should know.
    pub reason: Option<String>,
}

/// What evo knows of the candidate on one problem.
#[derive(Clone, Copy, Debug)]
pub struct OwnFinding<'a> {
    /// Whether it passes its gates.
    pub correct: bool,
    /// Of every problem and mode.
    pub measurements: &'a [Measurement],
    /// How far the default configuration differs from itself.
    pub noise_floor: Option<f64>,
    pub against_baseline: Option<&'a PairedProblem>,
    /// Candidate's time / the peer's time.
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
    pub fn not_run(harness: &str, problem: &str, evo_correct: bool, why: &str) -> CrosscheckRow {
        CrosscheckRow {
            harness: harness.to_string(),
            problem: problem.to_string(),
            evo_correct: Some(evo_correct),
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
            let (theirs, ours) = if own.correct { ("wrong", "right") } else { ("right", "wrong") };
            remarks.push(format!("it says that the answers are {theirs}, evo {ours}"));
        }
        match line.timed() {
            Ok(time) => {
                let ClockTime { ns, spread, mode } = time;
                (row.time_ns, row.spread_ratio, row.mode) = (Some(ns), Some(spread), Some(mode));
                let is_it = |found: &&Measurement| found.problem == line.problem && found.mode == mode;
                let ours = own.measurements.iter().find(is_it);
                row.evo_ns = ours.map(|ours| ours.p50_ns);
                row.ratio = ours.map(|ours| ns / ours.p50_ns);
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
        // The same factor makes a deviation that few samples exceed comparable with a standard deviation.
        let noise = (1.4826 * ours.mad_ns / ours.p50_ns).max(noise_floor.unwrap_or(0.0));
        // Capped as theirs is: with more noise every other clock would agree.
        let within = AGREES_WITHIN.max(time.spread).max(noise.min(SPREAD_MAX));
        let overhead = line.overhead_ns.filter(|own| own.is_finite() && *own > 0.0).unwrap_or(0.0);
        if overhead > ours.p50_ns {
            let overhead = overhead / 1e3;
            return Some(format!("its clock adds {overhead:.1} µs to each call, more than a call takes"));
        }
        let low = ours.p50_ns * (1.0 - within);
        let high = ours.p50_ns * (1.0 + within) + overhead;
        let agrees = (low..=high).contains(&time.ns);
        self.agrees = Some(agrees);
        let (ratio, within) = (time.ns / ours.p50_ns, 100.0 * within);
        (!agrees).then(|| format!("its time is {ratio:.3} of evo's, beyond {within:.1} %"))
    }

    /// Which way comparisons point, and whether evo's point there too; what is to be said of it.
    fn direct(
        &mut self,
        time: ClockTime,
        line: &CrosscheckLine,
        baseline: Option<&CrosscheckLine>,
        own: &OwnFinding<'_>,
    ) -> Option<String> {
        use PairedDecision::{Faster, Slower};
        let mut pairs = Vec::new();
        let base = baseline.and_then(|line| line.timed().ok()).filter(|base| base.mode == time.mode);
        if let Some(base) = base {
            self.faster_than_baseline = Some(time.ns < base.ns);
            let theirs = direction(time.ns / base.ns, time.spread.max(base.spread));
            let ours = own.against_baseline.map(|pair| pair.decision);
            pairs.extend(ours.map(|ours| ("the default configuration", theirs, ours)));
        }
        if let Some(peer) = line.peer_ns.filter(|own| own.is_finite() && *own > 0.0) {
            self.faster_than_peer = Some(time.ns < peer);
            let theirs = direction(time.ns / peer, time.spread.max(AGREES_WITHIN));
            let ours = own.against_peer.map(|ratio| direction(ratio, AGREES_WITHIN));
            pairs.extend(ours.map(|ours| ("the peer", theirs, ours)));
        }
        let is_lost = |theirs, ours| matches!((theirs, ours), (Faster, Slower) | (Slower, Faster));
        let lost = pairs.iter().filter(|(_, theirs, ours)| is_lost(*theirs, *ours));
        let lost: Vec<&str> = lost.map(|(name, ..)| *name).collect();
        self.sign_kept = (!pairs.is_empty()).then_some(lost.is_empty());
        let names = lost.join(" and with ");
        (!lost.is_empty()).then(|| format!("its comparison with {names} points the other way than evo's"))
    }

    /// Whether both say different things of the answers: the headline.
    pub fn differs_in_answers(&self) -> bool {
        self.correct.zip(self.evo_correct).is_some_and(|(theirs, ours)| theirs != ours)
    }

    pub fn disagrees(&self) -> bool {
        self.differs_in_answers() || self.agrees == Some(false) || self.sign_kept == Some(false)
    }

    /// Whether the harness did what was asked: it checked the answers, and where they are right it timed them in a mode
    /// that evo has too.
    pub fn is_complete(&self) -> bool {
        self.correct.is_some() && (self.agrees.is_some() || self.evo_correct == Some(false))
    }

    fn word(&self) -> &'static str {
        match self {
            _ if self.disagrees() => "DISAGREES",
            _ if self.is_complete() => "agrees",
            _ if self.time_ns.is_some() => "partly",
            _ if self.correct.is_some() => "untimed",
            _ => "not_run",
        }
    }
}

/// What matters most: answers that are judged differently come before times that differ.
pub fn headline(rows: &[CrosscheckRow]) -> String {
    let of = |row: &CrosscheckRow| {
        let why = row.reason.as_deref().unwrap_or_default();
        format!("{} on `{}`: {why}", row.harness, row.problem)
    };
    if let Some(row) = rows.iter().find(|row| row.differs_in_answers()) {
        return format!("DISAGREEMENT ON THE ANSWERS: {}", of(row));
    }
    let disagreed: Vec<&CrosscheckRow> = rows.iter().filter(|row| row.disagrees()).collect();
    let agreed: Vec<&CrosscheckRow> = rows.iter().filter(|row| row.is_complete()).collect();
    let mut names: Vec<&str> = agreed.iter().map(|row| row.harness.as_str()).collect();
    names.dedup();
    match (&disagreed[..], agreed.len()) {
        ([row], _) => format!("disagreement: {}", of(row)),
        ([row, more @ ..], _) => format!("disagreement: {} (and {} more)", of(row), more.len()),
        ([], 0) => "nobody else both checked and timed it".to_string(),
        ([], 1) => format!("1 comparison agrees with evo ({})", names.join(", ")),
        ([], count) => format!("{count} comparisons agree with evo ({})", names.join(", ")),
    }
}

pub fn text(rows: &[CrosscheckRow]) -> String {
    templates::lines("crosscheck.txt.j2", context! { rows => worded(rows) })
}

/// The page `crosscheck.md`. The setting has kernel, configuration and device, evo's own verdict and noise floor, and a
/// command that does the same again.
pub fn markdown(rows: &[CrosscheckRow], setting: &impl Serialize) -> String {
    let values = context! { rows => worded(rows), headline => headline(rows), setting => Serde(setting) };
    templates::lines("crosscheck.page.j2", values)
}

/// Each row with what came of it.
fn worded(rows: &[CrosscheckRow]) -> Value {
    Value::from(Serde(rows.iter().map(|row| (row, row.word())).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(mad_ns: f64) -> [Measurement; 1] {
        let text = json!({"problem": "p", "mode": "hot", "samples": 100, "batch": 1, "p10_ns": 1000, "p50_ns": 1000,
            "p90_ns": 1000, "min_ns": 1000, "mad_ns": mad_ns, "ci_low_ns": 1000, "ci_high_ns": 1000, "outliers": 0,
            "dropped": 0, "stop": "interval", "telemetry": {}});
        [serde_json::from_value(text).unwrap()]
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

    /// What is said of a line about a kernel that evo measured at 1000 ns.
    fn told(line: &CrosscheckLine, base: Option<f64>, own: OwnFinding<'_>, is_reference: bool) -> String {
        let row = CrosscheckRow::judged("torch", line, base.map(self::line).as_ref(), &own, is_reference);
        let mut said = json!(row);
        said.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        format!("{}, complete: {}\n{said}", row.word(), row.is_complete())
    }

    /// Fields that are null are left out.
    #[test]
    fn a_line_is_judged_beside_what_evo_found() {
        let pair = |decision: PairedDecision| -> PairedProblem {
            let pair = json!({"problem": "p", "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0, "processes": 2,
                "pairs": 12, "decision": decision, "baseline_ns": 100.0, "finalist_ns": 100.0});
            serde_json::from_value(pair).unwrap()
        };
        let [exact, loud] = [0.0, 900.0].map(measured);
        let [faster, slower, same] =
            [PairedDecision::Faster, PairedDecision::Slower, PairedDecision::Same].map(pair);
        let own = OwnFinding {
            correct: true,
            measurements: &exact,
            noise_floor: Some(0.01),
            against_baseline: None,
            against_peer: None,
        };
        let noisy = OwnFinding { measurements: &loud, ..own };
        let paired = |pair| OwnFinding { against_baseline: Some(pair), ..own };
        let spread = |time, ratio| CrosscheckLine { spread_ratio: Some(ratio), ..line(time) };
        let clock_adds = |overhead, time| CrosscheckLine { overhead_ns: Some(overhead), ..line(time) };
        let unchecked = |line| CrosscheckLine { correct: None, ..line };
        let wrong = CrosscheckLine { correct: Some(false), ..line(1000.0) };
        let peer = CrosscheckLine { peer_ns: Some(500.0), ..line(1000.0) };
        let absent = CrosscheckLine { time_ns: None, reason: Some("no torch".into()), ..line(1.0) };
        let rows = [
            ("a little longer", line(1049.0), None, own),
            ("a little shorter", line(951.0), None, own),
            ("longer", line(1051.0), None, own),
            ("shorter", line(949.0), None, own),
            ("longer, within its spread", spread(1190.0, 0.2), None, own),
            ("its clock makes a call longer", clock_adds(500.0, 1540.0), None, own),
            ("and never shorter", clock_adds(500.0, 940.0), None, own),
            ("its clock takes longer than a call", clock_adds(1001.0, 1540.0), None, own),
            ("it did not check", unchecked(line(1000.0)), None, own),
            ("another mode", CrosscheckLine { mode: Some(TimingMode::Cold), ..line(1000.0) }, None, own),
            // Noise of our own does not make every clock agree.
            ("our noise, within its cap", line(1240.0), None, noisy),
            ("our noise, longer", line(1260.0), None, noisy),
            ("our noise, shorter", line(1.0), None, noisy),
            ("a time below 0", unchecked(line(-3.0)), None, own),
            ("no number", unchecked(line(f64::NAN)), None, own),
            ("no mode", unchecked(CrosscheckLine { mode: None, ..line(1.0) }), None, own),
            ("a spread beyond all measure", unchecked(spread(1.0, 0.5)), None, own),
            ("no time", unchecked(absent), None, own),
            ("both faster than the default", line(1000.0), Some(1200.0), paired(&faster)),
            ("slower, evo faster", line(1000.0), Some(900.0), paired(&faster)),
            ("faster, evo slower", line(1000.0), Some(1200.0), paired(&slower)),
            // Within the noise of either there is no sign to keep.
            ("slower within its noise", line(1000.0), Some(995.0), paired(&faster)),
            ("slower, the same to evo", line(1000.0), Some(900.0), paired(&same)),
            ("a peer", peer, None, OwnFinding { against_peer: Some(0.5), ..own }),
            ("wrong, evo right", wrong.clone(), None, own),
            ("right, evo wrong", line(1000.0), None, OwnFinding { correct: false, ..own }),
            ("wrong, evo wrong", wrong, None, OwnFinding { correct: false, ..own }),
        ];
        let said = rows.map(|(name, line, base, own)| format!("{name}: {}\n", told(&line, base, own, false)));
        let another = told(&line(1300.0), None, own, true);
        insta::assert_snapshot!(said.concat() + "another kernel, a point of reference: " + &another);
    }

    #[test]
    fn the_headline_is_what_matters_most() {
        let row = |harness: &str, ratio: f64, agrees: bool, correct: bool| CrosscheckRow {
            time_ns: Some(1000.0 * ratio),
            spread_ratio: Some(0.01),
            evo_ns: Some(1000.0),
            ratio: Some(ratio),
            agrees: Some(agrees),
            correct: Some(correct),
            reason: (!agrees || !correct).then(|| "a|b".to_string()),
            ..CrosscheckRow::not_run(harness, "p", true, "")
        };
        let absent = &CrosscheckRow::not_run("nvbench", "p", true, "it is not installed");
        let agreed = &row("torch", 1.01, true, true);
        let [slow, wrong] = &[row("command", 1.4, false, true), row("command", 1.0, true, false)];
        for (rows, expected) in [
            (vec![absent], "nobody else both checked and timed it"),
            (vec![absent, agreed], "1 comparison agrees with evo (torch)"),
            (vec![agreed, slow], "disagreement: command on `p`: a|b"),
            (vec![slow, slow], "disagreement: command on `p`: a|b (and 1 more)"),
            (vec![slow, wrong], "DISAGREEMENT ON THE ANSWERS: command on `p`: a|b"),
        ] {
            let rows: Vec<CrosscheckRow> = rows.into_iter().cloned().collect();
            assert_eq!(headline(&rows), expected);
        }
        let setting = json!({"kernel": "sums", "device": "this processor", "configuration": "BLOCK=32",
            "verdict": "pass", "noise_floor": 0.01, "repro": "evo crosscheck sums 32"});
        let rows = [absent, agreed, slow].map(Clone::clone);
        insta::assert_snapshot!(text(&rows) + "\n" + &markdown(&rows, &setting));
    }
}
