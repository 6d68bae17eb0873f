//! Times that an executor tells, compared with the worker's own clock.
//!
//! Samples are taken where the kernel runs, so that a call costs what it costs, and a variant that rewrites its
//! executor could tell any number. It cannot tell samples that last longer than the whole request took. What the
//! threads on both ends waited for a busy processor is known ([`super::queue`]) and taken off, and a process that hides
//! work has run for it; a shared machine delays some requests all the same, so a share of many requests counts.

use std::collections::VecDeque;
use std::time::Duration;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::{Verdict, VerdictKind};
use serde_json::json;

const WINDOW: usize = 24;

/// So many of them with an excess are a lie: a shared machine delays some requests. On a busy one a clock that runs slow
/// shows in some requests only, because what was waited within the samples is taken off as well.
const LONG_MAX: usize = 8;

/// An excess below this is what messages and wake-ups take.
const EXCESS_MIN: Duration = Duration::from_millis(1);

/// An excess below this share of the samples says nothing.
const EXCESS_SHARE: f64 = 0.25;

/// How much longer than a request its samples may seem: what clocks of one machine differ by.
const ROUNDING: Duration = Duration::from_micros(5);

#[derive(Clone, Copy, Debug)]
pub struct RequestTime {
    /// By the worker's clock.
    pub whole: Duration,
    /// Of that, what the threads on both ends waited for a processor. It may have been within the samples.
    pub waited: Duration,
    /// What the executor ran for on all its threads, `None` where nobody counts.
    pub ran: Option<Duration>,
}

#[derive(Debug, Default)]
pub struct ClockCheck {
    /// What a request took beyond its samples and waits, as far as its process ran, and its samples, nanoseconds.
    requests: VecDeque<(f64, f64)>,
}

impl ClockCheck {
    pub fn add(
        &mut self,
        samples: &[f64],
        batch: u32,
        asked: u32,
        time: RequestTime,
    ) -> Result<(), DeviceError> {
        let plausible = |time: &f64| time.is_finite() && *time >= 0.0;
        if samples.len() != asked as usize || !samples.iter().all(plausible) {
            return Err(refuse("the times of the samples are not numbers of their kind", json!({})));
        }
        let told = samples.iter().sum::<f64>() * f64::from(batch);
        let (taken, waited) = (time.whole.as_nanos() as f64, time.waited.as_nanos() as f64);
        let ran = time.ran.map(|ran| ran.as_nanos() as f64);
        let evidence = json!({ "told_ns": told, "taken_ns": taken, "waited_ns": waited, "ran_ns": ran });
        if told > taken + ROUNDING.as_nanos() as f64 {
            return Err(refuse("the samples last longer than the request for them took", evidence));
        }
        if self.requests.len() == WINDOW {
            self.requests.pop_front();
        }
        let done = (taken - waited).min(ran.unwrap_or(f64::INFINITY));
        self.requests.push_back((done - told, told));
        let long = |(excess, told): &(f64, f64)| {
            *excess > EXCESS_MIN.as_nanos() as f64 && *excess > EXCESS_SHARE * told
        };
        if self.requests.iter().filter(|request| long(request)).count() >= LONG_MAX {
            let message = format!(
                "the samples are much shorter than {LONG_MAX} of the last {} requests for them",
                self.requests.len()
            );
            return Err(in_doubt(refuse(&message, evidence)));
        }
        Ok(())
    }
}

/// A machine can delay every one of several requests where nobody counts waits, as a guest whose host is busy.
fn in_doubt(mut error: DeviceError) -> DeviceError {
    error.evidence.insert(Verdict::IN_DOUBT.to_string(), true.into());
    error
}

fn refuse(what: &str, evidence: serde_json::Value) -> DeviceError {
    let mut error = DeviceError::plain(VerdictKind::TimingEscape, what).with_cause("forged_time").sticky();
    if let serde_json::Value::Object(evidence) = evidence {
        error.evidence = evidence;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undelayed(taken_ms: u64) -> RequestTime {
        RequestTime { whole: Duration::from_millis(taken_ms), waited: Duration::ZERO, ran: None }
    }

    fn told(check: &mut ClockCheck, sample_ns: f64, taken_ms: u64) -> Option<String> {
        check.add(&[sample_ns; 10], 2, 10, undelayed(taken_ms)).err().and_then(|error| error.cause)
    }

    #[test]
    fn times_that_cannot_be_are_refused_at_once() {
        for wrong in [f64::NAN, -1.0, f64::INFINITY, 2e6] {
            assert!(told(&mut ClockCheck::default(), wrong, 20).is_some(), "{wrong}");
        }
        let missing = ClockCheck::default().add(&[1.0], 1, 2, undelayed(1000));
        assert_eq!(missing.unwrap_err().verdict().label(), "timing_escape:forged_time");
    }

    #[test]
    fn times_that_are_always_too_short_are_found_out() {
        let mut check = ClockCheck::default();
        let seen: Vec<bool> = (0..WINDOW).map(|_| told(&mut check, 0.5e6, 20).is_some()).collect();
        assert_eq!(seen.iter().position(|refused| *refused), Some(LONG_MAX - 1));
    }

    #[test]
    fn what_a_busy_machine_may_cause_has_to_be_seen_again() {
        let mut check = ClockCheck::default();
        let mut refused = (0..WINDOW).filter_map(|_| check.add(&[1e5], 1, 1, undelayed(9)).err());
        assert!(refused.next().unwrap().verdict().is_in_doubt());
        let impossible = ClockCheck::default().add(&[1e9], 1, 1, undelayed(9)).unwrap_err();
        assert!(!impossible.verdict().is_in_doubt());
    }

    #[test]
    fn waits_for_a_processor_are_not_held_against_a_variant() {
        let refused = |waited: u64, ran: Option<u64>| {
            let (mut check, ms) = (ClockCheck::default(), Duration::from_millis);
            let time = RequestTime { whole: ms(30), waited: ms(waited), ran: ran.map(ms) };
            (0..50).any(|_| check.add(&[1e6; 10], 1, 10, time).is_err())
        };
        assert!(!refused(18, None) && refused(10, None));
        // The host of a guest had the processor; four threads at work, and the wait was somewhere among them.
        assert!(
            !refused(0, Some(11))
                && refused(0, Some(25))
                && !refused(18, Some(100))
                && refused(10, Some(100))
        );
    }

    #[test]
    fn a_lie_shows_in_a_third_of_the_requests_and_less_is_the_machine() {
        for (every, found) in [(3, true), (4, false)] {
            let mut check = ClockCheck::default();
            let taken = |number: usize| if number.is_multiple_of(every) { 90 } else { 21 };
            let refused = (0..100).filter(|number| told(&mut check, 1e6, taken(*number)).is_some());
            assert_eq!(refused.count() > 0, found, "every {every}");
        }
        let mut quick = ClockCheck::default();
        assert!((0..50).all(|_| told(&mut quick, 10.0, 1).is_none()));
    }
}
