//! The test stand: a candidate bound to one problem, as the timing script sees it.

use std::time::{Duration, Instant};

use evo_protocol::device::{DeviceError, Telemetry};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::Verdict;
use evo_protocol::worker::Phase;

use super::judge::{Judge, TimedProblem};
use super::measure::{SampleSource, affordable, batch_size};
use super::wire::{ReportPhase, Wire};
use evo_timing::stats::median;

pub struct Stand<'a> {
    judge: &'a mut Judge,
    timed: &'a TimedProblem,
    plan: &'a ProblemPlan,
    wire: &'a mut Wire,
    began: Instant,
}

impl<'a> Stand<'a> {
    pub fn new(
        judge: &'a mut Judge,
        timed: &'a TimedProblem,
        plan: &'a ProblemPlan,
        wire: &'a mut Wire,
    ) -> Stand<'a> {
        Stand { judge, timed, plan, wire, began: Instant::now() }
    }
}

impl SampleSource for Stand<'_> {
    fn sample(&mut self, mode: TimingMode, samples: u32, batch: u32) -> Result<Vec<f64>, DeviceError> {
        // Each chunk restarts the parent's deadline, so a hang while sampling is found within one chunk's
        // limit.
        self.wire.phase(Phase::Timing, &format!("`{}` {}", self.plan.name, mode.as_str()));
        self.judge.sample(self.timed, mode, samples, batch)
    }

    fn telemetry(&mut self) -> Telemetry {
        self.judge.device().telemetry()
    }

    fn batch(&self, mode: TimingMode, wanted: u32) -> u32 {
        self.timed.batch(mode, wanted)
    }

    fn check_outputs(&mut self, mode: TimingMode, batch: u32) -> Result<Option<Box<Verdict>>, DeviceError> {
        self.wire.phase(Phase::Checking, &self.plan.name);
        self.judge.check_sampled(self.timed, mode, batch)
    }

    fn compare_fresh(&mut self, seed: u64) -> Result<Option<Box<Verdict>>, DeviceError> {
        let wire = &mut *self.wire;
        self.judge.compare_fresh(self.timed, seed, &mut |phase, detail| wire.phase(phase, detail))
    }

    fn now_ms(&mut self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1e3
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// So many cold samples are worth a block that is longer than asked for: a hot block on a GPU has as many.
const COLD_SAMPLES: f64 = 25.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    samples: u32,
    batch: u32,
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

    pub fn batch(self) -> u32 {
        self.batch
    }
}
