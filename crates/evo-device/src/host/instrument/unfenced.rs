//! Tells volatile accesses of data from those of flags.
//!
//! A flag is written by one block and read by another with nothing in between, and that is its purpose. Data is
//! read only after something else said that it is there, and then its writer needs a fence. So a read of volatile
//! memory that would be in order if atomic and volatile accesses needed no fence, and is not in order with fences,
//! is doubtful. It is a fault only if the same instruction never reads a word that is in order neither way: an
//! instruction that does polls flags, and a flag that is polled may be seen late.

use std::collections::{HashMap, HashSet};

use super::finding::AccessFinding;
use super::order::{BlockOrder, LaunchOrder};
use super::shadow::{ANYBODY, AccessKind, AccessRecord, ShadowCell};

/// More publications than this in one place are not kept: they could only accuse.
const PUBLICATIONS_MAX: usize = 64;

/// What threads had done when they wrote a word that others may look at.
#[derive(Debug, Default)]
pub struct Publications {
    places: HashMap<usize, Vec<AccessRecord>>,
}

impl Publications {
    pub fn publish(&mut self, address: usize, record: &AccessRecord) {
        let place = self.places.entry(address).or_default();
        let known = place.iter().position(|own| (own.block, own.thread) == (record.block, record.thread));
        match known {
            Some(at) => place[at] = *record,
            None if place.len() < PUBLICATIONS_MAX => place.push(*record),
            None => {}
        }
    }
}

/// What a block would know of the others if no fence were needed. Nothing is handed on: what a block only heard
/// from a second one about a third is not in here.
#[derive(Debug, Default)]
pub struct SeenPublications {
    /// By block and thread: the number of the last access that published.
    threads: HashMap<(u32, u16), u32>,
    /// By block: the barriers that it had passed.
    epochs: HashMap<u32, u32>,
}

impl SeenPublications {
    pub fn observe(&mut self, publications: &Publications, address: usize) {
        for own in publications.places.get(&address).into_iter().flatten() {
            let number = self.threads.entry((own.block, own.thread)).or_default();
            *number = own.number.max(*number);
            let epoch = self.epochs.entry(own.block).or_default();
            *epoch = own.epoch.max(*epoch);
        }
    }

    pub fn includes(&self, earlier: &AccessRecord) -> bool {
        self.threads.get(&(earlier.block, earlier.thread)).is_some_and(|number| earlier.number < *number)
            || self.epochs.get(&earlier.block).is_some_and(|epoch| earlier.epoch < *epoch)
    }

    pub fn judge(
        &self,
        order: &BlockOrder,
        launch: &LaunchOrder,
        cell: &ShadowCell,
        read: &AccessRecord,
    ) -> VolatileRead {
        let plain = read.kind == AccessKind::Plain;
        if !plain && cell.writes.iter().all(|other| other.stamp != read.stamp) {
            // Another block may write it at any time.
            return VolatileRead::Flag;
        }
        for other in cell.writes {
            let volatile = match other.kind {
                AccessKind::Volatile => true,
                AccessKind::Plain => !plain,
                AccessKind::Atomic => false,
            };
            let apart = other.stamp == read.stamp && other.block != read.block && other.thread != ANYBODY;
            if volatile && apart && !order.is_after(launch, read.thread, &other) {
                let data = self.includes(&other);
                return if data { VolatileRead::Data(other) } else { VolatileRead::Flag };
            }
        }
        VolatileRead::InOrder
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolatileRead {
    InOrder,
    Flag,
    /// It is in order with this write except that a fence is missing.
    Data(AccessRecord),
}

#[derive(Debug, Default)]
pub struct Doubts {
    flags: HashSet<u32>,
    found: Vec<(u32, AccessFinding)>,
}

impl Doubts {
    pub fn clear(&mut self, from: u32) {
        self.flags.insert(from);
    }

    pub fn is_open(&self, from: u32) -> bool {
        !self.flags.contains(&from) && self.found.iter().all(|(own, _)| *own != from)
    }

    pub fn add(&mut self, from: u32, finding: AccessFinding) {
        self.found.push((from, finding));
    }

    /// The end of a launch: the first access that was doubtful and of no flag.
    pub fn settle(&mut self) -> Option<AccessFinding> {
        let found = std::mem::take(&mut self.found);
        found.into_iter().find(|(from, _)| !self.flags.contains(from)).map(|(_, finding)| finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_precedes_a_publication_is_included() {
        let record = |thread, number, epoch| AccessRecord {
            block: 1,
            thread,
            number,
            epoch,
            ..AccessRecord::default()
        };
        let mut publications = Publications::default();
        publications.publish(64, &record(0, 10, 2));
        let mut observed = SeenPublications::default();
        observed.observe(&publications, 128);
        assert!(!observed.includes(&record(0, 9, 2)));
        observed.observe(&publications, 64);
        assert!(observed.includes(&record(0, 9, 2)) && observed.includes(&record(5, 9, 1)));
        // The flag itself, what came after it, and a thread that no barrier put before it.
        assert!(!observed.includes(&record(0, 10, 2)) && !observed.includes(&record(0, 11, 2)));
        assert!(!observed.includes(&record(5, 9, 2)));
        assert!(!observed.includes(&AccessRecord { block: 2, ..record(0, 9, 1) }));
    }
}
