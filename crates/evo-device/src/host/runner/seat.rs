//! Where the blocks of a processor thread run: stacks, shared memory, and the turns of a cluster's blocks; and the launch,
//! as the processor threads that run it share it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evo_protocol::device::DeviceError;

use super::callbacks::{RUNTIME, give_way};
use super::cluster::{arrivals, end_block, release_left};
use super::order::of_cluster;
use super::scheduler::{Runner, Work};
use crate::host::divergence;
use crate::host::instrument::CheckerHandle;
use crate::host::module::HostModule;
use crate::host::pattern;
use crate::host::preempt::{self, InterruptSection, TurnClock};
use crate::host::stop;
use crate::host::tls::Statics;
use crate::host::zones;
use crate::variables::VariablePlace;

pub struct SharedLaunch {
    pub work: Work,
    pub pattern: Option<u32>,
    pub statics: Statics,
    pub shared: Arc<[VariablePlace]>,
    pub seats: usize,
    /// Whether what lies beside shared variables is looked at after a block.
    pub looks_beside: bool,
    pub ascends: bool,
    pub checker: Option<CheckerHandle>,
    /// Whether another launch follows closely, as in a timed batch.
    pub closely: bool,
    pub next: AtomicU64,
    pub stop: AtomicBool,
    /// Line of a barrier at which threads waited that others had left before; 0 if there was none.
    pub early_exit: AtomicI32,
    error: Mutex<Option<DeviceError>>,
}

// SAFETY: the argument pointers in `work` are read only while the launch that owns the values waits.
unsafe impl Send for SharedLaunch {}
// SAFETY: as above; kernels get copies of the values.
unsafe impl Sync for SharedLaunch {}

impl SharedLaunch {
    pub fn new(work: Work, module: &HostModule, pattern: Option<u32>, seats: usize) -> SharedLaunch {
        SharedLaunch {
            work,
            pattern,
            statics: module.statics,
            shared: Arc::clone(&module.shared),
            seats,
            looks_beside: true,
            ascends: false,
            checker: None,
            closely: false,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            early_exit: AtomicI32::new(0),
            error: Mutex::new(None),
        }
    }

    pub fn clusters(&self) -> u64 {
        self.work.grid.iter().zip(self.work.cluster).map(|(blocks, own)| u64::from(blocks / own)).product()
    }

    pub fn has_blocks(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.clusters()
    }

    pub fn fail(&self, error: DeviceError) {
        self.stop.store(true, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub fn outcome(&self) -> Result<Option<i32>, DeviceError> {
        let line = self.early_exit.load(Ordering::Relaxed);
        self.error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .map_or(Ok((line != 0).then_some(line)), Err)
    }
}

pub struct Seat {
    /// At least one, and as many as any cluster had blocks.
    #[expect(clippy::vec_box, reason = "fibers keep a raw pointer to their runner")]
    runners: Vec<Box<Runner>>,
    used: usize,
    pub clock: Arc<TurnClock>,
}

// SAFETY: fibers of a runner are suspended whenever it changes threads, and hold nothing of a thread's.
unsafe impl Send for Seat {}

impl Seat {
    pub fn new() -> io::Result<Seat> {
        let clock = Arc::new(TurnClock::default());
        Ok(Seat { runners: vec![Runner::new(&RUNTIME, Arc::clone(&clock))?], used: 1, clock })
    }

    pub fn begin(
        &mut self,
        work: Work,
        statics: Statics,
        located: Option<(usize, usize)>,
    ) -> Result<(), DeviceError> {
        self.used = work.cluster.iter().product::<u32>().max(1) as usize;
        while self.runners.len() < self.used {
            let runner = Runner::new(&RUNTIME, Arc::clone(&self.clock));
            self.runners.push(runner.map_err(|error| stop::no_memory("the blocks of a cluster", &error))?);
        }
        for runner in &mut self.runners[..self.used] {
            runner.begin(work, statics, located);
        }
        Ok(())
    }

    pub fn section(&self, rank: usize, code: (usize, usize)) -> InterruptSection {
        InterruptSection { code, stacks: self.runners[rank].stack_range(), give_way }
    }

    pub fn early_exit(&self) -> Option<i32> {
        self.runners[..self.used].iter().find_map(|runner| runner.early_exit)
    }

    pub fn run(
        &mut self,
        launch: &SharedLaunch,
        number: u64,
        statics: Option<(usize, usize)>,
    ) -> Result<(), DeviceError> {
        let blocks = blocks_of(&launch.work, number);
        let members: Vec<*mut Runner> =
            self.runners[..self.used].iter_mut().map(|runner| &raw mut **runner).collect();
        let mut turns = Turns { seat: self, launch, statics, blocks: &blocks, current: None };
        turns.fill();
        for (rank, (&runner, &block)) in members.iter().zip(&blocks).enumerate() {
            // SAFETY: no fiber runs, and no reference outlives its statement.
            unsafe { (*runner).start_block(block, rank, &members) };
        }
        // SAFETY: `begin` was called with one kernel whose arguments are alive; only this thread touches the runners.
        let ran = unsafe { turns.take(&members) };
        if ran.is_err() {
            // SAFETY: all fibers are suspended.
            members.iter().for_each(|runner| unsafe { (**runner).abandon() });
        }
        // The next cluster finds all of it aside.
        if let Some(last) = turns.current.take() {
            turns.moves(last, false);
        }
        ran
    }
}

fn blocks_of(work: &Work, number: u64) -> Vec<[u32; 3]> {
    let extents = work.cluster;
    let clusters = [0, 1, 2].map(|axis| u64::from(work.grid[axis] / extents[axis]));
    let [x, y, _] = clusters;
    let first = [number % x, number / x % y, number / x / y];
    let [columns, rows, _] = extents;
    let within = |rank: u32| [rank % columns, rank / columns % rows, rank / columns / rows];
    let block = |rank| {
        let own = within(rank);
        [0, 1, 2].map(|axis| first[axis] as u32 * extents[axis] + own[axis])
    };
    (0..extents.iter().product()).map(block).collect()
}

/// The turns of a cluster's blocks; a block alone is a cluster of one.
struct Turns<'a> {
    seat: &'a mut Seat,
    launch: &'a SharedLaunch,
    statics: Option<(usize, usize)>,
    blocks: &'a [[u32; 3]],
    current: Option<usize>,
}

impl Turns<'_> {
    fn fill(&mut self) {
        let several = self.blocks.len() > 1;
        if let (Some(pattern), Some(statics)) = (self.launch.pattern, self.statics) {
            let (start, bytes) = statics;
            // SAFETY: located by this thread in this launch, which keeps the module loaded.
            unsafe { pattern::fill(start, bytes, pattern) };
        }
        for runner in &mut self.seat.runners[..self.blocks.len()] {
            if let Some(pattern) = self.launch.pattern {
                runner.shared.fill(pattern);
            }
            if let Some(statics) = self.statics.filter(|_| several) {
                // SAFETY: as above.
                unsafe { runner.put_aside(statics) };
            }
        }
    }

    fn damage(&mut self, rank: usize) -> Option<DeviceError> {
        let pattern = self.launch.pattern.filter(|_| self.launch.looks_beside)?;
        let (runner, block) = (&mut self.seat.runners[rank], self.blocks[rank]);
        if let Some((offset, count)) = runner.shared.damage(pattern) {
            let bytes = runner.shared.inner().1;
            return Some(zones::damage("dynamic shared memory", offset, bytes, count, block));
        }
        // The checker sees accesses between variables itself, and fills the segment with a pattern of its own.
        let statics = self.statics.filter(|_| self.launch.checker.is_none())?;
        // SAFETY: this thread located the segment in this launch, and its block has ended.
        unsafe { zones::check(&self.launch.shared, statics, pattern, block) }
    }

    fn moves(&mut self, rank: usize, comes: bool) {
        let Some(statics) = self.statics else { return };
        let runner = &mut self.seat.runners[rank];
        let aside = runner.cluster.aside.as_ptr() as usize;
        let (from, to) = if comes { (aside, statics.0) } else { (statics.0, aside) };
        if let Some(checker) = self.launch.checker {
            checker.lock().moves(&raw const **runner as usize, (from, to, statics.1));
        }
        // SAFETY: located by this thread in this launch; all fibers are suspended.
        unsafe {
            if comes {
                runner.take_back(statics);
            } else {
                runner.put_aside(statics);
            }
        }
    }

    /// # Safety
    /// As for [`Seat::run`]; no reference to a runner is alive while its fibers run, which is in `visit_warps`.
    unsafe fn take(&mut self, members: &[*mut Runner]) -> Result<(), DeviceError> {
        let order = self.order();
        // SAFETY: as the caller promises.
        unsafe {
            loop {
                for &rank in &order {
                    let runner = members[rank];
                    if (*runner).cluster.has_ended || !(*runner).others_can_go_on() {
                        continue;
                    }
                    self.begin(rank);
                    Runner::visit_warps(runner)?;
                    if (*runner).all_done() {
                        end_block(runner)?;
                        self.end(rank)?;
                    }
                }
                let open = |runner: &&*mut Runner| !(***runner).cluster.has_ended;
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
                if self.launch.work.waits_when_stuck {
                    loop {
                        std::thread::sleep(Duration::from_secs(1));
                    }
                }
                let at_barrier = arrivals(members);
                members.iter().for_each(|runner| (**runner).cluster.at_barrier = at_barrier);
                let stuck = members.iter().filter(open).map(|own| ((**own).block, (**own).standings()));
                return Err(divergence::describe_cluster(members.len(), &stuck.collect::<Vec<_>>()));
            }
        }
    }

    fn order(&self) -> Vec<usize> {
        let ([x, y, z], [columns, rows, _]) =
            (self.blocks[0].map(u64::from), self.launch.work.grid.map(u64::from));
        of_cluster(self.launch.work.order, (z * rows + y) * columns + x, self.blocks.len())
    }

    fn begin(&mut self, rank: usize) {
        if self.blocks.len() == 1 || self.current == Some(rank) {
            return;
        }
        if let Some(last) = self.current.replace(rank) {
            self.moves(last, false);
        }
        self.moves(rank, true);
        preempt::enter(&self.seat.clock, self.seat.section(rank, self.launch.statics.code()));
    }

    /// A block has ended, in its turn.
    fn end(&mut self, rank: usize) -> Result<(), DeviceError> {
        if let Some(damage) = self.damage(rank) {
            return Err(damage);
        }
        if self.blocks.len() > 1 {
            // A later read that bypasses the checked functions finds NaN.
            self.seat.runners[rank].shared.fill(u32::MAX);
        }
        Ok(())
    }
}
