//! The buffers of a host device: what they hold, compared and hashed, and where kernels find them.

use std::collections::{HashMap, HashSet};

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, Telemetry};
use evo_protocol::dtype::DType;

use super::memory::GuardedBuffer;
use super::{machine, stop};
use crate::device::{
    BlockError, BoundLaunch, BufferId, Comparison, CopiedPart, Device, Executor, GuardDamage, Memory,
    RunConditions, Tolerance, no_buffer, trouble,
};
use crate::numbers;

/// Bytes on each side of a buffer that kernels may use where pages do not guard it.
const UNGUARDED: usize = 64 << 10;

/// How many small buffers are kept for the next ones of their size, and what is small.
const SPARES: usize = 16;
const SPARE_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct BufferStore {
    buffers: HashMap<BufferId, GuardedBuffer>,
    next: u32,
    /// Whether kernels run in other processes, which map what they are given.
    apart: bool,
    /// Buffers that kernels of other processes may only read.
    protected: HashSet<BufferId>,
    spare: Vec<GuardedBuffer>,
    pub conditions: RunConditions,
    pub checks: CheckSet,
}

/// A device whose buffers lie in a store of this process.
pub trait Stored {
    fn store(&mut self) -> &mut BufferStore;

    fn apply(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        self.store().set_conditions(conditions)
    }
}

impl Stored for BufferStore {
    fn store(&mut self) -> &mut BufferStore {
        self
    }
}

impl BufferStore {
    pub fn apart() -> BufferStore {
        BufferStore { apart: true, ..BufferStore::default() }
    }

    pub fn get(&self, id: BufferId) -> Result<&GuardedBuffer, DeviceError> {
        self.buffers.get(&id).ok_or_else(|| no_buffer(id))
    }

    pub fn get_mut(&mut self, id: BufferId) -> Result<&mut GuardedBuffer, DeviceError> {
        self.buffers.get_mut(&id).ok_or_else(|| no_buffer(id))
    }

    pub fn holds(&self, id: BufferId) -> bool {
        self.buffers.contains_key(&id)
    }

    pub fn is_protected(&self, id: BufferId) -> bool {
        self.protected.contains(&id)
    }

    /// What the buffers of a call hold; those that are gone are left out.
    pub fn contents(&self, call: &[BoundLaunch]) -> Vec<&[u8]> {
        let buffers = call.iter().flat_map(BoundLaunch::buffers);
        buffers.filter_map(|id| self.buffers.get(&id)).map(GuardedBuffer::bytes).collect()
    }

    pub fn insert(&mut self, id: BufferId, buffer: GuardedBuffer) {
        self.buffers.insert(id, buffer);
    }

    /// Applies the conditions that buffers have, and keeps all of them.
    pub fn set_conditions(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        let conditions = conditions.under(self.checks);
        for buffer in self.buffers.values_mut() {
            buffer.place(conditions.placement).map_err(|error| cannot_protect(buffer.name(), &error))?;
        }
        self.conditions = conditions;
        Ok(())
    }

    pub fn change<R>(&mut self, id: BufferId, edit: impl FnOnce(&mut [u8]) -> R) -> Result<R, DeviceError> {
        let buffer = self.get_mut(id)?;
        buffer.change(edit).map_err(|error| cannot_protect(buffer.name(), &error))
    }
}

impl<D: Stored + Executor> Device for D {
    fn set_checks(&mut self, checks: CheckSet) {
        self.store().checks = checks;
    }

    fn set_conditions(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        self.apply(conditions)
    }

    fn telemetry(&mut self) -> Telemetry {
        machine::telemetry()
    }

    fn memory_free(&mut self) -> Option<u64> {
        None
    }
}

impl<D: Stored> Memory for D {
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        let store = self.store();
        let margin = if store.checks.include(GateCheck::GuardPages) { 0 } else { UNGUARDED };
        let spare = store.spare.iter().position(|buffer| buffer.fits(bytes, margin));
        let made = match spare.map(|at| store.spare.swap_remove(at)) {
            Some(buffer) => buffer.in_place_of(name, bytes),
            None => GuardedBuffer::with_margin(name, bytes, margin),
        };
        let mut buffer =
            made.map_err(|error| stop::no_memory(&format!("the {bytes} bytes of `{name}`"), &error))?;
        buffer.place(store.conditions.placement).map_err(|error| cannot_protect(name, &error))?;
        store.next += 1;
        store.insert(BufferId(store.next), buffer);
        Ok(BufferId(store.next))
    }

    /// Other processes map buffers where they like.
    fn address(&mut self, id: BufferId) -> Option<u64> {
        let store = self.store();
        store.get(id).ok().filter(|_| !store.apart).map(|buffer| buffer.address() as u64)
    }

    fn free(&mut self, id: BufferId) -> Result<(), DeviceError> {
        let store = self.store();
        let buffer = store.buffers.remove(&id).ok_or_else(|| no_buffer(id))?;
        store.protected.remove(&id);
        // In this process kernels may keep addresses of buffers that are gone, and must fault there.
        if store.apart && !buffer.is_shared() && buffer.open_bytes() <= SPARE_BYTES {
            store.spare.push(buffer);
        }
        if store.spare.len() > SPARES {
            store.spare.remove(0);
        }
        Ok(())
    }

    fn write_at(&mut self, id: BufferId, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let store = self.store();
        let buffer = store.get(id)?;
        let size = buffer.bytes().len();
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes.len()));
        let Some(end) = end.filter(|end| *end <= size) else {
            let (length, name) = (bytes.len(), buffer.name());
            return Err(trouble(format!("{length} bytes at {offset} do not fit `{name}` of {size}")));
        };
        store.change(id, |contents| contents[end - bytes.len()..end].copy_from_slice(bytes))
    }

    fn read(&mut self, id: BufferId) -> Result<Vec<u8>, DeviceError> {
        Ok(self.store().get(id)?.bytes().to_vec())
    }

    fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError> {
        let store = self.store();
        let (source, target) = (store.get(from)?, store.get(to)?);
        let bytes = source.bytes().len() as u64;
        if bytes != target.bytes().len() as u64 {
            return Err(trouble(format!("`{}` and `{}` differ in size", source.name(), target.name())));
        }
        if from == to {
            Ok(())
        } else {
            store.copy_part(from, to, CopiedPart { source: 0, target: 0, bytes })
        }
    }

    fn copy_part(&mut self, from: BufferId, to: BufferId, part: CopiedPart) -> Result<(), DeviceError> {
        let store = self.store();
        // Taken out of the map while both are borrowed, one of them to be changed.
        let mut target = store.buffers.remove(&to).ok_or_else(|| no_buffer(to))?;
        let result = store.get(from).and_then(|source| {
            if !part.fits(source.bytes().len() as u64, target.bytes().len() as u64) {
                let (source, target) = (source.name(), target.name());
                return Err(trouble(format!("{part:?} reaches behind the end of `{source}` or `{target}`")));
            }
            let [start, place, length] = [part.source, part.target, part.bytes].map(|number| number as usize);
            let copied = target.change(|contents| {
                contents[place..place + length].copy_from_slice(&source.bytes()[start..start + length]);
            });
            copied.map_err(|error| cannot_protect(target.name(), &error))
        });
        store.insert(to, target);
        result
    }

    fn fill(&mut self, id: BufferId, pattern: u32) -> Result<(), DeviceError> {
        self.store().change(id, |bytes| numbers::fill(bytes, pattern))
    }

    fn hash(&mut self, id: BufferId) -> Result<u64, DeviceError> {
        Ok(numbers::hash(self.store().get(id)?.bytes()))
    }

    fn count_pattern(&mut self, id: BufferId, dtype: DType, pattern: u32) -> Result<u64, DeviceError> {
        Ok(numbers::count_pattern(self.store().get(id)?.bytes(), dtype, pattern))
    }

    fn compare(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let store = self.store();
        let (actual, expected) = (store.get(actual)?, store.get(expected)?);
        if actual.bytes().len() as u64 / dtype.bytes() != expected.bytes().len() as u64 / 8 {
            let (actual, expected) = (actual.name(), expected.name());
            return Err(trouble(format!("`{actual}` and `{expected}` differ in their number of elements")));
        }
        Ok(numbers::compare(actual.bytes(), dtype, expected.bytes(), tolerance))
    }

    fn compare_blocks(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError> {
        let store = self.store();
        let (actual, expected) = (store.get(actual)?, store.get(expected)?);
        Ok(numbers::compare_blocks(actual.bytes(), dtype, expected.bytes(), block, floor))
    }

    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError> {
        let store = self.store();
        if !store.checks.include(GateCheck::GuardZones) {
            return Ok(Vec::new());
        }
        // Inputs as they were drawn and answers are never shared, and most buffers of a study are of that kind.
        let reached = store.buffers.values().filter(|buffer| !store.apart || buffer.is_shared());
        let mut damages: Vec<GuardDamage> = reached.flat_map(GuardedBuffer::damage).collect();
        // Buffers are in a hash map, and what is reported first must not depend on its order.
        damages.sort_by(|a, b| (&a.buffer, a.offset).cmp(&(&b.buffer, b.offset)));
        Ok(damages)
    }

    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError> {
        let mut buffers = self.store().buffers.values_mut();
        buffers
            .try_for_each(|buffer| buffer.arm(pattern).map_err(|error| cannot_protect(buffer.name(), &error)))
    }

    fn protect(&mut self, id: BufferId, read_only: bool) -> Result<(), DeviceError> {
        let store = self.store();
        let read_only = read_only && store.checks.include(GateCheck::ReadOnlyInputs);
        let apart = store.apart;
        let buffer = store.get_mut(id)?;
        if !apart {
            return buffer.protect(read_only).map_err(|error| cannot_protect(buffer.name(), &error));
        }
        match read_only {
            true => store.protected.insert(id),
            false => store.protected.remove(&id),
        };
        Ok(())
    }
}

pub fn cannot_protect(name: &str, error: &std::io::Error) -> DeviceError {
    trouble(format!("the protection of `{name}` does not change: {error}"))
}
