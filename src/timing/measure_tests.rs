//! The script of a measurement against scripted devices.

use super::*;
use crate::timing::policy;

/// A device whose clock is the sum of what it sampled.
struct Scripted {
    call_ns: Box<dyn FnMut(u32) -> f64>,
    calls: u32,
    now_ms: f64,
    throttled_until_ms: f64,
    works_until_call: u32,
    written: bool,
    sampled: Vec<(TimingMode, u32, u32)>,
}

fn scripted(call_ns: impl FnMut(u32) -> f64 + 'static) -> Scripted {
    Scripted {
        call_ns: Box::new(call_ns),
        calls: 0,
        now_ms: 0.0,
        throttled_until_ms: 0.0,
        works_until_call: u32::MAX,
        written: true,
        sampled: Vec::new(),
    }
}

impl Bench for Scripted {
    fn sample(&mut self, mode: TimingMode, samples: u32, batch: u32) -> Result<Vec<f64>, DeviceError> {
        self.sampled.push((mode, samples, batch));
        let mut one = || {
            self.calls += batch;
            self.written |= self.calls <= self.works_until_call;
            let time = (self.call_ns)(self.calls);
            self.now_ms += time * f64::from(batch) / 1e6;
            time
        };
        Ok((0..samples).map(|_| one()).collect())
    }
    fn telemetry(&mut self) -> Telemetry {
        let hot = self.now_ms < self.throttled_until_ms;
        let reason = if hot { "SW_THERMAL_SLOWDOWN" } else { "SW_POWER_CAP" };
        Telemetry { throttle_reasons: vec![reason.into()], ..Telemetry::default() }
    }
    fn poison(&mut self) -> Result<(), DeviceError> {
        self.written = false;
        Ok(())
    }
    fn check(&mut self) -> Result<Option<Box<Verdict>>, DeviceError> {
        let wrong = Verdict::new(VerdictKind::WrongAnswer, "poison is left").with_cause("unwritten");
        Ok((!self.written).then(|| Box::new(wrong)))
    }
    fn repeatable(&self) -> bool {
        true
    }
    fn now_ms(&mut self) -> f64 {
        self.now_ms
    }
    fn pause(&mut self, time: Duration) {
        self.now_ms += time.as_secs_f64() * 1e3;
    }
}

fn run(bench: &mut Scripted, mode: TimingMode, policy: SamplePolicy) -> Outcome {
    measure(bench, "p", mode, &policy, 5).unwrap()
}

#[test]
fn hot_samples_span_200_microseconds_and_cold_ones_are_single() {
    let check = |mode, call_ns, batch| assert_eq!(batch_size(mode, call_ns), batch);
    check(TimingMode::Hot, 1_000.0, 200);
    check(TimingMode::Hot, 970.0, 207);
    check(TimingMode::Hot, 5e6, 1);
    check(TimingMode::Cold, 1_000.0, 1);
}

#[test]
fn a_contender_is_warmed_checked_and_summarized() {
    let mut bench = scripted(|call| if call < 1_500 { 20_000.0 } else { 10_000.0 });
    let outcome = run(&mut bench, TimingMode::Hot, policy::contender());
    let measurement = outcome.measurement.unwrap();
    assert_eq!(measurement.p50_ns, 10_000.0);
    assert_eq!(measurement.stop, "interval");
    assert_eq!((measurement.batch, measurement.dropped), (20, 0));
    assert_eq!(measurement.raw_ns.len(), measurement.samples as usize);
    let honesty = outcome.honesty.unwrap();
    assert_eq!(honesty.state, GateState::Pass);
    assert!(honesty.cases >= 1);
}

#[test]
fn a_screening_costs_four_calls() {
    let mut bench = scripted(|_| 2e6);
    let outcome = run(&mut bench, TimingMode::Hot, policy::screen(Some(3e6)));
    assert_eq!(outcome.measurement.unwrap().stop, "screen");
    assert_eq!(bench.calls, 4);
}

#[test]
fn a_hopeless_variant_costs_two_calls_and_keeps_its_time() {
    let mut bench = scripted(|_| 900e6);
    let outcome = run(&mut bench, TimingMode::Cold, policy::screen(Some(1e6)));
    let measurement = outcome.measurement.unwrap();
    assert_eq!((measurement.stop.as_str(), measurement.min_ns), ("abandoned", 900e6));
    assert_eq!(bench.calls, 2);
}

#[test]
fn a_kernel_that_stops_working_under_timing_is_caught() {
    let mut bench = scripted(|_| 1_000.0);
    bench.works_until_call = 300;
    let outcome = run(&mut bench, TimingMode::Hot, policy::contender());
    assert_eq!(outcome.verdict.unwrap().kind, VerdictKind::TimingEscape);
    assert_eq!(outcome.honesty.unwrap().state, GateState::Fail);
    assert!(outcome.measurement.is_none());
}

#[test]
fn throttled_chunks_are_dropped_and_then_noisy() {
    let mut bench = scripted(|_| 1e6);
    bench.throttled_until_ms = 120.0;
    let outcome = run(&mut bench, TimingMode::Cold, policy::contender());
    assert!(outcome.verdict.is_none());
    assert!(outcome.measurement.unwrap().dropped > 0);
    let mut bench = scripted(|_| 1e6);
    bench.throttled_until_ms = f64::INFINITY;
    let outcome = run(&mut bench, TimingMode::Cold, policy::contender());
    assert_eq!(outcome.verdict.unwrap().label(), "noisy:throttled");
    assert!(outcome.measurement.is_none());
}

#[test]
fn a_power_cap_is_kept_and_heat_is_not() {
    let check = |reason, expected| assert_eq!(drops(reason), expected, "{reason}");
    check("sw_power_cap", false);
    check("HW_SLOWDOWN", true);
    check("sw thermal slowdown", true);
    check("hw_power_brake", true);
    check("gpu_idle", false);
}
