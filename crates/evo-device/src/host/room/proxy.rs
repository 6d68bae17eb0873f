//! `RoomDevice`: the host device as a worker has it. Buffers, comparisons and clocks are here; kernels run elsewhere.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use evo_protocol::device::{DeviceError, DeviceInfo};
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;
use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Rlimit};

use super::clock::{ClockCheck, ProcessorTimes, RequestTime};
use super::ending::{self, Asked};
use super::fork_server::{ForkServer, RoomOptions};
use super::order::{MappedBuffer, RoomAnswer, RoomOrder, RoomReply, RoomRequest};
use super::wire::{DESCRIPTORS_MAX, RoomMessage, RoomSocket};
use crate::device::{
    BufferId, Executor, ModuleAnswer, ModuleId, ModuleRequest, RunConditions, SampleOrder, no_module, trouble,
};
use crate::host::fault::FaultRecord;
use crate::host::flush::CacheFlush;
use crate::host::mapping::memory_file;
use crate::host::store::{BufferStore, Stored};
use crate::host::{initializers, machine};

/// How long an executor that has closed its socket may take to end.
const GRACE: Duration = Duration::from_millis(500);

/// Descriptors that a worker may want: two for each buffer that kernels get.
const DESCRIPTORS: u64 = 16_384;

pub struct RoomDevice {
    info: DeviceInfo,
    server: ForkServer,
    modules: HashMap<ModuleId, RoomModule>,
    store: BufferStore,
    flush: CacheFlush,
}

#[derive(Debug)]
struct RoomModule {
    binary: Box<[u8]>,
    entries: Vec<String>,
    data_bytes: u64,
    /// None while it is parked.
    process: Option<ModuleProcess>,
}

#[derive(Debug)]
struct ModuleProcess {
    socket: RoomSocket,
    pid: i32,
    echo: Option<String>,
    /// Buffers that it has mapped, and whether to read only.
    mapped: HashMap<BufferId, bool>,
    number: u64,
    clock: ClockCheck,
    times: ProcessorTimes,
}

impl RoomDevice {
    pub fn open(options: RoomOptions) -> Result<RoomDevice, DeviceError> {
        allow_descriptors();
        let server = ForkServer::start(&options)
            .map_err(|error| trouble(format!("the host device does not open: {error}")))?;
        Ok(RoomDevice {
            info: machine::describe(),
            server,
            modules: HashMap::new(),
            store: BufferStore::apart(),
            flush: CacheFlush::default(),
        })
    }

    /// The process of a module, started again if it was parked, and what is needed to ask it.
    fn running(
        &mut self,
        module: ModuleId,
    ) -> Result<(&mut ModuleProcess, &ForkServer, &mut BufferStore), DeviceError> {
        let RoomDevice { modules, store, server, .. } = self;
        let module = modules.get_mut(&module).ok_or_else(|| no_module(module))?;
        let process = match module.process.take() {
            Some(process) => process,
            None => ModuleProcess::spawn(server, store, &module.binary, &module.entries)?,
        };
        Ok((module.process.insert(process), server, store))
    }

    fn ask(&mut self, module: ModuleId, order: RoomOrder) -> Result<RoomAnswer, DeviceError> {
        let (process, server, store) = self.running(module)?;
        process.ask(server, store, order)
    }

    fn end(&self, process: Option<ModuleProcess>) -> Result<(), DeviceError> {
        let Some(process) = process else { return Ok(()) };
        let ended = self.server.reap(process.pid, Duration::ZERO);
        ended.map(drop).map_err(|error| trouble(format!("an executor does not end: {error}")))
    }

    fn sample_staged(
        &mut self,
        module: ModuleId,
        call: Option<u32>,
        order: &SampleOrder<'_>,
    ) -> Result<Vec<f64>, DeviceError> {
        let SampleOrder { mode, samples, batch, untouched, .. } = *order;
        let (process, server, store) = self.running(module)?;
        let mine = ProcessorTimes::of_this_thread();
        let waited = |process: &ModuleProcess| process.times.waited() + mine.waited();
        let before = (waited(process), process.times.ran());
        let began = Instant::now();
        let order = RoomOrder::Sample { call, mode, samples, batch, untouched };
        let RoomAnswer::Samples(times) = process.ask(server, store, order)? else {
            return Err(out_of_step());
        };
        let whole = began.elapsed();
        let waited = waited(process).saturating_sub(before.0);
        let ran = process.times.ran().zip(before.1).map(|(ran, before)| ran.saturating_sub(before));
        let calls = if mode == TimingMode::Hot { batch.max(1) } else { 1 };
        process.clock.add(&times, calls, samples, RequestTime { whole, waited, ran })?;
        Ok(times)
    }

    fn time(&mut self, module: ModuleId, order: &SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        // Before any clock runs: the executor maps what the calls need and reads the calls.
        for (number, call) in order.rotation.iter().enumerate() {
            self.ask(module, RoomOrder::Stage { call: call.clone(), is_first: number == 0 })?;
        }
        if order.mode != TimingMode::Cold {
            return self.sample_staged(module, None, order);
        }
        // The caches are the processor's, so they are flushed here, where much memory may be used.
        let single = SampleOrder { mode: TimingMode::Eager, samples: 1, batch: 1, ..*order };
        let mut times = Vec::with_capacity(order.samples as usize);
        let module_bytes = self.modules.get(&module).ok_or_else(|| no_module(module))?.data_bytes;
        let calls = order.rotation.iter().enumerate();
        for (number, call) in calls.cycle().take(order.samples as usize) {
            self.flush.run(self.info.l2_bytes, &self.store.contents(call), module_bytes);
            times.extend(self.sample_staged(module, Some(number as u32), &single)?);
        }
        Ok(times)
    }
}

impl ModuleProcess {
    fn spawn(
        server: &ForkServer,
        store: &BufferStore,
        binary: &[u8],
        entries: &[String],
    ) -> Result<ModuleProcess, DeviceError> {
        let harness = |error: io::Error| trouble(format!("no executor starts: {error}")).sticky();
        let file = memory_file("evo-module", MemfdFlags::empty(), binary).map_err(harness)?;
        let (socket, pid, times) = server.spawn().map_err(harness)?;
        let mut process = ModuleProcess {
            socket,
            pid,
            echo: None,
            mapped: HashMap::new(),
            number: 0,
            clock: ClockCheck::default(),
            times,
        };
        let request = RoomRequest {
            number: 1,
            drop: Vec::new(),
            map: Vec::new(),
            checks: store.checks,
            conditions: RunConditions::default(),
            order: RoomOrder::Load { entries: entries.to_vec() },
        };
        match process.exchange(server, &request, &[file.as_fd()]) {
            Ok(RoomAnswer::Loaded { echo }) => Ok(ModuleProcess { echo, ..process }),
            other => {
                let _ = server.reap(pid, Duration::ZERO);
                Err(other.err().unwrap_or_else(out_of_step))
            }
        }
    }

    fn ask(
        &mut self,
        server: &ForkServer,
        store: &mut BufferStore,
        order: RoomOrder,
    ) -> Result<RoomAnswer, DeviceError> {
        let buffers = order.buffers().into_iter().map(|id| (id, store.is_protected(id)));
        let mut fresh: Vec<(BufferId, bool)> =
            buffers.filter(|(id, read_only)| self.mapped.get(id) != Some(read_only)).collect();
        while fresh.len() > DESCRIPTORS_MAX {
            let some = fresh.split_off(fresh.len() - DESCRIPTORS_MAX);
            self.ask_with(server, store, &some, RoomOrder::Map)?;
        }
        self.ask_with(server, store, &fresh, order)
    }

    fn ask_with(
        &mut self,
        server: &ForkServer,
        store: &mut BufferStore,
        fresh: &[(BufferId, bool)],
        order: RoomOrder,
    ) -> Result<RoomAnswer, DeviceError> {
        let mut map = Vec::with_capacity(fresh.len());
        for (id, read_only) in fresh {
            let buffer = store.get_mut(*id)?;
            let (bytes, margin) = (buffer.span().1, buffer.margin());
            let name = buffer.name().to_string();
            buffer.share().map_err(|error| no_room(&name, &error))?;
            map.push(MappedBuffer { buffer: *id, name, bytes, margin, read_only: *read_only });
        }
        let mut descriptors = Vec::with_capacity(fresh.len());
        for (id, read_only) in fresh {
            descriptors.push(store.get(*id)?.shared(*read_only).ok_or_else(out_of_step)?);
        }
        let freed: Vec<BufferId> = self.mapped.keys().copied().filter(|id| !store.holds(*id)).collect();
        self.mapped.retain(|id, _| !freed.contains(id));
        let request = RoomRequest {
            number: self.number + 1,
            drop: freed,
            map,
            checks: store.checks,
            conditions: store.conditions,
            order,
        };
        let result = self.exchange(server, &request, &descriptors);
        // Also where a launch was refused: that comes after the mapping.
        self.mapped.extend(fresh.iter().copied());
        result
    }

    fn exchange(
        &mut self,
        server: &ForkServer,
        request: &RoomRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<RoomAnswer, DeviceError> {
        // Nobody asked for what lies there: a variant has spoken in its executor's place.
        if self.socket.has_input() {
            return Err(self.unexpected());
        }
        self.number = request.number;
        let asked = request.order.asked();
        if self.socket.send(request, descriptors).is_err() {
            return Err(self.ended(server, asked));
        }
        let message = match self.socket.receive() {
            Ok(Some(message)) => message,
            Ok(None) | Err(_) => return Err(self.ended(server, asked)),
        };
        match message.parse::<RoomReply>() {
            Ok(reply) if reply.number == self.number => match reply.result {
                Err(error) if !ending::is_believed(&error, asked) => {
                    Err(ending::of_nonsense(&shown(&message)))
                }
                Ok(answer) if !request.order.is_answered_by(&answer) => Err(out_of_step()),
                result => result,
            },
            _ => Err(unasked(&message)),
        }
    }

    fn unexpected(&self) -> DeviceError {
        match self.socket.receive() {
            Ok(Some(message)) => unasked(&message),
            _ => ending::of_nonsense("it speaks without being asked"),
        }
    }

    fn ended(&self, server: &ForkServer, asked: Asked) -> DeviceError {
        match server.reap(self.pid, GRACE) {
            Ok(status) => {
                let unloaded = (asked == Asked::Load).then(|| ending::before_loading(status)).flatten();
                unloaded.unwrap_or_else(|| ending::of_status(status))
            }
            Err(error) => trouble(error.to_string()).sticky(),
        }
    }
}

/// A report of a fault, or nonsense.
fn unasked(message: &RoomMessage) -> DeviceError {
    match message.parse::<FaultRecord>() {
        Ok(record) => ending::of_fault(record.error()),
        Err(_) => ending::of_nonsense(&shown(message)),
    }
}

fn shown(message: &RoomMessage) -> String {
    format!("`{}`", String::from_utf8_lossy(&message.bytes[..message.bytes.len().min(120)]))
}

fn out_of_step() -> DeviceError {
    ending::of_nonsense("an answer to another question")
}

fn no_room(name: &str, error: &io::Error) -> DeviceError {
    let message = format!("`{name}` cannot be shared with the executor: {error}");
    DeviceError::plain(VerdictKind::OutOfMemory, message)
}

/// Raises the limit on open files as far as it may be raised; where that is not far, there are fewer buffers.
fn allow_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    if limit.current.is_some_and(|current| current < most) {
        let raised = Rlimit { current: Some(most), maximum: limit.maximum };
        let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    }
}

impl Stored for RoomDevice {
    fn store(&mut self) -> &mut BufferStore {
        &mut self.store
    }
}

impl Executor for RoomDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn reload(&mut self, module: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError> {
        let last = self.modules.remove(&module);
        self.end(last.and_then(|last| last.process))?;
        initializers::check(binary)?;
        let process = Some(ModuleProcess::spawn(&self.server, &self.store, binary, entries)?);
        let data_bytes = initializers::data_bytes(binary);
        let loaded = RoomModule { binary: binary.into(), entries: entries.to_vec(), data_bytes, process };
        self.modules.insert(module, loaded);
        Ok(())
    }

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        let module = self.modules.remove(&module).ok_or_else(|| no_module(module))?;
        self.end(module.process)
    }

    fn park(&mut self) -> Result<(), DeviceError> {
        let running: Vec<_> = self.modules.values_mut().map(|module| module.process.take()).collect();
        running.into_iter().try_for_each(|process| self.end(process))
    }

    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError> {
        Ok(self.running(module)?.0.echo.clone())
    }

    fn execute(&mut self, module: ModuleId, request: ModuleRequest) -> Result<ModuleAnswer, DeviceError> {
        match self.ask(module, RoomOrder::Execute(request))? {
            RoomAnswer::Executed(answer) => Ok(answer),
            _ => Err(out_of_step()),
        }
    }

    /// By the executor's monotonic clock, compared with this process's.
    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        let conditions = self.store.conditions;
        self.store.set_conditions(RunConditions::default())?;
        let times = self.time(module, &order);
        self.store.set_conditions(conditions)?;
        times
    }
}
