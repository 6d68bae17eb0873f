//! Judges every access that the instrumented code announces.
//!
//! A fault ends the launch before the access happens. What may be honest is only noted: several threads that
//! write one value, reads of memory that nobody wrote (whose value may not matter), plain reads of what others
//! update atomically. Whether a write stores the value that is there already shows only afterwards, so such a
//! write waits until its thread comes here again.

use std::sync::Arc;
use std::time::Instant;

use evo_protocol::check::CheckSet;
use evo_protocol::device::DeviceError;

use super::finding::{AccessFinding, Fault, FaultRegion, index};
use super::image::ModuleImage;
use super::order::{AccessKind, AccessRecord, LaunchOrder, Place, ThreadId};
use super::shadow::{Conflict, Region, RegionKind, Regions, SeenAccess, ThreadPlace, VolatileRead};
use crate::device::{AccessNote, BoundLaunch, NoteKind, Watch, WatchReport, WatchedContents};
use crate::host::pattern;
use crate::host::tls::Statics;
use crate::variables::{GUARD, VariablePlace};

#[derive(Debug)]
struct CheckedLaunch {
    bound: BoundLaunch,
    statics: Statics,
    shared: Arc<[VariablePlace]>,
}

/// In the order of `evo_instrument.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    GoOn,
    EndLaunch,
    /// Others run first; then it asks again.
    GiveWay,
}

/// `EVO_WATCH_…` of the header. The other numbers are kinds of meetings: an even one for who arrives, the next for who
/// passes.
mod moment {
    pub const BEGIN: u32 = 0;
    pub const END: u32 = 1;
    pub const BARRIER: u32 = 2;
    pub const WARP: u32 = 4;
    pub const NAMED: u32 = 6;
    /// A phase of a transaction barrier, the products of a warpgroup, or a cluster's barrier for its own block.
    pub const PHASE: u32 = 8;
    pub const CLUSTER: u32 = 10;
    /// A transaction barrier of another block.
    pub const PHASE_THERE: u32 = 12;
    pub const FENCE: u32 = 14;
}

/// Of all that is kept about accesses. A kernel that touches memory far apart, or uses every element as a flag, would fill
/// a machine.
const RECORD_BYTES_MAX: usize = 3 << 29;
/// More bytes than this are not compared to tell whether a write changed them.
const COMPARED_MAX: usize = 64;
/// One access in this many lets other threads run first; among reads of flags one in [`FLAG_SHARE`].
const GIVE_WAY_SHARE: u64 = 32;
const FLAG_SHARE: u64 = 4;

#[derive(Debug)]
struct RunningBlock {
    runner: usize,
    block: u32,
    /// Number among all blocks of the run: the stamp of its shared memory.
    serial: u32,
    stores_volatile: bool,
    gave_way: Vec<bool>,
    shared: [(usize, usize); 2],
}

#[derive(Debug)]
struct PendingWrite {
    finding: AccessFinding,
    region: usize,
    before: [u8; COMPARED_MAX],
}

#[derive(Debug)]
pub struct AccessChecker {
    watch: Watch,
    checks: CheckSet,
    deadline: Instant,
    regions: Regions,
    launch: Option<CheckedLaunch>,
    order: LaunchOrder,
    /// By instruction: a read that may be of data without a fence, or none, because it polls a flag. An instruction
    /// that does may see a word late.
    doubts: Vec<(u32, Option<AccessFinding>)>,
    blocks: Vec<RunningBlock>,
    stamp: u32,
    serial: u32,
    random: u64,
    accesses: u64,
    pending: Option<PendingWrite>,
    finding: Option<AccessFinding>,
    noted: Vec<(NoteKind, u64, AccessFinding)>,
    notes: Vec<AccessNote>,
}

impl AccessChecker {
    pub fn new(watch: &Watch, checks: CheckSet, regions: Regions) -> AccessChecker {
        AccessChecker {
            watch: watch.clone(),
            checks,
            deadline: Instant::now() + watch.time_max,
            regions,
            launch: None,
            order: LaunchOrder::default(),
            doubts: Vec::new(),
            blocks: Vec::new(),
            stamp: 0,
            serial: 0,
            random: watch.order | 1,
            accesses: 0,
            pending: None,
            finding: None,
            noted: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// `shared` is its module's static shared memory, by offset in the thread-local segment.
    pub fn begin_launch(&mut self, bound: &BoundLaunch, statics: Statics, shared: Arc<[VariablePlace]>) {
        self.stamp += 1;
        self.order = LaunchOrder::default();
        self.blocks.clear();
        self.regions.remove(Region::is_shared);
        self.launch = Some(CheckedLaunch { bound: bound.clone(), statics, shared });
    }

    pub fn end_launch(&mut self, image: &ModuleImage) -> Result<(), DeviceError> {
        self.settle();
        // Instructions that poll flags are known to later launches too.
        let mut doubtful = None;
        for (_, finding) in &mut self.doubts {
            doubtful = doubtful.or(finding.take());
        }
        self.finding = self.finding.take().or(doubtful);
        let bound = self.launch.take().map(|launch| launch.bound).unwrap_or_default();
        for (what, count, finding) in std::mem::take(&mut self.noted) {
            match self.notes.iter_mut().find(|note| note.what == what) {
                Some(note) => note.count += count,
                None => self.notes.push(AccessNote { what, count, error: finding.error(image, &bound) }),
            }
        }
        self.finding.take().map_or(Ok(()), |finding| Err(finding.error(image, &bound)))
    }

    pub fn report(self) -> WatchReport {
        WatchReport { accesses: self.accesses, notes: self.notes }
    }

    pub fn access(&mut self, access: &SeenAccess) -> Reply {
        self.settle();
        self.end_read(access.place.id());
        if self.finding.is_some() {
            return Reply::EndLaunch;
        }
        if self.is_over_budget() {
            self.finding = Some(self.finding_of(Fault::Budget, access, None));
            return Reply::EndLaunch;
        }
        if self.gives_way(access) {
            return Reply::GiveWay;
        }
        self.finding = self.judge(access).filter(|finding| self.looks_for(&finding.fault));
        if self.finding.is_some() { Reply::EndLaunch } else { Reply::GoOn }
    }

    /// `bytes` is 0 where it has given the block back.
    pub fn heap(&mut self, address: usize, bytes: usize) {
        self.settle();
        self.regions.remove(|region| region.kind == RegionKind::Heap && region.start == address);
        if bytes > 0 {
            // SAFETY: the block was allocated just now, and its kernel has not got it yet.
            unsafe { pattern::fill(address, bytes, self.watch.residue) };
            self.order.forget(address, bytes);
            self.regions.list.push(Region::new(
                RegionKind::Heap,
                "a block of the device heap",
                address,
                bytes,
            ));
        }
    }

    /// `detail` is what the moment is about: lanes, the number of a barrier, its place, whether a fence is the device's.
    pub fn sync(&mut self, place: &ThreadPlace, what: u32, detail: u32) {
        self.settle();
        self.end_read(place.id());
        let id = place.id();
        match what {
            moment::BEGIN => self.begin_thread(place),
            moment::FENCE => self.order.fence(id, detail != 0),
            // A barrier waits only for threads that have not returned.
            moment::END => {
                self.meet(place, moment::BARRIER, 0);
                self.meet(place, moment::CLUSTER, 0);
            }
            _ => self.meet(place, what, detail),
        }
    }

    fn meet(&mut self, place: &ThreadPlace, what: u32, detail: u32) {
        let (kind, passes) = (what & !1, what % 2 == 1);
        let (id, own) = (place.id(), place.block);
        let cluster = self.launch.as_ref().map_or(own, |launch| first_of_cluster(&launch.bound, own));
        // Static shared memory has one address in all blocks of a cluster, dynamic shared memory one offset.
        let there =
            |kind| [(cluster, kind, detail), (cluster, kind + 1, detail.wrapping_sub(place.shared as u32))];
        let meetings: &[Place] = match kind {
            // Nobody but itself is where a thread asks which lanes are active.
            moment::WARP if detail == 0 => &[],
            moment::WARP => &[(own, kind + u32::from(place.thread / 32) * 256, detail)],
            moment::CLUSTER => &[(cluster, kind, detail)],
            moment::PHASE_THERE => &there(kind),
            moment::PHASE if passes => {
                let [first, second] = there(moment::PHASE_THERE);
                &[(own, kind, detail), first, second]
            }
            _ => &[(own, kind, detail)],
        };
        for &meeting in meetings {
            match passes {
                true => self.order.pass(id, meeting, kind <= moment::NAMED),
                false => self.order.arrive(id, meeting),
            }
        }
    }

    pub fn moves(&mut self, runner: usize, places: (usize, usize, usize)) {
        self.settle();
        self.regions.moves(runner, places);
    }

    /// Says whether an access is a finding whose address is not aligned, or, if it is, lies outside of the variable that
    /// the source names. What lies outside of every range is judged as the access that follows, with the name of the
    /// nearest range.
    pub fn mismatch(
        &mut self,
        place: &ThreadPlace,
        address: usize,
        (alignment, local): (u32, bool),
        write: bool,
        line: u32,
    ) -> bool {
        self.settle();
        let beyond = address.is_multiple_of(alignment as usize);
        let fault =
            if beyond { Fault::Beyond { local, line } } else { Fault::Misaligned { alignment, line } };
        let at = self.regions.find(address);
        if !self.looks_for(&fault) || beyond && at.is_none() && !local {
            return false;
        }
        let (bytes, kind) = (if beyond { 1 } else { alignment as usize }, AccessKind::Plain);
        let access = SeenAccess { place: *place, address, bytes, read: !write, write, kind, from: 0 };
        let mut finding = self.finding_of(fault, &access, at);
        if beyond && local {
            finding.region = None;
        }
        self.finding.get_or_insert(finding);
        true
    }

    fn looks_for(&self, fault: &Fault) -> bool {
        fault.check().is_none_or(|check| self.checks.include(check))
    }

    fn is_over_budget(&mut self) -> bool {
        self.accesses += 1;
        self.accesses > self.watch.accesses_max
            || self.accesses.is_multiple_of(4096)
                && (Instant::now() > self.deadline
                    || self.regions.record_bytes() + self.order.record_bytes() > RECORD_BYTES_MAX)
    }

    /// A thread that read a flag has its value now. Not earlier: another block may have set the flag after the
    /// read was announced and before it happened.
    fn end_read(&mut self, id: ThreadId) {
        let Some(address) = self.order.end_read(id) else { return };
        self.order.acquire(id, address);
        let Some(at) = self.regions.find(address) else { return };
        let stamp = self.stamp_of(at);
        let region = &mut self.regions.list[at];
        let first = region.shadow.elements(address - region.start, 4).start;
        let flag = region.shadow.cell(first).writes[AccessKind::Plain.slot()];
        if flag.stamp == stamp && !flag.by_several && !self.order.is_after(id, &flag) {
            self.order.acquire_plain(id, &flag);
        }
    }

    /// Of what is written there now. Shared memory may be that of another block of the cluster.
    fn stamp_of(&self, at: usize) -> u32 {
        let region = &self.regions.list[at];
        if region.kind != RegionKind::Shared {
            return self.stamp;
        }
        self.blocks.iter().find(|block| block.runner == region.owner).map_or(0, |block| block.serial)
    }

    fn gives_way(&mut self, access: &SeenAccess) -> bool {
        let ThreadPlace { runner, thread, .. } = access.place;
        let Some(block) = self.blocks.iter_mut().find(|own| own.runner == runner) else { return false };
        let Some(gave_way) = block.gave_way.get_mut(usize::from(thread)) else { return false };
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

    fn finding_of(&self, fault: Fault, access: &SeenAccess, region: Option<usize>) -> AccessFinding {
        let region = match region {
            Some(at) => Some(&self.regions.list[at]),
            None => self.regions.nearest(access.address),
        };
        AccessFinding { fault, access: *access, region: region.map(FaultRegion::of) }
    }

    fn note(&mut self, what: NoteKind, fault: Fault, access: &SeenAccess, region: usize) {
        if let Some((_, count, _)) = self.noted.iter_mut().find(|(own, ..)| *own == what) {
            *count += 1;
            return;
        }
        let finding = self.finding_of(fault, access, Some(region));
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
        let region = &mut self.regions.list[pending.region];
        for element in region.shadow.elements(access.address - region.start, access.bytes) {
            region.shadow.cell(element).writes[access.kind.slot()].by_several = true;
        }
        let AccessFinding { fault, access, .. } = pending.finding;
        self.note(NoteKind::SameValue, fault, &access, pending.region);
    }

    fn begin_thread(&mut self, place: &ThreadPlace) {
        let Some(launch) = &self.launch else { return };
        let known = self.blocks.iter_mut().position(|own| own.runner == place.runner);
        let shared = match known {
            Some(at) if self.blocks[at].block == place.block => return,
            Some(at) => {
                let last = self.blocks.swap_remove(at);
                self.order.end_block(last.block);
                last.shared
            }
            None => {
                let dynamic = (place.shared, launch.bound.shared_bytes as usize);
                let fixed = launch.statics.locate().unwrap_or((place.shared, 0));
                let mut add = |name: &str, start: usize, bytes: usize| {
                    let owner = place.runner;
                    let kind = if name == GUARD { RegionKind::Guard } else { RegionKind::Shared };
                    let region = Region::new(kind, name, start, bytes);
                    self.regions.list.push(Region { owner, ..region });
                };
                if dynamic.1 > 0 {
                    add("dynamic shared memory", dynamic.0, dynamic.1);
                }
                for own in launch.shared.iter() {
                    add(&own.name, fixed.0 + own.address as usize, own.bytes as usize);
                }
                [dynamic, fixed]
            }
        };
        self.serial += 1;
        for (start, bytes) in shared {
            // SAFETY: both ranges belong to the block that begins on this processor thread.
            unsafe { pattern::fill(start, bytes, self.watch.residue) };
            self.order.forget(start, bytes);
        }
        let threads = place.threads as usize;
        self.order.begin_block(place.block, threads);
        self.blocks.push(RunningBlock {
            runner: place.runner,
            block: place.block,
            serial: self.serial,
            stores_volatile: false,
            gave_way: vec![false; threads],
            shared,
        });
    }

    fn judge(&mut self, access: &SeenAccess) -> Option<AccessFinding> {
        let Some(at) = self.regions.find(access.address) else {
            let (first, end) = self.launch.as_ref().map_or((0, 0), |own| own.statics.module);
            // Constants, and the few variables whose names are not kept.
            let own = (first..end).contains(&access.address);
            return (!own).then(|| self.finding_of(Fault::Outside, access, None));
        };
        let region = &self.regions.list[at];
        let kind = region.kind;
        if kind == RegionKind::Guard {
            return None;
        }
        if access.bytes > region.end() - access.address {
            return Some(self.finding_of(Fault::Outside, access, Some(at)));
        }
        if access.write && kind == RegionKind::Buffer(WatchedContents::Input) {
            return Some(self.finding_of(Fault::Input, access, Some(at)));
        }
        let seen = self.trace(access, at)?;
        if seen.undefined > 0 {
            let what = match kind {
                _ if seen.undefined < seen.elements => NoteKind::PartlyWritten,
                RegionKind::Buffer(WatchedContents::Output) => NoteKind::UnwrittenOutput,
                _ => NoteKind::Unwritten,
            };
            self.note(what, Fault::Unwritten, access, at);
        }
        if let Some(other) = seen.unfenced {
            let finding = self.finding_of(Fault::Unfenced { other }, access, Some(at));
            // A later word of the same access may have shown that it polls flags.
            let is_known = self.doubts.iter().any(|(from, _)| *from == seen.from);
            if self.looks_for(&finding.fault) && !is_known {
                self.doubts.push((seen.from, Some(finding)));
            }
        }
        let conflict = seen.conflict?;
        let fault = Fault::Race { other: conflict.other, other_writes: conflict.other_writes };
        if conflict.maybe_honest {
            self.note(NoteKind::UnorderedAtomic, fault, access, at);
            return None;
        }
        let finding = self.finding_of(fault, access, Some(at));
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

    fn trace(&mut self, access: &SeenAccess, at: usize) -> Option<Met> {
        let stamp = self.stamp_of(at);
        let region = &mut self.regions.list[at];
        let shared = region.kind == RegionKind::Shared;
        let block = self.blocks.iter_mut().find(|block| block.runner == access.place.runner)?;
        let id = access.place.id();
        let flag = access.kind != AccessKind::Plain;
        if flag && access.read {
            self.order.acquire(id, access.address);
        }
        let mut record = self.order.record(id);
        block.stores_volatile |= !shared && access.write && access.kind == AccessKind::Volatile;
        let publishes = flag && access.write && !shared && (block.stores_volatile || record.fenced);
        if publishes {
            self.order.next_tick(id);
            record.tick += 1;
        }
        let module = self.launch.as_ref().map_or(0, |launch| launch.statics.module.0);
        (record.stamp, record.kind) = (stamp, access.kind);
        record.from = access.from.wrapping_sub(module) as u32;
        let tracked = matches!(
            region.kind,
            RegionKind::Shared
                | RegionKind::Heap
                | RegionKind::Buffer(WatchedContents::Output | WatchedContents::Scratch)
        );
        let elements = region.shadow.elements(access.address - region.start, access.bytes);
        let mut met =
            Met { elements: elements.len(), undefined: 0, conflict: None, unfenced: None, from: record.from };
        let is_input = region.kind == RegionKind::Buffer(WatchedContents::Input);
        let doubted = !shared && !is_input && access.read && !access.write;
        for element in elements {
            let cell = region.shadow.cell(element);
            let defined = if shared { cell.defined == stamp } else { cell.defined != 0 };
            met.undefined += usize::from(access.read && tracked && !defined);
            if doubted {
                let known = self.doubts.iter().position(|(from, _)| *from == record.from);
                match (cell.volatile_read(&self.order, &record), known) {
                    (VolatileRead::Flag, Some(known)) => self.doubts[known].1 = None,
                    (VolatileRead::Flag, None) => self.doubts.push((record.from, None)),
                    (VolatileRead::Data(other), None) => met.unfenced = Some(other),
                    _ => {}
                }
            }
            if met.conflict.is_none() {
                met.conflict = cell.conflict(&mut self.order, &record, access, shared);
            }
            if access.read {
                cell.note_read(&self.order, &record);
            }
            if access.write {
                (cell.writes[access.kind.slot()], cell.defined) = (record, stamp);
            }
        }
        if flag && access.write {
            self.order.release(id, access.address, publishes);
        }
        if flag && access.read {
            self.order.begin_read(id, access.address);
        }
        Some(met)
    }
}

fn first_of_cluster(bound: &BoundLaunch, block: u32) -> u32 {
    let [columns, rows, _] = bound.grid;
    let (place, cluster) = (index(block, bound.grid), bound.cluster.unwrap_or([1; 3]));
    let [x, y, z] = [0, 1, 2].map(|axis| place[axis] / cluster[axis] * cluster[axis]);
    x + columns * (y + rows * z)
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
