//! Where the blocks of a processor thread run: stacks, shared memory, and the turns of a cluster's blocks.

use std::io;
use std::sync::Arc;

use evo_protocol::device::DeviceError;

use super::fault::{Range, RangeKind, Registered};
use super::preempt::{self, InterruptSection, TurnClock};
use super::runner::{ClusterTurns, RUNTIME, Runner, Work, give_way};
use super::shared_launch::SharedLaunch;
use super::stop;
use super::tls;
use super::{pattern, zones};

struct SeatPlace {
    runner: Box<Runner>,
    _stacks: Registered,
    shared: Registered,
}

impl SeatPlace {
    fn new(clock: &Arc<TurnClock>) -> io::Result<SeatPlace> {
        let mut runner = Runner::new(&RUNTIME, Arc::clone(clock))?;
        let (stacks, shared, inner) =
            (runner.stack_range(), runner.shared().range(), runner.shared().inner());
        let range = |kind, whole, inner, name| Registered::new(Range { kind, whole, inner, name });
        Ok(SeatPlace {
            _stacks: range(RangeKind::Stacks, stacks, stacks, "stacks"),
            shared: range(RangeKind::Shared, shared, inner, "dynamic shared memory"),
            runner,
        })
    }
}

pub struct Seat {
    /// At least one, and as many as any cluster had blocks.
    places: Vec<SeatPlace>,
    used: usize,
    pub clock: Arc<TurnClock>,
}

// SAFETY: fibers of a runner are suspended whenever it changes threads, and hold nothing of a thread's.
unsafe impl Send for Seat {}

impl Seat {
    pub fn new() -> io::Result<Seat> {
        let clock = Arc::new(TurnClock::default());
        Ok(Seat { places: vec![SeatPlace::new(&clock)?], used: 1, clock })
    }

    pub fn begin(
        &mut self,
        work: Work,
        statics: tls::Statics,
        located: Option<(usize, usize)>,
    ) -> Result<(), DeviceError> {
        self.used = work.cluster.iter().product::<u32>().max(1) as usize;
        while self.places.len() < self.used {
            let place = SeatPlace::new(&self.clock);
            self.places.push(place.map_err(|error| stop::no_memory("the blocks of a cluster", &error))?);
        }
        for place in &mut self.places[..self.used] {
            place.runner.begin(work, statics);
            place.runner.has_statics(located);
            let (start, bytes) = place.runner.shared().inner();
            place.shared.set_inner(start, bytes);
        }
        Ok(())
    }

    pub fn section(&self, rank: usize, code: (usize, usize)) -> InterruptSection {
        InterruptSection { code, stacks: self.places[rank].runner.stack_range(), give_way }
    }

    pub fn early_exit(&self) -> Option<i32> {
        self.places[..self.used].iter().find_map(|place| place.runner.early_exit())
    }

    pub fn run(
        &mut self,
        launch: &SharedLaunch,
        number: u64,
        statics: Option<(usize, usize)>,
    ) -> Result<(), DeviceError> {
        let blocks = blocks_of(&launch.work, number);
        let members: Vec<*mut Runner> =
            self.places[..self.used].iter_mut().map(|place| &raw mut *place.runner).collect();
        let mut turns = SeatTurns { seat: self, launch, statics, blocks: &blocks, current: None };
        turns.fill();
        // SAFETY: `begin` was called; only this thread touches the runners, and `turns` only while fibers are suspended.
        let ran = unsafe { Runner::run_blocks(&members, &blocks, &mut turns) };
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

struct SeatTurns<'a> {
    seat: &'a mut Seat,
    launch: &'a SharedLaunch,
    statics: Option<(usize, usize)>,
    blocks: &'a [[u32; 3]],
    current: Option<usize>,
}

impl SeatTurns<'_> {
    fn fill(&mut self) {
        let several = self.blocks.len() > 1;
        if let (Some(pattern), Some(statics)) = (self.launch.pattern, self.statics) {
            let (start, bytes) = statics;
            // SAFETY: located by this thread in this launch, which keeps the module loaded.
            unsafe { pattern::fill(start, bytes, pattern) };
        }
        for place in &mut self.seat.places[..self.blocks.len()] {
            if let Some(pattern) = self.launch.pattern {
                place.runner.shared().fill(pattern);
            }
            if let Some(statics) = self.statics.filter(|_| several) {
                // SAFETY: as above.
                unsafe { place.runner.cluster().put_aside(statics) };
            }
        }
    }

    fn damage(&mut self, rank: usize) -> Option<DeviceError> {
        let pattern = self.launch.pattern.filter(|_| self.launch.looks_beside)?;
        let (runner, block) = (&mut self.seat.places[rank].runner, self.blocks[rank]);
        if let Some((offset, count)) = runner.shared().damage(pattern) {
            let bytes = runner.shared().inner().1;
            return Some(zones::damage("dynamic shared memory", offset, bytes, count, block));
        }
        let (segment, _) = self.statics?;
        // SAFETY: this thread located the segment in this launch, and its block has ended.
        unsafe { zones::check(&self.launch.zoned, segment, pattern, block) }
    }

    fn moves(&mut self, rank: usize, comes: bool) {
        let Some(statics) = self.statics else { return };
        let runner = &mut self.seat.places[rank].runner;
        let aside = runner.cluster().aside();
        let (from, to) = if comes { (aside, statics.0) } else { (statics.0, aside) };
        if let Some(checker) = self.launch.checker {
            checker.moves(&raw const **runner as usize, (from, to, statics.1));
        }
        // SAFETY: located by this thread in this launch; all fibers are suspended.
        unsafe {
            if comes {
                runner.cluster().take_back(statics);
            } else {
                runner.cluster().put_aside(statics);
            }
        }
    }
}

impl ClusterTurns for SeatTurns<'_> {
    fn begin(&mut self, rank: usize) {
        if self.blocks.len() == 1 || self.current == Some(rank) {
            return;
        }
        if let Some(last) = self.current.replace(rank) {
            self.moves(last, false);
        }
        self.moves(rank, true);
        let section = self.seat.section(rank, self.launch.statics.code());
        preempt::enter(&self.seat.clock, section);
    }

    fn end(&mut self, rank: usize) -> Result<(), DeviceError> {
        if let Some(damage) = self.damage(rank) {
            return Err(damage);
        }
        if self.blocks.len() > 1 {
            // A later read that bypasses the checked functions finds NaN.
            self.seat.places[rank].runner.shared().fill(u32::MAX);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_a_cluster_are_neighbors() {
        unsafe extern "C" fn nothing(_: *mut *mut std::ffi::c_void) {}
        let work = |grid, cluster| Work {
            run: nothing,
            arguments: std::ptr::null_mut(),
            grid,
            cluster,
            block: [1; 3],
            shared_bytes: 0,
            shared_alignment: 16,
            order: None,
            residue: None,
            clock: None,
            untouched: None,
            waits_when_stuck: false,
        };
        assert_eq!(blocks_of(&work([3, 2, 2], [1; 3]), 10), [[1, 1, 1]]);
        assert_eq!(blocks_of(&work([8, 1, 1], [4, 1, 1]), 1), [4, 5, 6, 7].map(|x| [x, 0, 0]));
        let found = blocks_of(&work([4, 2, 2], [2, 2, 1]), 3);
        assert_eq!(found, [[2, 0, 1], [3, 0, 1], [2, 1, 1], [3, 1, 1]]);
    }
}
