//! Judges every access that the instrumented code announces.
//!
//! A fault ends the launch before the access happens. What may be honest is only noted: several threads that
//! write one value, reads of memory that nobody wrote (whose value may not matter), plain reads of what others
//! update atomically. Whether a write stores the value that is there already shows only afterwards, so such a
//! write waits until its thread comes here again.

use std::time::Instant;

use evo_protocol::check::CheckSet;
use evo_protocol::device::DeviceError;

use super::cluster_order::cluster_of;
use super::conflict::{Conflict, Ground, conflict, note_read};
use super::finding::{AccessFinding, Fault, FaultRegion, LaunchExtents};
use super::image::{GUARD, ModuleImage, Variable};
use super::order::{BlockOrder, LaunchOrder};
use super::regions::{Region, RegionKind, Regions};
use super::shadow::{ANYBODY, AccessKind, AccessRecord, SeenAccess, ThreadPlace};
use super::unfenced::{Doubts, Publications, SeenPublications, VolatileRead};
use crate::device::{AccessNote, NoteKind};
use crate::host::pattern;
use crate::host::tls::Statics;

#[derive(Clone, Copy, Debug)]
pub struct CheckerOptions {
    pub order: u64,
    /// What shared memory holds when a block begins.
    pub residue: u32,
    pub checks: CheckSet,
    pub accesses_max: u64,
    pub deadline: Instant,
}

#[derive(Clone, Debug)]
pub struct LaunchShape {
    pub grid: [u32; 3],
    pub cluster: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: usize,
    pub statics: Statics,
    pub shared: Vec<Variable>,
    pub module: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    GoOn,
    EndLaunch,
    /// Others run first; then it asks again.
    GiveWay,
}

/// `EVO_WATCH_…` of the header. `PHASE_ARRIVE`: it arrives at what another waits for, a phase of a transaction barrier or
/// the products of a warpgroup.
mod moment {
    pub const BEGIN: u32 = 0;
    pub const ARRIVE: u32 = 1;
    pub const BARRIER: u32 = 2;
    pub const OPERATION: u32 = 3;
    pub const FENCE: u32 = 4;
    pub const NAMED_ARRIVE: u32 = 6;
    pub const NAMED: u32 = 7;
    pub const PHASE_ARRIVE: u32 = 8;
    pub const PHASE: u32 = 9;
    pub const CLUSTER_ARRIVE: u32 = 10;
    pub const CLUSTER: u32 = 11;
    pub const ARRIVE_THERE: u32 = 12;
}

/// More bytes than this are not compared to tell whether a write changed them.
const COMPARED_MAX: usize = 64;
/// One access in this many lets other threads run first; among reads of flags one in [`FLAG_SHARE`].
const GIVE_WAY_SHARE: u64 = 32;
const FLAG_SHARE: u64 = 4;

#[derive(Debug)]
pub(super) struct RunningBlock {
    pub(super) runner: usize,
    /// Number among all blocks of the run: the stamp of its shared memory.
    serial: u32,
    pub(super) order: BlockOrder,
    observed: SeenPublications,
    stores_volatile: bool,
    gave_way: Vec<bool>,
    pub(super) shared: [(usize, usize); 2],
}

#[derive(Debug)]
struct PendingWrite {
    finding: AccessFinding,
    region: usize,
    before: [u8; COMPARED_MAX],
}

#[derive(Debug)]
pub struct AccessChecker {
    options: CheckerOptions,
    pub(super) regions: Regions,
    pub(super) launch: Option<LaunchShape>,
    order: LaunchOrder,
    publications: Publications,
    doubts: Doubts,
    pub(super) blocks: Vec<RunningBlock>,
    stamp: u32,
    serial: u32,
    random: u64,
    pub(super) accesses: u64,
    pending: Option<PendingWrite>,
    finding: Option<AccessFinding>,
    noted: Vec<(NoteKind, u64, AccessFinding)>,
    notes: Vec<AccessNote>,
}

impl AccessChecker {
    pub fn new(options: CheckerOptions, list: Vec<Region>) -> AccessChecker {
        let mut regions = Regions::default();
        list.into_iter().for_each(|region| regions.add(region));
        AccessChecker {
            options,
            regions,
            launch: None,
            order: LaunchOrder::default(),
            publications: Publications::default(),
            doubts: Doubts::default(),
            blocks: Vec::new(),
            stamp: 0,
            serial: 0,
            random: options.order | 1,
            accesses: 0,
            pending: None,
            finding: None,
            noted: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub fn begin_launch(&mut self, shape: LaunchShape) {
        self.stamp += 1;
        self.order = LaunchOrder::default();
        self.publications = Publications::default();
        for block in self.blocks.drain(..) {
            self.regions.remove_shared(block.runner);
        }
        self.launch = Some(shape);
    }

    pub fn end_launch(&mut self, image: &ModuleImage) -> Result<(), DeviceError> {
        self.settle();
        let doubtful = self.doubts.settle();
        self.finding = self.finding.take().or(doubtful);
        let shape = self.launch.take();
        let extents =
            shape.map_or(LaunchExtents::default(), |own| LaunchExtents { grid: own.grid, block: own.block });
        for (what, count, finding) in std::mem::take(&mut self.noted) {
            match self.notes.iter_mut().find(|note| note.what == what) {
                Some(note) => note.count += count,
                None => self.notes.push(AccessNote { what, count, error: finding.error(image, extents) }),
            }
        }
        self.finding.take().map_or(Ok(()), |finding| Err(finding.error(image, extents)))
    }

    pub fn notes(self) -> (Vec<AccessNote>, u64) {
        (self.notes, self.accesses)
    }

    pub fn access(&mut self, place: &ThreadPlace, access: &SeenAccess) -> Reply {
        self.settle();
        self.end_read(place);
        if self.finding.is_some() {
            return Reply::EndLaunch;
        }
        if self.is_over_budget() {
            self.finding = Some(self.finding_of(Fault::Budget, place, access, None));
            return Reply::EndLaunch;
        }
        if self.gives_way(place, access) {
            return Reply::GiveWay;
        }
        self.finding = self.judge(place, access).filter(|finding| self.looks_for(&finding.fault));
        if self.finding.is_some() { Reply::EndLaunch } else { Reply::GoOn }
    }

    /// `bytes` is 0 where it has given the block back.
    pub fn heap(&mut self, address: usize, bytes: usize) {
        self.settle();
        self.regions.remove_heap(address);
        if bytes > 0 {
            // SAFETY: the block was allocated just now, and its kernel has not got it yet.
            unsafe { pattern::fill(address, bytes, self.options.residue) };
            self.order.forget(address, bytes);
            self.regions.add(Region::new(RegionKind::Heap, "a block of the device heap", address, bytes));
        }
    }

    /// `detail` is what the moment is about: lanes, the number of a barrier, its place, whether a fence is the device's.
    pub fn sync(&mut self, place: &ThreadPlace, what: u32, detail: u32) {
        self.settle();
        self.end_read(place);
        match what {
            moment::BEGIN => self.begin_thread(place),
            moment::CLUSTER => self.pass_barrier_of_cluster(place),
            moment::PHASE => self.pass_phase_of_cluster(place, detail),
            _ => {}
        }
        let now = self.accesses as u32;
        let Some(block) = self.blocks.iter_mut().find(|own| own.runner == place.runner) else { return };
        let (order, thread) = (&mut block.order, place.thread);
        match what {
            moment::ARRIVE => order.arrive(thread),
            moment::BARRIER => order.pass_barrier(thread),
            moment::OPERATION => order.pass_operation(thread, detail),
            moment::FENCE => order.fence(&mut self.order, thread, detail != 0),
            moment::NAMED_ARRIVE => order.arrive_named(thread, detail),
            moment::NAMED => order.pass_named(thread, detail),
            moment::PHASE_ARRIVE => order.arrive_phase(thread, detail),
            moment::PHASE => order.pass_phase(thread, detail),
            moment::CLUSTER_ARRIVE => order.cluster().arrive(now),
            moment::ARRIVE_THERE => order.cluster().arrive_there(place, detail, now),
            _ => {}
        }
    }

    pub fn moves(&mut self, runner: usize, places: (usize, usize, usize)) {
        self.settle();
        self.regions.moves(runner, places);
    }

    /// Says whether the misaligned access is a finding.
    pub fn misaligned(
        &mut self,
        place: &ThreadPlace,
        address: usize,
        alignment: u32,
        write: bool,
        line: u32,
    ) -> bool {
        self.settle();
        let access = SeenAccess {
            address,
            bytes: alignment as usize,
            read: !write,
            write,
            kind: AccessKind::Plain,
            from: 0,
        };
        let fault = Fault::Misaligned { alignment, line };
        if !self.looks_for(&fault) {
            return false;
        }
        let at = self.regions.find(address);
        let finding = self.finding_of(fault, place, &access, at);
        self.finding.get_or_insert(finding);
        true
    }
}

impl AccessChecker {
    /// Says whether an access outside of the variable that the source names is a finding: what lies outside of every
    /// range is judged as the access that follows, with the name of the nearest range.
    pub fn beyond(
        &mut self,
        place: &ThreadPlace,
        address: usize,
        local: bool,
        write: bool,
        line: u32,
    ) -> bool {
        self.settle();
        let fault = Fault::Beyond { local, line };
        let at = self.regions.find(address).filter(|_| !local);
        if !self.looks_for(&fault) || (at.is_none() && !local) {
            return false;
        }
        let kind = AccessKind::Plain;
        let access = SeenAccess { address, bytes: 1, read: !write, write, kind, from: 0 };
        let region = at.map(|at| FaultRegion::of(self.regions.get(at)));
        let finding = AccessFinding { fault, access, place: *place, region };
        self.finding.get_or_insert(finding);
        true
    }

    fn looks_for(&self, fault: &Fault) -> bool {
        fault.check().is_none_or(|check| self.options.checks.include(check))
    }

    fn is_over_budget(&mut self) -> bool {
        self.accesses += 1;
        self.accesses > self.options.accesses_max
            || self.accesses.is_multiple_of(4096) && Instant::now() > self.options.deadline
    }

    /// A thread that read a flag has its value now. Not earlier: another block may have set the flag after the
    /// read was announced and before it happened.
    fn end_read(&mut self, place: &ThreadPlace) {
        let Some(block) = self.blocks.iter_mut().find(|own| own.runner == place.runner) else { return };
        if block.order.block() != place.block {
            return;
        }
        let Some(address) = block.order.end_read(place.thread) else { return };
        block.order.acquire(&self.order, place.thread, address);
        block.observed.observe(&self.publications, address);
        let Some(at) = self.regions.find(address) else { return };
        let region = self.regions.get_mut(at);
        let stamp = if region.kind == RegionKind::Shared && region.owner == place.runner {
            block.serial
        } else {
            self.stamp
        };
        let first = region.shadow.elements(address - region.start, 4).start;
        let flag = region.shadow.cell(first).writes[AccessKind::Plain.slot()];
        let by_one = flag.stamp == stamp && flag.thread != ANYBODY;
        if by_one && !block.order.is_after(&self.order, place.thread, &flag) {
            block.order.acquire_plain(&flag);
        }
    }

    fn gives_way(&mut self, place: &ThreadPlace, access: &SeenAccess) -> bool {
        let Some(block) = self.blocks.iter_mut().find(|own| own.runner == place.runner) else { return false };
        let Some(gave_way) = block.gave_way.get_mut(usize::from(place.thread)) else { return false };
        if std::mem::take(gave_way) {
            return false;
        }
        // Marsaglia's xorshift: the moments need no better randomness.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let flag = access.read && access.kind != AccessKind::Plain;
        let share = if flag { FLAG_SHARE } else { GIVE_WAY_SHARE };
        *gave_way = (self.random >> 20).is_multiple_of(share);
        *gave_way
    }

    fn finding_of(
        &self,
        fault: Fault,
        place: &ThreadPlace,
        access: &SeenAccess,
        region: Option<usize>,
    ) -> AccessFinding {
        let region = match region {
            Some(at) => Some(self.regions.get(at)),
            None => self.regions.nearest(access.address),
        };
        AccessFinding { fault, access: *access, place: *place, region: region.map(FaultRegion::of) }
    }

    fn note(
        &mut self,
        what: NoteKind,
        fault: Fault,
        place: &ThreadPlace,
        access: &SeenAccess,
        region: usize,
    ) {
        if let Some((_, count, _)) = self.noted.iter_mut().find(|(own, ..)| *own == what) {
            *count += 1;
            return;
        }
        let finding = self.finding_of(fault, place, access, Some(region));
        self.noted.push((what, 1, finding));
    }

    pub(super) fn settle(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let access = pending.finding.access;
        // SAFETY: the bytes lie in a region, whose memory stays mapped for the launch; the thread that wrote them
        // is the one that calls, or waits.
        let now = unsafe { std::slice::from_raw_parts(access.address as *const u8, access.bytes) };
        if *now != pending.before[..access.bytes] {
            if !self.looks_for(&pending.finding.fault) {
                return;
            }
            self.finding.get_or_insert(pending.finding);
            return;
        }
        let region = self.regions.get_mut(pending.region);
        for element in region.shadow.elements(access.address - region.start, access.bytes) {
            region.shadow.cell(element).writes[access.kind.slot()].thread = ANYBODY;
        }
        let AccessFinding { fault, place, access, .. } = pending.finding;
        self.note(NoteKind::SameValue, fault, &place, &access, pending.region);
    }

    fn begin_thread(&mut self, place: &ThreadPlace) {
        let Some(shape) = &self.launch else { return };
        let known = self.blocks.iter_mut().position(|own| own.runner == place.runner);
        let shared = match known {
            Some(at) if self.blocks[at].order.block() == place.block => return,
            Some(at) => self.blocks.swap_remove(at).shared,
            None => {
                let dynamic = (place.shared, shape.shared_bytes);
                let fixed = shape.statics.locate().unwrap_or((place.shared, 0));
                let mut add = |name: &str, start: usize, bytes: usize| {
                    let owner = place.runner;
                    let kind = if name == GUARD { RegionKind::Guard } else { RegionKind::Shared };
                    let region = Region::new(kind, name, start, bytes);
                    self.regions.add(Region { owner, ..region });
                };
                if dynamic.1 > 0 {
                    add("dynamic shared memory", dynamic.0, dynamic.1);
                }
                for own in &shape.shared {
                    add(&own.name, fixed.0 + own.offset, own.bytes);
                }
                [dynamic, fixed]
            }
        };
        self.serial += 1;
        for (start, bytes) in shared {
            // SAFETY: both ranges belong to the block that begins on this processor thread.
            unsafe { pattern::fill(start, bytes, self.options.residue) };
            self.order.forget(start, bytes);
        }
        let threads = place.threads as usize;
        self.blocks.push(RunningBlock {
            runner: place.runner,
            serial: self.serial,
            order: BlockOrder::new(place.block, threads).in_cluster(cluster_of(
                shape.grid,
                shape.cluster,
                place.block,
            )),
            observed: SeenPublications::default(),
            stores_volatile: false,
            gave_way: vec![false; threads],
            shared,
        });
    }

    fn judge(&mut self, place: &ThreadPlace, access: &SeenAccess) -> Option<AccessFinding> {
        let Some(at) = self.regions.find(access.address) else {
            let (first, end) = self.launch.as_ref().map_or((0, 0), |own| own.module);
            // Constants, and the few variables whose names are not kept.
            let own = (first..end).contains(&access.address);
            return (!own).then(|| self.finding_of(Fault::Outside, place, access, None));
        };
        let region = self.regions.get(at);
        let kind = region.kind;
        if kind == RegionKind::Guard {
            return None;
        }
        if access.bytes > region.end() - access.address {
            return Some(self.finding_of(Fault::Outside, place, access, Some(at)));
        }
        if access.write && kind == RegionKind::Input {
            return Some(self.finding_of(Fault::Input, place, access, Some(at)));
        }
        let seen = self.trace(place, access, at)?;
        if seen.undefined > 0 {
            let what = match kind {
                _ if seen.undefined < seen.elements => NoteKind::PartlyWritten,
                RegionKind::Output => NoteKind::UnwrittenOutput,
                _ => NoteKind::Unwritten,
            };
            self.note(what, Fault::Unwritten, place, access, at);
        }
        if let Some(other) = seen.unfenced {
            let finding = self.finding_of(Fault::Unfenced { other }, place, access, Some(at));
            if self.looks_for(&finding.fault) {
                self.doubts.add(seen.from, finding);
            }
        }
        let conflict = seen.conflict?;
        let fault = Fault::Race { other: conflict.other, other_writes: conflict.other_writes };
        if conflict.maybe_honest {
            self.note(NoteKind::UnorderedAtomic, fault, place, access, at);
            return None;
        }
        let finding = self.finding_of(fault, place, access, Some(at));
        if access.read || access.bytes > COMPARED_MAX {
            return Some(finding);
        }
        let mut before = [0; COMPARED_MAX];
        // SAFETY: the access was found to lie inside a region.
        let bytes = unsafe { std::slice::from_raw_parts(access.address as *const u8, access.bytes) };
        before[..access.bytes].copy_from_slice(bytes);
        self.pending = Some(PendingWrite { finding, region: at, before });
        None
    }

    fn trace(&mut self, place: &ThreadPlace, access: &SeenAccess, at: usize) -> Option<Met> {
        let region = self.regions.get_mut(at);
        let shared = region.kind == RegionKind::Shared;
        // Shared memory may be that of another block of the cluster.
        let owner = self.blocks.iter().find(|own| own.runner == region.owner).map_or(0, |own| own.serial);
        let stamp = if shared { owner } else { self.stamp };
        let block = self.blocks.iter_mut().find(|own| own.runner == place.runner)?;
        let module = self.launch.as_ref().map_or(0, |own| own.module.0);
        let mut record = block.order.record(place.thread);
        (record.stamp, record.kind) = (stamp, access.kind);
        record.from = access.from.wrapping_sub(module) as u32;
        record.number = self.accesses as u32;
        let flag = access.kind != AccessKind::Plain;
        if flag && access.read {
            block.order.acquire(&self.order, place.thread, access.address);
        }
        let tracked = matches!(
            region.kind,
            RegionKind::Shared | RegionKind::Output | RegionKind::Scratch | RegionKind::Heap
        );
        let elements = region.shadow.elements(access.address - region.start, access.bytes);
        let mut met =
            Met { elements: elements.len(), undefined: 0, conflict: None, unfenced: None, from: record.from };
        let doubted = !shared && region.kind != RegionKind::Input && access.read && !access.write;
        for element in elements {
            let cell = region.shadow.cell(element);
            let defined = if shared { cell.defined == stamp } else { cell.defined != 0 };
            met.undefined += usize::from(access.read && tracked && !defined);
            let ground = Ground { launch: &self.order, record: &record, access, shared };
            if doubted {
                match block.observed.judge(&block.order, &self.order, cell, &record) {
                    VolatileRead::InOrder => {}
                    VolatileRead::Flag => self.doubts.clear(record.from),
                    VolatileRead::Data(other) if self.doubts.is_open(record.from) => {
                        met.unfenced = Some(other)
                    }
                    VolatileRead::Data(_) => {}
                }
            }
            if met.conflict.is_none() {
                met.conflict = conflict(&mut block.order, cell, &ground);
            }
            if access.read {
                note_read(cell, &record);
            }
            if access.write {
                (cell.writes[access.kind.slot()], cell.defined) = (record, stamp);
            }
        }
        if flag && access.write {
            block.order.release(&mut self.order, place.thread, access.address);
            block.stores_volatile |= !shared && access.kind == AccessKind::Volatile;
            if !shared && (block.stores_volatile || record.fences > 0) {
                self.publications.publish(access.address, &record);
            }
        }
        if flag && access.read {
            block.order.begin_read(place.thread, access.address);
        }
        Some(met)
    }
}

struct Met {
    elements: usize,
    /// How many of them nobody wrote.
    undefined: usize,
    conflict: Option<Conflict>,
    /// A write of another block that a fence was to precede.
    unfenced: Option<AccessRecord>,
    /// Address of the instruction, from the module's start.
    from: u32,
}
