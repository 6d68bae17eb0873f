//! What a running thread calls: barriers, warp operations, `printf`, traps, copies in the background, named and
//! transaction barriers, bulk copies, products of warpgroups, and other blocks of the cluster.

use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering;

use super::call::{Answer, Call, fail, member_of, wait};
use super::cluster::{self, landing_place};
use super::copies::{AsyncView, BulkLoad, BulkStore, PendingCopy};
use super::mbarrier::PhaseState;
use super::scheduler::{BarrierState, Runner};
use super::warpgroup::{IssuedProduct, TOUCHED, is_poison, refused_registers};
use crate::host::fiber::{Runtime, ThreadRecord};
use crate::host::pattern;
use crate::host::stop::ILLEGAL;
use crate::host::warp::{WaitPoint, barrier, operation};

pub static RUNTIME: Runtime = Runtime {
    barrier: on_barrier,
    warp: on_warp,
    stop: on_stop,
    print: on_print,
    relax: on_relax,
    operation: on_operation,
};

/// Bytes shown per launch and processor thread; the rest is dropped, as a GPU's buffer drops it.
const PRINT_MAX: usize = 16 * 1024;

extern "C" fn on_barrier(record: *mut ThreadRecord, kind: i32, line: i32, predicate: i32) -> u64 {
    // SAFETY: the calling fiber's own record.
    let (thread, fiber) = unsafe { ((*record).linear as usize, (*record).fiber as u32) };
    let this = member_of(record).runner();
    let state = &mut this.state.barrier;
    if state.waiting == 0 {
        (state.kind, state.line) = (kind, line);
    }
    state.differs |= (state.kind, state.line) != (kind, line);
    state.count += u32::from(predicate != 0);
    state.waiting += 1;
    let warp = &mut this.warps[thread / 32];
    warp.at_barrier |= 1 << (thread % 32);
    let lane = &mut warp.lanes[thread % 32];
    (lane.fiber, lane.place) = (fiber, WaitPoint { kind, line, mask: 0 });
    if this.release_barrier(0) {
        // The last to come goes on at once.
        this.warps[thread / 32].ready &= !(1 << (thread % 32));
    } else {
        wait(record);
    }
    let BarrierState { held, present, .. } = member_of(record).runner().state.barrier;
    match kind {
        barrier::SYNC_COUNT => u64::from(held),
        barrier::SYNC_AND => u64::from(held == present),
        barrier::SYNC_OR => u64::from(held != 0),
        _ => 0,
    }
}

extern "C" fn on_warp(
    record: *mut ThreadRecord,
    kind: i32,
    line: i32,
    mask: u32,
    value: u64,
    parameter: u32,
) -> u64 {
    // SAFETY: the calling fiber's own record.
    let (thread, fiber) = unsafe { ((*record).linear as usize, (*record).fiber as u32) };
    let (at, bit) = (thread % 32, 1u32 << (thread % 32));
    let warp = &mut member_of(record).runner().warps[thread / 32];
    if kind == operation::RELEASE {
        // The lane holds what its warp gathered, so all of `mask` but itself wait there.
        warp.release(mask & warp.waiting);
        return 0;
    }
    let place = WaitPoint { kind, line, mask };
    let lane = &mut warp.lanes[at];
    (lane.fiber, lane.place) = (fiber, place);
    (lane.value, lane.parameter) = (value, parameter);
    let required = mask & warp.existing;
    // A lane that is missing from its own mask can never go on: it stays, and is named when all wait.
    if kind != operation::ACTIVE && required & bit != 0 && warp.all_wait_at(required, at, place) {
        if kind >= operation::GATHER_MMA {
            warp.gather(required);
            return warp.gathered.as_ptr() as u64;
        }
        // The last lane to come computes for all, and goes on without a switch.
        warp.compute(kind, required);
        warp.release(required & !bit);
    } else {
        warp.waiting |= bit;
        wait(record);
    }
    member_of(record).runner().warps[thread / 32].lanes[at].result
}

extern "C" fn on_stop(record: *mut ThreadRecord, kind: i32, line: i32, text: *const c_char) {
    // SAFETY: the header passes a string literal.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    fail(record, kind, line, &text)
}

extern "C" fn on_print(record: *mut ThreadRecord, text: *const c_char, bytes: usize) {
    // SAFETY: the header passes a buffer of so many bytes.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), bytes) };
    let this = member_of(record).runner();
    if this.printed < PRINT_MAX {
        this.printed += bytes;
        // Standard output belongs to the worker's protocol. A lost line of a kernel's `printf` does no harm.
        // SAFETY: the descriptor is the process's standard error, the buffer is alive.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
}

extern "C" fn on_relax(record: *mut ThreadRecord) {
    // SAFETY: the calling fiber's own record.
    let (thread, fiber) = unsafe { ((*record).linear as usize, (*record).fiber as u32) };
    let warp = &mut member_of(record).runner().warps[thread / 32];
    warp.lanes[thread % 32].fiber = fiber;
    warp.relaxed |= 1 << (thread % 32);
    wait(record);
}

/// A thread whose slice is over gives way if somebody else can go on, and its warp with it, as the other lanes are
/// likely to wait for the same. Where nobody else can, the block may wait for another block.
pub extern "C" fn give_way(record: *mut ThreadRecord) {
    let this = member_of(record).runner();
    this.leave = this.others_can_go_on() || this.mates_can_go_on();
    if this.leave || this.clock.crowded.load(Ordering::Relaxed) {
        this.clock.hurried.store(true, Ordering::Relaxed);
    }
    if this.leave {
        on_relax(record);
    } else {
        std::thread::yield_now();
    }
}

type Operation = fn(&mut Call) -> Answer;

/// In the order of the header's enumeration.
static OPERATIONS: [(&str, Operation); 46] = [
    ("EVO_IS_SHARED", |call| Ok(u64::from(call.runner().is_shared(call.at, call.detail as usize)))),
    ("EVO_NAMED", named_barrier),
    ("EVO_COPY_ISSUE", |call| {
        // SAFETY: the header passes the address of 16 bytes.
        let data = unsafe { *(call.from as *const [u8; 16]) };
        call.background().copies.issue(PendingCopy { to: call.at, bytes: call.detail as u32, data });
        Ok(0)
    }),
    ("EVO_COPY_COMMIT", |call| {
        call.background().copies.commit();
        Ok(0)
    }),
    ("EVO_COPY_DUE", |call| {
        let due = call.background().copies.due(call.detail as u32);
        // SAFETY: the header passes the address of a pointer, and reads the copies before it asks anything else.
        unsafe { *(call.from as *mut *const _) = due.as_ptr() };
        Ok(due.len() as u64)
    }),
    ("EVO_COPY_LANDED", |call| {
        call.background().copies.landed(call.detail as usize);
        Ok(0)
    }),
    ("EVO_BAR_INIT", |call| {
        call.barriers().init(call.at, call.memory(), call.detail as u32, call.thread as u32)?;
        Ok(0)
    }),
    ("EVO_BAR_INVALIDATE", |call| {
        call.barriers().invalidate(call.at, *call.memory())?;
        Ok(0)
    }),
    ("EVO_BAR_ARRIVE", |call| {
        let barrier = call.barriers().get(call.at, *call.memory())?;
        // The phase that the arrival belongs to.
        let phase = barrier.phase;
        if barrier.arrive()? {
            call.runner().release_phase(call.at);
        }
        Ok(phase.into())
    }),
    ("EVO_BAR_EXPECT", |call| {
        call.barriers().get(call.at, *call.memory())?.expect(call.detail)?;
        Ok(0)
    }),
    ("EVO_BAR_WAIT", |call| wait_for_phase(call, operation::PHASE)),
    ("EVO_BAR_TRY", |call| wait_for_phase(call, operation::TRY_PHASE)),
    ("EVO_BAR_DUE", |call| {
        // SAFETY: the header passes the address of a place, whose first word says which copy it asks for.
        let place = unsafe { &mut *(call.detail as *mut [usize; 2]) };
        let Some((to, bytes)) = call.barriers().due(call.at, place[0]) else { return Ok(0) };
        *place = [to, bytes];
        Ok(1)
    }),
    ("EVO_BAR_LAND", |call| {
        for load in call.barriers().land(call.at) {
            if let Some(target) = call.runner().view.at(load.to, load.data.len()) {
                target.copy_from_slice(&load.data);
            }
            // SAFETY: when the copy was issued, its target was shared memory of the block that runs.
            unsafe { std::ptr::copy_nonoverlapping(load.data.as_ptr(), load.to as *mut u8, load.data.len()) };
        }
        call.runner().release_phase(call.at);
        Ok(0)
    }),
    ("EVO_BAR_ANNOUNCE", |call| {
        call.barriers().announce(call.thread as u32);
        Ok(0)
    }),
    ("EVO_BAR_FENCE", |call| {
        call.barriers().announce(call.thread as u32);
        // SAFETY: the view's ranges are those of the block that runs, whose other threads are suspended.
        call.runner().with_view(|view| unsafe { view.fence() });
        Ok(0)
    }),
    ("EVO_BAR_CLUSTER_ARRIVE", cluster::arrive),
    ("EVO_BAR_CLUSTER_WAIT", cluster::wait_for_all),
    ("EVO_BAR_CLUSTER_RANK", |call| Ok(call.runner().rank as u64)),
    ("EVO_BAR_CLUSTER_SIZE", |call| Ok(call.runner().members.len() as u64)),
    ("EVO_BAR_MAPA", cluster::mapa),
    ("EVO_BAR_USE_THERE", cluster::use_there),
    ("EVO_BAR_ARRIVE_THERE", cluster::arrive_there),
    ("EVO_BULK_STAGE", |call| {
        let bytes = call.detail as usize;
        let staging = &mut call.background().staging;
        staging.resize(bytes, 0);
        Ok(staging.as_mut_ptr() as u64)
    }),
    ("EVO_BULK_LOAD", |call| load(call, None)),
    ("EVO_BULK_STORE", |call| {
        let (from, line) = (call.from, call.line);
        // SAFETY: the header has checked that the source is shared memory of the block.
        let data = unsafe { std::slice::from_raw_parts(from as *const u8, call.detail as usize) };
        let store = BulkStore { from, data: data.into(), line, runs: Vec::new(), read: false };
        call.background().stores.issue(store);
        // SAFETY: the calling fiber's own record.
        unsafe { (*call.record).bulk_stores = 1 };
        Ok(0)
    }),
    ("EVO_BULK_RUN", |call| {
        if let Some(store) = call.background().stores.latest() {
            store.runs.push((call.at, call.from, call.detail as usize));
        }
        Ok(0)
    }),
    ("EVO_BULK_COMMIT", |call| {
        call.background().stores.commit();
        Ok(0)
    }),
    ("EVO_BULK_READ", |call| {
        let due = call.background().stores.due(call.detail as u32).iter_mut().map(|own| &mut own.item);
        let mut changed = None;
        for store in due.filter(|store| !store.read) {
            store.read = true;
            // SAFETY: the source of a store is shared memory of the block, which lives as long as its threads.
            let now = unsafe { std::slice::from_raw_parts(store.from as *const u8, store.data.len()) };
            changed = changed.or((*now != *store.data).then_some(store.line));
        }
        let Some(issued) = changed else { return Ok(0) };
        Err(format!(
            "shared memory was overwritten while the bulk store of line {issued} read it, before bulk_wait_read"
        )
        .into())
    }),
    ("EVO_BULK_DUE", |call| {
        let due = call.background().stores.due(call.detail as u32).iter().map(|own| &own.item);
        let mut runs = due.flat_map(|store| store.runs.iter().map(|run| (&store.data, *run)));
        let Some((data, (to, from, bytes))) = runs.nth(call.from) else { return Ok(0) };
        // SAFETY: the header passes the address of three words.
        unsafe { *(call.at as *mut [usize; 3]) = [to, data[from..from + bytes].as_ptr() as usize, bytes] };
        Ok(1)
    }),
    ("EVO_BULK_LANDED", |call| {
        let stores = &mut call.background().stores;
        let count = stores.due(call.detail as u32).len();
        stores.landed(count);
        Ok(0)
    }),
    ("EVO_BULK_VIEW", |call| {
        let (at, bytes) = (call.at, call.detail as usize);
        Ok(call.runner().with_view(|view| view.at(at, bytes).map_or(0, |part| part.as_ptr() as u64)))
    }),
    ("EVO_BULK_IN_FLIGHT", |call| {
        let (at, bytes) = (call.at, call.detail as usize);
        let mut loads = call.barriers().in_flight();
        if bytes == 0 {
            return Ok(u64::from(loads.next().is_some()));
        }
        let meets = |load: &&BulkLoad| load.to < at + bytes && at < load.to + load.data.len();
        let Some(BulkLoad { line, .. }) = loads.find(meets) else { return Ok(0) };
        Err(format!("shared memory is read into which the copy of line {line} is on its way").into())
    }),
    ("EVO_BULK_FINISH", |call| {
        let stores = &call.background().stores;
        if stores.is_open() {
            return Err("a thread returns with a bulk store outside of any bulk_commit".into());
        }
        let Some(BulkStore { line, .. }) = stores.iter().find(|store| !store.read) else { return Ok(0) };
        Err(format!(
            "a thread returns while its bulk store of line {line} may still read shared memory: bulk_wait_read comes \
             first"
        )
        .into())
    }),
    ("EVO_BULK_LOAD_THERE", |call| load(call, Some(call.detail))),
    ("EVO_GROUP_MEET", meet),
    ("EVO_GROUP_LEAVE", |call| {
        call.group().present = 0;
        let first = call.thread / 128 * 4;
        call.runner().release_among(first..first + 4, |lane| lane.value == GROUP);
        Ok(0)
    }),
    ("EVO_GROUP_TAKE", |call| {
        let (at, detail) = (call.at, call.detail);
        // SAFETY: the header passes accumulators of the calling thread, and how many there are.
        let sums = unsafe { std::slice::from_raw_parts_mut(at as *mut f32, (detail >> 1) as usize) };
        let values = call.background().products.take(at, sums, detail & 1 != 0)?;
        sums.fill(f32::from_bits(u32::MAX));
        Ok(values as u64)
    }),
    ("EVO_GROUP_FENCE", |call| {
        call.background().products.fences += 1;
        Ok(0)
    }),
    ("EVO_GROUP_COMMIT", |call| {
        call.background().products.commits += 1;
        Ok(0)
    }),
    ("EVO_GROUP_NOTE", |call| {
        let first = call.thread / 128 * 128;
        let threads = &call.runner().background[first..first + 128];
        let group = threads[0].products.commits;
        if threads.iter().any(|thread| thread.products.commits != group) {
            return Err(
                "the threads of a warpgroup have called wgmma_commit different numbers of times".into()
            );
        }
        // SAFETY: the header passes the address of a product.
        let issued = unsafe { *(call.at as *const IssuedProduct) };
        let warpgroup = call.group();
        warpgroup.issued += 1;
        warpgroup.products.push(IssuedProduct { group, number: warpgroup.issued, ..issued });
        Ok(0)
    }),
    ("EVO_GROUP_DUE", |call| {
        let left = call.detail as u32;
        let end = call.background().products.waited(left);
        let Some(due) = call.group().products.iter().find(|product| product.group < end).copied() else {
            return Ok(0);
        };
        // SAFETY: the header passes the address of a product.
        unsafe { *(call.at as *mut IssuedProduct) = due };
        Ok(1)
    }),
    ("EVO_GROUP_GIVE_BACK", |call| {
        let left = call.detail as u32;
        let products = &mut call.background().products;
        let end = products.waited(left);
        while let Some((at, values)) = products.give_back(end) {
            // SAFETY: they are the calling thread's, whose product wants them after this wait.
            let sums = unsafe { std::slice::from_raw_parts_mut(at as *mut f32, values.len()) };
            if !is_poison(sums) {
                return Err(TOUCHED.into());
            }
            sums.copy_from_slice(values);
        }
        Ok(0)
    }),
    ("EVO_GROUP_REGISTERS", |call| {
        let (number, registers) = (call.thread / 128, call.detail as u32);
        match refused_registers(&call.runner().state.groups, number, registers) {
            Some(text) => Err(text.into()),
            None => {
                call.group().registers = registers;
                Ok(0)
            }
        }
    }),
    ("EVO_GROUP_LOCATE", |call| {
        let low = call.detail as usize;
        let located = call.runner().with_view(|view| view.locate(low));
        let Some((address, (start, end), view)) = located else { return Ok(0) };
        // SAFETY: the header passes the address of four words.
        unsafe { *(call.at as *mut [usize; 4]) = [address, start, end, view as usize] };
        Ok(1)
    }),
    ("EVO_GROUP_COMPARED", |call| {
        // A thread may be interrupted while it compares. Once another has found that nothing was changed, the operands may
        // be overwritten.
        let number = call.detail;
        let products = &mut call.group().products;
        let known = products.iter().position(|product| u64::from(product.number) == number);
        known.map(|known| products.remove(known));
        Ok(u64::from(known.is_some()))
    }),
];

extern "C" fn on_operation(
    record: *mut ThreadRecord,
    what: i32,
    line: i32,
    at: usize,
    from: usize,
    detail: u64,
) -> u64 {
    // SAFETY: the calling fiber's own record.
    let thread = unsafe { (*record).linear } as usize;
    let mut call = Call { record, thread, line, at, from, detail };
    let (_, operation) = OPERATIONS[what as usize];
    operation(&mut call).unwrap_or_else(|text| fail(record, ILLEGAL, line, &text))
}

fn named_barrier(call: &mut Call) -> Answer {
    let (number, threads, waits) = (call.at as u32, call.from as u32, call.detail != 0);
    let barrier = &mut call.runner().state.named[number as usize];
    if barrier.arrived == 0 {
        barrier.expected = threads;
    }
    if barrier.expected != threads {
        return Ok(u64::from(barrier.expected));
    }
    barrier.arrived += 1;
    if barrier.arrived == threads {
        barrier.arrived = 0;
        let there = (operation::GATHER_BAR_SYNC, number);
        call.runner().release(|lane| (lane.place.kind, lane.place.mask) == there);
    } else if waits {
        call.wait(operation::GATHER_BAR_SYNC, number, 0);
    }
    Ok(0)
}

const NOT_ENDED: u64 = 0;
const ENDED: u64 = 1;
const DUE: u64 = 2;

fn wait_for_phase(call: &mut Call, kind: i32) -> Answer {
    let mut tried = false;
    loop {
        match call.barriers().get(call.at, *call.memory())?.state(call.detail as u32) {
            PhaseState::Ended => return Ok(ENDED),
            PhaseState::Due => return Ok(DUE),
            PhaseState::Open if tried => return Ok(NOT_ENDED),
            PhaseState::Open => call.wait(kind, call.detail as u32, call.at as u64),
        }
        tried = kind == operation::TRY_PHASE;
    }
}

fn load(call: &mut Call, rank: Option<u64>) -> Answer {
    let data: Box<[u8]> = call.background().staging.as_slice().into();
    let (here, line) = ((call.member(), call.at, call.from), call.line);
    let (there, to, barrier) = rank.map_or(Ok(here), |rank| landing_place(call, rank))?;
    let there = there.runner();
    // A target holds ones until its copy lands: NaN in every floating-point type.
    // SAFETY: the header has checked that the target is shared memory of the block; it lies so in each of a cluster.
    unsafe { pattern::fill(there.storage(to), data.len(), u32::MAX) };
    there.with_view(|view| view.at(to, data.len()).map(|part| part.fill(0xff)));
    // SAFETY: the header has checked that the barrier's bytes are shared memory.
    let memory = unsafe { *(there.storage(barrier) as *const u64) };
    if there.state.barriers.get(barrier, memory)?.load(BulkLoad { to, data, line })? {
        there.release_phase(barrier);
    }
    Ok(0)
}

/// What a lane waits for that stands for its warp, which waits for the others of its warpgroup. No operand lies there.
const GROUP: u64 = 2;

/// A warp comes to an instruction of its warpgroup. The last gets what all four hand over; the others wait.
fn meet(call: &mut Call) -> Answer {
    let (kind, warp) = (call.detail as i32, call.thread / 32 % 4);
    let group = call.group();
    if group.present != 0 && group.place != (kind, call.line) {
        return Err("warps of one warpgroup come to different instructions".into());
    }
    group.place = (kind, call.line);
    group.handed[warp] = call.at;
    group.present |= 1 << warp;
    if group.present == 0b1111 {
        return Ok(group.handed.as_ptr() as u64);
    }
    call.wait(kind, u32::MAX, GROUP);
    Ok(0)
}

impl Runner {
    fn with_view<T>(&mut self, then: impl FnOnce(&mut AsyncView) -> T) -> T {
        if self.view.is_new() {
            // What shared memory held when the block began, where that is known.
            let (ranges, untouched) = (self.shared_ranges(), self.work.and_then(|work| work.untouched));
            let storage = ranges.map(|(start, _)| self.storage(start));
            // SAFETY: the ranges are those of the block, whose threads are suspended but for the caller.
            unsafe { self.view.begin(ranges, storage, untouched) };
        }
        then(&mut self.view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::headers::HEADER;

    #[test]
    fn tables_stand_in_the_headers_order() {
        let check = |first: &str, table: &[&str]| {
            let list = HEADER[HEADER.find(first).unwrap()..].split('}').next().unwrap();
            let names =
                list.lines().filter(|line| !line.contains("//")).flat_map(|line| line.split([',', ' ']));
            assert_eq!(names.filter(|name| !name.is_empty()).collect::<Vec<_>>(), table);
        };
        check("EVO_IS_SHARED,", &OPERATIONS.map(|(name, _)| name));
        check("EVO_SYNC,", barrier::KINDS);
        check("EVO_WARP_SYNC,", &operation::KINDS[..operation::PHASE as usize]);
    }
}
