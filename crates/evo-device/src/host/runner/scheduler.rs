//! Runs blocks on one processor thread: the threads of a block are fibers that take turns.
//!
//! A fiber runs thread after thread until one of them must wait; only then does another fiber go on.
//! So a kernel without barriers is a plain loop, and one with barriers uses as many fibers as
//! threads wait at once. Fibers are kept from block to block. When nobody can go on, the block is stuck:
//! that is a divergent barrier, found at once and described.
//!
//! The scheduler, the fibers and the other blocks of a cluster share the runner by pointer ([`Member`]); they never run at
//! the same time, and no reference to it is held across a switch.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::sync::Arc;

use corosensei::{Coroutine, Yielder};
use evo_protocol::device::DeviceError;

use crate::host::fault::{Range, RangeKind, Registered};
use crate::host::fiber::{FiberStack, Runtime, Stacks, ThreadRecord};
use crate::host::preempt::TurnClock;
use crate::host::shared::SharedArena;
use crate::host::stop::{self, Awaited, Standing};
use crate::host::tls::Statics;
use crate::host::warp::{Warp, WarpLane, lanes, operation};

use super::copies::{AsyncView, BulkStore, Groups, PendingCopy};
use super::mbarrier::TransactionBarriers;
use super::order::TurnOrder;
use super::residue::{EntryPoint, StackResidue};
use super::warpgroup::{ProductThread, Warpgroup};

type Fiber = Coroutine<(), (), (), FiberStack>;
pub(super) type FiberYielder = Yielder<(), ()>;

pub const THREADS_MAX: usize = 1024;

/// Barriers that a block has, the one of `__syncthreads` included.
const NAMED_BARRIERS: usize = 16;

/// Waits in vain of all threads, one behind the other, before a block counts as stuck: a thread may try one barrier
/// and another in turn.
const VAIN_TRIES: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Unpacks the arguments and calls the kernel.
    pub run: EntryPoint,
    pub arguments: *mut *mut c_void,
    pub grid: [u32; 3],
    pub cluster: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    /// With which the kernel declares its dynamic shared memory.
    pub shared_alignment: usize,
    /// Seed of the order of turns; ascending if there is none.
    pub order: Option<u64>,
    /// What the stacks of threads hold before they begin.
    pub residue: Option<u32>,
    /// What the clocks of threads show first; time if there is none.
    pub clock: Option<u64>,
    /// What shared memory holds when a block begins, where that is known.
    pub untouched: Option<u32>,
    pub waits_when_stuck: bool,
}

/// A block of a cluster, by its runner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Member(pub(super) *mut Runner);

impl Member {
    /// For one statement: not to be kept while the thread waits, a fiber runs, or another reference to the runner is made.
    pub(super) fn runner<'r>(self) -> &'r mut Runner {
        // SAFETY: runners outlive their fibers; of the scheduler and all fibers of a cluster one runs at a time, on one
        // processor thread, and the others hold no reference.
        unsafe { &mut *self.0 }
    }
}

pub struct Runner {
    runtime: &'static Runtime,
    pub(super) stacks: Stacks,
    _registered: Registered,
    fibers: Vec<Fiber>,
    idle: Vec<u32>,
    closed: Vec<FiberStack>,
    pub shared: SharedArena,
    pub(super) warps: Vec<Warp>,
    pub(super) warp_count: usize,
    current: usize,
    order: TurnOrder,
    residue: Option<StackResidue>,
    pub(super) clock: Arc<TurnClock>,
    pub(super) leave: bool,
    pub(super) threads: u32,
    pub(super) state: BlockState,
    pub(super) view: AsyncView,
    /// By linear thread number; as many as any block had.
    pub(super) background: Vec<Background>,
    /// The block's place in its cluster.
    pub(super) rank: usize,
    /// By rank, this block included.
    pub(super) members: Vec<Member>,
    /// Static shared memory while another block has its turn.
    pub(super) aside: Vec<u8>,
    statics: Option<Statics>,
    /// The range of the static shared memory, once somebody asked for it.
    pub(super) statics_range: Option<(usize, usize)>,
    pub(super) work: Option<Work>,
    pub(super) error: Option<DeviceError>,
    pub(super) printed: usize,
}

/// What begins anew with each block.
#[derive(Debug, Default)]
pub(super) struct BlockState {
    pub(super) block: [u32; 3],
    pub(super) barrier: BarrierState,
    pub(super) named: [NamedBarrier; NAMED_BARRIERS],
    pub(super) barriers: TransactionBarriers,
    /// How often threads that try a phase are let go before somebody arrives.
    tries: u32,
    pub(super) groups: Vec<Warpgroup>,
    /// The barrier of all threads of the cluster: the block of rank 0 counts.
    pub(super) arrived: u32,
    pub(super) phase: u32,
    /// Whether static shared memory is aside.
    pub(super) is_away: bool,
    pub(super) has_ended: bool,
    /// By rank and thread.
    pub(super) uses: BTreeMap<(usize, u32), RemoteUse>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BarrierState {
    pub(super) kind: i32,
    pub(super) line: i32,
    pub(super) waiting: u32,
    /// Whether some of them wait at another barrier than the first.
    pub(super) differs: bool,
    /// Predicates that held.
    pub(super) count: u32,
    /// The last barrier's outcome: predicates that held.
    pub(super) held: u32,
    /// Threads that took part in it.
    pub(super) present: u32,
}

/// How many threads have come to a named barrier, and for how many it waits, as the first to come said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NamedBarrier {
    pub(super) arrived: u32,
    pub(super) expected: u32,
}

/// What a thread has under way while it goes on.
#[derive(Debug, Default)]
pub(super) struct Background {
    pub(super) copies: Groups<PendingCopy>,
    pub(super) stores: Groups<BulkStore>,
    /// Where the thread puts together what a load brings.
    pub(super) staging: Vec<u8>,
    pub(super) products: ProductThread,
    /// How often the thread has called one half of its cluster's barrier.
    pub(super) cluster_halves: u32,
}

impl Background {
    /// What the thread before never waited for is nobody's.
    fn clear(&mut self) {
        self.copies.clear();
        self.stores.clear();
        self.products = ProductThread::default();
        self.cluster_halves = 0;
    }
}

/// A use of a block's shared memory by a thread of another block that has not said yet that it is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteUse {
    pub(super) line: i32,
    /// For an arrival the barrier and its phase: the block that waits for the phase knows of the use.
    pub(super) arrival: Option<(usize, u32)>,
}

impl Runner {
    pub fn new(runtime: &'static Runtime, clock: Arc<TurnClock>) -> io::Result<Box<Runner>> {
        let stacks = Stacks::reserve(THREADS_MAX)?;
        let (whole, name) = (stacks.range(), "stacks");
        // Boxed, because fibers keep a raw pointer to it.
        Ok(Box::new(Runner {
            runtime,
            stacks,
            _registered: Registered::new(Range { kind: RangeKind::Stacks, whole, inner: whole, name }),
            fibers: Vec::with_capacity(THREADS_MAX),
            idle: Vec::with_capacity(THREADS_MAX),
            closed: Vec::new(),
            shared: SharedArena::new()?,
            warps: vec![Warp::default(); THREADS_MAX / 32],
            warp_count: 0,
            current: 0,
            order: TurnOrder::of(None),
            residue: None,
            clock,
            leave: false,
            threads: 0,
            state: BlockState::default(),
            view: AsyncView::default(),
            background: Vec::new(),
            rank: 0,
            members: Vec::new(),
            aside: Vec::new(),
            statics: None,
            statics_range: None,
            work: None,
            error: None,
            printed: 0,
        }))
    }

    /// `located` is the range of the static shared memory, where somebody has asked for it.
    pub(super) fn begin(&mut self, work: Work, statics: Statics, located: Option<(usize, usize)>) {
        self.work = Some(work);
        (self.statics, self.statics_range) = (Some(statics), located);
        self.threads = work.block.iter().product();
        self.warp_count = self.threads.div_ceil(32) as usize;
        self.background.resize_with(self.background.len().max(self.threads as usize), Background::default);
        self.printed = 0;
        self.order = TurnOrder::of(work.order);
        self.residue = work.residue.map(StackResidue::new);
        self.shared.resize(work.shared_bytes as usize, work.shared_alignment);
    }

    pub(super) fn start_block(&mut self, block: [u32; 3]) {
        let work = self.work.expect("a launch has begun");
        let groups = vec![Warpgroup::default(); self.threads.div_ceil(128) as usize];
        self.state = BlockState { block, tries: VAIN_TRIES, groups, ..BlockState::default() };
        self.view.clear();
        let ([x, y, z], [columns, rows, _]) = (block.map(u64::from), work.grid.map(u64::from));
        self.order.begin_block((z * rows + y) * columns + x, self.warp_count);
        for (index, warp) in self.warps[..self.warp_count].iter_mut().enumerate() {
            warp.begin(self.threads - 32 * index as u32);
        }
    }

    fn next_fiber(&mut self) -> Result<Option<u32>, DeviceError> {
        let warp = &mut self.warps[self.order.warp(self.current)];
        if warp.ready == 0 && warp.unstarted == 0 && warp.is_settled() {
            release_active(warp);
        }
        // Waiting threads before new ones: each that ends sets a fiber free.
        if warp.ready != 0 {
            let lane = self.order.first(warp.ready);
            warp.ready &= !(1 << lane);
            return Ok(Some(warp.lanes[lane as usize].fiber));
        }
        if warp.unstarted == 0 {
            return Ok(None);
        }
        match self.idle.pop() {
            Some(fiber) => Ok(Some(fiber)),
            None => self.new_fiber().map(Some).map_err(|error| stop::no_memory("a fiber's stack", &error)),
        }
    }

    fn new_fiber(&mut self) -> io::Result<u32> {
        let stack = match self.closed.pop() {
            Some(stack) => stack,
            None => self.stacks.open_next()?,
        };
        let number = self.fibers.len() as u32;
        let (runtime, record) = (self.runtime, stack.record());
        let own = Member(self);
        self.fibers.push(Coroutine::with_stack(stack, move |yielder: &FiberYielder, ()| {
            // SAFETY: the record lies in this fiber's own opened region, above its stack.
            unsafe {
                (*record).runtime = runtime;
                (*record).runner = own.0.cast();
                (*record).yielder = std::ptr::from_ref(yielder).cast();
                (*record).fiber = u64::from(number);
            }
            own.run_threads(record, yielder)
        }));
        Ok(number)
    }

    fn prepare(&mut self, record: &mut ThreadRecord, thread: u32) -> (EntryPoint, *mut *mut c_void) {
        self.background[thread as usize].clear();
        let work = self.work.as_ref().expect("a launch has begun");
        let [x, y, _] = work.block;
        record.thread = [thread % x, thread / x % y, thread / x / y];
        record.linear = thread;
        record.block = self.state.block;
        record.block_dim = work.block;
        record.threads = self.threads;
        record.grid_dim = work.grid;
        record.bulk_stores = 0;
        record.shared = self.shared.inner().0 as *mut c_void;
        record.clock = u32::from(work.clock.is_some());
        (record.clock_start, record.clock_readings) = (work.clock.unwrap_or(0), 0);
        (work.run, work.arguments)
    }

    fn take_thread(&mut self) -> Option<u32> {
        loop {
            let index = self.order.warp(self.current);
            let warp = &mut self.warps[index];
            if warp.unstarted != 0 {
                let lane = self.order.first(warp.unstarted);
                warp.unstarted &= !(1 << lane);
                self.clock.turn();
                return Some(32 * index as u32 + lane);
            }
            // Lanes that ask for the active mask are released by `next_fiber` only while theirs is the
            // current warp. Were such a warp left behind, the block would count as stuck.
            let settled = warp.ready | warp.relaxed | warp.waiting == 0;
            if !settled || self.current + 1 >= self.warp_count {
                return None;
            }
            self.current += 1;
        }
    }

    pub(super) fn all_done(&self) -> bool {
        self.warps[..self.warp_count].iter().all(|warp| warp.done == warp.existing)
    }

    pub(super) fn others_can_go_on(&self) -> bool {
        self.warps[..self.warp_count].iter().any(|warp| warp.ready | warp.relaxed | warp.unstarted != 0)
    }

    pub(super) fn returned(&self) -> u32 {
        self.warps[..self.warp_count].iter().map(|warp| warp.done.count_ones()).sum()
    }

    /// Lets all waiting threads pass the barrier if all but `returned` have come to the same one. Since sm_70 a
    /// barrier waits only for threads that have not returned.
    pub(super) fn release_barrier(&mut self, returned: u32) -> bool {
        let BarrierState { waiting: present, differs, count: held, .. } = self.state.barrier;
        if present + returned != self.threads || differs {
            return false;
        }
        for warp in &mut self.warps[..self.warp_count] {
            warp.ready |= std::mem::take(&mut warp.at_barrier);
        }
        self.state.barrier = BarrierState { held, present, ..BarrierState::default() };
        true
    }

    /// Lets those go on that wait at such a place; says whether there are any.
    pub(super) fn release(&mut self, which: impl Fn(&WarpLane) -> bool) -> bool {
        self.release_among(0..self.warp_count, which)
    }

    pub(super) fn release_among(
        &mut self,
        warps: std::ops::Range<usize>,
        which: impl Fn(&WarpLane) -> bool,
    ) -> bool {
        let mut any = false;
        for warp in &mut self.warps[warps] {
            let set = warp.lanes_where(warp.waiting, &which);
            warp.release(set);
            any |= set != 0;
        }
        any
    }

    pub(super) fn release_phase(&mut self, at: usize) {
        self.state.tries = VAIN_TRIES;
        self.release(|lane| lane.place.awaits_phase() && lane.value == at as u64);
    }

    pub(super) fn release_tries(&mut self) -> bool {
        if self.state.tries == 0 {
            return false;
        }
        self.state.tries -= 1;
        self.release(|lane| lane.place.kind == operation::TRY_PHASE)
    }

    pub(super) fn is_shared(&mut self, address: usize, bytes: usize) -> bool {
        let within = |(start, size): (usize, usize)| {
            address >= start && address.checked_add(bytes).is_some_and(|end| end <= start + size)
        };
        within(self.shared.inner()) || within(self.shared_ranges()[1])
    }

    pub(super) fn shared_ranges(&mut self) -> [(usize, usize); 2] {
        if self.statics_range.is_none() {
            // Only kernels that ask pay for the search.
            self.statics_range = self.statics.and_then(|own| own.located());
        }
        [self.shared.inner(), self.statics_range.unwrap_or((0, 0))]
    }

    /// By linear thread number; `at_cluster` is what those await who wait for the cluster's barrier.
    pub(super) fn standings(&self, at_cluster: Awaited) -> Vec<Standing> {
        let standing = |thread: u32| {
            let (warp, bit) = (&self.warps[thread as usize / 32], 1u32 << (thread % 32));
            let lane = &warp.lanes[thread as usize % 32];
            let awaited = match lane.place.kind {
                _ if warp.at_barrier & bit != 0 => Awaited::Barrier,
                _ if warp.waiting & bit == 0 => return None,
                // All lanes of a warp meet before they come to the barrier.
                operation::GATHER_BAR_SYNC if lane.place.mask != u32::MAX => {
                    let NamedBarrier { arrived, expected } = self.state.named[lane.place.mask as usize];
                    Awaited::Named { arrived, expected }
                }
                operation::PHASE | operation::TRY_PHASE => self.phase_awaited(lane.value as usize),
                operation::CLUSTER => at_cluster,
                _ => Awaited::Warp,
            };
            Some((lane.place, awaited))
        };
        (0..self.threads).map(standing).collect()
    }

    fn phase_awaited(&self, address: usize) -> Awaited {
        let (start, bytes) = self.shared.inner();
        let offset = address.wrapping_sub(start);
        let offset = if offset < bytes { offset as i64 } else { -1 };
        let barrier = self.state.barriers.find(address).cloned().unwrap_or_default();
        Awaited::Phase {
            offset,
            phase: barrier.phase,
            arrived: barrier.count - barrier.pending,
            expected: barrier.count,
            bytes: (barrier.copied, barrier.expected),
        }
    }

    pub(super) fn abandon(&mut self) {
        // A fiber's number is its place in `fibers`, so all of them go together.
        self.idle.clear();
        for mut fiber in self.fibers.drain(..) {
            // SAFETY: what is left on the stack is kernel code and `run_threads`, neither of which owns
            // anything that must be dropped.
            unsafe { fiber.force_reset() };
            self.closed.push(fiber.into_stack());
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Member {
    pub(super) fn visit_warps(self) -> Result<(), DeviceError> {
        self.runner().current = 0;
        while self.runner().current < self.runner().warp_count {
            let this = self.runner();
            let warp = &mut this.warps[this.order.warp(this.current)];
            // Who gave way waits until the others of its warp have had their turn, and goes on once per visit:
            // a thread that spins until another warp sets a flag must not be resumed for ever before that
            // warp has its turn.
            if warp.ready | warp.unstarted == 0 {
                warp.ready = std::mem::take(&mut warp.relaxed);
            }
            while let Some(fiber) = self.runner().next_fiber()? {
                self.runner().clock.turn();
                // It never returns for good: `run_threads` loops until the fiber is dropped. Borrowed meanwhile is the fiber
                // alone, which lies beside the runner.
                let _ = self.runner().fibers[fiber as usize].resume(());
                if let Some(error) = self.runner().error.take() {
                    self.runner().abandon();
                    return Err(error);
                }
                if std::mem::take(&mut self.runner().leave) {
                    break;
                }
            }
            self.runner().current += 1;
        }
        Ok(())
    }

    /// What a fiber does.
    fn run_threads(self, record: *mut ThreadRecord, yielder: &FiberYielder) {
        loop {
            while let Some(thread) = self.runner().take_thread() {
                // SAFETY: the record is this fiber's own.
                let (run, arguments) = self.runner().prepare(unsafe { &mut *record }, thread);
                match self.runner().residue {
                    // SAFETY: `run` unpacks exactly these arguments; the plan was compared with the signature.
                    None => unsafe { run(arguments) },
                    Some(residue) => {
                        // SAFETY: as above; a fiber's stack is several times as deep as the fill.
                        let (depth, written) = unsafe { residue.call(run, arguments) };
                        self.runner().residue.iter_mut().for_each(|residue| residue.learn(depth, written));
                    }
                }
                self.runner().warps[thread as usize / 32].done |= 1 << (thread % 32);
            }
            // SAFETY: as above.
            self.runner().idle.push(unsafe { (*record).fiber } as u32);
            yielder.suspend(());
        }
    }
}

/// Lanes that asked which lanes are active go on together when their warp has nothing else to do.
fn release_active(warp: &mut Warp) {
    let mut places = lanes(warp.waiting).map(|lane| warp.lanes[lane].place);
    let Some(place) = places.find(|place| place.kind == operation::ACTIVE) else { return };
    // Lanes that ask elsewhere have diverged from these, so they are not active together.
    let set = warp.lanes_where(warp.waiting, |lane| lane.place == place);
    warp.compute(operation::ACTIVE, set);
    warp.release(set);
}
