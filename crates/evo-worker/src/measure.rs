//! One measurement, as a script of named steps.
//!
//! Between randomly chosen chunks the outputs of the calls just timed are checked: a kernel that stops working once
//! it is being timed shows there.

use std::time::Duration;

use evo_protocol::device::{DeviceError, Telemetry};
use evo_protocol::measurement::{Measurement, StopRule, TimingMode};
use evo_protocol::verdict::{Cause, Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{MeasureAnswer, SamplePolicy};
use evo_timing::policy::decide;
use evo_timing::stats::{self, Interval, below, median, quantile, sorted};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::judge::{Asked, Failure};

pub trait SampleSource {
    /// Takes samples, nanoseconds per call; in hot mode each is the mean over `batch` calls.
    fn sample(&mut self, mode: TimingMode, samples: u32, batch: u32) -> Result<Vec<f64>, DeviceError>;
    fn telemetry(&mut self) -> Telemetry;
    /// Calls that a sample really takes where `wanted` would be enough for the clock.
    fn batch(&self, mode: TimingMode, wanted: u32) -> u32;
    /// Checks the outputs of calls that were just sampled so. May take one more sample of the same kind.
    fn check_outputs(&mut self, mode: TimingMode, batch: u32) -> Asked;
    fn compare_fresh(&mut self, seed: u64) -> Asked;
    fn now_ms(&mut self) -> f64;
    fn pause(&mut self, time: Duration);
}

/// A hot sample spans at least this long, so that event resolution (about 0.5 µs) is negligible.
const BATCH_SPAN_NS: f64 = 200_000.0;
const BATCH_MAX: f64 = 10_000.0;
/// Samples are taken in chunks of about this long; clocks are judged once a chunk.
const CHUNK_NS: f64 = 20e6;
const CHUNK_SAMPLES: f64 = 32.0;
/// Samples that a race takes at once after its first few.
const RACE_STEP: u32 = 5;
/// How often a throttled chunk is repeated before the measurement is called noisy.
const THROTTLE_REPEATS: u32 = 3;
/// Two successive windows of the warm-up must agree to within this share.
const STEADY: f64 = 0.005;
/// The pause after a throttled chunk; it doubles each time.
const BACK_OFF: Duration = Duration::from_millis(50);

/// `seed` decides which moments are checked and must be secret to the candidate.
pub fn measure(
    bench: &mut dyn SampleSource,
    problem: &str,
    mode: TimingMode,
    policy: &SamplePolicy,
    seed: u64,
) -> Result<MeasureAnswer, DeviceError> {
    // The first call pays for lazy loading and cold instruction caches: it only sizes the batch.
    let first_ns = bench.sample(mode, 1, 1)?.first().copied().unwrap_or(0.0);
    let batch = bench.batch(mode, batch_size(mode, first_ns));
    let mut run = Run::new((problem, mode, policy), batch, seed);
    if policy.screen {
        return run.screen(bench, first_ns);
    }
    let steady_ns = run.warm_up(bench, first_ns)?;
    // Sized again: the first call includes lazy loading, which makes the batch too small.
    run.batch = bench.batch(mode, batch_size(mode, steady_ns));
    match run.take(bench, steady_ns) {
        Ok(stop) => Ok(run.summarize(bench, stop)),
        Err(Failure::Kernel(verdict)) => Ok(run.refused(*verdict)),
        Err(Failure::Machine(error)) => Err(error),
    }
}

pub fn batch_size(mode: TimingMode, call_ns: f64) -> u32 {
    match mode {
        TimingMode::Hot => (BATCH_SPAN_NS / call_ns.max(1.0)).ceil().clamp(1.0, BATCH_MAX) as u32,
        TimingMode::Cold | TimingMode::Eager => 1,
    }
}

/// As many of the wanted samples as fit the parent's patience with one step: a second, or one sample.
pub fn affordable(want: u32, span_ns: f64) -> u32 {
    ((1e9 / span_ns.max(1.0)) as u32).clamp(1, want.max(1))
}

fn chunk_size(span_ns: f64) -> u32 {
    (CHUNK_NS / span_ns.max(1.0)).clamp(1.0, CHUNK_SAMPLES) as u32
}

struct Run<'a> {
    problem: &'a str,
    mode: TimingMode,
    policy: &'a SamplePolicy,
    batch: u32,
    samples: Vec<f64>,
    dropped: u32,
    checks: u32,
    until_check: usize,
    throttled: u32,
    spent_ms: f64,
    /// Set where too many chunks in a row were throttled.
    noisy: Option<Box<Verdict>>,
    random: ChaCha8Rng,
    seed: u64,
}

impl<'a> Run<'a> {
    fn new(
        (problem, mode, policy): (&'a str, TimingMode, &'a SamplePolicy),
        batch: u32,
        seed: u64,
    ) -> Run<'a> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let until_check = below(&mut random, 3);
        let (dropped, checks, throttled, spent_ms, samples, noisy) = (0, 0, 0, 0.0, Vec::new(), None);
        Run {
            problem,
            mode,
            policy,
            batch,
            samples,
            dropped,
            checks,
            until_check,
            throttled,
            spent_ms,
            noisy,
            random,
            seed,
        }
    }

    fn screen(mut self, bench: &mut dyn SampleSource, first_ns: f64) -> Result<MeasureAnswer, DeviceError> {
        let began = bench.now_ms();
        // A first call this far behind needs one more sample to confirm it, not three.
        let hopeless = self.policy.abandon_above_ns.is_some_and(|above| first_ns > 2.0 * above);
        if hopeless {
            self.samples.push(first_ns);
        }
        let mut want = if hopeless { 1 } else { self.policy.samples_min.max(1) };
        loop {
            let span_ns = self.samples.last().copied().unwrap_or(first_ns) * f64::from(self.batch);
            self.samples.extend(bench.sample(self.mode, affordable(want, span_ns), self.batch)?);
            let elapsed = bench.now_ms() - began;
            if let Some(stop) = decide(&self.samples, elapsed, self.policy) {
                let measurement = self.measurement(stop, stats::order_interval(&sorted(&self.samples)));
                return Ok(MeasureAnswer {
                    measurement: Some(Box::new(measurement)),
                    ..MeasureAnswer::default()
                });
            }
            want = if self.policy.race.is_some() { RACE_STEP } else { 2 };
        }
    }

    /// Calls until the asked time has passed and two windows agree, or twice as long. Gives the last window's median.
    fn warm_up(&self, bench: &mut dyn SampleSource, call_ns: f64) -> Result<f64, DeviceError> {
        let began = bench.now_ms();
        let mut before = f64::NAN;
        let mut window = affordable(2, call_ns * f64::from(self.batch));
        loop {
            let now = median(&bench.sample(self.mode, window, self.batch)?);
            let elapsed = bench.now_ms() - began;
            let (steady, asked_ms) = ((now / before - 1.0).abs() < STEADY, self.policy.warmup_ms);
            if elapsed >= 2.0 * asked_ms || (elapsed >= asked_ms && steady) {
                return Ok(now);
            }
            before = now;
            let span_ns = now * f64::from(self.batch);
            window = affordable(chunk_size(span_ns).max(2), span_ns);
        }
    }

    fn take(&mut self, bench: &mut dyn SampleSource, call_ns: f64) -> Result<StopRule, Failure> {
        let chunk = chunk_size(call_ns * f64::from(self.batch));
        loop {
            // Before a chunk, so that even the first timed samples may follow a check.
            self.check_if_due(bench)?;
            self.chunk(bench, chunk)?;
            if self.noisy.is_some() {
                return Ok(StopRule::Limit);
            }
            if let Some(stop) = decide(&self.samples, self.spent_ms, self.policy) {
                // Always once at the end: a kernel that stops working late must not keep its time.
                self.check_outputs(bench)?;
                // Once for each problem: what a kernel remembers does not depend on the cache.
                if self.mode == TimingMode::Hot {
                    bench.compare_fresh(self.seed)?;
                }
                return Ok(stop);
            }
        }
    }

    /// Keeps the chunk unless the device slowed itself down meanwhile.
    fn chunk(&mut self, bench: &mut dyn SampleSource, chunk: u32) -> Result<(), DeviceError> {
        let began = bench.now_ms();
        let samples = bench.sample(self.mode, chunk, self.batch)?;
        self.spent_ms += bench.now_ms() - began;
        let telemetry = bench.telemetry();
        let Some(reason) = telemetry.throttle_reasons.iter().find(|reason| drops(reason)) else {
            self.throttled = 0;
            self.samples.extend(samples);
            return Ok(());
        };
        self.dropped += samples.len() as u32;
        self.throttled += 1;
        if self.throttled > THROTTLE_REPEATS {
            let message =
                format!("the device throttled itself (`{reason}`) in {} chunks in a row", self.throttled);
            let verdict = Verdict::new(VerdictKind::Noisy, message).with_cause("throttled");
            self.noisy = Some(Box::new(verdict.with("dropped", self.dropped)));
            return Ok(());
        }
        bench.pause(BACK_OFF * 2u32.pow(self.throttled - 1));
        Ok(())
    }

    fn check_if_due(&mut self, bench: &mut dyn SampleSource) -> Asked {
        if self.until_check > 0 {
            self.until_check -= 1;
            return Ok(());
        }
        // Rarer as sampling goes on: about log2 of the chunks are followed by a check.
        self.until_check = 1 + below(&mut self.random, 2 << self.checks.min(8));
        self.check_outputs(bench)
    }

    fn check_outputs(&mut self, bench: &mut dyn SampleSource) -> Asked {
        self.checks += 1;
        bench.check_outputs(self.mode, self.batch)
    }

    fn refused(&self, verdict: Verdict) -> MeasureAnswer {
        let message = format!("outputs of a timed iteration are wrong: {}", verdict.message);
        let honesty = self.honesty(GateState::Fail, &message);
        let verdict = timed_verdict(verdict, self.samples.len());
        MeasureAnswer { honesty: Some(honesty), verdict: Some(Box::new(verdict)), ..MeasureAnswer::default() }
    }

    fn honesty(&self, state: GateState, message: &str) -> GateReport {
        GateReport { state, cases: self.checks, ..GateReport::not_run(Gate::Honesty, message) }
    }

    fn summarize(&self, bench: &mut dyn SampleSource, stop: StopRule) -> MeasureAnswer {
        // 10,000 resamples where the series is short. A contender's measurement (short warm-up) may spend a
        // tenth of a deep one's work on them, because the device waits meanwhile.
        let budget = if self.policy.warmup_ms < 100.0 { 400_000 } else { 4_000_000 };
        let resamples = (budget / self.samples.len().max(1)).clamp(200, 10_000);
        // Blocks of 10 neighbors, because neighboring samples correlate.
        let interval = stats::bootstrap_interval(&self.samples, resamples, 10, self.seed);
        let measurement = Measurement {
            telemetry: bench.telemetry(),
            raw_ns: self.samples.clone(),
            ..self.measurement(stop, interval)
        };
        let honesty = self.honesty(GateState::Pass, "outputs of timed iterations are right");
        let measurement = (!self.samples.is_empty()).then(|| Box::new(measurement));
        let verdict = self.noisy.clone();
        MeasureAnswer { measurement, honesty: Some(honesty), verdict, sticky: false }
    }

    fn measurement(&self, stop: StopRule, interval: Interval) -> Measurement {
        let ascending = sorted(&self.samples);
        Measurement {
            problem: self.problem.to_string(),
            mode: self.mode,
            samples: ascending.len() as u32,
            batch: self.batch,
            p10_ns: quantile(&ascending, 0.1),
            p50_ns: quantile(&ascending, 0.5),
            p90_ns: quantile(&ascending, 0.9),
            min_ns: quantile(&ascending, 0.0),
            mad_ns: stats::mad(&ascending),
            ci_low_ns: interval.low,
            ci_high_ns: interval.high,
            outliers: stats::outliers(&ascending),
            dropped: self.dropped,
            stop,
            telemetry: Telemetry::default(),
            raw_ns: Vec::new(),
        }
    }
}

/// Whether samples under this throttle reason are dropped. A power cap is normal under load and affects
/// all rivals alike; a slowdown by heat or by the board does not. Names vary in case and separators.
fn drops(reason: &str) -> bool {
    let plain: String = reason.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    ["hwslowdown", "thermal", "brake"].iter().any(|word| plain.contains(word))
}

/// An output that was right outside timing and is never written inside it is a timing escape. Any other
/// wrong output is wrong at the timed shape.
fn timed_verdict(verdict: Verdict, samples: usize) -> Verdict {
    let escaped = verdict.kind == VerdictKind::WrongAnswer && verdict.has_cause(Cause::Unwritten);
    let found = verdict.label();
    let timed = if escaped {
        Verdict { kind: VerdictKind::TimingEscape, cause: None, ..verdict }
    } else if verdict.kind == VerdictKind::WrongAnswer {
        verdict.with_cause(Cause::TimedShape)
    } else {
        verdict
    };
    timed.with("found", found).with("after_samples", samples)
}

/// So many cold samples are worth a block that is longer than asked for: a hot block on a GPU has as many.
const COLD_SAMPLES: f64 = 25.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    samples: u32,
    pub batch: u32,
}

impl BlockSize {
    pub fn find(
        bench: &mut dyn SampleSource,
        mode: TimingMode,
        block_ms: f64,
    ) -> Result<BlockSize, DeviceError> {
        let first_ns = median(&bench.sample(mode, 1, 1)?);
        let calls = affordable(3, first_ns);
        let began = bench.now_ms();
        let call_ns = median(&bench.sample(mode, calls, 1)?);
        let whole_ms = (bench.now_ms() - began) / f64::from(calls);
        let batch = bench.batch(mode, batch_size(mode, call_ns));
        let sample_ms = call_ns * f64::from(batch) / 1e6;
        let fitting = |sample_ms: f64| block_ms / sample_ms.max(1e-3);
        let samples = match mode {
            // Before a cold sample everything else is pushed out of the caches, which is not timed and may take a
            // thousand times as long as a small kernel: 50 ms for a cache of 480 MiB.
            TimingMode::Cold => fitting(sample_ms).min(fitting(whole_ms).max(COLD_SAMPLES)),
            TimingMode::Hot | TimingMode::Eager => fitting(sample_ms),
        };
        Ok(BlockSize { samples: samples.clamp(1.0, 200.0) as u32, batch })
    }

    /// Nanoseconds a call. One sample before is not counted: the rival has just left its data in the caches.
    pub fn samples(self, bench: &mut dyn SampleSource, mode: TimingMode) -> Result<Vec<f64>, DeviceError> {
        bench.sample(mode, 1, self.batch)?;
        bench.sample(mode, self.samples, self.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evo_timing::policy;

    struct Scripted {
        call_ns: Box<dyn FnMut(u32) -> f64>,
        calls: u32,
        now_ms: f64,
        /// What goes before each cold sample and is not timed.
        flush_ms: f64,
        throttled_until_ms: f64,
        works_until_call: u32,
        written: bool,
        remembers: bool,
        sampled: Vec<(TimingMode, u32, u32)>,
    }

    fn scripted(call_ns: impl FnMut(u32) -> f64 + 'static) -> Scripted {
        Scripted {
            call_ns: Box::new(call_ns),
            calls: 0,
            now_ms: 0.0,
            flush_ms: 0.0,
            throttled_until_ms: 0.0,
            works_until_call: u32::MAX,
            written: true,
            remembers: false,
            sampled: Vec::new(),
        }
    }

    impl SampleSource for Scripted {
        fn sample(&mut self, mode: TimingMode, samples: u32, batch: u32) -> Result<Vec<f64>, DeviceError> {
            self.sampled.push((mode, samples, batch));
            let mut one = || {
                self.calls += batch;
                self.written |= self.calls <= self.works_until_call;
                let time = (self.call_ns)(self.calls);
                self.now_ms += time * f64::from(batch) / 1e6;
                self.now_ms += if mode == TimingMode::Cold { self.flush_ms } else { 0.0 };
                time
            };
            Ok((0..samples).map(|_| one()).collect())
        }
        fn telemetry(&mut self) -> Telemetry {
            let hot = self.now_ms < self.throttled_until_ms;
            let reason = if hot { "SW_THERMAL_SLOWDOWN" } else { "SW_POWER_CAP" };
            Telemetry { throttle_reasons: vec![reason.into()], ..Telemetry::default() }
        }
        fn batch(&self, _mode: TimingMode, wanted: u32) -> u32 {
            wanted
        }
        fn check_outputs(&mut self, mode: TimingMode, batch: u32) -> Asked {
            self.written = false;
            self.sample(mode, 1, batch)?;
            let wrong = Verdict::new(VerdictKind::WrongAnswer, "poison is left").with_cause(Cause::Unwritten);
            if self.written { Ok(()) } else { Err(wrong.into()) }
        }
        fn compare_fresh(&mut self, _seed: u64) -> Asked {
            let slow = Verdict::new(VerdictKind::TimingEscape, "remembers").with_cause("cached_result");
            if self.remembers { Err(slow.into()) } else { Ok(()) }
        }
        fn now_ms(&mut self) -> f64 {
            self.now_ms
        }
        fn pause(&mut self, time: Duration) {
            self.now_ms += time.as_secs_f64() * 1e3;
        }
    }

    fn run(bench: &mut Scripted, mode: TimingMode, policy: SamplePolicy) -> MeasureAnswer {
        measure(bench, "p", mode, &policy, 5).unwrap()
    }

    #[test]
    fn cold_blocks_are_sized_by_all_that_a_sample_takes() {
        let samples = |mode: TimingMode, call_ns: f64, flush_ms: f64| {
            let mut bench = Scripted { flush_ms, ..scripted(move |_| call_ns) };
            let size = BlockSize::find(&mut bench, mode, 20.0).unwrap();
            size.samples(&mut bench, mode).unwrap().len()
        };
        assert_eq!(samples(TimingMode::Cold, 10_000.0, 0.0), 200);
        assert_eq!(samples(TimingMode::Cold, 10_000.0, 0.24), 80);
        // Too few would say nothing.
        assert_eq!(samples(TimingMode::Cold, 10_000.0, 50.0), 25);
        // What is timed alone fills the block.
        assert_eq!(samples(TimingMode::Cold, 5e6, 50.0), 4);
        assert_eq!(samples(TimingMode::Eager, 10_000.0, 50.0), 200);
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
        let mut bench = scripted(|call| if call < 300 { 20_000.0 } else { 10_000.0 });
        let outcome = run(&mut bench, TimingMode::Hot, policy::contender());
        let measurement = outcome.measurement.unwrap();
        assert_eq!(measurement.p50_ns, 10_000.0);
        assert_eq!(measurement.stop, StopRule::Interval);
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
        assert_eq!(outcome.measurement.unwrap().stop, StopRule::Screen);
        assert_eq!(bench.calls, 4);
    }

    #[test]
    fn a_hopeless_variant_costs_two_calls_and_keeps_its_time() {
        let mut bench = scripted(|_| 900e6);
        let outcome = run(&mut bench, TimingMode::Cold, policy::screen(Some(1e6)));
        let measurement = outcome.measurement.unwrap();
        assert_eq!((measurement.stop, measurement.min_ns), (StopRule::Abandoned, 900e6));
        assert_eq!(bench.calls, 2);
    }

    #[test]
    fn kernels_that_stop_working_or_remember_are_refused_and_have_no_time() {
        let stops = Scripted { works_until_call: 300, ..scripted(|_| 1_000.0) };
        let remembers = Scripted { remembers: true, ..scripted(|_| 1_000.0) };
        for (mut bench, label) in [(stops, "timing_escape"), (remembers, "timing_escape:cached_result")] {
            let outcome = run(&mut bench, TimingMode::Hot, policy::contender());
            assert_eq!(outcome.verdict.unwrap().label(), label);
            assert_eq!(outcome.honesty.unwrap().state, GateState::Fail);
            assert!(outcome.measurement.is_none());
        }
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
}
