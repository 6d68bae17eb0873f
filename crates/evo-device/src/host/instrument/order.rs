//! Which accesses of a launch are in order: what a thread knows of the others.
//!
//! Where the exact rule would need a clock for each pair of threads, the coarser rule claims more order than there
//! is: a race may be missed, but an honest kernel is never accused.

use std::collections::HashMap;
use std::rc::Rc;

use super::cluster_order::ClusterOrder;
use super::shadow::AccessRecord;

/// What the lanes of a warp know of each other: for each lane, the number of synchronizing calls that are past.
type LaneClock = [u32; 32];

/// For each thread of a block the number of synchronizing calls that are past; empty where nothing is known.
type BlockClock = Rc<Vec<u32>>;

fn join_ticks(own: &mut BlockClock, other: &BlockClock) {
    if Rc::ptr_eq(own, other) || other.is_empty() {
        return;
    }
    if own.is_empty() {
        *own = Rc::clone(other);
        return;
    }
    for (own, theirs) in Rc::make_mut(own).iter_mut().zip(other.iter()) {
        *own = (*own).max(*theirs);
    }
}

/// Epochs of one barrier of the block to the next; named barriers count inside.
const EPOCHS_PER_BARRIER: u32 = 1 << 14;

/// More snapshots than this in one place, and everything is taken to be known there.
const SNAPSHOTS_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    block: u32,
    thread: u16,
    /// Its last fence of the device, and of at least the block: number and epoch.
    device: (u16, u32),
    local: (u16, u32),
    /// At the time of publication.
    epoch: u32,
    clock: Rc<LaneClock>,
}

impl Snapshot {
    fn age(&self) -> (u32, u16, u32) {
        (self.epoch, self.local.0, self.clock[usize::from(self.thread) % 32])
    }
}

#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    snapshots: Vec<Snapshot>,
    /// Too many to be told apart: everything counts as known.
    blurred: bool,
}

impl Knowledge {
    fn add(&mut self, new: &Snapshot) {
        if self.blurred {
            return;
        }
        match self.snapshots.iter_mut().find(|own| (own.block, own.thread) == (new.block, new.thread)) {
            // The same thread's may come back from a place where it published earlier.
            Some(own) if own.age() >= new.age() => {}
            Some(own) => *own = new.clone(),
            None => self.snapshots.push(new.clone()),
        }
        self.blurred = self.snapshots.len() > SNAPSHOTS_MAX;
    }

    fn join(&mut self, other: &Knowledge) {
        self.blurred |= other.blurred;
        other.snapshots.iter().for_each(|one| self.add(one));
    }

    fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && !self.blurred
    }
}

#[derive(Clone, Debug, Default)]
struct ThreadOrder {
    epoch: u32,
    fences: u16,
    device: (u16, u32),
    local: (u16, u32),
    clock: LaneClock,
    published: LaneClock,
    /// What it knows of all threads of the block by transaction barriers since the last barrier of the block, now and
    /// at that call.
    ticks: BlockClock,
    published_ticks: BlockClock,
    reading: Option<usize>,
}

#[derive(Debug, Default)]
pub struct BlockOrder {
    block: u32,
    threads: Vec<ThreadOrder>,
    known: Knowledge,
    /// Whether any of its threads has passed a fence: without one nothing can be published.
    fenced: bool,
    /// By number of a named barrier: the latest epoch of those that came there.
    named: [u32; 16],
    /// By place of a transaction barrier: the latest epoch of those that arrived, and what they knew.
    phases: HashMap<u32, (u32, BlockClock)>,
    /// The blocks of its cluster, and the number of the latest access of theirs that is known here.
    cluster: ClusterOrder,
}

/// What outlives blocks: addresses that publish, and who has passed a fence.
#[derive(Debug, Default)]
pub struct LaunchOrder {
    places: HashMap<usize, Knowledge>,
    /// By block and thread: fences passed up to the last one of the device.
    fenced: HashMap<(u32, u16), u16>,
}

impl LaunchOrder {
    pub fn forget(&mut self, start: usize, bytes: usize) {
        self.places.retain(|address, _| address.wrapping_sub(start) >= bytes);
    }
}

impl BlockOrder {
    pub fn new(block: u32, threads: usize) -> BlockOrder {
        BlockOrder { block, threads: vec![ThreadOrder::default(); threads], ..BlockOrder::default() }
    }

    pub fn block(&self) -> u32 {
        self.block
    }

    /// Stamp, kind and place are the caller's.
    pub fn record(&self, thread: u16) -> AccessRecord {
        let own = &self.threads[usize::from(thread)];
        AccessRecord {
            block: self.block,
            thread,
            fences: own.fences,
            epoch: own.epoch,
            tick: own.clock[usize::from(thread) % 32],
            ..AccessRecord::default()
        }
    }

    pub fn arrive(&mut self, thread: u16) {
        let own = &mut self.threads[usize::from(thread)];
        own.clock[usize::from(thread) % 32] += 1;
        own.published = own.clock;
        own.published_ticks = Rc::clone(&own.ticks);
    }

    pub fn pass_barrier(&mut self, thread: u16) {
        let own = &mut self.threads[usize::from(thread)];
        own.epoch = (own.epoch / EPOCHS_PER_BARRIER + 1).saturating_mul(EPOCHS_PER_BARRIER);
        self.known.blurred |= own.epoch == u32::MAX;
        // The epoch says as much.
        own.ticks = BlockClock::default();
    }

    pub fn arrive_phase(&mut self, thread: u16, place: u32) {
        let (threads, own) = (self.threads.len(), &mut self.threads[usize::from(thread)]);
        own.clock[usize::from(thread) % 32] += 1;
        let (epoch, known) = self.phases.entry(place).or_default();
        *epoch = (*epoch).max(own.epoch);
        join_ticks(known, &own.ticks);
        let known = Rc::make_mut(known);
        known.resize(threads, 0);
        for (place, tick) in known.iter_mut().skip(usize::from(thread) / 32 * 32).zip(&own.clock) {
            *place = (*place).max(*tick);
        }
    }

    pub fn pass_phase(&mut self, thread: u16, place: u32) {
        let Some((epoch, known)) = self.phases.get(&place) else { return };
        let own = &mut self.threads[usize::from(thread)];
        own.epoch = own.epoch.max(*epoch);
        join_ticks(&mut own.ticks, known);
        for (tick, theirs) in own.clock.iter_mut().zip(known.iter().skip(usize::from(thread) / 32 * 32)) {
            *tick = (*tick).max(*theirs);
        }
    }

    pub fn arrive_named(&mut self, thread: u16, number: u32) {
        let place = &mut self.named[number as usize % 16];
        *place = (*place).max(self.threads[usize::from(thread)].epoch);
    }

    /// The thread knows what those that came there did before. Threads that were not there count as known as well, up
    /// to the same epoch.
    pub fn pass_named(&mut self, thread: u16, number: u32) {
        let own = &mut self.threads[usize::from(thread)];
        let next = own.epoch.max(self.named[number as usize % 16]).saturating_add(1);
        // Where the count would reach the next barrier's, everything is taken to be known.
        self.known.blurred |= next.is_multiple_of(EPOCHS_PER_BARRIER);
        own.epoch = next;
    }

    pub fn pass_operation(&mut self, thread: u16, lanes: u32) {
        let first = usize::from(thread) / 32 * 32;
        let mut joined = self.threads[usize::from(thread)].clock;
        let mut ticks = Rc::clone(&self.threads[usize::from(thread)].ticks);
        let mut epoch = self.threads[usize::from(thread)].epoch;
        for (lane, other) in self.threads.iter().skip(first).take(32).enumerate() {
            if lanes >> lane & 1 == 1 {
                for (own, theirs) in joined.iter_mut().zip(&other.published) {
                    *own = (*own).max(*theirs);
                }
                if !other.published_ticks.is_empty() {
                    join_ticks(&mut ticks, &other.published_ticks);
                    epoch = epoch.max(other.epoch);
                }
            }
        }
        let own = &mut self.threads[usize::from(thread)];
        (own.clock, own.ticks, own.epoch) = (joined, ticks, epoch);
    }

    pub fn fence(&mut self, launch: &mut LaunchOrder, thread: u16, device: bool) {
        let own = &mut self.threads[usize::from(thread)];
        own.fences = own.fences.saturating_add(1);
        own.local = (own.fences, own.epoch);
        self.fenced = true;
        if device {
            own.device = own.local;
            launch.fenced.insert((self.block, thread), own.fences);
        }
    }

    pub fn begin_read(&mut self, thread: u16, address: usize) {
        self.threads[usize::from(thread)].reading = Some(address);
    }

    pub fn end_read(&mut self, thread: u16) -> Option<usize> {
        self.threads.get_mut(usize::from(thread))?.reading.take()
    }

    pub fn acquire(&mut self, launch: &LaunchOrder, thread: u16, address: usize) {
        let Some(place) = launch.places.get(&address) else { return };
        self.known.blurred |= place.blurred;
        for one in &place.snapshots {
            // Its own state would tell the block's other threads what they have not seen.
            if (one.block, one.thread) != (self.block, thread) {
                self.known.add(one);
            }
        }
    }

    pub fn release(&mut self, launch: &mut LaunchOrder, thread: u16, address: usize) {
        if !self.fenced && self.known.is_empty() {
            return;
        }
        let own = &self.threads[usize::from(thread)];
        let snapshot = Snapshot {
            block: self.block,
            thread,
            device: own.device,
            local: own.local,
            epoch: own.epoch,
            clock: Rc::new(own.clock),
        };
        let place = launch.places.entry(address).or_default();
        place.add(&snapshot);
        place.join(&self.known);
    }

    /// The read is in order if the writer had passed a fence; says whether it had.
    pub fn acquire_plain(&mut self, flag: &AccessRecord) -> bool {
        if flag.fences == 0 {
            return false;
        }
        let fence = (flag.fences, flag.epoch);
        self.known.add(&Snapshot {
            block: flag.block,
            thread: flag.thread,
            device: fence,
            local: fence,
            epoch: flag.epoch,
            clock: Rc::new([flag.tick; 32]),
        });
        true
    }

    pub fn is_after(&self, launch: &LaunchOrder, thread: u16, earlier: &AccessRecord) -> bool {
        let same_block = earlier.block == self.block;
        if same_block {
            let own = &self.threads[usize::from(thread)];
            let same_warp = earlier.thread / 32 == thread / 32;
            if earlier.thread == thread
                || earlier.epoch < own.epoch
                || same_warp && earlier.tick < own.clock[usize::from(earlier.thread) % 32]
                || own.ticks.get(usize::from(earlier.thread)).is_some_and(|tick| earlier.tick < *tick)
            {
                return true;
            }
        }
        !same_block && self.cluster.covers(earlier)
            || self.known.blurred
            || self.known.snapshots.iter().any(|one| covers(one, launch, earlier, same_block))
    }

    pub fn in_cluster(mut self, blocks: Vec<u32>) -> BlockOrder {
        self.cluster.blocks = blocks;
        self
    }

    pub fn cluster(&mut self) -> &mut ClusterOrder {
        &mut self.cluster
    }
}

fn covers(one: &Snapshot, launch: &LaunchOrder, earlier: &AccessRecord, same_block: bool) -> bool {
    if one.block != earlier.block {
        return false;
    }
    let (fence, fence_epoch) = if same_block { one.local } else { one.device };
    let same_warp = one.thread / 32 == earlier.thread / 32;
    let by_lane = same_warp && earlier.tick < one.clock[usize::from(earlier.thread) % 32];
    if fence > 0 {
        let own = earlier.thread == one.thread && earlier.fences < fence;
        if own || earlier.epoch < fence_epoch || by_lane {
            return true;
        }
    }
    // Every thread fences its own writes, then a barrier, then one thread publishes for all of them.
    let fenced = launch.fenced.get(&(earlier.block, earlier.thread)).is_some_and(|own| earlier.fences < *own);
    fenced && (earlier.epoch < one.epoch || by_lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAG: usize = 64;

    fn blocks() -> (LaunchOrder, BlockOrder, BlockOrder) {
        (LaunchOrder::default(), BlockOrder::new(0, 64), BlockOrder::new(1, 64))
    }

    fn barrier(block: &mut BlockOrder) {
        (0..64).for_each(|thread| block.arrive(thread));
        (0..64).for_each(|thread| block.pass_barrier(thread));
    }

    #[test]
    fn barriers_order_a_block_and_operations_their_lanes() {
        let (launch, mut block, _) = blocks();
        let earlier = block.record(5);
        assert!(block.is_after(&launch, 5, &earlier));
        assert!(!block.is_after(&launch, 6, &earlier));
        for lane in [4u16, 5, 6] {
            block.arrive(lane);
        }
        for lane in [4u16, 5, 6] {
            block.pass_operation(lane, 0b111_0000);
        }
        assert!(block.is_after(&launch, 6, &earlier));
        assert!(!block.is_after(&launch, 7, &earlier) && !block.is_after(&launch, 38, &earlier));
        // What lane 5 does afterwards is new again.
        let later = block.record(5);
        assert!(!block.is_after(&launch, 6, &later));
        barrier(&mut block);
        assert!(block.is_after(&launch, 38, &later));
    }

    #[test]
    fn a_transaction_barrier_orders_those_that_arrive_before_those_that_wait() {
        let (launch, mut block, _) = blocks();
        let earlier = block.record(5);
        block.arrive_phase(5, 64);
        let later = block.record(5);
        block.pass_phase(40, 64);
        assert!(block.is_after(&launch, 40, &earlier) && !block.is_after(&launch, 40, &later));
        assert!(!block.is_after(&launch, 41, &earlier) && !block.is_after(&launch, 4, &earlier));
        // It travels on, by another barrier and by an operation of a warp.
        block.arrive_phase(40, 72);
        block.pass_phase(7, 72);
        assert!(block.is_after(&launch, 7, &earlier));
        (40..42).for_each(|lane| block.arrive(lane));
        (40..42).for_each(|lane| block.pass_operation(lane, 0b11 << 8));
        assert!(block.is_after(&launch, 41, &earlier) && !block.is_after(&launch, 42, &earlier));
        barrier(&mut block);
        assert!(block.is_after(&launch, 42, &later));
    }

    #[test]
    fn an_atomic_publishes_what_a_fence_precedes() {
        let check = |before: &dyn Fn(&mut BlockOrder, &mut LaunchOrder), writer: u16, expected: bool| {
            let (mut launch, mut first, mut second) = blocks();
            let earlier = first.record(writer);
            before(&mut first, &mut launch);
            first.release(&mut launch, 0, FLAG);
            let unfenced = first.record(0);
            second.acquire(&launch, 0, FLAG);
            assert_eq!(second.is_after(&launch, 9, &earlier), expected);
            assert!(!second.is_after(&launch, 9, &unfenced));
        };
        check(&|_, _| {}, 0, false);
        check(&|block, launch| block.fence(launch, 0, true), 0, true);
        check(&|block, launch| block.fence(launch, 0, false), 0, false);
        check(&|block, launch| block.fence(launch, 0, true), 40, false);
        // A barrier alone orders the block, not the device.
        check(&|block, _| barrier(block), 40, false);
        check(&|block, launch| (barrier(block), block.fence(launch, 0, true)).1, 40, true);
        let each = |block: &mut BlockOrder, launch: &mut LaunchOrder| {
            (0..64).for_each(|thread| block.fence(launch, thread, true));
            barrier(block);
        };
        check(&each, 40, true);
    }

    #[test]
    fn a_lock_hands_on_what_its_holders_did() {
        let mut launch = LaunchOrder::default();
        let mut earlier: Option<AccessRecord> = None;
        for number in 0..3 {
            let mut block = BlockOrder::new(number, 1);
            block.acquire(&launch, 0, FLAG);
            block.release(&mut launch, 0, FLAG);
            block.fence(&mut launch, 0, true);
            assert!(earlier.is_none_or(|own| block.is_after(&launch, 0, &own)), "block {number}");
            earlier = Some(block.record(0));
            block.fence(&mut launch, 0, true);
            block.acquire(&launch, 0, FLAG);
            block.release(&mut launch, 0, FLAG);
        }
    }

    #[test]
    fn knowledge_travels_on_and_blurs_in_a_crowd() {
        let (mut launch, mut first, mut second) = blocks();
        let earlier = first.record(0);
        first.fence(&mut launch, 0, true);
        first.release(&mut launch, 0, FLAG);
        second.acquire(&launch, 0, FLAG);
        second.fence(&mut launch, 3, true);
        second.release(&mut launch, 3, 2 * FLAG);
        // Its own earlier state, met again, takes nothing back.
        first.acquire(&launch, 0, 2 * FLAG);
        first.acquire(&launch, 0, FLAG);
        let mut third = BlockOrder::new(2, 64);
        third.acquire(&launch, 0, 2 * FLAG);
        assert!(third.is_after(&launch, 1, &earlier));
        for block in 10..10 + SNAPSHOTS_MAX as u32 + 20 {
            let mut other = BlockOrder::new(block, 1);
            other.fence(&mut launch, 0, true);
            other.release(&mut launch, 0, FLAG);
        }
        let mut last = BlockOrder::new(9, 64);
        last.acquire(&launch, 0, FLAG);
        assert!(last.is_after(&launch, 0, &AccessRecord { block: 7, ..AccessRecord::default() }));
    }
}
