//! Which accesses that a cell of the shadow remembers are not in order with a new one.

use super::order::{BlockOrder, LaunchOrder};
use super::shadow::{ANYBODY, AccessKind, AccessRecord, SeenAccess, ShadowCell};

pub struct Conflict {
    pub other: AccessRecord,
    pub other_writes: bool,
    /// Global memory that one side updates atomically: a read before an atomic minimum is usual.
    pub maybe_honest: bool,
}

pub struct Ground<'a> {
    pub launch: &'a LaunchOrder,
    pub record: &'a AccessRecord,
    pub access: &'a SeenAccess,
    pub shared: bool,
}

/// Which of the accesses that the cell remembers is not in order with a new one.
pub fn conflict(order: &mut BlockOrder, cell: &ShadowCell, ground: &Ground<'_>) -> Option<Conflict> {
    let Ground { launch, record, access, shared } = *ground;
    let plain = access.kind == AccessKind::Plain;
    let open = |order: &BlockOrder, other: &AccessRecord| {
        other.stamp == record.stamp && !order.is_after(launch, record.thread, other)
    };
    for other in cell.writes {
        // A value that several threads stored may be read by each of them.
        let common = other.thread == ANYBODY && !access.write;
        if !open(order, &other) || common {
            continue;
        }
        let other_plain = other.kind == AccessKind::Plain;
        let flag = access.read && !plain && other_plain;
        let honest = !plain && !other_plain || flag && order.acquire_plain(&other);
        if !honest {
            let maybe_honest = !shared && plain && !other_plain && !access.write;
            return Some(Conflict { other, other_writes: true, maybe_honest });
        }
    }
    if !access.write {
        return None;
    }
    for other in cell.reads {
        if !open(order, &other) {
            continue;
        }
        let other_plain = other.kind == AccessKind::Plain;
        // A flag is polled before it is set.
        let polled = !other_plain && plain && record.fences > 0;
        if !plain && !other_plain || polled {
            continue;
        }
        let maybe_honest = !shared && !plain && other_plain;
        return Some(Conflict { other, other_writes: false, maybe_honest });
    }
    None
}

pub fn note_read(cell: &mut ShadowCell, record: &AccessRecord) {
    let [first, second] = &mut cell.reads;
    let own = (first.block, first.thread) == (record.block, record.thread);
    let past = first.stamp != record.stamp || first.block == record.block && first.epoch < record.epoch;
    *if own || past { first } else { second } = *record;
}
