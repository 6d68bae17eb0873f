//! What a thread calls for Hopper's instructions: transaction barriers, bulk copies, products of warpgroups.

use super::async_view::{AsyncView, poison};
use super::bulk::{BulkLoad, StoreRun};
use super::cluster::{landing_place, on_cluster, request};
use super::hopper_state::VAIN_TRIES;
use super::mbarrier::PhaseState;
use super::scheduler::Runner;
use super::switch::{fail, runner_of, wait};
use super::warpgroup::{IssuedProduct, is_poison, refused_registers};
use crate::host::fiber::ThreadRecord;
use crate::host::stop::ILLEGAL;
use crate::host::warp::{WaitPoint, operation};

/// `EVO_BAR_…` of the header.
mod phase {
    pub const INIT: i32 = 0;
    pub const INVALIDATE: i32 = 1;
    pub const ARRIVE: i32 = 2;
    pub const EXPECT: i32 = 3;
    pub const WAIT: i32 = 4;
    pub const TRY: i32 = 5;
    pub const DUE: i32 = 6;
    pub const LAND: i32 = 7;
    pub const ANNOUNCE: i32 = 8;
    pub const FENCE: i32 = 9;
}

const NOT_ENDED: u64 = 0;
const ENDED: u64 = 1;
const DUE: u64 = 2;

pub(super) extern "C" fn on_mbarrier(
    record: *mut ThreadRecord,
    what: i32,
    line: i32,
    at: usize,
    detail: u64,
) -> u64 {
    match what {
        phase::WAIT | phase::TRY => return wait_for_phase(record, what, line, at, detail as u32),
        request::ARRIVE..=request::ARRIVE_THERE => return on_cluster(record, what, line, at, detail),
        _ => {}
    }
    // SAFETY: the scheduler is suspended while a fiber runs; the reference ends before the switch.
    let this = unsafe { &mut *runner_of(record) };
    // SAFETY: the header has checked that the eight bytes are shared memory.
    let memory = || unsafe { &mut *(at as *mut u64) };
    // SAFETY: the calling fiber's own record.
    let thread = unsafe { (*record).linear };
    let barriers = &mut this.hopper.barriers;
    // What an arrival gives back: the phase that it belongs to.
    let phase_before = match what {
        phase::ARRIVE => barriers.find(at).map_or(0, |own| u64::from(own.phase)),
        _ => 0,
    };
    let done = match what {
        phase::INIT => barriers.init(at, memory(), detail as u32, thread).map(|()| false),
        phase::INVALIDATE => barriers.invalidate(at, *memory()).map(|()| false),
        phase::ARRIVE => barriers.arrive(at, *memory()),
        phase::EXPECT => barriers.expect(at, *memory(), detail).map(|()| false),
        phase::DUE => {
            // SAFETY: the header passes the address of a place, whose first word says which copy it asks for.
            let place = unsafe { &mut *(detail as *mut [usize; 2]) };
            let due = barriers.due(at, place[0]);
            return due.map_or(0, |(to, bytes)| {
                *place = [to, bytes];
                1
            });
        }
        phase::LAND => {
            for load in barriers.land(at) {
                this.hopper.view.write(load.to, &load.data);
                // SAFETY: when the copy was issued, its target was shared memory of the block that runs.
                unsafe {
                    std::ptr::copy_nonoverlapping(load.data.as_ptr(), load.to as *mut u8, load.data.len())
                };
            }
            Ok(true)
        }
        phase::ANNOUNCE | phase::FENCE => {
            barriers.announce(thread);
            if what == phase::FENCE {
                // SAFETY: the view's ranges are those of the block that runs, whose other threads are suspended.
                this.with_view(|view| unsafe { view.fence() });
            }
            Ok(false)
        }
        _ => Ok(false),
    };
    match done {
        Ok(true) => this.release_phase(at),
        Ok(false) => {}
        Err(text) => fail(record, ILLEGAL, line, text),
    }
    phase_before
}

fn wait_for_phase(record: *mut ThreadRecord, what: i32, line: i32, at: usize, parity: u32) -> u64 {
    let runner = runner_of(record);
    let mut tried = false;
    loop {
        // SAFETY: the scheduler is suspended while a fiber runs; references end before the switch.
        let state = unsafe {
            let this = &mut *runner;
            let state = this.hopper.barriers.state(at, *(at as *const u64), parity);
            if state == Ok(PhaseState::Open) && !tried {
                let thread = (*record).linear;
                let warp = &mut this.warps[thread as usize / 32];
                warp.at_phase |= 1 << (thread % 32);
                let lane = &mut warp.lanes[thread as usize % 32];
                let kind = if what == phase::TRY { operation::TRY_PHASE } else { operation::PHASE };
                lane.fiber = (*record).fiber as u32;
                lane.place = WaitPoint { kind, line, mask: parity };
                lane.value = at as u64;
            }
            state
        };
        match state {
            Ok(PhaseState::Ended) => return ENDED,
            Ok(PhaseState::Due) => return DUE,
            Ok(PhaseState::Open) if tried => return NOT_ENDED,
            Ok(PhaseState::Open) => wait(record),
            Err(text) => fail(record, ILLEGAL, line, text),
        }
        tried = what == phase::TRY;
    }
}

impl Runner {
    fn with_view<T>(&mut self, then: impl FnOnce(&mut AsyncView) -> T) -> T {
        if self.hopper.view.is_new() {
            let (ranges, untouched) = (self.shared_ranges(), self.untouched());
            let storage = ranges.map(|(start, _)| self.storage(start));
            // SAFETY: the ranges are those of the block, whose threads are suspended but for the caller.
            unsafe { self.hopper.view.begin(ranges, storage, untouched) };
        }
        then(&mut self.hopper.view)
    }

    pub(super) fn release_phase(&mut self, at: usize) {
        self.hopper.tries = VAIN_TRIES;
        self.release_waiting(|lane| lane.value == at as u64);
    }

    pub(super) fn release_tries(&mut self) -> bool {
        if self.hopper.tries == 0 {
            return false;
        }
        self.hopper.tries -= 1;
        self.release_waiting(|lane| lane.place.kind == operation::TRY_PHASE)
    }
}

/// `EVO_BULK_…` of the header.
mod bulk {
    pub const STAGE: i32 = 0;
    pub const LOAD: i32 = 1;
    pub const STORE: i32 = 2;
    pub const RUN: i32 = 3;
    pub const COMMIT: i32 = 4;
    pub const READ: i32 = 5;
    pub const DUE: i32 = 6;
    pub const LANDED: i32 = 7;
    pub const VIEW: i32 = 8;
    pub const IN_FLIGHT: i32 = 9;
    pub const FINISH: i32 = 10;
    pub const LOAD_THERE: i32 = 11;
}

pub(super) extern "C" fn on_bulk(
    record: *mut ThreadRecord,
    what: i32,
    line: i32,
    to: usize,
    from: usize,
    detail: u64,
) -> u64 {
    // SAFETY: the scheduler is suspended while a fiber runs; no switch happens while the reference is used.
    let this = unsafe { &mut *runner_of(record) };
    // SAFETY: the calling fiber's own record.
    let own = unsafe { &mut *record };
    let queue = &mut this.hopper.queues[own.linear as usize];
    let bytes = detail as usize;
    match what {
        bulk::STAGE => {
            queue.staging.resize(bytes, 0);
            return queue.staging.as_mut_ptr() as u64;
        }
        bulk::LOAD | bulk::LOAD_THERE => {
            let data: Box<[u8]> = queue.staging.as_slice().into();
            let rank = (what == bulk::LOAD_THERE).then_some(detail);
            if let Err(text) = load(record, line, [to, from], data, rank) {
                fail(record, ILLEGAL, line, &text);
            }
        }
        bulk::VIEW => return this.with_view(|view| view.at(to, bytes).map_or(0, |at| at as u64)),
        bulk::IN_FLIGHT if bytes == 0 => return u64::from(this.hopper.barriers.any_in_flight()),
        bulk::IN_FLIGHT => {
            if let Some(issued) = this.hopper.barriers.in_flight(to, bytes) {
                let text =
                    format!("shared memory is read into which the copy of line {issued} is on its way");
                fail(record, ILLEGAL, line, &text);
            }
        }
        _ => return on_store(record, what, line, [to, from, bytes]),
    }
    0
}

fn load(
    record: *mut ThreadRecord,
    line: i32,
    places: [usize; 2],
    data: Box<[u8]>,
    rank: Option<u64>,
) -> Result<(), String> {
    let own = (runner_of(record), places[0], places[1]);
    let (there, to, barrier) = rank.map_or(Ok(own), |rank| landing_place(record, places, rank))?;
    // SAFETY: threads of all blocks are suspended but for the caller, which does not wait while the reference is used.
    let there = unsafe { &mut *there };
    // SAFETY: the header has checked that the target is shared memory of the block; it lies so in each of a cluster.
    unsafe { poison(there.storage(to), data.len()) };
    there.with_view(|view| view.poison(to, data.len()));
    // SAFETY: the header has checked that the barrier's bytes are shared memory.
    let memory = unsafe { *(there.storage(barrier) as *const u64) };
    if there.hopper.barriers.load(barrier, memory, BulkLoad { to, data, line })? {
        there.release_phase(barrier);
    }
    Ok(())
}

fn on_store(record: *mut ThreadRecord, what: i32, line: i32, [to, from, bytes]: [usize; 3]) -> u64 {
    // SAFETY: the scheduler is suspended while a fiber runs; no switch happens while the reference is used.
    let this = unsafe { &mut *runner_of(record) };
    // SAFETY: the calling fiber's own record.
    let own = unsafe { &mut *record };
    let queue = &mut this.hopper.queues[own.linear as usize];
    let left = bytes as u32;
    match what {
        bulk::STORE => {
            // SAFETY: the header has checked that the source is shared memory of the block.
            let data = unsafe { std::slice::from_raw_parts(from as *const u8, bytes) };
            queue.store(from, data.into(), line);
            own.bulk_stores = 1;
        }
        bulk::RUN => queue.add_run(StoreRun { to, from, bytes }),
        bulk::COMMIT => queue.commit(),
        bulk::READ => {
            // SAFETY: the source of a store is shared memory of the block, which lives as long as its threads.
            let holds = |from: usize, data: &[u8]| unsafe {
                std::slice::from_raw_parts(from as *const u8, data.len()) == data
            };
            if let Some(issued) = queue.finish_reading(left, holds) {
                let text = format!(
                    "shared memory was overwritten while the bulk store of line {issued} read it, before \
                     bulk_wait_read"
                );
                fail(record, ILLEGAL, line, &text);
            }
        }
        bulk::DUE => {
            let place = to;
            let Some((to, data)) = queue.due_run(left, from) else { return 0 };
            // SAFETY: the header passes the address of three words.
            unsafe { *(place as *mut [usize; 3]) = [to, data.as_ptr() as usize, data.len()] };
            return 1;
        }
        bulk::LANDED => queue.landed(left),
        bulk::FINISH => {
            if queue.is_open() {
                fail(record, ILLEGAL, line, "a thread returns with a bulk store outside of any bulk_commit");
            }
            if let Some(issued) = queue.is_reading() {
                let text = format!(
                    "a thread returns while its bulk store of line {issued} may still read shared memory: \
                     bulk_wait_read comes first"
                );
                fail(record, ILLEGAL, line, &text);
            }
        }
        _ => {}
    }
    0
}

/// `EVO_GROUP_…` of the header.
mod group {
    pub const MEET: i32 = 0;
    pub const LEAVE: i32 = 1;
    pub const TAKE: i32 = 2;
    pub const FENCE: i32 = 3;
    pub const COMMIT: i32 = 4;
    pub const NOTE: i32 = 5;
    pub const DUE: i32 = 6;
    pub const GIVE_BACK: i32 = 7;
    pub const REGISTERS: i32 = 8;
    pub const LOCATE: i32 = 9;
    pub const COMPARED: i32 = 10;
}

pub(super) extern "C" fn on_group(
    record: *mut ThreadRecord,
    what: i32,
    line: i32,
    at: usize,
    detail: u64,
) -> u64 {
    // SAFETY: the calling fiber's own record.
    let thread = unsafe { (*record).linear } as usize;
    if what == group::MEET {
        return meet(record, line, at, detail as i32);
    }
    // SAFETY: the scheduler is suspended while a fiber runs; no switch happens while the reference is used.
    let this = unsafe { &mut *runner_of(record) };
    let own = &mut this.hopper.products[thread];
    match what {
        group::LEAVE => this.release_group(thread),
        group::FENCE => own.fences += 1,
        group::COMMIT => own.commits += 1,
        group::REGISTERS => {
            let (groups, registers) = (&mut this.hopper.groups, detail as u32);
            if let Some(text) = refused_registers(groups, thread / 128, registers) {
                fail(record, ILLEGAL, line, text);
            }
            groups[thread / 128].registers = registers;
        }
        group::LOCATE => {
            let Some((address, (start, end), view)) = this.with_view(|view| view.locate(detail as usize))
            else {
                return 0;
            };
            // SAFETY: the header passes the address of four words.
            unsafe { *(at as *mut [usize; 4]) = [address, start, end, view as usize] };
            return 1;
        }
        _ => return on_product(record, what, line, at, detail),
    }
    0
}

fn on_product(record: *mut ThreadRecord, what: i32, line: i32, at: usize, detail: u64) -> u64 {
    // SAFETY: the calling fiber's own record.
    let thread = unsafe { (*record).linear } as usize;
    // SAFETY: the scheduler is suspended while a fiber runs; no switch happens while the reference is used.
    let this = unsafe { &mut *runner_of(record) };
    let own = &mut this.hopper.products[thread];
    match what {
        group::TAKE => {
            // SAFETY: the header passes accumulators of the calling thread, and how many there are.
            let sums = unsafe { std::slice::from_raw_parts_mut(at as *mut f32, (detail >> 1) as usize) };
            match own.take(at, sums, detail & 1 != 0) {
                Ok(values) => {
                    sums.fill(f32::from_bits(u32::MAX));
                    return values as u64;
                }
                Err(text) => fail(record, ILLEGAL, line, text),
            }
        }
        group::NOTE => {
            // SAFETY: the header passes the address of a product.
            let issued = unsafe { *(at as *const IssuedProduct) };
            if let Err(text) = note(this, thread, issued) {
                fail(record, ILLEGAL, line, text);
            }
        }
        group::DUE => {
            let end = own.waited(detail as u32);
            let products = &this.hopper.groups[thread / 128].products;
            let Some(due) = products.iter().find(|own| own.group < end) else { return 0 };
            // SAFETY: the header passes the address of a product.
            unsafe { *(at as *mut IssuedProduct) = *due };
            return 1;
        }
        group::COMPARED => {
            // A thread may be interrupted while it compares. Once another has found that nothing was changed, the operands
            // may be overwritten.
            let products = &mut this.hopper.groups[thread / 128].products;
            let known = products.iter().position(|own| u64::from(own.number) == detail);
            known.map(|known| products.remove(known));
            return u64::from(known.is_some());
        }
        group::GIVE_BACK => {
            let end = own.waited(detail as u32);
            while let Some((at, values)) = own.give_back(end) {
                // SAFETY: they are the calling thread's, whose product wants them after this wait.
                let sums = unsafe { std::slice::from_raw_parts_mut(at as *mut f32, values.len()) };
                if !is_poison(sums) {
                    fail(record, ILLEGAL, line, "an accumulator of wgmma is written before wgmma_wait");
                }
                sums.copy_from_slice(values);
            }
        }
        _ => {}
    }
    0
}

fn note(this: &mut Runner, thread: usize, issued: IssuedProduct) -> Result<(), &'static str> {
    let first = thread / 128 * 128;
    let threads = &this.hopper.products[first..first + 128];
    let group = threads[0].commits;
    if threads.iter().any(|own| own.commits != group) {
        return Err("the threads of a warpgroup have called wgmma_commit different numbers of times");
    }
    let own = &mut this.hopper.groups[thread / 128];
    own.issued += 1;
    own.products.push(IssuedProduct { group, number: own.issued, ..issued });
    Ok(())
}

/// A warp comes to an instruction of its warpgroup. The last gets what all four hand over; the others wait.
fn meet(record: *mut ThreadRecord, line: i32, handed: usize, kind: i32) -> u64 {
    // SAFETY: the scheduler is suspended while a fiber runs; the reference ends before the switch.
    let (differs, last) = unsafe {
        let this = &mut *runner_of(record);
        let thread = (*record).linear as usize;
        let group = &mut this.hopper.groups[thread / 128];
        let differs = group.present != 0 && group.place != (kind, line);
        group.place = (kind, line);
        group.handed[thread / 32 % 4] = handed;
        group.present |= 1 << (thread / 32 % 4);
        let last = (group.present == 0b1111).then_some(group.handed.as_ptr() as u64);
        if last.is_none() {
            let warp = &mut this.warps[thread / 32];
            warp.at_group |= 1 << (thread % 32);
            let lane = &mut warp.lanes[thread % 32];
            lane.fiber = (*record).fiber as u32;
            lane.place = WaitPoint { kind, line, mask: u32::MAX };
        }
        (differs, last)
    };
    if differs {
        fail(record, ILLEGAL, line, "warps of one warpgroup come to different instructions");
    }
    last.unwrap_or_else(|| {
        wait(record);
        0
    })
}

impl Runner {
    fn release_group(&mut self, thread: usize) {
        self.hopper.groups[thread / 128].present = 0;
        for warp in &mut self.warps[thread / 128 * 4..][..4] {
            warp.ready |= std::mem::take(&mut warp.at_group);
        }
    }
}
