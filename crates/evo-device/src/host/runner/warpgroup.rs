//! Products of a warpgroup (`wgmma`): four warps that meet, accumulators that are nobody's until the wait.
//!
//! A GPU multiplies while the program goes on. Here the product is computed when the last warp has come to it, into
//! memory of ours; the accumulators hold ones until their thread has waited for the group. What the operands held is
//! kept as a hash, and compared when the first thread has waited.

/// Registers of a multiprocessor, and most that `setmaxnreg` may name, in threads of a warpgroup.
const REGISTERS: u32 = 65_536 / 128;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct IssuedProduct {
    pub descriptor_a: u64,
    pub descriptor_b: u64,
    pub hash: u64,
    /// N, and bits for the layouts of both operands.
    pub shape: u32,
    pub line: i32,
    /// Number of its group, and its own among those of the warpgroup.
    pub group: u32,
    pub number: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Warpgroup {
    /// What each warp hands over, and which have come.
    pub handed: [usize; 4],
    pub present: u32,
    pub place: (i32, i32),
    pub products: Vec<IssuedProduct>,
    pub issued: u32,
    pub registers: u32,
}

#[derive(Clone, Debug)]
struct PendingSums {
    at: usize,
    group: u32,
    values: Box<[f32]>,
}

#[derive(Clone, Debug)]
struct DeliveredSums {
    at: usize,
    fences: u32,
    values: Box<[f32]>,
}

#[derive(Clone, Debug, Default)]
pub struct ProductThread {
    pub fences: u32,
    pub commits: u32,
    pending: Vec<PendingSums>,
    delivered: Vec<DeliveredSums>,
}

pub const TOUCHED: &str = "an accumulator of wgmma is written before wgmma_wait";
const UNFENCED: &str = "wgmma uses registers that were written or read since the last wgmma_fence";

impl ProductThread {
    /// `held` is what the accumulators at `at` hold. Gives what the product adds to; the caller fills the
    /// accumulators with ones.
    pub fn take(&mut self, at: usize, held: &[f32], keeps: bool) -> Result<*mut f32, &'static str> {
        if self.fences == 0 {
            return Err("wgmma without a wgmma_fence before it");
        }
        let group = self.commits;
        if let Some(own) = self.pending.iter_mut().find(|own| own.at == at) {
            if own.values.len() != held.len() || !is_poison(held) {
                return Err(TOUCHED);
            }
            own.group = group;
            return Ok(own.values.as_mut_ptr());
        }
        let ends = |start: usize, places: usize| start + 4 * places;
        let meets = |own: &PendingSums| own.at < ends(at, held.len()) && at < ends(own.at, own.values.len());
        if self.pending.iter().any(meets) {
            return Err("the accumulators of two products of wgmma overlap");
        }
        if let Some(known) = self.delivered.iter().position(|own| own.at == at) {
            let own = self.delivered.swap_remove(known);
            let same = own.values.len() == held.len()
                && own.values.iter().zip(held).all(|(own, now)| own.to_bits() == now.to_bits());
            // Sums that go on as they were given back need none, as those of one shape need none between products.
            if own.fences == self.fences && !(same && keeps) {
                return Err(UNFENCED);
            }
        }
        self.pending.push(PendingSums { at, group, values: held.into() });
        Ok(self.pending.last_mut().map_or(std::ptr::null_mut(), |own| own.values.as_mut_ptr()))
    }

    pub fn waited(&self, left: u32) -> u32 {
        self.commits.saturating_sub(left)
    }

    pub fn give_back(&mut self, end: u32) -> Option<(usize, &[f32])> {
        let at = self.pending.iter().position(|own| own.group < end)?;
        let PendingSums { at, values, .. } = self.pending.swap_remove(at);
        self.delivered.retain(|own| own.at != at);
        self.delivered.push(DeliveredSums { at, fences: self.fences, values });
        self.delivered.last().map(|own| (own.at, &*own.values))
    }
}

pub fn is_poison(held: &[f32]) -> bool {
    held.iter().all(|value| value.to_bits() == u32::MAX)
}

pub fn refused_registers(groups: &[Warpgroup], own: usize, registers: u32) -> Option<&'static str> {
    let set = groups.iter().enumerate().filter(|(at, _)| *at != own).map(|(_, group)| group.registers);
    let all = set.sum::<u32>() + registers;
    (all > REGISTERS).then_some("setmaxnreg waits for ever: the warpgroups' registers exceed 65536 in all")
}
