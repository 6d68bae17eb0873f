//! The process in which one module's kernels run: it loads the module, shuts itself in, and does what the worker asks.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicU64;

use evo_protocol::device::{DeviceError, DeviceInfo};
use evo_protocol::verdict::VerdictKind;

use super::fences;
use super::order::{MappedBuffer, RoomAnswer, RoomOrder, RoomReply, RoomRequest};
use super::wire::{RoomMessage, RoomSocket};
use crate::device::{BoundLaunch, Device, ModuleId, SampleOrder};
use crate::host::backend::{HostDevice, SLICE};
use crate::host::memory::GuardedBuffer;
use crate::host::store::cannot_protect;
use crate::host::{calls, fault};

/// The number that a fault's last words carry. The worker knows which request it was.
static NUMBER: AtomicU64 = AtomicU64::new(0);

pub fn run(socket: RoomSocket, info: &DeviceInfo, threads: usize, fenced: bool) -> io::Result<()> {
    fault::install(&NUMBER, socket.as_fd().as_raw_fd())?;
    let device = HostDevice::described(info.clone(), threads, SLICE);
    let mut executor =
        Executor { device: device.map_err(io::Error::other)?, module: None, staged: Vec::new(), fenced };
    while let Some(message) = socket.receive()? {
        let request: RoomRequest = message.parse()?;
        let number = request.number;
        let result = executor.serve(request, message);
        let notes = executor.device.notes();
        socket.send(&RoomReply { number, result, notes }, &[])?;
    }
    Ok(())
}

struct Executor {
    device: HostDevice,
    module: Option<ModuleId>,
    staged: Vec<Vec<BoundLaunch>>,
    fenced: bool,
}

impl Executor {
    fn serve(&mut self, request: RoomRequest, mut message: RoomMessage) -> Result<RoomAnswer, DeviceError> {
        let RoomRequest { drop, map, checks, conditions, order, .. } = request;
        self.device.set_checks(checks);
        if let RoomOrder::Load { entries } = &order {
            return self.load(&mut message, entries);
        }
        for buffer in drop {
            self.device.free(buffer)?;
        }
        for (own, descriptor) in map.into_iter().zip(&message.descriptors) {
            self.map(&own, descriptor.as_fd()).map_err(|error| cannot_protect(&own.name, &error))?;
        }
        self.device.set_conditions(conditions)?;
        self.execute(order)
    }

    fn load(&mut self, message: &mut RoomMessage, entries: &[String]) -> Result<RoomAnswer, DeviceError> {
        let harness = |error: io::Error| {
            DeviceError::plain(VerdictKind::HarnessError, format!("the executor of the module: {error}"))
        };
        let file = message.descriptors.pop().ok_or_else(|| harness(io::ErrorKind::InvalidInput.into()))?;
        let binary = fences::read_all(file).map_err(harness)?;
        let module = self.device.load(&binary, entries)?;
        let echo = self.device.echo(module)?;
        self.module = Some(module);
        if self.fenced {
            // From here on nothing is opened, started or asked of the system any more.
            fences::write_no_files();
            calls::restrict().map_err(harness)?;
        }
        Ok(RoomAnswer::Loaded { echo })
    }

    fn map(&mut self, own: &MappedBuffer, file: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        let store = self.device.store();
        if let Ok(known) = store.get_mut(own.buffer) {
            return known.map_file(file, own.read_only);
        }
        let mirror = GuardedBuffer::mirror(&own.name, own.bytes, own.margin, file, own.read_only)?;
        store.insert(own.buffer, mirror);
        Ok(())
    }

    fn execute(&mut self, order: RoomOrder) -> Result<RoomAnswer, DeviceError> {
        let Executor { device, module, staged, .. } = self;
        let none = || DeviceError::plain(VerdictKind::HarnessError, "the executor has no module");
        let module = module.ok_or_else(none)?;
        Ok(match order {
            RoomOrder::Load { .. } | RoomOrder::Map => RoomAnswer::Done,
            RoomOrder::Attributes { launch } => RoomAnswer::Attributes(device.attributes(module, &launch)?),
            RoomOrder::Launch { launches } => {
                device.launch(module, &launches)?;
                RoomAnswer::Done
            }
            RoomOrder::Series { launches, calls } => {
                device.launch_series(module, &launches, &calls)?;
                RoomAnswer::Done
            }
            RoomOrder::Watch { launches, watch } => {
                RoomAnswer::Watched(device.launch_watched(module, &launches, &watch)?)
            }
            RoomOrder::Stage { call, is_first } => {
                if is_first {
                    staged.clear();
                }
                staged.push(call);
                RoomAnswer::Done
            }
            RoomOrder::Sample { call, mode, samples, batch, untouched } => {
                let call = call.map(|number| number as usize);
                let rotation = staged.get(call.map_or(0..staged.len(), |number| number..number + 1));
                let rotation = rotation.filter(|calls| !calls.is_empty()).ok_or_else(nothing_staged)?;
                let order = SampleOrder { rotation, mode, samples, batch, untouched };
                RoomAnswer::Samples(device.sample(module, order)?)
            }
            RoomOrder::WriteVariable { name, buffer } => {
                device.write_variable(module, &name, buffer)?;
                RoomAnswer::Done
            }
            RoomOrder::ReadVariable { name, buffer } => {
                RoomAnswer::Read { intact: device.read_variable(module, &name, buffer)? }
            }
            RoomOrder::Variables => RoomAnswer::Variables(device.variables(module)?),
            RoomOrder::RestoreVariables => {
                device.restore_variables(module)?;
                RoomAnswer::Done
            }
        })
    }
}

fn nothing_staged() -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, "the executor has no such call to sample")
}
