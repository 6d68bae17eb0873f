//! `RoomDevice`: the host device as a worker has it. Buffers, comparisons and clocks are here; kernels run elsewhere.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;
use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Rlimit};

use super::clock::{ClockCheck, RequestTime};
use super::ending::{self, Asked};
use super::nursery::{Nursery, RoomOptions};
use super::order::{MappedBuffer, RoomAnswer, RoomOrder, RoomReply, RoomRequest};
use super::queue::ProcessorTimes;
use super::wire::{DESCRIPTORS_MAX, RoomMessage, RoomSocket};
use crate::device::{
    BlockError, BoundLaunch, BufferId, Comparison, CopiedPart, Device, GuardDamage, ModuleId, RunConditions,
    SampleOrder, SeriesCall, Tolerance, VariableState, Watch, WatchReport,
};
use crate::host::flush::CacheFlush;
use crate::host::store::{BufferStore, misuse, pass_on_to_store};
use crate::host::{initializers, machine};

/// How long an executor that has closed its socket may take to end.
const GRACE: Duration = Duration::from_millis(500);

/// Descriptors that a worker may want: two for each buffer that kernels get.
const DESCRIPTORS: u64 = 16_384;

pub struct RoomDevice {
    info: DeviceInfo,
    nursery: Nursery,
    tenants: HashMap<ModuleId, Tenant>,
    parked: HashMap<ModuleId, ParkedModule>,
    store: BufferStore,
    protected: HashSet<BufferId>,
    next: u32,
    flush: CacheFlush,
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
struct ParkedModule {
    binary: Arc<[u8]>,
    entries: Vec<String>,
    data_bytes: u64,
}

#[derive(Debug)]
struct Tenant {
    module: ParkedModule,
    socket: RoomSocket,
    pid: i32,
    echo: Option<String>,
    /// Buffers that it has mapped, and whether to read only.
    mapped: HashMap<BufferId, bool>,
    gone: Vec<BufferId>,
    number: u64,
    clock: ClockCheck,
    times: ProcessorTimes,
}

impl RoomDevice {
    pub fn open(options: RoomOptions) -> Result<RoomDevice, DeviceError> {
        allow_descriptors();
        let nursery = Nursery::start(&options).map_err(|error| {
            DeviceError::plain(VerdictKind::HarnessError, format!("the host device does not open: {error}"))
        })?;
        Ok(RoomDevice {
            info: machine::describe(),
            nursery,
            tenants: HashMap::new(),
            parked: HashMap::new(),
            store: BufferStore::apart(),
            protected: HashSet::new(),
            next: 0,
            flush: CacheFlush::default(),
            notes: Vec::new(),
        })
    }

    fn next_number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn bear(&self, module: ParkedModule) -> Result<Tenant, DeviceError> {
        let harness = |error: io::Error| {
            DeviceError::plain(VerdictKind::HarnessError, format!("no executor starts: {error}")).sticky()
        };
        let file = file_of(&module.binary).map_err(harness)?;
        let (socket, pid, times) = self.nursery.bear().map_err(harness)?;
        let request = RoomRequest {
            number: 1,
            drop: Vec::new(),
            map: Vec::new(),
            checks: self.store.checks,
            conditions: RunConditions::default(),
            order: RoomOrder::Load { entries: module.entries.clone() },
        };
        let mut tenant = Tenant {
            module,
            socket,
            pid,
            echo: None,
            mapped: HashMap::new(),
            gone: Vec::new(),
            number: 0,
            clock: ClockCheck::default(),
            times,
        };
        let reply = tenant.exchange(&self.nursery, &request, &[file.as_fd()])?;
        match reply.result {
            Ok(RoomAnswer::Loaded { echo }) => tenant.echo = echo,
            other => {
                let _ = self.nursery.bury(pid, Duration::ZERO);
                return Err(other.err().unwrap_or_else(out_of_step));
            }
        }
        Ok(tenant)
    }

    fn revive(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        let Some(parked) = self.parked.remove(&module) else { return Ok(()) };
        let tenant = self.bear(parked)?;
        self.tenants.insert(module, tenant);
        Ok(())
    }

    fn ask(&mut self, module: ModuleId, order: RoomOrder) -> Result<RoomAnswer, DeviceError> {
        self.revive(module)?;
        let buffers = order.buffers();
        let RoomDevice { tenants, store, protected, nursery, .. } = self;
        let tenant = tenants.get_mut(&module).ok_or_else(|| no_module(module))?;
        let mut fresh: Vec<(BufferId, bool)> =
            buffers.into_iter().map(|own| (own, protected.contains(&own))).collect();
        fresh.retain(|(own, read_only)| tenant.mapped.get(own) != Some(read_only));
        while fresh.len() > DESCRIPTORS_MAX {
            let some = fresh.split_off(fresh.len() - DESCRIPTORS_MAX);
            tenant.ask(nursery, store, &some, RoomOrder::Map)?;
        }
        let reply = tenant.ask(nursery, store, &fresh, order)?;
        for note in reply.notes.into_iter().take(64) {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        reply.result
    }

    fn expect_done(&mut self, module: ModuleId, order: RoomOrder) -> Result<(), DeviceError> {
        match self.ask(module, order)? {
            RoomAnswer::Done => Ok(()),
            _ => Err(out_of_step()),
        }
    }

    fn sample_staged(
        &mut self,
        module: ModuleId,
        call: Option<u32>,
        order: &SampleOrder<'_>,
    ) -> Result<Vec<f64>, DeviceError> {
        let SampleOrder { mode, samples, batch, untouched, .. } = *order;
        let order = RoomOrder::Sample { call, mode, samples, batch, untouched };
        self.revive(module)?;
        let own = ProcessorTimes::of_this_thread();
        let now = |room: &RoomDevice| {
            let theirs = room.tenants.get(&module).map(|tenant| &tenant.times);
            let waited = theirs.map(ProcessorTimes::waited).unwrap_or_default() + own.waited();
            (waited, theirs.and_then(ProcessorTimes::ran))
        };
        let (waited, ran) = now(self);
        let began = Instant::now();
        let RoomAnswer::Samples(times) = self.ask(module, order)? else { return Err(out_of_step()) };
        let whole = began.elapsed();
        let (waited_then, ran_then) = now(self);
        let ran = ran_then.zip(ran).map(|(then, before)| then.saturating_sub(before));
        let taken = RequestTime { whole, waited: waited_then.saturating_sub(waited), ran };
        let calls = if mode == TimingMode::Hot { batch.max(1) } else { 1 };
        let tenant = self.tenants.get_mut(&module).ok_or_else(|| no_module(module))?;
        tenant.clock.add(&times, calls, samples, taken)?;
        Ok(times)
    }

    fn time(&mut self, module: ModuleId, order: &SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        // Before any clock runs: the executor maps what the calls need and reads the calls.
        for (number, call) in order.rotation.iter().enumerate() {
            self.expect_done(module, RoomOrder::Stage { call: call.clone(), is_first: number == 0 })?;
        }
        if order.mode != TimingMode::Cold {
            return self.sample_staged(module, None, order);
        }
        // The caches are the processor's, so they are flushed here, where much memory may be used.
        let single = SampleOrder { mode: TimingMode::Eager, samples: 1, batch: 1, ..*order };
        let mut times = Vec::with_capacity(order.samples as usize);
        let module_bytes = self.tenants.get(&module).ok_or_else(|| no_module(module))?.module.data_bytes;
        let calls = order.rotation.iter().enumerate();
        for (number, call) in calls.cycle().take(order.samples as usize) {
            self.flush.run(self.info.l2_bytes, &self.store.contents(call), module_bytes);
            times.extend(self.sample_staged(module, Some(number as u32), &single)?);
        }
        Ok(times)
    }
}

impl Tenant {
    fn ask(
        &mut self,
        nursery: &Nursery,
        store: &mut BufferStore,
        fresh: &[(BufferId, bool)],
        order: RoomOrder,
    ) -> Result<RoomReply, DeviceError> {
        let mut map = Vec::with_capacity(fresh.len());
        for (buffer, read_only) in fresh {
            let own = store.get_mut(*buffer)?;
            let (bytes, margin) = own.shape();
            let name = own.name().to_string();
            own.share().map_err(|error| no_room(&name, &error))?;
            map.push(MappedBuffer { buffer: *buffer, name, bytes, margin, read_only: *read_only });
        }
        let mut descriptors = Vec::with_capacity(fresh.len());
        for (buffer, read_only) in fresh {
            descriptors.push(store.get(*buffer)?.shared(*read_only).ok_or_else(out_of_step)?);
        }
        let request = RoomRequest {
            number: self.number + 1,
            drop: std::mem::take(&mut self.gone),
            map,
            checks: store.checks,
            conditions: store.conditions,
            order,
        };
        let reply = self.exchange(nursery, &request, &descriptors)?;
        self.mapped.extend(fresh.iter().copied());
        Ok(reply)
    }

    fn exchange(
        &mut self,
        nursery: &Nursery,
        request: &RoomRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<RoomReply, DeviceError> {
        // Nobody asked for what lies there: a variant has spoken in its executor's place.
        if self.socket.has_input() {
            return Err(self.unexpected());
        }
        self.number = request.number;
        let asked = request.order.asked();
        if self.socket.send(request, descriptors).is_err() {
            return Err(self.ended(nursery, asked));
        }
        let message = match self.socket.receive() {
            Ok(Some(message)) => message,
            Ok(None) | Err(_) => return Err(self.ended(nursery, asked)),
        };
        if let Some(error) = ending::last_words(&message) {
            return Err(ending::of_fault(error));
        }
        match message.parse::<RoomReply>() {
            Ok(reply) if reply.number == self.number => match &reply.result {
                Err(error) if !ending::is_believed(error, asked) => {
                    Err(ending::of_nonsense(&shown(&message)))
                }
                _ => Ok(reply),
            },
            _ => Err(ending::of_nonsense(&shown(&message))),
        }
    }

    fn unexpected(&self) -> DeviceError {
        match self.socket.receive() {
            Ok(Some(message)) => match ending::last_words(&message) {
                Some(error) => ending::of_fault(error),
                None => ending::of_nonsense(&shown(&message)),
            },
            _ => ending::of_nonsense("it speaks without being asked"),
        }
    }

    fn ended(&self, nursery: &Nursery, asked: Asked) -> DeviceError {
        match nursery.bury(self.pid, GRACE) {
            Ok(status) => {
                let unborn = (asked == Asked::Load).then(|| ending::of_unborn(status)).flatten();
                unborn.unwrap_or_else(|| ending::of_status(status))
            }
            Err(error) => DeviceError::plain(VerdictKind::HarnessError, error.to_string()).sticky(),
        }
    }
}

fn shown(message: &RoomMessage) -> String {
    format!("`{}`", String::from_utf8_lossy(&message.bytes[..message.bytes.len().min(120)]))
}

fn no_module(module: ModuleId) -> DeviceError {
    misuse(format!("there is no module {}", module.0))
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

fn file_of(binary: &[u8]) -> io::Result<OwnedFd> {
    let mut file = std::fs::File::from(rustix::fs::memfd_create("evo-module", MemfdFlags::CLOEXEC)?);
    io::Write::write_all(&mut file, binary)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

impl Device for RoomDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn set_checks(&mut self, checks: CheckSet) {
        self.store.checks = checks;
    }

    fn load(&mut self, binary: &[u8], entries: &[String]) -> Result<ModuleId, DeviceError> {
        initializers::check(binary)?;
        let data_bytes = initializers::data_bytes(binary);
        let module = ParkedModule { binary: Arc::from(binary), entries: entries.to_vec(), data_bytes };
        let tenant = self.bear(module)?;
        let id = ModuleId(self.next_number());
        self.tenants.insert(id, tenant);
        Ok(id)
    }

    fn reload(&mut self, module: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError> {
        self.unload(module)?;
        let new = self.load(binary, entries)?;
        let tenant = self.tenants.remove(&new).ok_or_else(|| no_module(new))?;
        self.tenants.insert(module, tenant);
        Ok(())
    }

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        if self.parked.remove(&module).is_some() {
            return Ok(());
        }
        let tenant = self.tenants.remove(&module).ok_or_else(|| no_module(module))?;
        let ended = self.nursery.bury(tenant.pid, Duration::ZERO);
        ended.map(drop).map_err(|error| misuse(format!("an executor does not end: {error}")))
    }

    fn park(&mut self) -> Result<(), DeviceError> {
        for (id, tenant) in std::mem::take(&mut self.tenants) {
            let ended = self.nursery.bury(tenant.pid, Duration::ZERO);
            ended.map_err(|error| misuse(format!("an executor does not end: {error}")))?;
            self.parked.insert(id, tenant.module);
        }
        Ok(())
    }

    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError> {
        self.revive(module)?;
        self.tenants.get(&module).map(|own| own.echo.clone()).ok_or_else(|| no_module(module))
    }

    fn variables(&mut self, module: ModuleId) -> Result<Vec<VariableState>, DeviceError> {
        match self.ask(module, RoomOrder::Variables)? {
            RoomAnswer::Variables(variables) => Ok(variables),
            _ => Err(out_of_step()),
        }
    }

    fn restore_variables(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        self.expect_done(module, RoomOrder::RestoreVariables)
    }

    fn write_variable(&mut self, module: ModuleId, name: &str, buffer: BufferId) -> Result<(), DeviceError> {
        self.expect_done(module, RoomOrder::WriteVariable { name: name.into(), buffer })
    }

    fn read_variable(&mut self, module: ModuleId, name: &str, buffer: BufferId) -> Result<bool, DeviceError> {
        match self.ask(module, RoomOrder::ReadVariable { name: name.into(), buffer })? {
            RoomAnswer::Read { intact } => Ok(intact),
            _ => Err(out_of_step()),
        }
    }

    fn attributes(&mut self, module: ModuleId, launch: &BoundLaunch) -> Result<EntryAttributes, DeviceError> {
        match self.ask(module, RoomOrder::Attributes { launch: launch.clone() })? {
            RoomAnswer::Attributes(attributes) => Ok(attributes),
            _ => Err(out_of_step()),
        }
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        let id = BufferId(self.next_number());
        self.store.allocate(id, name, bytes)?;
        Ok(id)
    }

    fn free(&mut self, buffer: BufferId) -> Result<(), DeviceError> {
        self.store.free(buffer)?;
        self.protected.remove(&buffer);
        for tenant in self.tenants.values_mut().filter(|own| own.mapped.contains_key(&buffer)) {
            tenant.mapped.remove(&buffer);
            tenant.gone.push(buffer);
        }
        Ok(())
    }

    pass_on_to_store!();

    fn set_conditions(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        self.store.set_conditions(conditions)
    }

    fn protect(&mut self, buffer: BufferId, read_only: bool) -> Result<bool, DeviceError> {
        self.store.get(buffer)?;
        match read_only && self.store.checks.include(GateCheck::ReadOnlyInputs) {
            true => self.protected.insert(buffer),
            false => self.protected.remove(&buffer),
        };
        Ok(true)
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn launch(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        self.expect_done(module, RoomOrder::Launch { launches: launches.to_vec() })
    }

    fn launch_series(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        calls: &[SeriesCall],
    ) -> Result<(), DeviceError> {
        let order = RoomOrder::Series { launches: launches.to_vec(), calls: calls.to_vec() };
        self.expect_done(module, order)
    }

    fn launch_watched(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        watch: &Watch,
    ) -> Result<Option<WatchReport>, DeviceError> {
        match self.ask(module, RoomOrder::Watch { launches: launches.to_vec(), watch: watch.clone() })? {
            RoomAnswer::Watched(report) => Ok(report),
            _ => Err(out_of_step()),
        }
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// By the executor's monotonic clock, compared with this process's.
    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        let conditions = self.store.conditions;
        self.store.set_conditions(RunConditions::default())?;
        let times = self.time(module, &order);
        self.store.set_conditions(conditions)?;
        times
    }

    fn telemetry(&mut self) -> Telemetry {
        machine::telemetry()
    }

    fn memory_free(&mut self) -> Option<u64> {
        None
    }
}
