//! Copies in the background: what a thread has asked for and what has not landed yet.
//!
//! A GPU may carry out a `cp.async` at any moment up to the wait for its group. Here each lands at that wait and no
//! earlier, so that a kernel which reads too soon is wrong every time. The bytes are read when the copy is issued:
//! a bad address is then a fault of the line that gave it.

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PendingCopy {
    to: usize,
    bytes: u32,
    group: u32,
    data: [u8; 16],
}

#[derive(Clone, Debug, Default)]
pub struct CopyQueue {
    pending: Vec<PendingCopy>,
    group: u32,
}

impl CopyQueue {
    /// Copies that the thread before never waited for are nobody's.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.group = 0;
    }

    pub fn issue(&mut self, to: usize, data: [u8; 16], bytes: u32) {
        self.pending.push(PendingCopy { to, bytes, group: self.group, data });
    }

    pub fn commit(&mut self) {
        self.group += 1;
    }

    pub fn due(&self, left: u32) -> &[PendingCopy] {
        let end = self.group.saturating_sub(left);
        let count = self.pending.iter().take_while(|copy| copy.group < end).count();
        &self.pending[..count]
    }

    pub fn landed(&mut self, count: usize) {
        self.pending.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_land_in_order_and_open_ones_never() {
        let mut queue = CopyQueue::default();
        for group in 0..3u8 {
            for copy in 0..2 {
                queue.issue(usize::from(10 * group + copy), [group; 16], 4);
            }
            queue.commit();
        }
        queue.issue(99, [9; 16], 4);
        let due =
            |queue: &CopyQueue, left| -> Vec<usize> { queue.due(left).iter().map(|copy| copy.to).collect() };
        let nothing: [usize; 0] = [];
        assert_eq!(due(&queue, 3), nothing);
        assert_eq!(due(&queue, 2), [0, 1]);
        queue.landed(2);
        assert_eq!(due(&queue, 0), [10, 11, 20, 21]);
        queue.landed(4);
        assert_eq!(due(&queue, 0), nothing);
        queue.commit();
        assert_eq!(due(&queue, 0), [99]);
        // Empty groups count.
        queue.commit();
        assert_eq!(due(&queue, 1), [99]);
        queue.clear();
        assert_eq!(due(&queue, 0), nothing);
    }
}
