//! Where the blocks of a processor thread run: stacks, shared memory, and the turns of a cluster's blocks; and the launch,
//! as the processor threads that run it share it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evo_protocol::device::DeviceError;

use super::cluster::release_left;
use super::operations::{RUNTIME, give_way};
use super::order::of_neighbors;
use super::scheduler::{BlockState, Member, Runner, Work};
use crate::host::instrument::CheckerHandle;
use crate::host::pattern;
use crate::host::preempt::{self, InterruptSection, TurnClock};
use crate::host::stop::{self, Awaited};
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
    pub error: Mutex<Option<DeviceError>>,
}

// SAFETY: the argument pointers in `work` are read only while the launch that owns the values waits.
unsafe impl Send for SharedLaunch {}
// SAFETY: as above; kernels get copies of the values.
unsafe impl Sync for SharedLaunch {}

impl SharedLaunch {
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

    pub fn outcome(&self) -> Result<(), DeviceError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

pub struct Seat {
    /// At least one, and as many as any cluster had blocks.
    #[expect(clippy::vec_box, reason = "fibers keep a raw pointer to their runner")]
    runners: Vec<Box<Runner>>,
    /// Those of the launch's clusters, by rank.
    members: Vec<Member>,
    pub clock: Arc<TurnClock>,
}

// SAFETY: fibers of a runner are suspended whenever it changes threads, and hold nothing of a thread's.
unsafe impl Send for Seat {}

impl Seat {
    pub fn new() -> io::Result<Seat> {
        let clock = Arc::new(TurnClock::default());
        let runners = vec![Runner::new(&RUNTIME, Arc::clone(&clock))?];
        Ok(Seat { runners, members: Vec::new(), clock })
    }

    /// Enters what `preempt::leave` leaves. `statics` is the range of the static shared memory, where somebody has asked
    /// for it.
    pub fn begin(
        &mut self,
        launch: &SharedLaunch,
        statics: Option<(usize, usize)>,
    ) -> Result<(), DeviceError> {
        let blocks = launch.work.cluster.iter().product::<u32>() as usize;
        while self.runners.len() < blocks {
            let runner = Runner::new(&RUNTIME, Arc::clone(&self.clock));
            self.runners.push(runner.map_err(|error| stop::no_memory("the blocks of a cluster", &error))?);
        }
        self.members = self.runners[..blocks].iter_mut().map(|runner| Member(&raw mut **runner)).collect();
        for (rank, member) in self.members.iter().enumerate() {
            let runner = member.runner();
            (runner.rank, runner.members) = (rank, self.members.clone());
            runner.begin(launch.work, launch.statics, statics);
        }
        enter(&self.clock, launch, self.members[0]);
        Ok(())
    }

    pub fn run(
        &mut self,
        launch: &SharedLaunch,
        number: u64,
        statics: Option<(usize, usize)>,
    ) -> Result<(), DeviceError> {
        let mut turns = Turns { clock: &self.clock, members: &self.members, launch, statics, current: None };
        for (rank, member) in self.members.iter().enumerate() {
            member.runner().start_block(block_of(&launch.work, number, rank as u32));
        }
        turns.fill();
        let ran = turns.take(number);
        if ran.is_err() {
            self.members.iter().for_each(|member| member.runner().abandon());
        }
        // The next cluster finds all of it aside.
        if let Some(last) = turns.current.take() {
            turns.moves(last, false);
        }
        ran
    }
}

fn enter(clock: &TurnClock, launch: &SharedLaunch, member: Member) {
    let (code, stacks) = (launch.statics.code, member.runner().stacks.range());
    preempt::enter(clock, InterruptSection { code, stacks, give_way });
}

/// The block of this rank in the cluster of this number.
fn block_of(work: &Work, number: u64, rank: u32) -> [u32; 3] {
    let [columns, rows, _] = work.cluster;
    let [x, y, _] = [0, 1, 2].map(|axis| u64::from(work.grid[axis] / work.cluster[axis]));
    let first = [number % x, number / x % y, number / x / y];
    let within = [rank % columns, rank / columns % rows, rank / columns / rows];
    [0, 1, 2].map(|axis| first[axis] as u32 * work.cluster[axis] + within[axis])
}

/// The turns of a cluster's blocks; a block alone is a cluster of one.
struct Turns<'a> {
    clock: &'a TurnClock,
    members: &'a [Member],
    launch: &'a SharedLaunch,
    statics: Option<(usize, usize)>,
    current: Option<usize>,
}

impl Turns<'_> {
    fn fill(&self) {
        if let (Some(pattern), Some((start, bytes))) = (self.launch.pattern, self.statics) {
            // SAFETY: located by this thread in this launch, which keeps the module loaded.
            unsafe { pattern::fill(start, bytes, pattern) };
        }
        for member in self.members {
            if let Some(pattern) = self.launch.pattern {
                member.runner().shared.fill(pattern);
            }
            if let Some(statics) = self.statics.filter(|_| self.members.len() > 1) {
                // SAFETY: as above.
                unsafe { member.runner().move_statics(statics, false) };
            }
        }
    }

    fn take(&mut self, number: u64) -> Result<(), DeviceError> {
        let members = self.members;
        let order = of_neighbors(self.launch.work.order, number, members.len());
        let open = || members.iter().map(|member| member.runner()).filter(|runner| !runner.state.has_ended);
        // Each is asked, not all up to the first that goes on.
        let any =
            |goes_on: fn(&mut Runner) -> bool| open().map(goes_on).filter(|goes_on| *goes_on).count() > 0;
        loop {
            for &rank in &order {
                let member = members[rank];
                if !member.runner().others_can_go_on() {
                    continue;
                }
                self.begin(rank);
                member.visit_warps()?;
                if member.runner().all_done() {
                    member.runner().end_block()?;
                    self.end(rank)?;
                }
            }
            if open().next().is_none() {
                return Ok(());
            }
            if any(|runner| runner.others_can_go_on() || runner.release_barrier(runner.returned()))
                || release_left(members)
                || any(Runner::release_tries)
            {
                continue;
            }
            if self.launch.work.waits_when_stuck {
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            let first = members[0].runner();
            let (arrived, expected) = (first.state.arrived, first.threads * members.len() as u32);
            let at_cluster = Awaited::Cluster { arrived, expected };
            let standings = |runner: &mut Runner| (runner.state.block, runner.standings(at_cluster));
            let stuck: Vec<_> = open().map(standings).collect();
            return Err(stop::stuck(members.len(), &stuck));
        }
    }

    fn begin(&mut self, rank: usize) {
        if self.members.len() == 1 || self.current == Some(rank) {
            return;
        }
        if let Some(last) = self.current.replace(rank) {
            self.moves(last, false);
        }
        self.moves(rank, true);
        enter(self.clock, self.launch, self.members[rank]);
    }

    /// A block has ended, in its turn.
    fn end(&self, rank: usize) -> Result<(), DeviceError> {
        let Runner { shared, state: BlockState { block, .. }, .. } = self.members[rank].runner();
        if let Some(pattern) = self.launch.pattern.filter(|_| self.launch.looks_beside) {
            if let Some((offset, count)) = shared.damage(pattern) {
                let bytes = shared.inner().1;
                return Err(zones::damage("dynamic shared memory", offset, bytes, count, *block));
            }
            // The checker sees accesses between variables itself, and fills the segment with a pattern of its own.
            let statics = self.statics.filter(|_| self.launch.checker.is_none());
            let damage = statics.and_then(|statics| {
                // SAFETY: this thread located the segment in this launch, and its block has ended.
                unsafe { zones::check(&self.launch.shared, statics, pattern, *block) }
            });
            damage.map_or(Ok(()), Err)?;
        }
        if self.members.len() > 1 {
            // A later read that bypasses the checked functions finds NaN.
            shared.fill(u32::MAX);
        }
        Ok(())
    }

    fn moves(&self, rank: usize, comes: bool) {
        let Some(statics) = self.statics else { return };
        let member = self.members[rank];
        let aside = member.runner().aside.as_ptr() as usize;
        let (from, to) = if comes { (aside, statics.0) } else { (statics.0, aside) };
        if let Some(checker) = self.launch.checker {
            checker.lock().moves(member.0 as usize, (from, to, statics.1));
        }
        // SAFETY: located by this thread in this launch; all fibers are suspended.
        unsafe { member.runner().move_statics(statics, comes) };
    }
}
