//! Shared memory as copies and `wgmma` see it (the asynchronous proxy).
//!
//! What threads write is not in this view until one of them passes `fence_proxy_async`. A reader that goes through the
//! view compares both: where they differ, a fence is missing. The view is made when a block first needs it.

use crate::host::pattern;

#[derive(Clone, Debug, Default)]
struct ViewedRange {
    start: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub struct AsyncView {
    ranges: [ViewedRange; 2],
    live: bool,
}

impl AsyncView {
    pub fn clear(&mut self) {
        self.live = false;
    }

    pub fn is_new(&self) -> bool {
        !self.live
    }

    /// The view holds what the ranges held when the block began, a pattern, or where that is not known, what they
    /// hold now; `storage` is where they lie now.
    ///
    /// # Safety
    /// The ranges are readable there, and nothing writes them meanwhile.
    pub unsafe fn begin(&mut self, ranges: [(usize, usize); 2], storage: [usize; 2], untouched: Option<u32>) {
        self.live = true;
        for ((own, (start, bytes)), storage) in self.ranges.iter_mut().zip(ranges).zip(storage) {
            // Addresses decide which byte of the pattern belongs where, so the copy keeps them modulo 4.
            own.start = start;
            own.bytes.clear();
            own.bytes.resize(bytes, 0);
            match untouched {
                Some(word) => {
                    let word = word.to_le_bytes();
                    let bytes = own.bytes.iter_mut().enumerate();
                    bytes.for_each(|(at, byte)| *byte = word[(start + at) % 4]);
                }
                // SAFETY: as the caller promises.
                None => unsafe {
                    std::ptr::copy_nonoverlapping(storage as *const u8, own.bytes.as_mut_ptr(), bytes)
                },
            }
        }
    }

    /// # Safety
    /// As for [`AsyncView::begin`].
    pub unsafe fn fence(&mut self) {
        for own in &mut self.ranges {
            // SAFETY: as the caller promises; the copy is as long as the range.
            unsafe {
                std::ptr::copy_nonoverlapping(own.start as *const u8, own.bytes.as_mut_ptr(), own.bytes.len())
            };
        }
    }

    pub fn write(&mut self, to: usize, data: &[u8]) {
        for own in &mut self.ranges {
            if let Some(target) = own.bytes.get_mut(to.wrapping_sub(own.start)..) {
                let bytes = data.len().min(target.len());
                target[..bytes].copy_from_slice(&data[..bytes]);
            }
        }
    }

    /// A copy is on its way to these bytes: they hold ones.
    pub fn poison(&mut self, to: usize, bytes: usize) {
        for own in &mut self.ranges {
            if let Some(target) = own.bytes.get_mut(to.wrapping_sub(own.start)..) {
                let bytes = bytes.min(target.len());
                target[..bytes].fill(0xff);
            }
        }
    }

    /// The range that holds an address modulo 2^18, as descriptors have it: the address, the range and its view.
    pub fn locate(&self, low: usize) -> Option<(usize, (usize, usize), *const u8)> {
        const WINDOW: usize = 1 << 18;
        self.ranges.iter().find_map(|own| {
            let offset = low.wrapping_sub(own.start) % WINDOW;
            let range = (own.start, own.start + own.bytes.len());
            (offset < own.bytes.len()).then(|| (own.start + offset, range, own.bytes.as_ptr()))
        })
    }

    pub fn at(&self, address: usize, bytes: usize) -> Option<*const u8> {
        let view = |own: &ViewedRange| {
            let offset = address.wrapping_sub(own.start);
            let end = offset.checked_add(bytes)?;
            own.bytes.get(offset..end).map(<[u8]>::as_ptr)
        };
        self.ranges.iter().find_map(view)
    }
}

/// Fills a target with ones until its copy lands: NaN in every floating-point type.
///
/// # Safety
/// The bytes are writable shared memory of the block that runs.
pub unsafe fn poison(to: usize, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { pattern::fill(to, bytes, u32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_threads_are_seen_behind_a_fence_only() {
        let mut memory = vec![0u32; 16];
        let start = memory.as_mut_ptr() as usize;
        let mut view = AsyncView::default();
        let seen = |view: &AsyncView, at: usize| {
            // SAFETY: the view lives, and has the four bytes.
            unsafe { view.at(start + at, 4).unwrap().cast::<u32>().read_unaligned() }
        };
        memory[1] = 5;
        // SAFETY: the array is alive throughout.
        unsafe { view.begin([(start, 64), (0, 0)], [start, 0], Some(0x0101_0101)) };
        assert_eq!((seen(&view, 0), seen(&view, 4)), (0x0101_0101, 0x0101_0101));
        // SAFETY: as above.
        unsafe { view.fence() };
        assert_eq!((seen(&view, 0), seen(&view, 4)), (0, 5));
        view.write(start + 8, &[1, 0, 0, 0]);
        assert_eq!(seen(&view, 8), 1);
        assert!(view.at(start + 62, 4).is_none() && view.at(start - 1, 1).is_none());
        let (address, range, _) = view.locate((start + 16) % (1 << 18)).unwrap();
        assert_eq!((address, range), (start + 16, (start, start + 64)));
        assert!(view.locate((start + 64) % (1 << 18)).is_none());
    }
}
