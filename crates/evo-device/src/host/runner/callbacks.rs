//! What a running thread calls: barriers, warp operations, `printf`, traps.

use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering;

use super::call::{fail, member_of, wait};
use super::operations::on_operation;
use super::scheduler::BarrierState;
use crate::host::fiber::{Runtime, ThreadRecord};
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
        let others = mask & warp.waiting;
        warp.waiting &= !others;
        warp.ready |= others;
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
        warp.waiting &= !required;
        warp.ready |= required & !bit;
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
