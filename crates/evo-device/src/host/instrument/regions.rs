//! What lies where: buffers, shared variables and the module's own variables, each with its shadow.

use super::shadow::Shadow;
use crate::device::WatchedContents;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    Buffer(WatchedContents),
    /// Shared memory; begins anew with each block.
    Shared,
    Variable,
    Heap,
    /// What the compiler keeps beside a variable to initialize it once: no source reads or writes it.
    Guard,
}

#[derive(Debug)]
pub struct Region {
    pub kind: RegionKind,
    pub name: String,
    pub start: usize,
    pub bytes: usize,
    /// The processor thread whose block owns it, for shared memory.
    pub owner: usize,
    pub shadow: Shadow,
}

impl Region {
    pub fn new(kind: RegionKind, name: &str, start: usize, bytes: usize) -> Region {
        Region { kind, name: name.to_string(), start, bytes, owner: 0, shadow: Shadow::new(bytes) }
    }

    pub fn is_shared(&self) -> bool {
        matches!(self.kind, RegionKind::Shared | RegionKind::Guard)
    }

    pub fn end(&self) -> usize {
        self.start + self.bytes
    }
}

/// Further away than this nobody meant the region.
const NEAR: usize = 16 << 20;

#[derive(Debug, Default)]
pub struct Regions {
    pub list: Vec<Region>,
    /// Where the last access fell: the next one often falls there too.
    last: usize,
}

impl Regions {
    pub fn record_bytes(&self) -> usize {
        self.list.iter().map(|region| region.shadow.record_bytes()).sum()
    }

    pub fn remove(&mut self, which: impl Fn(&Region) -> bool) {
        self.list.retain(|region| !which(region));
        self.last = 0;
    }

    /// Static shared memory of a block changes places, because another of its cluster has its turn.
    pub fn moves(&mut self, owner: usize, (from, to, bytes): (usize, usize, usize)) {
        for region in self.list.iter_mut().filter(|region| region.is_shared() && region.owner == owner) {
            let offset = region.start.wrapping_sub(from);
            if offset < bytes {
                region.start = to + offset;
            }
        }
        self.last = 0;
    }

    pub fn find(&mut self, address: usize) -> Option<usize> {
        let holds = |region: &Region| address.wrapping_sub(region.start) < region.bytes;
        if self.list.get(self.last).is_some_and(holds) {
            return Some(self.last);
        }
        self.last = self.list.iter().position(holds)?;
        Some(self.last)
    }

    pub fn nearest(&self, address: usize) -> Option<&Region> {
        let distance = |region: &&Region| match address < region.start {
            true => region.start - address,
            false => (address + 1).saturating_sub(region.end()),
        };
        self.list.iter().min_by_key(distance).filter(|region| distance(region) <= NEAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_one_range_or_is_near_one() {
        let mut regions = Regions::default();
        regions.list.push(Region::new(RegionKind::Buffer(WatchedContents::Input), "x", 1000, 100));
        regions.list.push(Region::new(RegionKind::Variable, "y", 2000, 100));
        let found = [999, 1000, 1099, 1100, 2050].map(|address| regions.find(address));
        assert_eq!(found, [None, Some(0), Some(0), None, Some(1)]);
        assert_eq!(regions.nearest(1100).unwrap().name, "x");
        assert_eq!(regions.nearest(1900).unwrap().name, "y");
        assert!(regions.nearest(1 << 40).is_none());
    }
}
