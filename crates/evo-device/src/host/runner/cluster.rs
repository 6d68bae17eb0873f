//! Clusters: blocks that run together and use each other's shared memory.
//!
//! All blocks of a cluster run on one processor thread, each on a runner of its own, and take turns as warps do. A block
//! alone is a cluster of one. Static shared memory is thread-local, so what a block holds there is put aside while
//! another one has its turn: that is where `mapa` points.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;

use super::call::{Answer, Call};
use super::scheduler::{BlockState, Member, RemoteUse, Runner};
use crate::host::warp::{WarpLane, operation};

impl Member {
    fn mate(self, rank: u64) -> Result<Member, String> {
        let members = &self.runner().members;
        members.get(rank as usize).copied().ok_or_else(|| {
            let (all, word) = (members.len(), if members.len() == 1 { "block" } else { "blocks" });
            format!("rank {rank} is outside of the cluster, which has {all} {word}")
        })
    }

    /// The other block's own address of a place.
    fn translated(self, own: usize, there: Member) -> usize {
        let (from, to) = (self.runner().shared.inner(), there.runner().shared.inner());
        // Static shared memory has the same address in all blocks.
        if own.wrapping_sub(from.0) < from.1 { to.0 + (own - from.0) } else { own }
    }

    /// How often the barrier of its cluster has opened.
    fn phase(self) -> u32 {
        self.runner().members[0].runner().state.phase
    }

    fn demand_alive(self, there: Member) -> Result<(), String> {
        if self.phase() == 0 {
            let text = "shared memory of another block is used before the first barrier of the cluster";
            return Err(format!("{text}: that block may not have begun"));
        }
        let there = there.runner();
        if there.state.has_ended {
            let ([x, y, z], rank) = (there.state.block, there.rank);
            return Err(format!(
                "shared memory of block {x},{y},{z} (rank {rank}) is used, which has ended: the last use needs a barrier \
                 of the cluster behind it"
            ));
        }
        Ok(())
    }
}

pub(super) fn mapa(call: &mut Call) -> Answer {
    let there = call.member().mate(call.detail)?;
    let local = call.member().translated(call.at, there);
    Ok(there.runner().storage(local) as u64)
}

pub(super) fn use_there(call: &mut Call) -> Answer {
    let (here, at, bytes) = (call.member(), call.at, call.detail as usize);
    let mut members = (0..here.runner().members.len()).map(|rank| here.runner().members[rank]);
    let Some(there) = members.find(|there| there.runner().stores(at, bytes)) else {
        return Err("an access of a cluster's shared memory is not inside that of any of its blocks".into());
    };
    if there != here {
        here.demand_alive(there)?;
        let user = (here.runner().rank, call.thread as u32);
        there.runner().state.uses.insert(user, RemoteUse { line: call.line, arrival: None });
    }
    Ok(0)
}

pub(super) fn arrive_there(call: &mut Call) -> Answer {
    let here = call.member();
    let there = here.mate(call.detail)?;
    here.demand_alive(there)?;
    let at = here.translated(call.at, there);
    let (user, there) = (here.runner().rank, there.runner());
    // SAFETY: the header has checked that the eight bytes are shared memory; it lies so in each block of a cluster.
    let memory = unsafe { *(there.storage(at) as *const u64) };
    let barrier = there.state.barriers.get(at, memory)?;
    let phase = barrier.phase;
    if barrier.arrive()? {
        there.release_phase(at);
    }
    // It says that this block is done with what it used before.
    there.state.uses.retain(|(rank, _), own| *rank != user || own.arrival.is_some());
    let own = RemoteUse { line: call.line, arrival: Some((at, phase)) };
    there.state.uses.insert((user, call.thread as u32), own);
    Ok(0)
}

/// The block in which a copy lands, and its own addresses of target and barrier.
pub(super) fn landing_place(call: &Call, rank: u64) -> Result<(Member, usize, usize), String> {
    let here = call.member();
    let there = here.mate(rank)?;
    if there != here {
        here.demand_alive(there)?;
    }
    Ok((there, here.translated(call.at, there), here.translated(call.from, there)))
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
    let (members, rank) = (call.runner().members.clone(), call.runner().rank);
    let mut threads = 0;
    for there in &members {
        there.runner().state.uses.remove(&(rank, call.thread as u32));
        threads += there.runner().threads;
    }
    let counts = &mut members[0].runner().state;
    counts.arrived += 1;
    if counts.arrived == threads {
        release(&members);
    }
    Ok(0)
}

pub(super) fn wait_for_all(call: &mut Call) -> Answer {
    let phase = half(call, false)?;
    while call.member().phase() <= phase {
        call.wait(operation::CLUSTER, 0, 0);
    }
    Ok(0)
}

fn release(members: &[Member]) {
    let counts = &mut members[0].runner().state;
    (counts.arrived, counts.phase) = (0, counts.phase + 1);
    for there in members {
        there.runner().release(|lane| lane.place.kind == operation::CLUSTER);
    }
}

/// Opens the barrier if only threads are missing that have returned from the kernel: it waits for the others alone.
pub(super) fn release_left(members: &[Member]) -> bool {
    let phase = members[0].phase();
    let opens = members.iter().any(|there| there.runner().waits_at_cluster())
        && !members.iter().any(|there| there.runner().lacks_arrival(phase));
    if opens {
        members.iter().for_each(|there| there.runner().state.uses.clear());
        release(members);
    }
    opens
}

impl Runner {
    pub(super) fn end_block(&mut self) -> Result<(), DeviceError> {
        self.state.has_ended = true;
        let BlockState { block, barriers, uses, .. } = &self.state;
        let open = |own: &RemoteUse| {
            own.arrival.is_none_or(|(at, phase)| barriers.find(at).is_some_and(|own| own.phase == phase))
        };
        let (line, message) = if let Some(((rank, thread), own)) = uses.iter().find(|(_, own)| open(own)) {
            // The other block is not this one: `mbarrier_arrive_cluster` of a block's own barrier is a usual arrival.
            let ([x, y, z], line) = (self.members[*rank].runner().state.block, own.line);
            let message = format!(
                "the block ends while thread {thread} of block {x},{y},{z} may still use its shared memory (line {line}): \
                 the last use needs a barrier of the cluster behind it"
            );
            (line, message)
        } else if let Some(line) = barriers.in_flight().map(|load| load.line).min() {
            let why = "nobody has waited for its barrier";
            (line, format!("the block ends before the copy of line {line} has landed: {why}"))
        } else {
            return Ok(());
        };
        let [x, y, z] = block;
        let message = format!("{message} (block {x},{y},{z})");
        let error = DeviceError::plain(VerdictKind::CrashIllegalInstruction, message);
        Err(error.with("line", line).with("block", *block))
    }

    /// Where a byte of the block's shared memory lies now.
    pub(super) fn storage(&self, address: usize) -> usize {
        let (start, bytes) = self.statics_range.unwrap_or((0, 0));
        let offset = address.wrapping_sub(start);
        if self.state.is_away && offset < bytes { self.aside.as_ptr() as usize + offset } else { address }
    }

    pub(super) fn mates_can_go_on(&self) -> bool {
        let mut others = self.members.iter().filter(|own| !std::ptr::eq(own.0, self));
        others.any(|own| own.runner().others_can_go_on())
    }

    fn stores(&mut self, at: usize, bytes: usize) -> bool {
        self.shared_ranges().into_iter().any(|(start, size)| {
            let offset = at.wrapping_sub(self.storage(start));
            offset < size && bytes <= size - offset
        })
    }

    fn waits_at_cluster(&self) -> bool {
        let at_cluster = |lane: &WarpLane| lane.place.kind == operation::CLUSTER;
        self.warps[..self.warp_count].iter().any(|warp| warp.lanes_where(warp.waiting, at_cluster) != 0)
    }

    fn lacks_arrival(&self, phase: u32) -> bool {
        (0..self.threads).any(|thread| {
            let arrivals = self.background[thread as usize].cluster_halves.div_ceil(2);
            arrivals <= phase && self.warps[thread as usize / 32].done >> (thread % 32) & 1 == 0
        })
    }

    /// Static shared memory comes from where it is aside, or goes there.
    ///
    /// # Safety
    /// The range is that of the static shared memory, the calling thread's, and all fibers are suspended.
    pub(super) unsafe fn move_statics(&mut self, (start, bytes): (usize, usize), comes: bool) {
        self.state.is_away = !comes;
        self.aside.resize(bytes, 0);
        let (place, aside) = (start as *mut u8, self.aside.as_mut_ptr());
        let (from, to) = if comes { (aside, place) } else { (place, aside) };
        // SAFETY: as the caller promises; what is aside is as long as the range.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }
}
