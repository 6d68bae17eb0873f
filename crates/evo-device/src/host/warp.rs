//! The state of one warp and what its lanes compute together.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitPoint {
    /// `EVO_SYNC…` for barriers, `EVO_…` of warp operations otherwise.
    pub kind: i32,
    pub line: i32,
    /// Lanes that must take part; 0 for a block's barrier.
    pub mask: u32,
}

impl WaitPoint {
    pub fn awaits_phase(&self) -> bool {
        matches!(self.kind, operation::PHASE | operation::TRY_PHASE)
    }
}

/// Numbers from 0 on in the order of an enumeration of `evo_base.h`, whose names begin with `EVO_`, and what messages call
/// them.
macro_rules! kinds {
    ($($kind:ident = $name:literal,)*) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "only its numbers are used")]
        enum Number { $($kind),* }
        $(#[allow(dead_code, reason = "some are only named in messages")]
        pub const $kind: i32 = Number::$kind as i32;)*
        pub const NAMES: &[&str] = &[$($name),*];
        #[cfg(test)]
        pub const KINDS: &[&str] = &[$(concat!("EVO_", stringify!($kind))),*];
    };
}

/// Kinds of barrier.
pub mod barrier {
    kinds! {
        SYNC = "__syncthreads",
        SYNC_COUNT = "__syncthreads_count",
        SYNC_AND = "__syncthreads_and",
        SYNC_OR = "__syncthreads_or",
    }
}

/// Kinds of warp operation. From `GATHER_MMA` on the last lane to come gets what all handed over, and the others wait
/// until it calls `RELEASE`.
pub mod operation {
    kinds! {
        WARP_SYNC = "__syncwarp",
        SHFL_INDEX = "__shfl_sync",
        SHFL_UP = "__shfl_up_sync",
        SHFL_DOWN = "__shfl_down_sync",
        SHFL_XOR = "__shfl_xor_sync",
        BALLOT = "__ballot_sync",
        ANY = "__any_sync",
        ALL = "__all_sync",
        ACTIVE = "__activemask",
        REDUCE_ADD = "__reduce_add_sync",
        REDUCE_MIN = "__reduce_min_sync",
        REDUCE_MAX = "__reduce_max_sync",
        REDUCE_MIN_SIGNED = "__reduce_min_sync",
        REDUCE_MAX_SIGNED = "__reduce_max_sync",
        REDUCE_AND = "__reduce_and_sync",
        REDUCE_OR = "__reduce_or_sync",
        REDUCE_XOR = "__reduce_xor_sync",
        MATCH_ANY = "__match_any_sync",
        MATCH_ALL = "__match_all_sync",
        GATHER_MMA = "evo::mma",
        GATHER_LDMATRIX = "evo::ldmatrix",
        GATHER_STMATRIX = "evo::stmatrix",
        // The lanes of a warp meet before they come to a named barrier.
        GATHER_BAR_SYNC = "evo::bar_sync",
        GATHER_BAR_ARRIVE = "evo::bar_arrive",
        RELEASE = "release",
        GATHER_WGMMA = "evo::wgmma",
        GATHER_SETMAXNREG = "evo::setmaxnreg",
        GATHER_ELECT = "evo::elect_one",
        // The header knows none of these: waits for a phase of a transaction barrier, and for all of a cluster.
        PHASE = "evo::mbarrier_wait",
        TRY_PHASE = "evo::mbarrier_try_wait",
        CLUSTER = "evo::cluster_wait",
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct WarpLane {
    pub fiber: u32,
    /// Distance, source lane or mask in the low half, width in the high half.
    pub parameter: u32,
    pub place: WaitPoint,
    pub value: u64,
    pub result: u64,
}

/// 32 threads; bit sets are by lane.
#[derive(Clone, Debug, Default)]
pub struct Warp {
    pub existing: u32,
    /// Not begun.
    pub unstarted: u32,
    /// Can go on.
    pub ready: u32,
    /// Gave way; ready again in the next round.
    pub relaxed: u32,
    /// Returned from the kernel.
    pub done: u32,
    pub at_barrier: u32,
    /// Wait for others at the place of their lane; those at a barrier of the block are not among them.
    pub waiting: u32,
    /// Rounds in which lanes that ask which lanes are active waited for others that gave way.
    pub patience: u32,
    pub lanes: [WarpLane; 32],
    /// What the lanes handed over to an operation that gathers.
    pub gathered: [u64; 32],
}

impl Warp {
    pub fn begin(&mut self, threads: u32) {
        // A shift by all 32 bits would overflow.
        let existing = if threads >= 32 { u32::MAX } else { (1 << threads) - 1 };
        (self.existing, self.unstarted) = (existing, existing);
        (self.ready, self.relaxed, self.done) = (0, 0, 0);
        (self.at_barrier, self.waiting, self.patience) = (0, 0, 0);
    }

    /// Whether lanes that ask which lanes are active need not wait for others. Lanes that only gave way at an access
    /// come to the same place on a GPU, where a warp stays together; those that spin may wait for the asking ones.
    pub fn is_settled(&mut self) -> bool {
        const ROUNDS: u32 = 64;
        self.patience = if self.relaxed == 0 || self.patience >= ROUNDS { 0 } else { self.patience + 1 };
        self.patience == 0
    }

    pub fn all_wait_at(&self, required: u32, arriving: usize, place: WaitPoint) -> bool {
        // The arriving lane has noted its place but does not wait yet.
        let others = required & !(1 << arriving);
        others & !self.waiting == 0 && lanes(others).all(|lane| self.lanes[lane].place == place)
    }

    /// Those lanes of a set for which it holds.
    pub fn lanes_where(&self, set: u32, which: impl Fn(&WarpLane) -> bool) -> u32 {
        lanes(set).filter(|lane| which(&self.lanes[*lane])).fold(0, |found, lane| found | 1 << lane)
    }

    /// Lets lanes go on that wait.
    pub fn release(&mut self, set: u32) {
        self.waiting &= !set;
        self.ready |= set;
    }

    pub fn gather(&mut self, set: u32) {
        for lane in lanes(set) {
            self.gathered[lane] = self.lanes[lane].value;
            self.lanes[lane].result = 0;
        }
    }

    pub fn compute(&mut self, kind: i32, set: u32) {
        match kind {
            operation::SHFL_INDEX..=operation::SHFL_XOR => self.shuffle(kind, set),
            operation::MATCH_ANY => self.match_any(set),
            _ => {
                let result = self.common(kind, set);
                for lane in lanes(set) {
                    self.lanes[lane].result = result;
                }
            }
        }
    }

    fn shuffle(&mut self, kind: i32, set: u32) {
        for lane in lanes(set) {
            let parameter = self.lanes[lane].parameter;
            let source = shuffle_source(kind, lane as u32, parameter & 0xffff, parameter >> 16);
            // The value of a lane that does not take part is undefined; all ones is a NaN of every type.
            let known = set & (1 << source) != 0;
            self.lanes[lane].result = if known { self.lanes[source as usize].value } else { u64::MAX };
        }
    }

    fn match_any(&mut self, set: u32) {
        for lane in lanes(set) {
            let value = self.lanes[lane].value;
            self.lanes[lane].result = self.lanes_where(set, |other| other.value == value).into();
        }
    }

    fn common(&self, kind: i32, set: u32) -> u64 {
        let values = || lanes(set).map(|lane| self.lanes[lane].value);
        let words = || values().map(|value| value as u32);
        let signed = || values().map(|value| value as u32 as i32);
        let ballot = self.lanes_where(set, |lane| lane.value != 0);
        let word = match kind {
            operation::BALLOT => ballot,
            operation::ANY => u32::from(ballot != 0),
            operation::ALL => u32::from(ballot == set),
            operation::ACTIVE => set,
            operation::REDUCE_ADD => words().fold(0, u32::wrapping_add),
            operation::REDUCE_MIN => words().min().unwrap_or(0),
            operation::REDUCE_MAX => words().max().unwrap_or(0),
            operation::REDUCE_MIN_SIGNED => signed().min().unwrap_or(0) as u32,
            operation::REDUCE_MAX_SIGNED => signed().max().unwrap_or(0) as u32,
            operation::REDUCE_AND => words().fold(u32::MAX, |a, b| a & b),
            operation::REDUCE_OR => words().fold(0, |a, b| a | b),
            operation::REDUCE_XOR => words().fold(0, |a, b| a ^ b),
            operation::MATCH_ALL => {
                let first = values().next();
                if values().all(|value| Some(value) == first) { set } else { 0 }
            }
            _ => 0,
        };
        u64::from(word)
    }
}

pub fn lanes(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let lane = set.trailing_zeros();
        set &= set - 1;
        Some(lane as usize)
    })
}

/// The lane that `lane` reads, by the rules of the programming guide.
fn shuffle_source(kind: i32, lane: u32, distance: u32, width: u32) -> u32 {
    // The guide leaves other widths undefined. The whole warp is the reading that stays inside it.
    let width = if width.is_power_of_two() && width <= 32 { width } else { 32 };
    let first = lane & !(width - 1);
    let last = first + width - 1;
    match kind {
        operation::SHFL_INDEX => first + (distance & (width - 1)),
        operation::SHFL_UP => lane.checked_sub(distance).filter(|&source| source >= first).unwrap_or(lane),
        operation::SHFL_DOWN => Some(lane + distance).filter(|&source| source <= last).unwrap_or(lane),
        _ => Some(lane ^ distance).filter(|&source| source <= last).unwrap_or(lane),
    }
}
