//! Transaction barriers in shared memory (`mbarrier`): phases that end when all arrivals and all bytes are in.
//!
//! A GPU counts the bytes of a bulk copy off whenever they happen to arrive. Here a copy lands at the last moment that
//! the program leaves it: when a thread waits for the phase and nothing else is missing. Until then a phase whose
//! arrivals are complete is *due*, and its targets hold ones.

use std::collections::HashMap;

use super::copies::BulkLoad;

/// Most arrivals of a phase, and most bytes that are outstanding (PTX ISA, "Contents of the mbarrier object").
const COUNT_MAX: u64 = (1 << 20) - 1;

/// What the barrier's eight bytes hold; other contents show that something else was written there.
pub const MARK: u64 = 0x6576_6f6d_6261_7272;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseState {
    Open,
    /// Only copies that were issued are missing: they may land now.
    Due,
    Ended,
}

#[derive(Clone, Debug, Default)]
pub struct TransactionBarrier {
    pub count: u32,
    pub pending: u32,
    pub phase: u32,
    pub expected: u64,
    pub copied: u64,
    /// Thread that made it, and whether copies know of it since.
    maker: u32,
    announced: bool,
    landing: bool,
    loads: Vec<BulkLoad>,
}

impl TransactionBarrier {
    /// The state of a phase. Who is told that it is due lets its copies land; others wait for that.
    pub fn state(&mut self, parity: u32) -> PhaseState {
        if self.phase & 1 != parity {
            return PhaseState::Ended;
        }
        let is_due = self.pending == 0 && self.copied == self.expected && !self.landing;
        self.landing |= is_due;
        if is_due { PhaseState::Due } else { PhaseState::Open }
    }

    pub fn expect(&mut self, bytes: u64) -> Checked<()> {
        self.expected += bytes;
        if self.expected > COUNT_MAX {
            return Err("a phase of a barrier expects more than 1048575 bytes");
        }
        Ok(())
    }

    /// Whether those who wait may look again.
    pub fn arrive(&mut self) -> Checked<bool> {
        if self.pending == 0 {
            return Err("more arrivals at a barrier than its count in one phase");
        }
        self.pending -= 1;
        self.settle()
    }

    /// Whether those who wait may look again.
    pub fn load(&mut self, load: BulkLoad) -> Checked<bool> {
        if !self.announced {
            return Err("a copy uses a barrier that mbarrier_init made without fence_mbarrier_init or \
                        fence_proxy_async behind it");
        }
        self.copied += load.data.len() as u64;
        self.loads.push(load);
        self.settle()
    }

    /// Ends the phase if no copy is outstanding. A phase for which copies brought too much can never end.
    fn settle(&mut self) -> Checked<bool> {
        if self.pending > 0 {
            return Ok(false);
        }
        if self.copied > self.expected {
            return Err("copies bring more bytes than the phase of their barrier expects");
        }
        if self.copied == self.expected && self.loads.is_empty() {
            self.next_phase();
        }
        Ok(self.copied == self.expected)
    }

    fn next_phase(&mut self) {
        self.phase += 1;
        (self.pending, self.expected, self.copied) = (self.count, 0, 0);
    }
}

#[derive(Clone, Debug, Default)]
pub struct TransactionBarriers(HashMap<usize, TransactionBarrier>);

type Checked<T> = Result<T, &'static str>;

impl TransactionBarriers {
    pub fn init(&mut self, at: usize, memory: &mut u64, count: u32, maker: u32) -> Checked<()> {
        if count == 0 || u64::from(count) > COUNT_MAX {
            return Err("mbarrier_init with a count outside of 1 to 1048575");
        }
        if self.0.contains_key(&at) && *memory == MARK {
            return Err("mbarrier_init of a barrier that is in use: mbarrier_inval comes first");
        }
        *memory = MARK;
        let own = TransactionBarrier { count, pending: count, maker, ..TransactionBarrier::default() };
        self.0.insert(at, own);
        Ok(())
    }

    pub fn invalidate(&mut self, at: usize, memory: u64) -> Checked<()> {
        let own = self.get(at, memory)?;
        if !own.loads.is_empty() {
            return Err("mbarrier_inval of a barrier that a copy still counts off");
        }
        self.0.remove(&at);
        Ok(())
    }

    pub fn get(&mut self, at: usize, memory: u64) -> Checked<&mut TransactionBarrier> {
        let own = self.0.get_mut(&at);
        let own = own.ok_or("a barrier is used that mbarrier_init has not made")?;
        if memory != MARK {
            return Err("a barrier is used whose memory something else has overwritten");
        }
        Ok(own)
    }

    pub fn find(&self, at: usize) -> Option<&TransactionBarrier> {
        self.0.get(&at)
    }

    pub fn due(&self, at: usize, index: usize) -> Option<(usize, usize)> {
        let load = self.0.get(&at)?.loads.get(index)?;
        Some((load.to, load.data.len()))
    }

    pub fn land(&mut self, at: usize) -> Vec<BulkLoad> {
        match self.0.get_mut(&at) {
            Some(own) if own.pending == 0 && own.copied == own.expected => {
                own.next_phase();
                own.landing = false;
                std::mem::take(&mut own.loads)
            }
            _ => Vec::new(),
        }
    }

    pub fn announce(&mut self, maker: u32) {
        self.0.values_mut().filter(|own| own.maker == maker).for_each(|own| own.announced = true);
    }

    /// Copies that have not landed.
    pub fn in_flight(&self) -> impl Iterator<Item = &BulkLoad> {
        self.0.values().flat_map(|own| &own.loads)
    }
}
