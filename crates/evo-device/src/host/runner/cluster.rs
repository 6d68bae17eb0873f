//! Clusters: blocks that run together and use each other's shared memory.
//!
//! All blocks of a cluster run on one processor thread, each on a runner of its own, and take turns as warps do. A block
//! alone is a cluster of one. Static shared memory is thread-local, so what a block holds there is put aside while
//! another one has its turn: that is where `mapa` points.

use evo_protocol::device::DeviceError;

use super::call::{Answer, Call, runner_of};
use super::scheduler::{RemoteUse, Runner};
use crate::host::fiber::ThreadRecord;
use crate::host::stop;
use crate::host::warp::{Warp, lanes, operation};

fn member(runner: *mut Runner, rank: u64) -> Result<*mut Runner, String> {
    // SAFETY: the scheduler is suspended while a fiber runs, and gave each block its cluster.
    let members = unsafe { &(*runner).cluster.members };
    members.get(rank as usize).copied().ok_or_else(|| {
        let (all, word) = (members.len(), if members.len() == 1 { "block" } else { "blocks" });
        format!("rank {rank} is outside of the cluster, which has {all} {word}")
    })
}

pub(super) fn mapa(call: &mut Call) -> Answer {
    let runner = runner_of(call.record);
    let there = member(runner, call.detail)?;
    // SAFETY: as for `member`; neither reference outlives its expression.
    unsafe {
        let local = translated(runner, call.at, there);
        Ok((*there).storage(local) as u64)
    }
}

/// The other block's own address of a place.
///
/// # Safety
/// Both are blocks of one cluster, and no reference to either is alive.
unsafe fn translated(runner: *mut Runner, own: usize, there: *mut Runner) -> usize {
    // SAFETY: as the caller promises.
    let (from, to) = unsafe { ((*runner).shared.inner(), (*there).shared.inner()) };
    // Static shared memory has the same address in all blocks.
    if own.wrapping_sub(from.0) < from.1 { to.0 + (own - from.0) } else { own }
}

/// # Safety
/// The scheduler is suspended, and gave each block its cluster.
unsafe fn phase_of(runner: *mut Runner) -> u32 {
    // SAFETY: as the caller promises.
    unsafe {
        let first = (&(*runner).cluster.members)[0];
        (*first).cluster.phase
    }
}

fn demand_alive(runner: *mut Runner, there: *mut Runner) -> Result<(), String> {
    // SAFETY: as for `member`.
    unsafe {
        if phase_of(runner) == 0 {
            return Err(
                "shared memory of another block is used before the first barrier of the cluster: that \
                        block may not have begun"
                    .to_string(),
            );
        }
        if (*there).cluster.has_ended {
            let ([x, y, z], rank) = ((*there).block, (*there).cluster.rank);
            return Err(format!(
                "shared memory of block {x},{y},{z} (rank {rank}) is used, which has ended: the last use needs a barrier \
                 of the cluster behind it"
            ));
        }
    }
    Ok(())
}

pub(super) fn use_there(call: &mut Call) -> Answer {
    let (runner, at, bytes) = (runner_of(call.record), call.at, call.detail as usize);
    // SAFETY: as for `member`; each block is looked at alone.
    unsafe {
        let holds = |there: &&*mut Runner| (***there).stores(at, bytes);
        let Some(there) = (*runner).cluster.members.iter().find(holds).copied() else {
            return Err(
                "an access of a cluster's shared memory is not inside that of any of its blocks".into()
            );
        };
        if there != runner {
            demand_alive(runner, there)?;
            let user = ((*runner).cluster.rank, call.thread as u32);
            (*there).cluster.uses.insert(user, RemoteUse { line: call.line, arrival: None });
        }
    }
    Ok(0)
}

pub(super) fn arrive_there(call: &mut Call) -> Answer {
    let runner = runner_of(call.record);
    let there = member(runner, call.detail)?;
    demand_alive(runner, there)?;
    // SAFETY: as for `member`; the other block is not this one, and its threads are suspended.
    unsafe {
        let at = translated(runner, call.at, there);
        let memory = *((*there).storage(at) as *const u64);
        let user = (*runner).cluster.rank;
        let there = &mut *there;
        let barrier = there.barriers.get(at, memory)?;
        let phase = barrier.phase;
        if barrier.arrive()? {
            there.release_phase(at);
        }
        // It says that this block is done with what it used before.
        there.cluster.uses.retain(|(rank, _), own| *rank != user || own.arrival.is_some());
        let own = RemoteUse { line: call.line, arrival: Some((at, phase)) };
        there.cluster.uses.insert((user, call.thread as u32), own);
    }
    Ok(0)
}

/// The other block, and its own addresses of target and barrier.
pub(super) fn landing_place(
    record: *mut ThreadRecord,
    [to, barrier]: [usize; 2],
    rank: u64,
) -> Result<(*mut Runner, usize, usize), String> {
    let runner = runner_of(record);
    let there = member(runner, rank)?;
    if there != runner {
        demand_alive(runner, there)?;
    }
    // SAFETY: as for `member`.
    unsafe { Ok((there, translated(runner, to, there), translated(runner, barrier, there))) }
}

/// The number of the barrier, of which threads call both halves in turn.
fn half(call: &Call, arrives: bool) -> Result<u32, &'static str> {
    let passed = &mut call.background().cluster_halves;
    if passed.is_multiple_of(2) != arrives {
        return Err("cluster_arrive and cluster_wait are not called in turn");
    }
    *passed += 1;
    Ok((*passed - 1) / 2)
}

pub(super) fn arrive(call: &mut Call) -> Answer {
    half(call, true)?;
    // SAFETY: the scheduler is suspended while a fiber runs, and no reference to a block is alive.
    unsafe { count_arrival(runner_of(call.record), call.thread as u32) };
    Ok(0)
}

pub(super) fn wait_for_all(call: &mut Call) -> Answer {
    let phase = half(call, false)?;
    // SAFETY: the scheduler is suspended while a fiber runs.
    while unsafe { phase_of(runner_of(call.record)) } <= phase {
        call.wait(operation::CLUSTER, 0, 0);
    }
    Ok(0)
}

/// # Safety
/// The scheduler is suspended, and no reference to a block of the cluster is alive.
unsafe fn count_arrival(runner: *mut Runner, thread: u32) {
    // SAFETY: as the caller promises; each block is looked at alone.
    unsafe {
        let (members, rank) = ((*runner).cluster.members.clone(), (*runner).cluster.rank);
        let mut threads = 0;
        for &there in &members {
            (*there).cluster.uses.remove(&(rank, thread));
            threads += (*there).threads;
        }
        let first = members[0];
        let counts = &mut (*first).cluster;
        counts.arrived += 1;
        if counts.arrived == threads {
            release(&members);
        }
    }
}

/// # Safety
/// As for [`count_arrival`].
unsafe fn release(members: &[*mut Runner]) {
    // SAFETY: as the caller promises.
    unsafe {
        let first = members[0];
        let counts = &mut (*first).cluster;
        (counts.arrived, counts.phase) = (0, counts.phase + 1);
        for &there in members {
            (*there).release(|lane| lane.place.kind == operation::CLUSTER);
        }
    }
}

/// Opens the barrier if only threads are missing that have returned from the kernel: it waits for the others alone.
///
/// # Safety
/// All fibers are suspended, and no reference to a block of the cluster is alive.
pub(super) unsafe fn release_left(members: &[*mut Runner]) -> bool {
    // SAFETY: as the caller promises; each block is looked at alone.
    unsafe {
        let phase = (*members[0]).cluster.phase;
        if !members.iter().any(|there| (**there).waits_at_cluster())
            || members.iter().any(|there| (**there).lacks_arrival(phase))
        {
            return false;
        }
        members.iter().for_each(|there| (**there).cluster.uses.clear());
        release(members);
    }
    true
}

/// How many threads have come to the cluster's barrier, of how many.
///
/// # Safety
/// All fibers are suspended.
pub(super) unsafe fn arrivals(members: &[*mut Runner]) -> (u32, u32) {
    let [first, ..] = members else { return (0, 0) };
    // SAFETY: as the caller promises; fields are copied.
    unsafe { ((**first).cluster.arrived, (**first).threads * members.len() as u32) }
}

/// # Safety
/// All fibers are suspended, and no reference to a block of the cluster is alive.
pub(super) unsafe fn end_block(runner: *mut Runner) -> Result<(), DeviceError> {
    // SAFETY: as the caller promises.
    let this = unsafe { &mut *runner };
    this.cluster.has_ended = true;
    let ([x, y, z], barriers) = (this.block, &this.barriers);
    let open = |own: &RemoteUse| {
        own.arrival.is_none_or(|(at, phase)| barriers.find(at).is_some_and(|own| own.phase == phase))
    };
    let left = this.cluster.uses.iter().find(|(_, own)| open(own)).map(|(user, own)| (*user, own.line));
    let on_its_way = this.barriers.clear();
    if let Some(((rank, thread), line)) = left {
        // SAFETY: as above; the other block is not this one.
        let [ux, uy, uz] = unsafe { (*this.cluster.members[rank]).block };
        let message = format!(
            "the block ends while thread {thread} of block {ux},{uy},{uz} may still use its shared memory (line {line}): \
             the last use needs a barrier of the cluster behind it (block {x},{y},{z})"
        );
        return Err(stop::illegal(message, line, this.block));
    }
    let Some(line) = on_its_way else { return Ok(()) };
    let message = format!(
        "the block ends before the copy of line {line} has landed: nobody has waited for its barrier (block {x},{y},{z})"
    );
    Err(stop::illegal(message, line, this.block))
}

impl Runner {
    /// Where a byte of the block's shared memory lies now.
    pub(super) fn storage(&self, address: usize) -> usize {
        let (start, bytes) = self.statics_range.unwrap_or((0, 0));
        let offset = address.wrapping_sub(start);
        if self.cluster.is_away && offset < bytes {
            self.cluster.aside.as_ptr() as usize + offset
        } else {
            address
        }
    }

    pub(super) fn mates_can_go_on(&self) -> bool {
        let others = self.cluster.members.iter().enumerate().filter(|(rank, _)| *rank != self.cluster.rank);
        // SAFETY: other blocks are suspended while a thread of this one runs.
        others.into_iter().any(|(_, own)| unsafe { !(**own).cluster.has_ended && (**own).others_can_go_on() })
    }

    fn stores(&mut self, at: usize, bytes: usize) -> bool {
        self.shared_ranges().into_iter().any(|(start, size)| {
            let offset = at.wrapping_sub(self.storage(start));
            offset < size && bytes <= size - offset
        })
    }

    fn waits_at_cluster(&self) -> bool {
        let at_cluster = |warp: &Warp, lane: usize| warp.lanes[lane].place.kind == operation::CLUSTER;
        let mut warps = self.warps[..self.warp_count].iter();
        warps.any(|warp| lanes(warp.waiting).any(|lane| at_cluster(warp, lane)))
    }

    fn lacks_arrival(&self, phase: u32) -> bool {
        (0..self.threads).any(|thread| {
            let arrivals = self.background[thread as usize].cluster_halves.div_ceil(2);
            arrivals <= phase && self.warps[thread as usize / 32].done >> (thread % 32) & 1 == 0
        })
    }

    /// # Safety
    /// The range is that of the static shared memory, the calling thread's, and all fibers are suspended.
    pub(super) unsafe fn put_aside(&mut self, (start, bytes): (usize, usize)) {
        let aside = &mut self.cluster.aside;
        aside.resize(bytes, 0);
        // SAFETY: as the caller promises; the copy is as long as the range.
        unsafe { std::ptr::copy_nonoverlapping(start as *const u8, aside.as_mut_ptr(), bytes) };
        self.cluster.is_away = true;
    }

    /// # Safety
    /// As for [`Runner::put_aside`].
    pub(super) unsafe fn take_back(&mut self, (start, bytes): (usize, usize)) {
        if std::mem::take(&mut self.cluster.is_away) {
            // SAFETY: as the caller promises; what was put aside is as long.
            unsafe { std::ptr::copy_nonoverlapping(self.cluster.aside.as_ptr(), start as *mut u8, bytes) };
        }
    }
}
