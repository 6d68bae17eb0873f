//! What a worker's answer must be besides well-formed: times are positive and ordered, counts fit each other.
//!
//! A variant that writes over its worker's memory, or a worker of somebody else's, can send any numbers. One
//! impossible time would rank first for good.

use crate::measurement::Measurement;
use crate::verdict::GateState;
use crate::worker::{BlockAnswer, MeasureAnswer, PairedTimes, Response};

/// A time of more than this, nanoseconds, is longer than any deadline: a day.
const LONGEST_NS: f64 = 86_400e9;

impl Response {
    pub fn fault(&self) -> Option<String> {
        match self {
            Response::Measured(answer) => answer.fault(),
            Response::Paired(times) => times.fault(),
            Response::Sampled(block) => block.fault(),
            Response::Loaded { load_ms } => {
                (!is_span(*load_ms)).then(|| format!("loading took {load_ms} ms"))
            }
            Response::Alive { canary_ns, .. } => {
                (!is_span(*canary_ns)).then(|| format!("the health check took {canary_ns} ns"))
            }
            Response::GateDone(answer) => {
                let failed = answer.report.state == GateState::Fail;
                (failed != answer.verdict.is_some())
                    .then(|| "a gate whose state and verdict contradict each other".to_string())
            }
            Response::Ready { .. }
            | Response::Beat
            | Response::Described { .. }
            | Response::Phase { .. }
            | Response::Need { .. }
            | Response::Prepared
            | Response::Clocks { .. }
            | Response::Ran { .. }
            | Response::HandedOut
            | Response::Fault { .. }
            | Response::Failed { .. } => None,
        }
    }
}

impl BlockAnswer {
    fn fault(&self) -> Option<String> {
        if self.verdict.is_some() {
            return None;
        }
        if self.samples_ns.is_empty() {
            return Some("a block without samples".to_string());
        }
        let bad = self.samples_ns.iter().find(|time| !is_time(**time));
        bad.map(|time| format!("a sample of {time} ns"))
    }
}

impl MeasureAnswer {
    fn fault(&self) -> Option<String> {
        match (&self.measurement, &self.verdict) {
            (Some(measurement), None) => measurement.fault(),
            (None, None) => Some("neither a measurement nor a verdict".to_string()),
            // The worker itself refuses the variant, for its impossible times perhaps. Nothing ranks by them.
            (_, Some(_)) => None,
        }
    }
}

impl Measurement {
    /// Why these statistics cannot be of samples; `None` where they can.
    pub fn fault(&self) -> Option<String> {
        let times = [
            ("min_ns", self.min_ns),
            ("p10_ns", self.p10_ns),
            ("p50_ns", self.p50_ns),
            ("p90_ns", self.p90_ns),
            ("ci_low_ns", self.ci_low_ns),
            ("ci_high_ns", self.ci_high_ns),
        ];
        if let Some((name, value)) = times.iter().find(|(_, value)| !is_time(*value)) {
            return Some(format!("{name} is {value}"));
        }
        let (percentiles, interval) = times.split_at(4);
        let mut pairs = percentiles.windows(2).chain([interval]);
        if let Some([(name, value), (above, most)]) = pairs.find(|pair| pair[0].1 > pair[1].1) {
            return Some(format!("{name} is {value}, above {above} of {most}"));
        }
        if !(0.0..=LONGEST_NS).contains(&self.mad_ns) {
            return Some(format!("mad_ns is {}", self.mad_ns));
        }
        if self.samples == 0 || self.batch == 0 {
            return Some(format!("{} samples of {} calls", self.samples, self.batch));
        }
        if self.outliers > self.samples {
            return Some(format!("{} of {} samples are outliers", self.outliers, self.samples));
        }
        if self.raw_ns.len() > self.samples as usize {
            return Some(format!("{} raw times of {} samples", self.raw_ns.len(), self.samples));
        }
        self.raw_ns.iter().find(|time| !is_time(**time)).map(|time| format!("a sample of {time} ns"))
    }
}

impl PairedTimes {
    fn fault(&self) -> Option<String> {
        let times = self.a_ns.iter().chain(&self.b_ns);
        if let Some(time) = times.clone().find(|time| !is_time(**time)) {
            return Some(format!("a paired time of {time} ns"));
        }
        // The logarithm of the ratio of two times that are possible.
        let most = LONGEST_NS.ln() + 30.0;
        let ratio = self.log_ratios.iter().find(|ratio| !ratio.is_finite() || ratio.abs() > most);
        ratio.map(|ratio| format!("a logarithm of a ratio of {ratio}"))
    }
}

fn is_time(nanoseconds: f64) -> bool {
    nanoseconds > 0.0 && nanoseconds <= LONGEST_NS
}

/// A duration that may be 0 where a clock is coarse.
fn is_span(value: f64) -> bool {
    (0.0..=LONGEST_NS).contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement() -> Measurement {
        serde_json::from_value(serde_json::json!({
            "problem": "p", "mode": "hot", "samples": 3, "batch": 1, "p10_ns": 10, "p50_ns": 11, "p90_ns": 12,
            "min_ns": 10, "mad_ns": 0, "ci_low_ns": 10, "ci_high_ns": 12, "outliers": 0, "dropped": 0,
            "stop": "limit", "raw_ns": [10, 11, 12],
        }))
        .unwrap()
    }

    #[test]
    fn impossible_times_and_counts_are_told() {
        let changes: [fn(&mut Measurement); 13] = [
            |_| {},
            |one| one.p50_ns = 0.0,
            |one| one.min_ns = -1.0,
            |one| one.p90_ns = f64::NAN,
            |one| one.p90_ns = f64::INFINITY,
            |one| one.p10_ns = 11.5,
            |one| one.ci_low_ns = 13.0,
            |one| one.mad_ns = -0.5,
            |one| one.samples = 0,
            |one| one.batch = 0,
            |one| one.outliers = 4,
            |one| one.raw_ns.push(1.0),
            |one| one.raw_ns[1] = -11.0,
        ];
        let told = changes.map(|change| {
            let mut changed = measurement();
            change(&mut changed);
            let answer = MeasureAnswer { measurement: Some(Box::new(changed)), ..MeasureAnswer::default() };
            Response::Measured(Box::new(answer)).fault().unwrap_or("fine".into())
        });
        insta::assert_snapshot!(told.join("\n"));
        let nothing = Response::Measured(Box::default());
        assert_eq!(nothing.fault().as_deref(), Some("neither a measurement nor a verdict"));
    }

    #[test]
    fn paired_times_are_checked_too() {
        let fault = |a_ns: f64, ratio: f64| {
            let times = PairedTimes { a_ns: vec![a_ns], log_ratios: vec![ratio], ..PairedTimes::default() };
            Response::Paired(times).fault()
        };
        assert_eq!(fault(5.0, -0.2), None);
        assert_eq!(fault(-5.0, 0.0).as_deref(), Some("a paired time of -5 ns"));
        assert!(fault(5.0, f64::NAN).is_some() && fault(5.0, 1e9).is_some());
        assert!(Response::Alive { canary_ns: -1.0, memory_free: None }.fault().is_some());
        assert_eq!(Response::Loaded { load_ms: 0.0 }.fault(), None);
    }
}
