//! Samples of one call, by events on the device or by the host's clock.
//!
//! Hot samples come from graph replays of a batch, so that launch overhead stays out; a batch of one
//! (kernels of a millisecond) is timed by a row of events without a graph. Cold samples flush the L2
//! cache before each call: the flush itself keeps the stream busy while event, kernel and event are
//! queued behind it, so no launch latency falls between them.

use std::ptr;
use std::time::Instant;

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;
use evo_protocol::measurement::TimingMode;

use super::CudaDevice;
use super::driver::{self, Event, check};
use crate::device::{BoundLaunch, Device, ModuleId};

/// Samples queued before a wait; bounds the depth of the stream.
const QUEUE: u32 = 32;

/// How many samples of what.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub mode: TimingMode,
    pub samples: u32,
    pub batch: u32,
}

/// Takes samples, nanoseconds per call.
pub fn sample(
    device: &mut CudaDevice,
    module: ModuleId,
    launches: &[BoundLaunch],
    plan: Plan,
) -> Result<Vec<f64>, DeviceError> {
    match plan.mode {
        TimingMode::Hot if plan.batch > 1 => replayed(device, module, launches, plan),
        TimingMode::Hot => in_a_row(device, module, launches, plan.samples),
        TimingMode::Cold => flushed(device, module, launches, plan.samples),
        TimingMode::Eager => eager(device, module, launches, plan.samples),
    }
}

fn events(count: u32) -> Result<Vec<Event>, DeviceError> {
    (0..count).map(|_| Event::new()).collect()
}

/// Calls back to back with an event between each two.
fn in_a_row(
    device: &mut CudaDevice,
    module: ModuleId,
    launches: &[BoundLaunch],
    samples: u32,
) -> Result<Vec<f64>, DeviceError> {
    let marks = events(samples.min(QUEUE) + 1)?;
    let mut times = Vec::with_capacity(samples as usize);
    while (times.len() as u32) < samples {
        let now = (samples - times.len() as u32).min(QUEUE) as usize;
        marks[0].record(device.stream)?;
        for mark in &marks[1..=now] {
            device.launch(module, launches)?;
            mark.record(device.stream)?;
        }
        driver::synchronize(device.stream)?;
        for pair in marks[..=now].windows(2) {
            times.push(pair[1].since(&pair[0])?);
        }
    }
    Ok(times)
}

/// Replays of a graph of `batch` calls.
fn replayed(
    device: &mut CudaDevice,
    module: ModuleId,
    launches: &[BoundLaunch],
    plan: Plan,
) -> Result<Vec<f64>, DeviceError> {
    let graph = Graph::capture(device, module, launches, plan.batch)?;
    let marks = events(plan.samples.min(QUEUE) + 1)?;
    let mut times = Vec::with_capacity(plan.samples as usize);
    while (times.len() as u32) < plan.samples {
        let now = (plan.samples - times.len() as u32).min(QUEUE) as usize;
        // One replay before the first mark: the marks then fall between replays that are queued.
        graph.launch(device.stream)?;
        marks[0].record(device.stream)?;
        for mark in &marks[1..=now] {
            graph.launch(device.stream)?;
            mark.record(device.stream)?;
        }
        driver::synchronize(device.stream)?;
        for pair in marks[..=now].windows(2) {
            times.push(pair[1].since(&pair[0])? / f64::from(plan.batch));
        }
    }
    Ok(times)
}

/// Single calls, each after a flush of the L2 cache.
fn flushed(
    device: &mut CudaDevice,
    module: ModuleId,
    launches: &[BoundLaunch],
    samples: u32,
) -> Result<Vec<f64>, DeviceError> {
    let flush = device.flush.expect("the caller made the flush buffer");
    let (starts, ends) = (events(samples.min(QUEUE))?, events(samples.min(QUEUE))?);
    let mut times = Vec::with_capacity(samples as usize);
    while (times.len() as u32) < samples {
        let now = (samples - times.len() as u32).min(QUEUE) as usize;
        for index in 0..now {
            device.fill(flush, 0x3f80_0000 + index as u32)?;
            starts[index].record(device.stream)?;
            device.launch(module, launches)?;
            ends[index].record(device.stream)?;
        }
        driver::synchronize(device.stream)?;
        for index in 0..now {
            times.push(ends[index].since(&starts[index])?);
        }
    }
    Ok(times)
}

/// What a caller sees: launch to end of synchronization on the host's clock.
fn eager(
    device: &mut CudaDevice,
    module: ModuleId,
    launches: &[BoundLaunch],
    samples: u32,
) -> Result<Vec<f64>, DeviceError> {
    let mut times = Vec::with_capacity(samples as usize);
    for _ in 0..samples {
        driver::synchronize(device.stream)?;
        let start = Instant::now();
        device.launch(module, launches)?;
        driver::synchronize(device.stream)?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(times)
}

/// An instantiated graph of several calls.
struct Graph(sys::CUgraphExec);

impl Graph {
    fn capture(
        device: &mut CudaDevice,
        module: ModuleId,
        launches: &[BoundLaunch],
        batch: u32,
    ) -> Result<Graph, DeviceError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let (mut graph, mut instance) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: capture is begun and ended on the same stream and thread, also when a launch fails;
        // the graph is destroyed after it was instantiated.
        unsafe {
            check(sys::cuStreamBeginCapture_v2(device.stream, mode), "cannot begin a capture")?;
            let launched = (0..batch).try_for_each(|_| device.launch(module, launches));
            let ended = sys::cuStreamEndCapture(device.stream, &mut graph);
            launched?;
            check(ended, "cannot end a capture")?;
            let made = sys::cuGraphInstantiateWithFlags(&mut instance, graph, 0);
            sys::cuGraphDestroy(graph);
            check(made, "cannot instantiate a graph")?;
        }
        Ok(Graph(instance))
    }

    fn launch(&self, stream: sys::CUstream) -> Result<(), DeviceError> {
        // SAFETY: graph and stream are alive and of the current context.
        unsafe { check(sys::cuGraphLaunch(self.0, stream), "cannot replay a graph") }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the graph is idle, since every replay was synchronized, and destroyed once.
        unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}
