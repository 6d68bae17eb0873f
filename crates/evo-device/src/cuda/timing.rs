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

use super::context::CudaDevice;
use super::driver::{self, TimingEvent, check};
use crate::device::{BoundLaunch, ModuleId, SampleOrder};

/// Samples queued before a wait; bounds the depth of the stream.
const QUEUE: u32 = 32;

pub fn sample(
    device: &mut CudaDevice,
    module: ModuleId,
    order: SampleOrder<'_>,
) -> Result<Vec<f64>, DeviceError> {
    match order.mode {
        TimingMode::Hot if order.batch > 1 => replayed(device, module, order),
        TimingMode::Hot => {
            let enqueue = |device: &mut CudaDevice, number| device.enqueue(module, turn(&order, number));
            between_marks(device, order.samples, false, enqueue)
        }
        TimingMode::Cold => flushed(device, module, order),
        TimingMode::Eager => eager(device, module, order),
    }
}

fn turn<'a>(order: &SampleOrder<'a>, call: usize) -> &'a [BoundLaunch] {
    &order.rotation[call % order.rotation.len()]
}

fn events(count: u32) -> Result<Vec<TimingEvent>, DeviceError> {
    (0..count).map(|_| TimingEvent::new()).collect()
}

fn replayed(
    device: &mut CudaDevice,
    module: ModuleId,
    order: SampleOrder<'_>,
) -> Result<Vec<f64>, DeviceError> {
    let graph = Graph::capture(device, module, &order)?;
    // One replay before the first mark: the marks then fall between replays that are queued.
    let times =
        between_marks(device, order.samples, !order.untouched, |device, _| graph.launch(device.stream))?;
    Ok(times.into_iter().map(|time| time / f64::from(order.batch)).collect())
}

/// What is enqueued with each sample's number, between a row of events; once before the first event if there is a
/// `lead`.
fn between_marks(
    device: &mut CudaDevice,
    samples: u32,
    lead: bool,
    enqueue: impl Fn(&mut CudaDevice, usize) -> Result<(), DeviceError>,
) -> Result<Vec<f64>, DeviceError> {
    // Events are made once and recorded again: making them between launches would leave the stream idle.
    let marks = events(samples.min(QUEUE) + 1)?;
    let mut times = Vec::with_capacity(samples as usize);
    while (times.len() as u32) < samples {
        let now = (samples - times.len() as u32).min(QUEUE) as usize;
        if lead {
            enqueue(device, times.len())?;
        }
        marks[0].record(device.stream)?;
        for (index, mark) in marks[1..=now].iter().enumerate() {
            enqueue(device, times.len() + index)?;
            mark.record(device.stream)?;
        }
        driver::synchronize(device.stream)?;
        for pair in marks[..=now].windows(2) {
            times.push(pair[1].since(&pair[0])?);
        }
    }
    Ok(times)
}

fn flushed(
    device: &mut CudaDevice,
    module: ModuleId,
    order: SampleOrder<'_>,
) -> Result<Vec<f64>, DeviceError> {
    let samples = order.samples;
    let flush = device.flush.expect("the caller made the flush buffer");
    // Two events for each call, since the flush between two calls must not be timed.
    let (starts, ends) = (events(samples.min(QUEUE))?, events(samples.min(QUEUE))?);
    let mut times = Vec::with_capacity(samples as usize);
    while (times.len() as u32) < samples {
        // Lines that a launch keeps survive the flush. They are reset by the host, so one call is queued at a time.
        let most = if device.persistence.is_open { 1 } else { QUEUE };
        device.persistence.forget()?;
        let now = (samples - times.len() as u32).min(most) as usize;
        for index in 0..now {
            device.memory.fill(flush, 0x3f80_0000 + index as u32)?;
            starts[index].record(device.stream)?;
            device.enqueue(module, turn(&order, times.len() + index))?;
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
fn eager(device: &mut CudaDevice, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
    let samples = order.samples;
    let mut times = Vec::with_capacity(samples as usize);
    for call in 0..samples as usize {
        driver::synchronize(device.stream)?;
        // The stream is idle here, so the call is not charged for earlier work.
        let start = Instant::now();
        device.enqueue(module, turn(&order, call))?;
        driver::synchronize(device.stream)?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(times)
}

struct Graph(sys::CUgraphExec);

impl Graph {
    fn capture(
        device: &mut CudaDevice,
        module: ModuleId,
        order: &SampleOrder<'_>,
    ) -> Result<Graph, DeviceError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let (mut graph, mut instance) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: capture is begun and ended on the same stream and thread, also when a launch fails;
        // the graph is destroyed after it was instantiated.
        unsafe {
            check(sys::cuStreamBeginCapture_v2(device.stream, mode), "cannot begin a capture")?;
            // The whole batch is one graph, so that a sample takes a single call of the driver.
            let launched =
                (0..order.batch as usize).try_for_each(|call| device.enqueue(module, turn(order, call)));
            let ended = sys::cuStreamEndCapture(device.stream, &mut graph);
            // Before the result of the capture, because the launch's own error says more.
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
