//! Runs blocks on one processor thread: the threads of a block are fibers that take turns.
//!
//! A fiber runs thread after thread until one of them must wait; only then does another fiber go on.
//! So a kernel without barriers is a plain loop, and one with barriers uses as many fibers as
//! threads wait at once. Fibers are kept from block to block. When nobody can go on, the block is stuck:
//! that is a divergent barrier, found at once and described.
//!
//! The scheduler and the fibers share the runner by raw pointer; they never run at the same time,
//! and no reference to it is held across a switch.

use std::ffi::c_void;
use std::io;
use std::sync::Arc;

use corosensei::{Coroutine, Yielder};
use evo_protocol::device::DeviceError;

use crate::host::divergence::{PhaseAwaited, ThreadState};
use crate::host::fiber::{FiberStack, Runtime, Stacks, ThreadRecord};
use crate::host::preempt::TurnClock;
use crate::host::shared::SharedArena;
use crate::host::stop;
use crate::host::tls::Statics;
use crate::host::warp::{Warp, WarpLane, lanes, operation};

use super::cluster::ClusterPlace;
use super::copies::CopyQueue;
use super::named::{self, NamedBarrier};
use super::operations::HopperState;
use super::order::TurnOrder;
use super::residue::StackResidue;

type Fiber = Coroutine<(), (), (), FiberStack>;
pub(super) type FiberYielder = Yielder<(), ()>;

pub const THREADS_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Unpacks the arguments and calls the kernel.
    pub run: unsafe extern "C" fn(*mut *mut c_void),
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

pub struct Runner {
    runtime: &'static Runtime,
    stacks: Stacks,
    fibers: Vec<Fiber>,
    idle: Vec<u32>,
    closed: Vec<FiberStack>,
    pub(super) shared: SharedArena,
    pub(super) warps: Vec<Warp>,
    pub(super) warp_count: usize,
    current: usize,
    order: TurnOrder,
    residue: Option<StackResidue>,
    clock: Arc<TurnClock>,
    pub(super) leave: bool,
    /// Line of the first barrier in this launch at which threads waited that others had left before.
    pub(super) early_exit: Option<i32>,
    pub(super) threads: u32,
    pub(super) waiting: u32,
    pub(super) barrier: BarrierState,
    pub(super) named: [NamedBarrier; named::COUNT],
    /// By linear thread number; as many as any block had.
    pub(super) copies: Vec<CopyQueue>,
    pub(super) hopper: HopperState,
    pub(super) cluster: ClusterPlace,
    statics: Option<Statics>,
    /// The range of the static shared memory, once somebody asked for it.
    pub(super) statics_range: Option<(usize, usize)>,
    pub(super) work: Option<Work>,
    pub(super) block: [u32; 3],
    pub(super) error: Option<DeviceError>,
    pub(super) printed: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BarrierState {
    pub(super) kind: i32,
    pub(super) line: i32,
    pub(super) uniform: bool,
    /// Predicates that held.
    pub(super) count: u32,
    /// The last barrier's outcome: predicates that held.
    pub(super) held: u32,
    /// Threads that took part in it.
    pub(super) present: u32,
}

impl Runner {
    pub fn new(runtime: &'static Runtime, clock: Arc<TurnClock>) -> io::Result<Box<Runner>> {
        // Boxed, because fibers keep a raw pointer to it.
        Ok(Box::new(Runner {
            runtime,
            stacks: Stacks::reserve(THREADS_MAX)?,
            fibers: Vec::with_capacity(THREADS_MAX),
            idle: Vec::with_capacity(THREADS_MAX),
            closed: Vec::new(),
            shared: SharedArena::new()?,
            warps: vec![Warp::new(); THREADS_MAX / 32],
            warp_count: 0,
            current: 0,
            order: TurnOrder::ascending(),
            residue: None,
            clock,
            leave: false,
            early_exit: None,
            threads: 0,
            waiting: 0,
            barrier: BarrierState::default(),
            named: Default::default(),
            copies: Vec::new(),
            hopper: HopperState::default(),
            cluster: ClusterPlace::default(),
            statics: None,
            statics_range: None,
            work: None,
            block: [0; 3],
            error: None,
            printed: 0,
        }))
    }

    pub fn stack_range(&self) -> (usize, usize) {
        self.stacks.range()
    }

    pub fn begin(&mut self, work: Work, statics: Statics) {
        self.work = Some(work);
        (self.statics, self.statics_range) = (Some(statics), None);
        self.printed = 0;
        self.order = TurnOrder::of(work.order);
        self.residue = work.residue.map(StackResidue::new);
        self.early_exit = None;
        self.shared.resize(work.shared_bytes as usize, work.shared_alignment);
    }

    pub fn shared(&mut self) -> &mut SharedArena {
        &mut self.shared
    }

    /// Line of the first barrier in this launch at which threads waited that others had left before.
    pub fn early_exit(&self) -> Option<i32> {
        self.early_exit
    }

    pub(super) fn start_block(&mut self, block: [u32; 3]) {
        let work = self.work.expect("a launch has begun");
        self.block = block;
        self.threads = work.block.iter().product();
        self.warp_count = self.threads.div_ceil(32) as usize;
        self.waiting = 0;
        self.current = 0;
        self.leave = false;
        self.barrier = BarrierState { uniform: true, ..BarrierState::default() };
        self.named = Default::default();
        let threads = self.threads as usize;
        self.copies.resize_with(threads.max(self.copies.len()), CopyQueue::default);
        self.hopper.begin_block(threads);
        let ([x, y, z], [columns, rows, _]) = (block.map(u64::from), work.grid.map(u64::from));
        self.order.begin_block((z * rows + y) * columns + x, self.warp_count);
        for (index, warp) in self.warps[..self.warp_count].iter_mut().enumerate() {
            warp.begin(self.threads - 32 * index as u32);
        }
    }

    pub(super) unsafe fn visit_warps(runner: *mut Runner) -> Result<(), DeviceError> {
        // SAFETY: the caller passes the only pointer in use; references made of it are never held
        // across a resumption.
        unsafe {
            (*runner).current = 0;
            while (*runner).current < (*runner).warp_count {
                let index = (*runner).order.warp((*runner).current);
                let warp = &mut (&mut (*runner).warps)[index];
                // Who gave way waits until the others of its warp have had their turn, and goes on once per visit:
                // a thread that spins until another warp sets a flag must not be resumed for ever before that
                // warp has its turn.
                if warp.ready | warp.unstarted == 0 {
                    warp.ready = std::mem::take(&mut warp.relaxed);
                }
                while let Some(fiber) = (*runner).next_fiber()? {
                    let fiber: *mut Fiber = &mut (&mut (*runner).fibers)[fiber as usize];
                    (*runner).clock.turn();
                    // It never returns for good: `fiber_main` loops until the fiber is dropped.
                    let _ = (*fiber).resume(());
                    if let Some(error) = (*runner).error.take() {
                        (*runner).abandon();
                        return Err(error);
                    }
                    if std::mem::take(&mut (*runner).leave) {
                        break;
                    }
                }
                (*runner).current += 1;
            }
        }
        Ok(())
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
        let runner: *mut Runner = self;
        let runtime = self.runtime;
        let record = stack.record();
        let fiber = Coroutine::with_stack(stack, move |yielder: &FiberYielder, ()| {
            // SAFETY: the record lies in this fiber's own opened region, above its stack.
            unsafe {
                (*record).runtime = runtime;
                (*record).runner = runner.cast();
                (*record).yielder = std::ptr::from_ref(yielder).cast();
                (*record).fiber = u64::from(number);
            }
            // SAFETY: the runner outlives its fibers and is suspended while they run.
            unsafe { fiber_main(runner, record, yielder) }
        });
        self.fibers.push(fiber);
        Ok(number)
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
            let settled = warp.ready | warp.relaxed | warp.in_operation == 0;
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

    pub(super) fn clock(&self) -> &TurnClock {
        &self.clock
    }

    pub(super) fn returned(&self) -> u32 {
        self.warps[..self.warp_count].iter().map(|warp| warp.done.count_ones()).sum()
    }

    /// Lets all waiting threads pass the barrier if all but `returned` have come to the same one. Since sm_70 a
    /// barrier waits only for threads that have not returned.
    pub(super) fn release_barrier(&mut self, returned: u32) -> bool {
        if self.waiting + returned != self.threads || !self.barrier.uniform {
            return false;
        }
        if returned != 0 {
            self.early_exit.get_or_insert(self.barrier.line);
        }
        for warp in &mut self.warps[..self.warp_count] {
            warp.ready |= std::mem::take(&mut warp.at_barrier);
        }
        let (held, present) = (self.barrier.count, std::mem::take(&mut self.waiting));
        self.barrier = BarrierState { uniform: true, held, present, ..BarrierState::default() };
        true
    }

    pub(super) fn release_named(&mut self, number: u32) {
        for warp in &mut self.warps[..self.warp_count] {
            let there = |lane: &usize| warp.lanes[*lane].place.mask == number;
            let set = lanes(warp.at_named).filter(there).fold(0u32, |set, lane| set | 1 << lane);
            warp.at_named &= !set;
            warp.ready |= set;
        }
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

    /// What shared memory held when the block began, where that is known.
    pub(super) fn untouched(&self) -> Option<u32> {
        self.work.and_then(|work| work.untouched)
    }

    pub(super) fn release_waiting(&mut self, which: impl Fn(&WarpLane) -> bool) -> bool {
        let mut any = false;
        for warp in &mut self.warps[..self.warp_count] {
            let there = |lane: &usize| which(&warp.lanes[*lane]);
            let set = lanes(warp.at_phase).filter(there).fold(0u32, |set, lane| set | 1 << lane);
            warp.at_phase &= !set;
            warp.ready |= set;
            any |= set != 0;
        }
        any
    }

    pub(super) fn standings(&self) -> Vec<ThreadState> {
        let standing = |thread: u32| {
            let warp = &self.warps[thread as usize / 32];
            let (lane, bit) = (thread as usize % 32, 1u32 << (thread % 32));
            if warp.at_barrier & bit != 0 {
                ThreadState::Barrier(warp.lanes[lane].place)
            } else if warp.at_named & bit != 0 {
                let place = warp.lanes[lane].place;
                let NamedBarrier { arrived, expected } = self.named[place.mask as usize % named::COUNT];
                ThreadState::Named { place, arrived, expected }
            } else if warp.at_phase & bit != 0 && warp.lanes[lane].place.kind == operation::CLUSTER {
                let (arrived, expected) = self.cluster.seen;
                ThreadState::Cluster { place: warp.lanes[lane].place, arrived, expected }
            } else if warp.at_phase & bit != 0 {
                self.phase_awaited(&warp.lanes[lane])
            } else if (warp.in_operation | warp.at_group) & bit != 0 {
                ThreadState::Warp(warp.lanes[lane].place)
            } else {
                ThreadState::Returned
            }
        };
        (0..self.threads).map(standing).collect()
    }

    fn phase_awaited(&self, lane: &WarpLane) -> ThreadState {
        let (start, bytes) = self.shared.inner();
        let address = lane.value as usize;
        let offset = address.wrapping_sub(start);
        let offset = if offset < bytes { offset as i64 } else { -1 };
        let own = self.hopper.barriers.find(address).cloned().unwrap_or_default();
        let arrived = own.count - own.pending;
        let (count, phase) = (own.count, own.phase);
        let bytes = (own.copied, own.expected);
        ThreadState::Phase(lane.place, PhaseAwaited { offset, phase, arrived, count, bytes })
    }

    pub(super) fn abandon(&mut self) {
        // A fiber's number is its place in `fibers`, so all of them go together.
        self.idle.clear();
        for mut fiber in self.fibers.drain(..) {
            // SAFETY: what is left on the stack is kernel code and `fiber_main`, neither of which owns
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

unsafe fn fiber_main(runner: *mut Runner, record: *mut ThreadRecord, yielder: &FiberYielder) {
    loop {
        // SAFETY: the scheduler is suspended while this fiber runs; references end before the kernel runs.
        while let Some(thread) = unsafe { (*runner).take_thread() } {
            // SAFETY: the record is this fiber's own.
            let (run, arguments) = unsafe { (*runner).prepare(&mut *record, thread) };
            // SAFETY: as above.
            if unsafe { (*runner).residue.is_none() } {
                // SAFETY: `run` unpacks exactly these arguments; the plan was compared with the signature.
                unsafe { run(arguments) };
            } else {
                // SAFETY: as above.
                unsafe { call_on_residue(runner, run, arguments) };
            }
            // SAFETY: as above.
            unsafe { (&mut (*runner).warps)[thread as usize / 32].done |= 1 << (thread % 32) };
        }
        // SAFETY: as above.
        unsafe { (*runner).idle.push((*record).fiber as u32) };
        yielder.suspend(());
    }
}

#[cold]
unsafe fn call_on_residue(
    runner: *mut Runner,
    run: unsafe extern "C" fn(*mut *mut c_void),
    arguments: *mut *mut c_void,
) {
    // SAFETY: as the caller promises; a fiber's stack is several times as deep as the fill, and references to the
    // runner end before the kernel runs.
    unsafe {
        let Some(residue) = (*runner).residue else { return };
        let (depth, written) = residue.call(run, arguments);
        if let Some(residue) = &mut (*runner).residue {
            residue.learn(depth, written);
        }
    }
}

type Call = (unsafe extern "C" fn(*mut *mut c_void), *mut *mut c_void);

impl Runner {
    fn prepare(&mut self, record: &mut ThreadRecord, thread: u32) -> Call {
        self.copies[thread as usize].clear();
        self.hopper.begin_thread(thread as usize);
        let work = self.work.as_ref().expect("a launch has begun");
        let [x, y, _] = work.block;
        record.thread = [thread % x, thread / x % y, thread / x / y];
        record.linear = thread;
        record.block = self.block;
        record.block_dim = work.block;
        record.threads = self.threads;
        record.grid_dim = work.grid;
        record.bulk_stores = 0;
        record.shared = self.shared.start();
        record.clock = u32::from(work.clock.is_some());
        (record.clock_start, record.clock_readings) = (work.clock.unwrap_or(0), 0);
        (work.run, work.arguments)
    }
}

/// Lanes that asked which lanes are active go on together when their warp has nothing else to do.
fn release_active(warp: &mut Warp) {
    let asking = |warp: &Warp, lane: usize| warp.lanes[lane].place.kind == operation::ACTIVE;
    let Some(first) = lanes(warp.in_operation).find(|&lane| asking(warp, lane)) else { return };
    let place = warp.lanes[first].place;
    // Lanes that ask elsewhere have diverged from these, so they are not active together.
    let together = lanes(warp.in_operation).filter(|&lane| warp.lanes[lane].place == place);
    let set = together.fold(0u32, |set, lane| set | 1 << lane);
    warp.compute(operation::ACTIVE, set);
    warp.in_operation &= !set;
    warp.ready |= set;
}
