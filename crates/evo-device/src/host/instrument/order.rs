//! Which accesses of a launch are in order: vector clocks with an epoch for each access, as in FastTrack (Flanagan and
//! Freund, PLDI 2009).
//!
//! A thread counts ticks: a new one begins whenever it tells others what it has done. An access keeps its thread's tick,
//! and is in order with all that a thread does whose clock is past that tick. Whatever synchronizes threads is an edge:
//! who arrives at a meeting (a barrier of any kind, an operation of a warp) leaves its clock there, and who passes takes
//! what was left. A flag is an edge as well, for what a fence precedes.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessKind {
    /// A load or store that the compiler may move.
    #[default]
    Plain,
    /// Through a volatile pointer: a flag, as a rule.
    Volatile,
    Atomic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessRecord {
    /// Number of the launch (global memory) or of the block (shared memory); 0 for none.
    pub stamp: u32,
    pub block: u32,
    /// The thread's linear number in its block, and its tick.
    pub thread: u16,
    pub tick: u32,
    /// Whether the thread had passed a fence.
    pub fenced: bool,
    /// Several threads wrote the same value; this is the last of them.
    pub by_several: bool,
    pub kind: AccessKind,
    /// Address of the instruction, from the module's start.
    pub from: u32,
}

impl AccessRecord {
    pub fn thread(&self) -> ThreadId {
        (self.block, self.thread)
    }
}

/// Linear numbers of a block in its grid and of a thread in its block.
pub type ThreadId = (u32, u16);

/// By block and thread: ticks before this one are known. Blocks, and whole clocks, are shared until they change.
#[derive(Clone, Debug, Default)]
struct Clock(Rc<BTreeMap<u32, Rc<Vec<u32>>>>);

impl Clock {
    fn tick(&self, (block, thread): ThreadId) -> u32 {
        let ticks = self.0.get(&block).and_then(|ticks| ticks.get(usize::from(thread)));
        ticks.copied().unwrap_or(0)
    }

    fn set(&mut self, (block, thread): ThreadId, tick: u32) {
        let ticks = Rc::make_mut(Rc::make_mut(&mut self.0).entry(block).or_default());
        ticks.resize(ticks.len().max(usize::from(thread) + 1), 0);
        ticks[usize::from(thread)] = tick;
    }

    fn join(&mut self, other: &Clock) {
        if self.0.is_empty() {
            *self = other.clone();
        } else if !Rc::ptr_eq(&self.0, &other.0) {
            other.0.iter().for_each(|(block, ticks)| self.join_block(*block, ticks));
        }
    }

    fn join_block(&mut self, block: u32, ticks: &Rc<Vec<u32>>) {
        if self.0.get(&block).is_some_and(|known| includes(known, ticks)) {
            return;
        }
        let known = Rc::make_mut(&mut self.0).entry(block).or_default();
        if includes(ticks, known) {
            *known = Rc::clone(ticks);
            return;
        }
        let known = Rc::make_mut(known);
        known.resize(known.len().max(ticks.len()), 0);
        for (known, tick) in known.iter_mut().zip(ticks.iter()) {
            *known = (*known).max(*tick);
        }
    }
}

fn includes(ticks: &Rc<Vec<u32>>, others: &Rc<Vec<u32>>) -> bool {
    Rc::ptr_eq(ticks, others)
        || ticks.len() >= others.len() && ticks.iter().zip(others.iter()).all(|(tick, other)| tick >= other)
}

/// What a thread knows, and what others may learn of it.
#[derive(Clone, Debug, Default)]
struct View {
    known: Clock,
    /// What its flags tell the threads of its block: what it knew at its last fence.
    told_block: Clock,
    /// What they tell other blocks: what it knew at its last fence of the device.
    told_device: Clock,
    /// What it would know of other blocks if flags needed no fence. Nothing is handed on: what a block only heard from
    /// a second one about a third is not in here.
    unfenced: Clock,
}

impl View {
    fn join(&mut self, other: &View) {
        self.known.join(&other.known);
        self.told_block.join(&other.told_block);
        self.told_device.join(&other.told_device);
        self.unfenced.join(&other.unfenced);
    }
}

#[derive(Clone, Debug, Default)]
struct ThreadOrder {
    tick: u32,
    fenced: bool,
    view: Rc<View>,
    reading: Option<usize>,
}

/// Where threads meet: block (the first one of a cluster, for what belongs to all of its blocks), kind, and what tells
/// it from others of its kind.
pub type Place = (u32, u32, u32);

/// Those that arrive after somebody has passed belong to the next round. A thread that waited for its round is not told of
/// them, however late it passes.
#[derive(Debug, Default)]
struct Meeting {
    arrived: View,
    /// The latest view in `arrived`: those that passed a meeting together share theirs.
    latest: Option<Rc<View>>,
    left: Rc<View>,
}

/// What outlives blocks is what flags tell, and what threads of earlier blocks knew.
#[derive(Debug, Default)]
pub struct LaunchOrder {
    blocks: Vec<Vec<ThreadOrder>>,
    meetings: BTreeMap<Place, Meeting>,
    flags: HashMap<usize, View>,
    /// What flags and ended blocks keep, about.
    record_bytes: usize,
}

/// Of a flag, or of a thread that has ended, without its clocks; and of a block in a clock.
const KEPT_BYTES: usize = 256;
const CLOCK_BYTES: usize = 32;

impl LaunchOrder {
    pub fn begin_block(&mut self, block: u32, threads: usize) {
        let place = block as usize;
        self.blocks.resize(self.blocks.len().max(place + 1), Vec::new());
        self.blocks[place] = vec![ThreadOrder::default(); threads];
    }

    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// All blocks of its cluster have ended. What threads told other blocks by a fence may still be asked for.
    pub fn end_block(&mut self, block: u32) {
        let threads = &mut self.blocks[block as usize];
        if threads.iter().all(|thread| !thread.fenced) {
            *threads = Vec::new();
        }
        let nothing = Rc::<View>::default();
        for thread in threads {
            let told_device = std::mem::take(&mut Rc::make_mut(&mut thread.view).told_device);
            thread.view = match thread.fenced && !told_device.0.is_empty() {
                true => {
                    self.record_bytes += KEPT_BYTES + CLOCK_BYTES * told_device.0.len();
                    Rc::new(View { told_device, ..View::default() })
                }
                false => Rc::clone(&nothing),
            };
        }
        let later = self.meetings.split_off(&(block, 0, 0));
        self.meetings.extend(later.into_iter().filter(|((own, ..), _)| *own != block));
    }

    pub fn forget(&mut self, start: usize, bytes: usize) {
        self.flags.retain(|address, _| address.wrapping_sub(start) >= bytes);
    }

    fn thread(&mut self, (block, thread): ThreadId) -> &mut ThreadOrder {
        &mut self.blocks[block as usize][usize::from(thread)]
    }

    /// Stamp, kind and place are the caller's.
    pub fn record(&mut self, id: ThreadId) -> AccessRecord {
        let &mut ThreadOrder { tick, fenced, .. } = self.thread(id);
        AccessRecord { block: id.0, thread: id.1, tick, fenced, ..AccessRecord::default() }
    }

    pub fn next_tick(&mut self, id: ThreadId) {
        self.thread(id).tick += 1;
    }

    pub fn arrive(&mut self, id: ThreadId, place: Place) {
        self.next_tick(id);
        let thread = &self.blocks[id.0 as usize][usize::from(id.1)];
        let meeting = self.meetings.entry(place).or_default();
        if !meeting.latest.as_ref().is_some_and(|latest| Rc::ptr_eq(latest, &thread.view)) {
            meeting.arrived.join(&thread.view);
            meeting.latest = Some(Rc::clone(&thread.view));
        }
        meeting.arrived.known.set(id, thread.tick);
    }

    /// `waited`: the thread did nothing since it arrived there.
    pub fn pass(&mut self, id: ThreadId, place: Place, waited: bool) {
        let Some(meeting) = self.meetings.get_mut(&place) else { return };
        let thread = &mut self.blocks[id.0 as usize][usize::from(id.1)];
        // Whoever waited belongs to the round in which it arrived.
        if !waited || meeting.left.known.tick(id) < thread.tick {
            Rc::make_mut(&mut meeting.left).join(&std::mem::take(&mut meeting.arrived));
            meeting.latest = None;
        }
        if waited {
            thread.view = Rc::clone(&meeting.left);
        } else if !Rc::ptr_eq(&thread.view, &meeting.left) {
            Rc::make_mut(&mut thread.view).join(&meeting.left);
        }
    }

    pub fn fence(&mut self, id: ThreadId, device: bool) {
        let thread = self.thread(id);
        (thread.tick, thread.fenced) = (thread.tick + 1, true);
        let view = Rc::make_mut(&mut thread.view);
        let mut told = view.known.clone();
        told.set(id, thread.tick);
        if device {
            view.told_device = told.clone();
        }
        view.told_block = told;
    }

    pub fn begin_read(&mut self, id: ThreadId, address: usize) {
        self.thread(id).reading = Some(address);
    }

    pub fn end_read(&mut self, (block, thread): ThreadId) -> Option<usize> {
        self.blocks.get_mut(block as usize)?.get_mut(usize::from(thread))?.reading.take()
    }

    /// The thread reads a flag. Nobody asks it for a fence before it hands on what it learns.
    pub fn acquire(&mut self, id: ThreadId, address: usize) {
        let Some(flag) = self.flags.get(&address) else { return };
        let view = Rc::make_mut(&mut self.blocks[id.0 as usize][usize::from(id.1)].view);
        for clock in [&mut view.known, &mut view.told_block, &mut view.told_device] {
            clock.join(&flag.told_device);
        }
        if let Some(ticks) = flag.told_block.0.get(&id.0) {
            view.known.join_block(id.0, ticks);
            view.told_block.join_block(id.0, ticks);
        }
        view.unfenced.join(&flag.unfenced);
    }

    /// The thread writes a flag; `publishes` says whether what came before it, fence or none, is then there to be seen.
    pub fn release(&mut self, id: ThreadId, address: usize, publishes: bool) {
        let ThreadOrder { tick, view, .. } = &self.blocks[id.0 as usize][usize::from(id.1)];
        if view.told_block.0.is_empty() && view.told_device.0.is_empty() && !publishes {
            return;
        }
        let is_new = !self.flags.contains_key(&address);
        let flag = self.flags.entry(address).or_default();
        flag.told_block.join(&view.told_block);
        flag.told_device.join(&view.told_device);
        if publishes {
            if let Some(ticks) = view.known.0.get(&id.0) {
                flag.unfenced.join_block(id.0, ticks);
            }
            flag.unfenced.set(id, *tick);
        }
        if is_new {
            let clocks = flag.told_block.0.len() + flag.told_device.0.len();
            self.record_bytes += KEPT_BYTES + CLOCK_BYTES * clocks + 4 * (usize::from(id.1) + 1);
        }
    }

    /// A flag that was written plainly tells what a fence before it tells; says whether there was one.
    pub fn acquire_plain(&mut self, id: ThreadId, flag: &AccessRecord) -> bool {
        if !flag.fenced {
            return false;
        }
        let writer = (flag.block, flag.thread);
        let view = &self.thread(writer).view;
        let mut told = if flag.block == id.0 { &view.told_block } else { &view.told_device }.clone();
        // It may have passed further fences since.
        let tick = told.tick(writer).min(flag.tick);
        told.set(writer, tick);
        let view = Rc::make_mut(&mut self.thread(id).view);
        for clock in [&mut view.known, &mut view.told_block, &mut view.told_device] {
            clock.join(&told);
        }
        true
    }

    pub fn is_after(&self, id: ThreadId, earlier: &AccessRecord) -> bool {
        let own = (earlier.block, earlier.thread) == id && !earlier.by_several;
        own || earlier.tick < self.view(id).known.tick((earlier.block, earlier.thread))
    }

    /// Whether it would be if flags needed no fence.
    pub fn is_after_unfenced(&self, id: ThreadId, earlier: &AccessRecord) -> bool {
        earlier.tick < self.view(id).unfenced.tick((earlier.block, earlier.thread))
    }

    fn view(&self, (block, thread): ThreadId) -> &View {
        &self.blocks[block as usize][usize::from(thread)].view
    }
}
