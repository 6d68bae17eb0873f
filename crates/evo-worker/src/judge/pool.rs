//! Device memory that outlives a variant: inputs, answers, working buffers.
//!
//! Allocation is slow on a GPU and most variants of a study use the same cases. Pristine inputs and fp64
//! answers therefore stay on the device, and kernels get working copies. Every case of one shape uses
//! the same working addresses, so that a kernel that remembers an answer by its pointer is found out.

use std::rc::Rc;

use evo_device::device::{BufferId, Device};
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::ContentHash;

use super::bounds::Bounds;

#[derive(Debug)]
pub struct CaseSet {
    pub key: ContentHash,
    pub magnitude: f64,
    pub inputs: Vec<Pristine>,
    pub targets: Vec<ExpectedBuffer>,
    bytes: u64,
}

/// Never handed to a kernel.
#[derive(Debug)]
pub struct Pristine {
    pub position: usize,
    pub buffer: BufferId,
    pub hash: u64,
}

#[derive(Debug)]
pub struct ExpectedBuffer {
    pub position: usize,
    /// fp64 values.
    pub expected: BufferId,
    pub hash: u64,
    pub bounds: Bounds,
    pub rms: f64,
    pub uncertain: Vec<(u64, f64)>,
}

impl ExpectedBuffer {
    pub fn unjudged(position: usize, expected: BufferId) -> ExpectedBuffer {
        let (bounds, uncertain) = (Bounds::default(), Vec::new());
        ExpectedBuffer { position, expected, hash: 0, bounds, rms: 0.0, uncertain }
    }
}

struct Working {
    name: String,
    bytes: u64,
    /// Slot-independent: variants that take turns share addresses.
    buffer: BufferId,
    holds: Option<ContentHash>,
    used: u64,
}

struct Kept {
    set: Rc<CaseSet>,
    used: u64,
}

pub struct Pool {
    pub device: Box<dyn Device>,
    working: Vec<Working>,
    sets: Vec<Kept>,
    bytes: u64,
    limit: u64,
    tick: u64,
}

/// Buffers kept at most: tiny shapes differ from variant to variant and would pile up, and each live buffer has guard
/// zones that are rewritten and checked again and again. A contender meets about sixty sets, and the large ones of
/// the last contender should still be there.
const WORKING_MAX: usize = 192;
const SETS_MAX: usize = 192;

impl Pool {
    pub fn new(device: Box<dyn Device>, limit: u64) -> Pool {
        Pool { device, working: Vec::new(), sets: Vec::new(), bytes: 0, limit, tick: 0 }
    }

    pub fn set(&mut self, key: &ContentHash) -> Option<Rc<CaseSet>> {
        self.tick += 1;
        let kept = self.sets.iter_mut().find(|kept| kept.set.key == *key)?;
        kept.used = self.tick;
        Some(kept.set.clone())
    }

    /// `write` writes an input, by its position. Nothing is kept if `answer`, which completes the set, fails.
    pub fn fill<E: From<DeviceError>>(
        &mut self,
        (key, magnitude): (&ContentHash, f64),
        plan: &ProblemPlan,
        write: impl FnMut(&mut Pool, usize, BufferId) -> Result<(), DeviceError>,
        answer: impl FnOnce(&mut Pool, &mut CaseSet) -> Result<(), E>,
    ) -> Result<Rc<CaseSet>, E> {
        let mut set =
            CaseSet { key: key.clone(), magnitude, inputs: Vec::new(), targets: Vec::new(), bytes: 0 };
        let done = self.upload(&mut set, plan, write).map_err(E::from);
        let done = done.and_then(|()| answer(self, &mut set));
        let done = done.and_then(|()| self.hash_all(&mut set).map_err(E::from));
        if let Err(error) = done {
            self.release(&set);
            return Err(error);
        }
        self.tick += 1;
        let set = Rc::new(set);
        self.sets.push(Kept { set: set.clone(), used: self.tick });
        self.shrink(self.limit, SETS_MAX, WORKING_MAX);
        Ok(set)
    }

    pub fn room_for_answer(
        &mut self,
        set: &mut CaseSet,
        plan: &BufferPlan,
        bytes: u64,
    ) -> Result<BufferId, DeviceError> {
        let buffer = self.allocate(&format!("{} (expected)", plan.name), bytes)?;
        self.bytes += bytes;
        set.bytes += bytes;
        Ok(buffer)
    }

    fn upload(
        &mut self,
        set: &mut CaseSet,
        plan: &ProblemPlan,
        mut write: impl FnMut(&mut Pool, usize, BufferId) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        for (position, plan) in plan.buffers.iter().enumerate().filter(|(_, plan)| plan.role.is_read()) {
            // An empty buffer has one element, as working buffers do.
            let size = plan.bytes().max(plan.dtype.bytes());
            let buffer = self.allocate(&format!("{} (pristine)", plan.name), size)?;
            // Counted at once, because `release` subtracts what was uploaded so far.
            self.bytes += size;
            set.bytes += size;
            set.inputs.push(Pristine { position, buffer, hash: 0 });
            write(self, position, buffer)?;
        }
        Ok(())
    }

    pub fn working(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        self.tick += 1;
        if let Some(own) = self.working.iter_mut().find(|own| own.name == name && own.bytes == bytes) {
            own.used = self.tick;
            return Ok(own.buffer);
        }
        let buffer = self.allocate(name, bytes)?;
        self.bytes += bytes;
        let used = self.tick;
        self.working.push(Working { name: name.to_string(), bytes, buffer, holds: None, used });
        Ok(buffer)
    }

    pub fn holds(&self, buffer: BufferId, key: &ContentHash) -> bool {
        self.working.iter().any(|own| own.buffer == buffer && own.holds.as_ref() == Some(key))
    }

    pub fn note(&mut self, buffer: BufferId, holds: Option<&ContentHash>) {
        if let Some(own) = self.working.iter_mut().find(|own| own.buffer == buffer) {
            own.holds = holds.cloned();
        }
    }

    pub fn drop_set(&mut self, key: &ContentHash) {
        while let Some(position) = self.sets.iter().position(|kept| kept.set.key == *key) {
            let kept = self.sets.remove(position);
            self.release(&kept.set);
        }
        for own in &mut self.working {
            own.holds = own.holds.take().filter(|held| held != key);
        }
    }

    fn shrink(&mut self, bytes: u64, sets: usize, working: usize) {
        // A set in use (by a prepared problem) has more than one owner and stays.
        while self.bytes > bytes || self.sets.len() > sets {
            let idle = self.sets.iter().enumerate().filter(|(_, kept)| Rc::strong_count(&kept.set) == 1);
            let Some((position, _)) = idle.min_by_key(|(_, kept)| kept.used) else { break };
            let kept = self.sets.remove(position);
            self.release(&kept.set);
        }
        // Recently used buffers may be bound to a launch plan that is still to run.
        let recent = self.tick.saturating_sub(64);
        while self.bytes > bytes || self.working.len() > working {
            let old = self.working.iter().enumerate().filter(|(_, own)| own.used < recent);
            let Some((position, _)) = old.min_by_key(|(_, own)| own.used) else { break };
            let own = self.working.remove(position);
            self.bytes = self.bytes.saturating_sub(own.bytes);
            // A buffer that cannot be freed is lost memory; the health check and the lane watch for that.
            let _ = self.device.free(own.buffer);
        }
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        if self.bytes + bytes > self.limit {
            self.shrink(self.limit.saturating_sub(bytes), SETS_MAX, WORKING_MAX);
        }
        match self.device.allocate(name, bytes) {
            Err(error) if error.kind == VerdictKind::OutOfMemory && !error.sticky => {
                self.shrink(0, 0, 0);
                self.device.allocate(name, bytes)
            }
            other => other,
        }
    }

    fn release(&mut self, set: &CaseSet) {
        self.bytes = self.bytes.saturating_sub(set.bytes);
        let buffers = set.inputs.iter().map(|input| input.buffer);
        for buffer in buffers.chain(set.targets.iter().map(|target| target.expected)) {
            let _ = self.device.free(buffer);
        }
    }

    /// Hashed on the device after every upload: later checks compare with what the device really holds.
    fn hash_all(&mut self, set: &mut CaseSet) -> Result<(), DeviceError> {
        for input in &mut set.inputs {
            input.hash = self.device.hash(input.buffer)?;
        }
        for target in &mut set.targets {
            target.hash = self.device.hash(target.expected)?;
        }
        Ok(())
    }
}
