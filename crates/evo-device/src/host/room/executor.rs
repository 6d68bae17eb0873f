//! The process in which one module's kernels run: it loads the module, shuts itself in, and does what the worker asks.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use evo_protocol::device::{DeviceError, DeviceInfo};

use super::fences;
use super::order::{MappedBuffer, RoomAnswer, RoomOrder, RoomReply, RoomRequest};
use super::wire::{RoomMessage, RoomSocket};
use crate::device::{BoundLaunch, Device, Executor as _, Memory, ModuleId, SampleOrder, trouble};
use crate::host::backend::{HostDevice, SLICE};
use crate::host::memory::GuardedBuffer;
use crate::host::store::{Stored, cannot_protect};
use crate::host::{calls, fault};

pub fn run(socket: RoomSocket, info: &DeviceInfo, threads: usize, fenced: bool) -> io::Result<()> {
    fault::install(None, socket.as_fd().as_raw_fd())?;
    let device = HostDevice::described(info.clone(), threads, SLICE);
    let mut executor =
        Executor { device: device.map_err(io::Error::other)?, module: None, staged: Vec::new(), fenced };
    while let Some(message) = socket.receive()? {
        let request: RoomRequest = message.parse()?;
        let number = request.number;
        let result = executor.serve(request, message);
        socket.send(&RoomReply { number, result }, &[])?;
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
        for (buffer, descriptor) in map.iter().zip(&message.descriptors) {
            self.map(buffer, descriptor.as_fd()).map_err(|error| cannot_protect(&buffer.name, &error))?;
        }
        self.device.set_conditions(conditions)?;
        self.execute(order)
    }

    fn load(&mut self, message: &mut RoomMessage, entries: &[String]) -> Result<RoomAnswer, DeviceError> {
        let harness = |error: io::Error| trouble(format!("the executor of the module: {error}"));
        let file = message.descriptors.pop().ok_or_else(|| harness(io::ErrorKind::InvalidInput.into()))?;
        let mut binary = Vec::new();
        File::from(file).read_to_end(&mut binary).map_err(harness)?;
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

    fn map(&mut self, wanted: &MappedBuffer, file: BorrowedFd<'_>) -> io::Result<()> {
        let MappedBuffer { buffer, name, bytes, margin, read_only } = wanted;
        let store = self.device.store();
        if let Ok(known) = store.get_mut(*buffer) {
            return known.map_file(file, *read_only);
        }
        store.insert(*buffer, GuardedBuffer::mirror(name, *bytes, *margin, file, *read_only)?);
        Ok(())
    }

    fn execute(&mut self, order: RoomOrder) -> Result<RoomAnswer, DeviceError> {
        let Executor { device, module, staged, .. } = self;
        let module = module.ok_or_else(|| trouble("the executor has no module"))?;
        Ok(match order {
            RoomOrder::Load { .. } | RoomOrder::Map => RoomAnswer::Done,
            RoomOrder::Execute(request) => RoomAnswer::Executed(device.execute(module, request)?),
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
                let rotation = rotation.filter(|calls| !calls.is_empty());
                let none = || trouble("the executor has no such call to sample");
                let rotation = rotation.ok_or_else(none)?;
                let order = SampleOrder { rotation, mode, samples, batch, untouched };
                RoomAnswer::Samples(device.sample(module, order)?)
            }
        })
    }
}
