//! Shared memory as copies and `wgmma` see it (the asynchronous proxy).
//!
//! What threads write is not in this view until one of them passes `fence_proxy_async`. A reader that goes through the
//! view compares both: where they differ, a fence is missing. The view is made when a block first needs it.

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

    /// The range that holds an address modulo 2^18, as descriptors have it: the address, the range and its view.
    pub fn locate(&self, low: usize) -> Option<(usize, (usize, usize), *const u8)> {
        const WINDOW: usize = 1 << 18;
        self.ranges.iter().find_map(|own| {
            let offset = low.wrapping_sub(own.start) % WINDOW;
            let range = (own.start, own.start + own.bytes.len());
            (offset < own.bytes.len()).then(|| (own.start + offset, range, own.bytes.as_ptr()))
        })
    }

    pub fn at(&mut self, address: usize, bytes: usize) -> Option<&mut [u8]> {
        self.ranges.iter_mut().find_map(|own| {
            let offset = address.wrapping_sub(own.start);
            own.bytes.get_mut(offset..offset.checked_add(bytes)?)
        })
    }
}
