//! Clusters: blocks that run together and use each other's shared memory.
//!
//! All blocks of a cluster run on one processor thread, each on a runner of its own, and take turns as warps do. A block
//! alone is a cluster of one. Static shared memory is thread-local, so what a block holds there is put aside while
//! another one has its turn: that is where `mapa` points.

use std::time::Duration;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use serde_json::json;

use super::call::{Answer, Call};
use super::cluster_place::{ClusterPlace, RemoteUse};
use super::order::of_cluster;
use super::scheduler::Runner;
use super::switch::{runner_of, wait};
use crate::host::divergence;
use crate::host::fiber::ThreadRecord;
use crate::host::warp::{WarpLane, lanes, operation};

/// What threads wait for that wait for the cluster's barrier, which has no address.
const CLUSTER: u64 = 1;

pub trait ClusterTurns {
    fn begin(&mut self, rank: usize);

    /// A block has ended, in its turn.
    fn end(&mut self, rank: usize) -> Result<(), DeviceError>;
}

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
    let (from, to) = unsafe { ((*runner).dynamic_shared(), (*there).dynamic_shared()) };
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
            let ([x, y, z], rank) = ((*there).block(), (*there).cluster.rank);
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
        let phase = there.hopper.barriers.find(at).map_or(0, |own| own.phase);
        if there.hopper.barriers.arrive(at, memory)? {
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
    let passed = &mut call.runner().hopper.queues[call.thread].cluster_halves;
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
        call.will_wait(operation::CLUSTER, 0, |warp| &mut warp.at_phase).value = CLUSTER;
        wait(call.record);
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
            (*there).release_waiting(|lane| lane.value == CLUSTER);
        }
    }
}

/// Opens the barrier if only threads are missing that have returned from the kernel: it waits for the others alone.
///
/// # Safety
/// All fibers are suspended, and no reference to a block of the cluster is alive.
unsafe fn release_left(members: &[*mut Runner]) -> bool {
    // SAFETY: as the caller promises; each block is looked at alone.
    unsafe {
        let phase = (*members[0]).cluster.phase;
        let waits = |there: &*mut Runner| (**there).waiting_line(|lane| lane.value == CLUSTER);
        let Some(line) = members.iter().find_map(waits) else { return false };
        if members.iter().any(|there| (**there).lacks_arrival(phase)) {
            return false;
        }
        for &there in members {
            (*there).note_early_exit(line);
            (*there).cluster.uses.clear();
        }
        release(members);
    }
    true
}

/// # Safety
/// All fibers are suspended.
unsafe fn arrivals(place: &ClusterPlace<Runner>) -> (u32, u32) {
    let [first, ..] = place.members.as_slice() else { return (0, 0) };
    // SAFETY: as the caller promises; fields are copied.
    unsafe { ((*(*first)).cluster.arrived, (*(*first)).threads * place.members.len() as u32) }
}

/// # Safety
/// All fibers are suspended, and no reference to a block of the cluster is alive.
unsafe fn end_block(runner: *mut Runner) -> Result<(), DeviceError> {
    // SAFETY: as the caller promises.
    let this = unsafe { &mut *runner };
    this.cluster.has_ended = true;
    let block = this.block();
    let barriers = &this.hopper.barriers;
    let open = |own: &RemoteUse| {
        own.arrival.is_none_or(|(at, phase)| barriers.find(at).is_some_and(|own| own.phase == phase))
    };
    let left = this.cluster.uses.iter().find(|(_, own)| open(own)).map(|(user, own)| (*user, *own));
    let landed = this.hopper.end_block(block);
    let Some(((rank, thread), RemoteUse { line, .. })) = left else { return landed };
    // SAFETY: as above; the other block is not this one.
    let [ux, uy, uz] = unsafe { (*this.cluster.members[rank]).block() };
    let [x, y, z] = block;
    let message = format!(
        "the block ends while thread {thread} of block {ux},{uy},{uz} may still use its shared memory (line {line}): the \
         last use needs a barrier of the cluster behind it (block {x},{y},{z})"
    );
    let mut error = DeviceError::plain(VerdictKind::CrashIllegalInstruction, message);
    error.evidence.insert("line".to_string(), json!(line));
    error.evidence.insert("block".to_string(), json!(block));
    Err(error)
}

impl Runner {
    /// # Safety
    /// `begin` was called on each with one kernel whose arguments are alive, and nothing else runs these runners.
    pub unsafe fn run_blocks(
        members: &[*mut Runner],
        blocks: &[[u32; 3]],
        turns: &mut dyn ClusterTurns,
    ) -> Result<(), DeviceError> {
        for (rank, (&runner, &block)) in members.iter().zip(blocks).enumerate() {
            // SAFETY: the caller owns the runners; no reference outlives its statement.
            unsafe {
                (*runner).start_block(block);
                (*runner).cluster.begin(rank, members);
            }
        }
        // SAFETY: as the caller promises.
        let ran = unsafe { Self::take_turns(members, turns) };
        if ran.is_err() {
            // SAFETY: all fibers are suspended.
            members.iter().for_each(|runner| unsafe { (**runner).abandon() });
        }
        ran
    }

    unsafe fn take_turns(members: &[*mut Runner], turns: &mut dyn ClusterTurns) -> Result<(), DeviceError> {
        // SAFETY: as for `run_blocks`; no reference to a runner is alive while its fibers run, which is in `visit_warps`.
        unsafe {
            let order = (*members[0]).order_of_blocks(members.len());
            loop {
                for &rank in &order {
                    let runner = members[rank];
                    if (*runner).cluster.has_ended() || !(*runner).others_can_go_on() {
                        continue;
                    }
                    turns.begin(rank);
                    Self::visit_warps(runner)?;
                    if (*runner).all_done() {
                        end_block(runner)?;
                        turns.end(rank)?;
                    }
                }
                let open = |runner: &&*mut Runner| !(***runner).cluster.has_ended();
                if !members.iter().any(|runner| open(&runner)) {
                    return Ok(());
                }
                let mut goes_on = false;
                for &runner in members.iter().filter(open) {
                    goes_on |=
                        (*runner).others_can_go_on() || (*runner).release_barrier((*runner).returned());
                }
                if goes_on || release_left(members) {
                    continue;
                }
                for &runner in members.iter().filter(open) {
                    goes_on |= (*runner).release_tries();
                }
                if goes_on {
                    continue;
                }
                while (*members[0]).work.is_some_and(|work| work.waits_when_stuck) {
                    std::thread::sleep(Duration::from_secs(1));
                }
                for runner in members {
                    (**runner).cluster.seen = arrivals(&(**runner).cluster);
                }
                let stuck = members.iter().filter(open).map(|own| ((**own).block, (**own).standings()));
                return Err(divergence::describe_cluster(members.len(), &stuck.collect::<Vec<_>>()));
            }
        }
    }

    pub(super) fn block(&self) -> [u32; 3] {
        self.block
    }

    pub(super) fn dynamic_shared(&self) -> (usize, usize) {
        self.shared.inner()
    }

    pub fn has_statics(&mut self, statics: Option<(usize, usize)>) {
        self.statics_range = statics;
    }

    pub fn cluster(&mut self) -> &mut ClusterPlace<Runner> {
        &mut self.cluster
    }

    /// Where a byte of the block's shared memory lies now.
    pub(super) fn storage(&self, address: usize) -> usize {
        let (start, bytes) = self.statics_range.unwrap_or((0, 0));
        let offset = address.wrapping_sub(start);
        if self.cluster.is_away && offset < bytes { self.cluster.aside() + offset } else { address }
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

    pub(super) fn order_of_blocks(&self, blocks: usize) -> Vec<usize> {
        let Some(work) = &self.work else { return Vec::new() };
        let ([x, y, z], [columns, rows, _]) = (self.block.map(u64::from), work.grid.map(u64::from));
        of_cluster(work.order, (z * rows + y) * columns + x, blocks)
    }

    fn waiting_line(&self, which: impl Fn(&WarpLane) -> bool) -> Option<i32> {
        self.warps[..self.warp_count].iter().find_map(|warp| {
            lanes(warp.at_phase)
                .map(|lane| &warp.lanes[lane])
                .find(|lane| which(lane))
                .map(|lane| lane.place.line)
        })
    }

    fn lacks_arrival(&self, phase: u32) -> bool {
        (0..self.threads).any(|thread| {
            let arrivals = self.hopper.queues[thread as usize].cluster_halves.div_ceil(2);
            arrivals <= phase && self.warps[thread as usize / 32].done >> (thread % 32) & 1 == 0
        })
    }

    fn note_early_exit(&mut self, line: i32) {
        self.early_exit.get_or_insert(line);
    }
}
