//! The buffers of a host device: what they hold, compared and hashed, and where kernels find them.

use std::collections::HashMap;

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::verdict::VerdictKind;

use super::memory::GuardedBuffer;
use super::{numbers, stop};
use crate::device::{
    BlockError, BoundLaunch, BufferId, Comparison, CopiedPart, GuardDamage, RunConditions, Tolerance,
};

/// What both host devices do with buffers in the same way: ask their field `store`. A macro, because these are methods of
/// the trait `Device` and not of a part of it.
macro_rules! pass_on_to_store {
    () => {
        fn write_at(&mut self, buffer: BufferId, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
            self.store.write_at(buffer, offset, bytes)
        }

        fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, DeviceError> {
            self.store.read(buffer)
        }

        fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError> {
            self.store.copy(from, to)
        }

        fn copy_part(&mut self, from: BufferId, to: BufferId, part: CopiedPart) -> Result<(), DeviceError> {
            self.store.copy_part(from, to, part)
        }

        fn fill(&mut self, buffer: BufferId, pattern: u32) -> Result<(), DeviceError> {
            self.store.fill(buffer, pattern)
        }

        fn hash(&mut self, buffer: BufferId) -> Result<u64, DeviceError> {
            self.store.hash(buffer)
        }

        fn count_pattern(
            &mut self,
            buffer: BufferId,
            dtype: DType,
            pattern: u32,
        ) -> Result<u64, DeviceError> {
            self.store.count_pattern(buffer, dtype, pattern)
        }

        fn compare(
            &mut self,
            actual: BufferId,
            dtype: DType,
            expected: BufferId,
            tolerance: Tolerance,
        ) -> Result<Comparison, DeviceError> {
            self.store.compare(actual, dtype, expected, tolerance)
        }

        fn compare_blocks(
            &mut self,
            actual: BufferId,
            dtype: DType,
            expected: BufferId,
            block: u64,
            floor: f64,
        ) -> Result<BlockError, DeviceError> {
            self.store.compare_blocks(actual, dtype, expected, block, floor)
        }

        fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError> {
            Ok(self.store.check_guards())
        }

        fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError> {
            self.store.arm_guards(pattern)
        }
    };
}
pub(super) use pass_on_to_store;

/// Bytes on each side of a buffer that kernels may use where pages do not guard it.
const UNGUARDED: usize = 64 << 10;

/// How many small buffers are kept for the next ones of their size, and what is small.
const SPARES: usize = 16;
const SPARE_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct BufferStore {
    buffers: HashMap<BufferId, GuardedBuffer>,
    apart: bool,
    spare: Vec<GuardedBuffer>,
    pub conditions: RunConditions,
    pub checks: CheckSet,
}

impl BufferStore {
    pub fn apart() -> BufferStore {
        BufferStore { apart: true, ..BufferStore::default() }
    }

    pub fn get(&self, id: BufferId) -> Result<&GuardedBuffer, DeviceError> {
        self.buffers.get(&id).ok_or_else(|| misuse(format!("there is no buffer {}", id.0)))
    }

    pub fn get_mut(&mut self, id: BufferId) -> Result<&mut GuardedBuffer, DeviceError> {
        self.buffers.get_mut(&id).ok_or_else(|| misuse(format!("there is no buffer {}", id.0)))
    }

    /// What the buffers of a call hold; those that are gone are left out.
    pub fn contents(&self, call: &[BoundLaunch]) -> Vec<&[u8]> {
        let buffers = call.iter().flat_map(BoundLaunch::buffers);
        buffers.filter_map(|own| self.buffers.get(&own)).map(GuardedBuffer::bytes).collect()
    }

    pub fn margin(&self) -> usize {
        if self.checks.include(GateCheck::GuardPages) { 0 } else { UNGUARDED }
    }

    pub fn allocate(&mut self, id: BufferId, name: &str, bytes: u64) -> Result<(), DeviceError> {
        let (margin, spare) = (self.margin(), &mut self.spare);
        let known = spare.iter().position(|own| own.fits(bytes, margin)).map(|at| spare.swap_remove(at));
        let made = match known {
            Some(own) => own.in_place_of(name, bytes),
            None => GuardedBuffer::with_margin(name, bytes, margin),
        };
        let mut buffer =
            made.map_err(|error| stop::no_memory(&format!("the {bytes} bytes of `{name}`"), &error))?;
        buffer.place(self.conditions.placement).map_err(|error| cannot_protect(name, &error))?;
        self.buffers.insert(id, buffer);
        Ok(())
    }

    pub fn insert(&mut self, id: BufferId, buffer: GuardedBuffer) {
        self.buffers.insert(id, buffer);
    }

    pub fn free(&mut self, id: BufferId) -> Result<(), DeviceError> {
        self.get(id)?;
        let gone = self.buffers.remove(&id);
        // In this process kernels may keep addresses of buffers that are gone, and must fault there.
        let keeps = |own: &GuardedBuffer| self.apart && !own.is_shared() && own.open_bytes() <= SPARE_BYTES;
        self.spare.extend(gone.filter(keeps));
        if self.spare.len() > SPARES {
            self.spare.remove(0);
        }
        Ok(())
    }

    pub fn write_at(&mut self, id: BufferId, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let target = self.get_mut(id)?;
        let (size, name) = (target.bytes().len(), target.name().to_string());
        let Some(end) = end_of(offset, bytes, size) else {
            return Err(misuse(format!("{} bytes at {offset} do not fit `{name}` of {size}", bytes.len())));
        };
        let result = target.change(|room| room[end - bytes.len()..end].copy_from_slice(bytes));
        result.map_err(|error| cannot_protect(&name, &error))
    }

    pub fn read(&self, id: BufferId) -> Result<Vec<u8>, DeviceError> {
        Ok(self.get(id)?.bytes().to_vec())
    }

    pub fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError> {
        let (source, target) = (self.get(from)?, self.get(to)?);
        let bytes = source.bytes().len() as u64;
        if bytes != target.bytes().len() as u64 {
            return Err(misuse(format!("`{}` and `{}` differ in size", source.name(), target.name())));
        }
        if from == to { Ok(()) } else { self.copy_part(from, to, CopiedPart { source: 0, target: 0, bytes }) }
    }

    pub fn copy_part(&mut self, from: BufferId, to: BufferId, part: CopiedPart) -> Result<(), DeviceError> {
        // Taken out of the map while both are borrowed, one of them to be changed.
        let target = self.buffers.remove(&to);
        let mut target = target.ok_or_else(|| misuse(format!("there is no buffer {}", to.0)))?;
        let result = match self.get(from) {
            Ok(source) if part.fits(source.bytes().len() as u64, target.bytes().len() as u64) => {
                let [start, place, length] = [part.source, part.target, part.bytes].map(|own| own as usize);
                let result = target.change(|room| {
                    room[place..place + length].copy_from_slice(&source.bytes()[start..start + length]);
                });
                result.map_err(|error| cannot_protect(target.name(), &error))
            }
            Ok(source) => {
                let (source, target) = (source.name(), target.name());
                Err(misuse(format!("{part:?} reaches behind the end of `{source}` or `{target}`")))
            }
            Err(error) => Err(error),
        };
        self.buffers.insert(to, target);
        result
    }

    pub fn fill(&mut self, id: BufferId, pattern: u32) -> Result<(), DeviceError> {
        let target = self.get_mut(id)?;
        let result = target.change(|bytes| numbers::fill(bytes, pattern));
        result.map_err(|error| cannot_protect(target.name(), &error))
    }

    pub fn hash(&self, id: BufferId) -> Result<u64, DeviceError> {
        Ok(numbers::hash(self.get(id)?.bytes()))
    }

    pub fn count_pattern(&self, id: BufferId, dtype: DType, pattern: u32) -> Result<u64, DeviceError> {
        Ok(numbers::count_pattern(self.get(id)?.bytes(), dtype, pattern))
    }

    pub fn compare(
        &self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let (actual, expected) = (self.get(actual)?, self.get(expected)?);
        if actual.bytes().len() as u64 / dtype.bytes() != expected.bytes().len() as u64 / 8 {
            let (actual, expected) = (actual.name(), expected.name());
            return Err(misuse(format!("`{actual}` and `{expected}` differ in their number of elements")));
        }
        Ok(numbers::compare(actual.bytes(), dtype, expected.bytes(), tolerance))
    }

    pub fn compare_blocks(
        &self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError> {
        let (actual, expected) = (self.get(actual)?, self.get(expected)?);
        Ok(numbers::compare_blocks(actual.bytes(), dtype, expected.bytes(), block, floor))
    }

    pub fn check_guards(&self) -> Vec<GuardDamage> {
        if !self.checks.include(GateCheck::GuardZones) {
            return Vec::new();
        }
        // Inputs as they were drawn and answers are never shared, and most buffers of a study are of that kind.
        let reached = self.buffers.values().filter(|buffer| !self.apart || buffer.is_shared());
        let mut damages: Vec<GuardDamage> = reached.flat_map(GuardedBuffer::damage).collect();
        // Buffers are in a hash map, and what is reported first must not depend on its order.
        damages.sort_by(|a, b| (&a.buffer, a.offset).cmp(&(&b.buffer, b.offset)));
        damages
    }

    pub fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError> {
        for buffer in self.buffers.values_mut() {
            buffer.arm(pattern).map_err(|error| cannot_protect(buffer.name(), &error))?;
        }
        Ok(())
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
}

fn end_of(offset: u64, bytes: &[u8], size: usize) -> Option<usize> {
    let end = usize::try_from(offset).ok()?.checked_add(bytes.len())?;
    (end <= size).then_some(end)
}

pub fn cannot_protect(name: &str, error: &std::io::Error) -> DeviceError {
    DeviceError::plain(
        VerdictKind::HarnessError,
        format!("the protection of `{name}` does not change: {error}"),
    )
}

/// A request that no plan of evo's should make.
pub fn misuse(message: String) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, message)
}
